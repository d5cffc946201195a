"""The methods of extraction: each is a sequence of stages, which offer selections and bounds to one incumbent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.exact.solve import PROOF_EFFORT, solve
from workbench.extraction.exact.solver_process import Patience, SolverProcess
from workbench.extraction.exact.types import Effort, Job, Solved, met
from workbench.extraction.greedy.dag import ENTRIES, greedy
from workbench.extraction.greedy.local_search import improve
from workbench.extraction.problem import (
    NoExtraction,
    Problem,
    Terms,
    dag_cost,
    is_acyclic,
    original_selection,
)
from workbench.extraction.reduce.cycles import break_cycles, split
from workbench.extraction.reduce.dominators import surely_paid
from workbench.extraction.reduce.dual_ascent import climb
from workbench.extraction.reduce.presolve import FEW, QUICK, REDUCTIONS, ROUNDS, presolve
from workbench.extraction.registry import OWN, TENSAT, checked_choice
from workbench.extraction.result import DIED, Ending, Limit, Solution, Status
from workbench.run.trace import RuleStep, Step, StepKind, Trace
from workbench.support.plugins import naming
from workbench.support.processes import SOLVER_MEMORY

#: ``auto`` stops when neither cost nor bound has moved by this share for this many seconds; a large problem has more
#: for each candidate, because its first relaxation is slow.
PROGRESS_SHARE: Final = 1e-3
IDLE_SECONDS: Final = 5.0
IDLE_SECONDS_PER_CANDIDATE: Final = 5e-5
#: Largest shares of the remaining time for greedy search, presolve, and what comes before both.
GREEDY_TIME_SHARE: Final = 0.3
PRESOLVE_TIME_SHARE: Final = 0.3
PREPARATION_TIME_SHARE: Final = 0.1
#: With this many candidates or more after reductions, and a part that is not small, local search runs before a
#: solver is started. It then ends after this many seconds per candidate without an improvement.
MIN_LOCAL_SIZE: Final = 2_000
LOCAL_SECONDS_PER_CANDIDATE: Final = 2e-4
#: The least and the largest share of the remaining time for it. In between, the share is that of the candidates in
#: a problem for which a solver is hopeless.
MIN_LOCAL_TIME_SHARE, MAX_LOCAL_TIME_SHARE, HOPELESS_SIZE = 0.25, 0.5, 400_000
#: Seconds per candidate to start a solver.
START_SECONDS_PER_CANDIDATE: Final = 1e-5
#: Bytes per pair of e-classes that greedy search keeps.
BYTES_PER_PAIR: Final = 60
#: A problem of at least this many candidates is reduced by dual ascents as a whole unless it falls apart.
MIN_WHOLE_SIZE: Final = 3_000


@dataclass(slots=True, eq=False)
class Incumbent:
    """The best selection of an extraction, its bound, and the trace to which every change of them is added.

    ``costs`` are those by which selections compare; their true cost is higher by ``offset``. ``bound`` is the
    bound that the first selection gets, ``scope`` the part of the e-graph to which bounds apply, and ``core`` the
    problem whose sure costs do not count when a bound is compared with a cost. It is ``settled`` once nothing is left
    to find out.
    """

    egraph: EGraph
    costs: np.ndarray
    offset: float
    trace: Trace
    best: Solution | None = None
    bound: float = 0.0
    scope: str = "e-graph"
    core: Problem | None = None
    settled: bool = False

    @property
    def solution(self) -> Solution:
        """Return the best selection; there must be one."""
        assert self.best is not None
        return self.best

    @property
    def optimal(self) -> bool:
        """Return whether there is a selection that meets its bound, so that no solver is needed."""
        return self.best is not None and self._proves(self.best.bound)

    def within(self, problem: Problem) -> dict[int, int]:
        """Return the best selection within a problem, e-class → e-node."""
        choice = self.solution.choice
        return {c: int(choice[c]) for c in dict.fromkeys(problem.eclass) if choice[c] >= 0}

    def offer(
        self, choice: np.ndarray, kind: StepKind, solver: str = "", rules: tuple[RuleStep, ...] = ()
    ) -> StepKind:
        """Keep a selection if it is the best so far, and return the kind of the step.

        Args:
            choice: An e-node for each e-class, -1 for none.
            kind: How it was found.
            solver: The method of an incumbent; by default the kind's name.
            rules: The work of the step by rule.
        """
        method = solver or kind.value
        if not is_acyclic(self.egraph, choice):
            raise NoExtraction(f"{method} extraction chose a cyclic term: a defect")
        cost = dag_cost(choice, self.costs)
        bound = self.bound if self.best is None else max(self.bound, self.best.bound)
        if self.best is None or cost < self.best.cost:
            status = Status.FEASIBLE if kind is StepKind.INCUMBENT else Status.GREEDY
            self.best = Solution(choice, cost, min(bound, cost), status, method, self.scope)
        else:
            self.best = replace(self.best, bound=min(bound, self.best.cost))
        return self.note(kind, self.best.bound, method, rules)

    def prove(self, bound: float, *, proved: bool, endings: tuple[Ending, ...] = ()) -> StepKind:
        """Settle the best selection's bound (before the offset), whether it is optimal, and why solvers ended."""
        self.settled, best = True, self.solution
        bound = min(max(bound, best.bound), best.cost)
        closed = self._proves(bound) or (proved and best.cost - bound <= 1e-6 * best.cost)
        status = Status.OPTIMAL if closed else best.status
        endings = best.endings + endings
        self.best = replace(best, bound=bound, status=status, scope=self.scope, endings=endings)
        return self.note(StepKind.SETTLED, bound, "; ".join([status.value, *self.best.notes]))

    def change(self, **changes: object) -> None:
        """Replace fields of the best selection."""
        self.best = replace(self.solution, **changes)  # type: ignore[arg-type]

    def note(
        self,
        kind: StepKind,
        bound: float,
        note: str,
        rules: tuple[RuleStep, ...] = (),
        counts: Mapping[str, int] | None = None,
    ) -> StepKind:
        """Add a step to the trace, and return its kind.

        Args:
            kind: What happened.
            bound: The bound on every selection's cost, before the offset.
            note: What happened, in words.
            rules: The work of the step by rule.
            counts: Further figures by name.
        """
        self.trace.add(
            Step(
                len(self.trace),
                kind,
                0.0,
                len(self.egraph),
                self.egraph.n_classes,
                rules=rules,
                cost=None if self.best is None else self.best.cost + self.offset,
                bound=bound + self.offset if math.isfinite(bound) else None,
                note=note,
                counts=counts or {},
            )
        )
        return kind

    def _proves(self, bound: float) -> bool:
        """Return whether a bound proves the best selection optimal."""
        cost, core = self.solution.cost, self.core
        # What every selection pays is looked for only if it matters.
        paid = surely_paid(core) if met(cost, bound) and core is not None and core.roots else 0.0
        return met(cost, bound, paid)


@dataclass(slots=True, eq=False)
class Search:
    """The state that the stages of an extraction share.

    ``problem`` has all choices, ``left`` what reductions have left of it. They had ``before`` candidates to begin
    with, and ``effects`` on them. ``terms`` are the least tree terms, ``costs`` those that the user gave. The search
    ends at ``until``, a moment of ``time.perf_counter``. ``start`` is a selection that stands for a greedy one.
    """

    kept: Incumbent
    problem: Problem
    terms: Terms
    costs: np.ndarray
    method: str
    until: float
    memory: int = SOLVER_MEMORY
    effort: Effort = PROOF_EFFORT
    start: np.ndarray | None = None
    left: Problem = field(init=False)
    before: int = field(init=False)
    effects: list[RuleStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left, self.before = self.problem, len(self.problem.nodes)

    def reduce(self, share: float, *, once: bool = False) -> None:
        """Reduce what is left, by the reductions that suit its first size.

        ``share`` is that of the remaining time; ``once`` applies only quick reductions, each of them once, and
        the fewer without a proof in view.
        """
        quick = FEW if self.effort.nodes is not None else QUICK
        self.left, self.effects = presolve(
            self.left,
            self.kept.solution.cost,
            until=self.moment(share),
            reductions=quick if once else REDUCTIONS if self.before >= MIN_WHOLE_SIZE else QUICK,
            rounds=1 if once else ROUNDS,
            earlier=self.effects,
        )

    def moment(self, share: float) -> float:
        """Return the moment at which a share of the remaining time is spent, or all of it if work is limited."""
        share = share if self.effort.nodes is None else 1.0
        return (now := time.perf_counter()) + share * max(0.0, self.until - now)

    @property
    def large(self) -> bool:
        """Return whether the problem is so large that preparations pay before a solver is started."""
        return len(self.problem.nodes) >= MIN_LOCAL_SIZE


#: A stage of an extraction. It offers selections and bounds to the incumbent, and yields the kinds of its steps.
Stage = Callable[[Search], Iterator[StepKind]]


def stages(method: str, *, gains: bool) -> tuple[Stage, ...]:
    """Return the stages of a method; negative costs that can be avoided (``gains``) are left to branch and bound."""
    if gains and method in _STAGES:
        return (tree,) if method in ("tree", "dag", "local") else (tree, gaining)
    return _STAGES.get(method, (own,))


def original(s: Search) -> Iterator[StepKind]:
    """Offer the start graph's own selection, if it is known."""
    if (found := original_selection(s.kept.egraph)) is not None:
        yield s.kept.offer(found, StepKind.ORIGINAL)


def tree(s: Search) -> Iterator[StepKind]:
    """Offer the selection of the least tree terms."""
    yield s.kept.offer(s.terms.selection(), StepKind.TREE)


def dag(s: Search) -> Iterator[StepKind]:
    """Offer a greedy selection that counts shared parts once."""
    kept, problem = s.kept, s.problem
    if not problem.roots:
        yield kept.prove(0.0, proved=True)
        return
    proving = s.method in ("exact", "auto")
    if proving and s.start is not None:
        yield kept.offer(s.start, StepKind.DAG)
        return
    entries = min(ENTRIES, s.memory // BYTES_PER_PAIR)
    taken = greedy(problem, s.moment(GREEDY_TIME_SHARE), entries, once=proving)
    yield kept.offer(problem.selection(taken), StepKind.DAG)


def blocks(s: Search) -> Iterator[StepKind]:
    """Solve a large problem at once if quick reductions leave only small independent parts of it."""
    if s.large:
        s.reduce(PREPARATION_TIME_SHARE, once=True)
        if not s.kept.optimal and in_blocks(s.left, s.moment(PREPARATION_TIME_SHARE)):
            yield from exact(s)


def bounds(s: Search) -> Iterator[StepKind]:
    """Raise the bound of a large problem. End if the selection meets its bound."""
    kept = s.kept
    bound = early_bound(s.left, s.moment(PREPARATION_TIME_SHARE))
    kept.change(bound=min(kept.solution.cost, max(kept.solution.bound, bound)))
    if kept.optimal:
        yield kept.prove(kept.bound, proved=True)


def shrunk(s: Search) -> Iterator[StepKind]:
    """Reduce a large problem, often by a lot; the size of the rest shows whether local search pays."""
    if s.large:
        s.reduce(PREPARATION_TIME_SHARE)
        if len(s.left.nodes) >= MIN_LOCAL_SIZE and s.effort.nodes is None:
            yield from local(s)
        elif s.method != "filtered":
            yield from exact(s)


def local(s: Search) -> Iterator[StepKind]:
    """Offer a selection that local search improves; before a solver it has a share of the time."""
    last, rest = s.until, math.inf
    if s.method != "local":
        size = len(s.problem.nodes)
        share = min(MAX_LOCAL_TIME_SHARE, max(MIN_LOCAL_TIME_SHARE, size / HOPELESS_SIZE))
        last, rest = s.moment(share), LOCAL_SECONDS_PER_CANDIDATE * size
    taken = improve(s.problem, s.kept.within(s.problem), last, rest)
    yield s.kept.offer(s.problem.selection(taken), StepKind.LOCAL_SEARCH)


def filtered(s: Search) -> Iterator[StepKind]:
    """Break all cycles, then reduce and solve the rest."""
    s.left = _cycle_free(s, frozenset(s.kept.within(s.problem).values()))
    s.before, s.effects = len(s.left.nodes), []
    yield from reduced(s)


def reduced(s: Search) -> Iterator[StepKind]:
    """Reduce what is left, and solve it."""
    s.reduce(PRESOLVE_TIME_SHARE)
    yield from exact(s)


def exact(s: Search) -> Iterator[StepKind]:
    """Solve what is left to a proven optimum, or as far as time and effort allow."""
    kept, problem = s.kept, s.left
    bound = kept.solution.bound
    counts = {"before": s.before, "after": len(problem.nodes)}
    note = "presolve: {before} → {after} candidates".format(**counts)
    yield kept.note(StepKind.PRESOLVE, bound, note, tuple(s.effects), counts)
    if not problem.roots:  # the reductions have decided every choice
        yield kept.offer(problem.selection({}), StepKind.INCUMBENT, s.method)
        yield kept.prove(kept.solution.cost, proved=True)
        return
    left = s.until - time.perf_counter()
    if left < START_SECONDS_PER_CANDIDATE * len(problem.nodes):
        yield kept.prove(bound, proved=False, endings=(Ending(Limit.TIME),))
        return
    found, cuts = Solved(None, bound), 0
    steps = solve(
        problem,
        kept.within(problem),
        left,
        patience=idling(len(problem.nodes)) if s.method == "auto" else None,
        memory=s.memory,
        effort=s.effort,
    )
    for turn, found in enumerate(steps):
        bound = min(max(bound, found.bound), kept.solution.cost)
        # All states but the first are reports of a solver.
        status = Status.FEASIBLE if turn and not found.endings else kept.solution.status
        kept.change(bound=bound, status=status, scope=kept.scope)
        added = (RuleStep("loop formulas", found.cuts - cuts, 0.0),) if found.cuts > cuts else ()
        cuts = max(cuts, found.cuts)
        if found.picked is not None:
            kept.offer(problem.selection(found.picked), StepKind.INCUMBENT, "exact", added)
        yield StepKind.INCUMBENT
    if not {ending.limit for ending in found.endings} & DIED:
        kept.change(status=Status.FEASIBLE)
    yield kept.prove(bound, proved=found.proved, endings=found.endings)


def tensat(s: Search) -> Iterator[StepKind]:
    """Run Tensat's program without our bounds and selections; only free terms are decided before."""
    kept, problem = s.kept, s.problem
    if s.method == "tensat-filtered":
        problem = _cycle_free(s, frozenset(s.terms.choice))
    if not problem.roots:
        yield kept.offer(problem.selection({}), StepKind.INCUMBENT, s.method)
        yield kept.prove(0.0, proved=True)
        return
    process = yield from _run(s, s.method, problem, None)
    if kept.best is None:
        yield kept.offer(s.terms.selection(), StepKind.TREE)
        process.endings.append(Ending(Limit.NOTHING))
    proved, best = process.proved and process.best.picked is not None, process.best
    yield kept.prove(best.cost if proved else best.bound, proved=proved, endings=tuple(process.endings))


def gaining(s: Search) -> Iterator[StepKind]:
    """Improve the tree selection by branch and bound, which takes negative costs."""
    if s.until < time.perf_counter():
        yield s.kept.prove(0.0, proved=False, endings=(Ending(Limit.TIME),))
        return
    start = s.problem.picked(frozenset(s.kept.within(s.problem).values()))
    patience = idling(len(s.problem.nodes)) if s.method == "auto" else None
    process = yield from _run(s, "highs", s.problem, start, patience)
    yield s.kept.prove(process.best.bound, proved=process.proved, endings=tuple(process.endings))


def own(s: Search) -> Iterator[StepKind]:
    """Run a user's extractor and check its choice; raise BadExtraction if the choice is not a term."""
    extractor = OWN.find(s.method)
    assert extractor is not None
    with naming(f"the extractor {s.method!r}"):
        given = extractor(s.kept.egraph, s.costs, seconds=max(0.01, s.until - time.perf_counter()))
    choice = checked_choice(s.method, s.kept.egraph, s.costs, given)
    yield s.kept.offer(choice, StepKind.OWN, s.method)
    yield s.kept.prove(s.kept.bound, proved=False)


def _run(
    s: Search, solver: str, problem: Problem, start: dict[int, int] | None, patience: Patience | None = None
) -> Generator[StepKind, None, SolverProcess]:
    """Run a solver on a problem without reductions, and return its process after its end."""
    kept, left = s.kept, max(0.01, s.until - time.perf_counter())
    process = SolverProcess(Job(problem, None, start, left), solver, s.memory)
    for _ in process.run(patience):
        kept.bound, picked = process.best.bound, process.best.picked
        if picked is None:
            yield kept.note(StepKind.INCUMBENT, kept.bound, solver)
        else:
            yield kept.offer(problem.selection(problem.taken(picked)), StepKind.INCUMBENT, solver)
    return process


def _cycle_free(s: Search, keep: Set[int]) -> Problem:
    """Break all cycles but keep an acyclic selection; later bounds hold for the remaining part only."""
    egraph = s.kept.egraph
    broken = break_cycles(s.problem, keep, egraph.birth_step.tolist() or [0] * len(egraph))
    if broken is not s.problem:
        s.kept.scope = "cycle-free part"
    return broken


_GREEDY: Final[tuple[Stage, ...]] = (original, tree, dag)
_PORTFOLIO: Final[tuple[Stage, ...]] = (*_GREEDY, blocks, bounds, shrunk, reduced)
#: The stages of each method that is built in.
_STAGES: Final[dict[str, tuple[Stage, ...]]] = {
    "tree": (tree,),
    "dag": _GREEDY,
    "local": (*_GREEDY, bounds, local),
    "exact": _PORTFOLIO,
    "auto": _PORTFOLIO,
    "filtered": (*_GREEDY, bounds, shrunk, filtered),
    **dict.fromkeys(TENSAT, (tensat,)),
}


# -- what the stages ask of a problem ----------------------------------------------------------------
def in_blocks(problem: Problem, until: float) -> bool:
    """Return whether all independent parts of a problem are small, as a network's layers: each is solved alone."""
    return all(len(part.nodes) < MIN_WHOLE_SIZE for part in split(problem, until))


def early_bound(problem: Problem, until: float) -> float:
    """Return one dual ascent's bound of a large problem, before reductions take all the time; 0 for others."""
    ascents = climb(problem, until=until, once=True) if len(problem.nodes) >= MIN_LOCAL_SIZE else []
    return max((one.bound for one in ascents), default=0.0)


def idling(candidates: int) -> Patience:
    """Return a rule by which a solver goes on while cost or bound move; larger problems may pause longer."""
    idle = max(IDLE_SECONDS, IDLE_SECONDS_PER_CANDIDATE * candidates)
    last, lowest, highest = 0.0, math.inf, 0.0

    def goes_on(seconds: float, cost: float, bound: float) -> bool:
        nonlocal last, lowest, highest
        if cost < lowest * (1 - PROGRESS_SHARE) or bound > highest + PROGRESS_SHARE * cost:
            last, lowest, highest = seconds, cost, bound
        return seconds - last < max(idle, last)

    return goes_on
