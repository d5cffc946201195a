"""Extraction, as a stepwise object and as one function call."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.exact.dynamic import MAX_WIDTH
from workbench.extraction.exact.race import Patience, Race
from workbench.extraction.exact.solve import PROOF_EFFORT, Exact, by_shape, solve
from workbench.extraction.exact.types import Effort, Job
from workbench.extraction.greedy.dag import ENTRIES, beam, greedy
from workbench.extraction.greedy.local_search import PATIENCE, improve
from workbench.extraction.incumbent import Incumbent
from workbench.extraction.negative_costs import signed
from workbench.extraction.problem import BULK, VAST, Problem, Terms, dag_cost, original_selection
from workbench.extraction.reduce.cycles import break_cycles, split
from workbench.extraction.reduce.dominators import chain_bound, must_sets
from workbench.extraction.reduce.dual_ascent import climb, highest_bound
from workbench.extraction.reduce.presolve import QUICK, REDUCTIONS, ROUNDS, Effect, presolve
from workbench.extraction.registry import METHODS, OWN, TENSAT, Extractor, checked_choice, methods
from workbench.extraction.result import DIED, Ending, Limit, Solution, Status
from workbench.run.stepper import Stepwise
from workbench.run.trace import RuleStep, Step, StepKind, StopReason, Trace
from workbench.support.deadline import TimeUp, deadline
from workbench.support.machine import collector_paused
from workbench.support.processes import SOLVER_MEMORY
from workbench.support.wings import offered

if TYPE_CHECKING:
    import pulp


#: ``auto`` stops when neither cost nor bound has moved by this share for so many seconds; a large problem has more
#: for each candidate, because its first relaxation is slow.
PROGRESS_SHARE: Final = 1e-3
IDLE_SECONDS: Final = 5.0
IDLE_SECONDS_PER_CANDIDATE: Final = 5e-5
#: Largest shares of the remaining time for greedy search, presolve, and what comes before both.
GREEDY_TIME_SHARE: Final = 0.3
PRESOLVE_TIME_SHARE: Final = 0.3
PREPARATION_TIME_SHARE: Final = 0.1
#: With this many candidates or more after reductions, and a part that is not small, local search runs before a
#: solver is started. It then ends after so many seconds per candidate without an improvement.
MIN_LOCAL_SIZE: Final = 2_000
LOCAL_SECONDS_PER_CANDIDATE: Final = 2e-4
#: The least and the largest share of the remaining time for it. In between, the share is that of the candidates in
#: a problem for which a solver is hopeless.
MIN_LOCAL_TIME_SHARE, MAX_LOCAL_TIME_SHARE, HOPELESS_SIZE = 0.25, 0.5, 400_000
#: Seconds per candidate to start a solver, and seconds after the limit when a stage is ended from outside.
START_SECONDS_PER_CANDIDATE: Final = 1e-5
GRACE_SECONDS: Final = 0.25
#: Bytes per pair of e-classes that greedy search keeps.
BYTES_PER_PAIR: Final = 60
#: A problem of at least this many candidates is reduced by dual ascents as a whole, unless it falls apart
#: into smaller ones.
MIN_WHOLE_SIZE: Final = 3_000


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """A problem after reductions, their effects, and the number of candidates before them."""

    problem: Problem
    effects: list[Effect]
    before: int

    @classmethod
    def none(cls, problem: Problem) -> Reduced:
        """Return a problem without reductions so far."""
        return cls(problem, [], len(problem.nodes))

    def further(self, cost: float, until: float, *, once: bool = False) -> Reduced:
        """Return the problem after further reductions, those that suit its first size.

        Args:
            cost: The cost of a known selection.
            until: Deadline of ``time.perf_counter``.
            once: Whether to apply only the quick reductions, and each of them once.
        """
        chosen = REDUCTIONS if self.before >= MIN_WHOLE_SIZE and not once else QUICK
        problem, effects = presolve(
            self.problem,
            cost,
            until=until,
            reductions=chosen,
            rounds=1 if once else ROUNDS,
            earlier=self.effects,
        )
        return Reduced(problem, effects, self.before)


def in_blocks(problem: Problem, until: float) -> bool:
    """Return whether all independent parts of a problem are small: each is then improved and solved alone.

    The layers of a network are such parts. Whatever is done to the whole before would be done twice.
    """
    return all(len(part.nodes) < MIN_WHOLE_SIZE for part in split(problem, until))


def bound_by_parts(problem: Problem, until: float) -> float:
    """Return a lower bound without a solver: the sum of those of the independent parts."""
    parts = split(problem, until)
    bounds = []
    for first, *others in by_shape(parts):
        part = parts[first]
        bounds += [highest_bound(part, must_sets(part, until), until)] * (1 + len(others))
    return math.fsum(bounds)


def early_bound(problem: Problem, until: float) -> float:
    """Return the bound of one dual ascent of a large problem, 0 for others and if time is up.

    The reductions and solvers of a large problem may take all the time, so it has a bound before them.
    """
    ascents = climb(problem, until=until, times=1) if len(problem.nodes) >= MIN_LOCAL_SIZE else []
    return max((one.bound for one in ascents), default=0.0)


class Idling:
    """A stopping rule of a race: go on while cost or bound move; larger problems may pause longer."""

    def __init__(self, candidates: int) -> None:
        self._idle = max(IDLE_SECONDS, IDLE_SECONDS_PER_CANDIDATE * candidates)
        self._cost, self._bound, self._since = math.inf, 0.0, 0.0

    def __call__(self, seconds: float, cost: float, bound: float) -> bool:
        """Return whether the race continues."""
        if cost < self._cost * (1 - PROGRESS_SHARE) or bound > self._bound + PROGRESS_SHARE * cost:
            self._cost, self._bound, self._since = cost, bound, seconds
        return seconds - self._since < max(self._idle, self._since)


def treewidth(width: int | None) -> dict[str, int]:
    """Return the counts that report the treewidth of the parts that took a search, if it is known."""
    if not width:
        return {}
    return {"treewidth above": MAX_WIDTH} if width > MAX_WIDTH else {"treewidth at most": width}


_PORTFOLIO: Final = ("exact", "auto", "filtered")


class Extraction(Stepwise):
    """A search for the cheapest term of an e-graph, one improvement per step.

    The steps are: the start graph's own selection, if it is known; the least tree cost; the least cost
    with sharing; local search, if some independent part is large; reductions; then an exact method. A
    selection is kept only if it is better than the previous one, so the result is never worse than the
    start graph. ``solution`` is always the best selection so far, and survives when a solver is killed,
    runs out of time or memory, or is interrupted.

    Tensat's programs run by themselves: ``solution`` is None until one finds something. If none does, it is
    the tree selection, and ``Limit.NOTHING`` is among its limits.

    Args:
        egraph: The e-graph, with at least one root.
        costs: One cost per e-node; an infinite cost excludes the e-node, a negative one is a gain.
        method: A name of :data:`METHODS`, or of a registered extractor.
        seconds: Time limit for all steps together.
        memory: Bytes that each solver's process may use.
        effort: How far an exact method proves its result.

    Raises:
        ValueError: For an unknown method or a limit that is not positive.
        NoExtraction: (a ValueError) for costs that cannot be used or a root without a finite term.
    """

    def __init__(
        self,
        egraph: EGraph,
        costs: np.ndarray,
        method: str = "exact",
        *,
        seconds: float = 60.0,
        memory: int = SOLVER_MEMORY,
        effort: Effort = PROOF_EFFORT,
    ) -> None:
        self._own = None if method in METHODS else OWN.find(method)
        if method not in METHODS and self._own is None:
            raise ValueError(f"the extraction method must be one of {', '.join(methods())}, got {method!r}")
        if not seconds > 0:
            raise ValueError(f"the time limit must be positive, got {seconds} (try seconds=60)")
        if not memory > 0:
            raise ValueError(f"the memory limit must be a positive number of bytes, got {memory}")
        super().__init__()
        self._since = time.perf_counter()
        self._signed = signed(egraph, costs, self._since + PREPARATION_TIME_SHARE * seconds)
        self.egraph = egraph
        self.costs = np.asarray(costs, dtype=float)
        self.method = method
        self.seconds = seconds
        self.memory = memory
        self.effort = effort
        self.trace = Trace({"kind": "extraction", "method": method, "time_limit": seconds})
        self._kept = Incumbent(egraph, self._signed.costs, self._signed.offset, self.trace)
        self._stages: Generator[StepKind] = self._plan()
        self._spent = time.perf_counter() - self._since  # a look at negative costs may be long
        self._until = math.inf

    @property
    def solution(self) -> Solution | None:
        """Return the best selection so far, or None if there is none yet."""
        found, offset = self._kept.best, self._kept.offset
        if found is None or not offset:
            return found
        return replace(found, cost=dag_cost(found.choice, self.costs), bound=found.bound + offset)

    def model(self) -> pulp.LpProblem:
        """Return the integer program of this extraction, to read, to write as LP or MPS, or to solve.

        Any solver that PuLP knows can solve it; its optimum is the cheapest acyclic selection. With the
        methods ``"tensat"`` and ``"tensat-integer"`` it is the program of Tensat (MLSys 2021, section 5.2).
        :func:`~workbench.extraction.exact.ilp.selection_of` reads a solved model.

        >>> model = Extraction(egraph, costs).model()  # doctest: +SKIP
        >>> model.writeLP("extraction.lp")             # doctest: +SKIP
        """
        from workbench.extraction.exact.ilp import pulp_problem

        if self.method in TENSAT:
            whole = self.method == "tensat-integer"
            model: pulp.LpProblem = offered("tensat_problem")(self.egraph, self.costs, integer_order=whole)
            return model
        return pulp_problem(self.egraph, self.costs)

    def _share(self, share: float) -> float:
        """Return the moment (of ``time.perf_counter``) at which a share of the remaining time is spent."""
        return (now := time.perf_counter()) + share * max(0.0, self._until - now)

    def _plan(self) -> Generator[StepKind]:
        self._until = time.perf_counter() + max(0.0, self.seconds - self._spent)
        given, kept = self._signed, self._kept
        terms = given.terms or Terms.of(self.egraph, given.costs, self._until)
        tree = terms.selection()
        if given.core is not None:
            yield from self._with_gains(given.core, tree)
            return
        if len(self.egraph) >= BULK and self._own is None and self.method not in TENSAT:
            # Nothing must keep a large e-graph from having a selection; its bound comes later.
            yield kept.offer(tree, StepKind.TREE)
            if time.perf_counter() > self._until:
                yield kept.prove(0.0, proved=False, endings=(Ending(Limit.TIME),))
                return
        problem = terms.problem(most=math.inf if self.method in TENSAT else dag_cost(tree, given.costs))
        if self._own is not None:
            kept.bound = chain_bound(problem)
            yield self._by_user(self._own)
            yield kept.prove(kept.bound, proved=False)
            return
        if self.method in TENSAT:
            yield from self._alone(problem, tree, terms.choice)
            return
        kept.bound, kept.core = chain_bound(problem), problem
        if self.method != "tree" and (original := original_selection(self.egraph)) is not None:
            yield kept.offer(original, StepKind.ORIGINAL)
        yield kept.offer(tree, StepKind.TREE)
        if self.method == "tree":
            return
        if not problem.roots:
            yield kept.prove(0.0, proved=True)
            return
        entries = min(ENTRIES, self.memory // BYTES_PER_PAIR)
        first = greedy(problem, self._share(GREEDY_TIME_SHARE), entries)
        yield kept.offer(problem.selection(first.taken), StepKind.DAG)
        if self.method == "dag":
            pays = first.finished and not kept.optimal and len(problem.nodes) < VAST
            if pays and (wider := beam(problem, self._until, entries)) is not None:
                found = problem.selection(wider)
                if dag_cost(found, given.costs) < kept.solution.cost:
                    yield kept.offer(found, StepKind.DAG)
            return
        yield from self._improved(problem)

    def _improved(self, problem: Problem) -> Iterator[StepKind]:
        """Improve the greedy selection by local search, reductions and an exact method."""
        kept, compared = self._kept, self.method in ("highs", "cp-sat")
        left = Reduced.none(problem)
        large = len(problem.nodes) >= MIN_LOCAL_SIZE and self.method in _PORTFOLIO
        if large and self.method != "filtered":
            left = left.further(kept.solution.cost, self._share(PREPARATION_TIME_SHARE), once=True)
            if not kept.optimal and in_blocks(left.problem, self._share(PREPARATION_TIME_SHARE)):
                yield from self._exact(left)
                return
        bound = early_bound(left.problem, self._share(PREPARATION_TIME_SHARE))
        kept.change(bound=min(kept.solution.cost, max(kept.solution.bound, bound)))
        if kept.optimal and not compared:
            yield kept.prove(kept.bound, proved=True)
            return
        if self.method == "local":
            yield self._local(problem)
            return
        if large:
            # Reductions often shrink it a lot. The size of the rest shows whether local search pays.
            left = left.further(kept.solution.cost, self._share(PREPARATION_TIME_SHARE))
            if len(left.problem.nodes) >= MIN_LOCAL_SIZE and self.effort.nodes is None:
                yield self._local(problem)
            elif self.method != "filtered":
                yield from self._exact(left)
                return
        if self.method == "filtered":
            left = Reduced.none(self._cycle_free(problem, frozenset(kept.within(problem).values())))
        yield from self._exact(left.further(kept.solution.cost, self._share(PRESOLVE_TIME_SHARE)))

    def _cycle_free(self, problem: Problem, keep: Set[int]) -> Problem:
        """Break all cycles but keep an acyclic selection; later bounds hold for the remaining part only."""
        ages = self.egraph.birth_step.tolist() or [0] * len(self.egraph)
        broken = break_cycles(problem, keep, ages)
        if broken.dropped:
            self._kept.scope = "cycle-free part"
        return broken.problem

    def _local(self, problem: Problem) -> StepKind:
        last, patience, rest = self._until, PATIENCE, math.inf
        if self.method != "local":
            # Only descend: a solver also finds the gains of random stirring.
            size = len(problem.nodes)
            share = min(MAX_LOCAL_TIME_SHARE, max(MIN_LOCAL_TIME_SHARE, size / HOPELESS_SIZE))
            last, patience, rest = self._share(share), 0, LOCAL_SECONDS_PER_CANDIDATE * size
        taken = improve(problem, self._kept.within(problem), last, patience=patience, rest=rest)
        return self._kept.offer(problem.selection(taken), StepKind.LOCAL_SEARCH)

    def _race(
        self, solver: str, problem: Problem, start: dict[int, int] | None, patience: Patience | None = None
    ) -> Generator[StepKind, None, Race]:
        """Run one solver by itself on a problem without reductions, and return the finished race."""
        kept, name = self._kept, solver.partition(":")[0]
        left = max(0.01, self._until - time.perf_counter())
        race = Race(Job(problem, None, start, left), (solver,), self.memory)
        for _ in race.run(patience):
            kept.bound = race.bound
            if race.best is None:
                yield kept.note(StepKind.INCUMBENT, race.bound, name)
            else:
                yield kept.offer(problem.selection(problem.taken(race.best)), StepKind.INCUMBENT, name)
        return race

    def _alone(self, problem: Problem, tree: np.ndarray, choice: Sequence[int]) -> Iterator[StepKind]:
        """Run Tensat's program without our bounds and selections; only free terms are decided before."""
        kept = self._kept
        if self.method == "tensat-filtered":
            problem = self._cycle_free(problem, frozenset(choice))
        if not problem.roots:
            yield kept.offer(problem.selection({}), StepKind.INCUMBENT, self.method)
            yield kept.prove(0.0, proved=True)
            return
        race = yield from self._race(self.method, problem, None)
        endings = tuple(race.endings)
        if kept.best is None:
            yield kept.offer(tree, StepKind.TREE)
            endings = (*endings, Ending(Limit.NOTHING))
        proved = race.proved and race.best is not None
        yield kept.prove(race.cost if proved else race.bound, proved=proved, endings=endings)

    def _with_gains(self, make: Callable[[], Problem], tree: np.ndarray) -> Iterator[StepKind]:
        """Extract with negative costs that a selection can avoid: from the tree selection by CP-SAT alone."""
        kept = self._kept
        if self._own is not None:
            yield self._by_user(self._own)
            return
        yield kept.offer(tree, StepKind.TREE)
        if self.method in ("tree", "dag", "local"):
            return
        if time.perf_counter() > self._until:
            yield kept.prove(0.0, proved=False, endings=(Ending(Limit.TIME),))
            return
        problem = make()
        start = problem.picked(frozenset(kept.within(problem).values()))
        patience = Idling(len(problem.nodes)) if self.method == "auto" else None
        race = yield from self._race("cp-sat:2", problem, start, patience)
        yield kept.prove(race.bound, proved=race.proved, endings=tuple(race.endings))

    def _by_user(self, extractor: Extractor) -> StepKind:
        """Run a user's extractor and check its choice; raise BadExtraction if the choice is not a term."""
        left = max(0.01, self._until - time.perf_counter())
        given = extractor(self.egraph, self.costs, seconds=left)
        choice = checked_choice(self.method, self.egraph, self.costs, given)
        return self._kept.offer(choice, StepKind.OWN, self.method)

    def _exact(self, given: Reduced) -> Iterator[StepKind]:
        kept, reduced = self._kept, given.problem
        bound = bound_by_parts(reduced, self._share(PRESOLVE_TIME_SHARE))
        rules = tuple(RuleStep(e.name, e.before - e.after, e.seconds) for e in given.effects)
        counts = {"before": given.before, "after": len(reduced.nodes)}
        note = "presolve: {before} → {after} candidates".format(**counts)
        yield kept.note(StepKind.PRESOLVE, bound, note, rules, counts)
        if not reduced.roots:  # the reductions have decided every choice
            yield kept.offer(reduced.selection({}), StepKind.INCUMBENT, self.method)
            yield kept.prove(kept.solution.cost, proved=True)
            return
        left = self._until - time.perf_counter()
        if left < START_SECONDS_PER_CANDIDATE * len(reduced.nodes):
            yield kept.prove(bound, proved=False, endings=(Ending(Limit.TIME),))
            return
        found, cuts = Exact(None, bound), 0
        steps = solve(
            reduced,
            kept.within(reduced),
            left,
            solver="portfolio" if self.method in _PORTFOLIO else self.method,
            patience=Idling(len(reduced.nodes)) if self.method == "auto" else None,
            memory=self.memory,
            effort=self.effort,
        )
        for found in steps:
            bound = min(max(bound, found.bound), kept.solution.cost)
            status = kept.solution.status if found.endings else Status.FEASIBLE  # a solver reported it
            kept.change(bound=bound, status=status, scope=kept.scope)
            added = (RuleStep("loop formulas", found.cuts - cuts, 0.0),) if found.cuts > cuts else ()
            cuts = max(cuts, found.cuts)
            if found.taken is not None:
                kept.offer(reduced.selection(found.taken), StepKind.INCUMBENT, "exact", added)
            yield StepKind.INCUMBENT
        if not {ending.limit for ending in found.endings} & DIED:
            kept.change(status=Status.FEASIBLE)
        yield kept.prove(bound, proved=found.proved, endings=found.endings, counts=treewidth(found.width))

    def step(self) -> Step:
        """Run the next stage; raise StopIteration if none is left."""
        if not self.unfinished:
            raise StopIteration("the extraction has finished")
        self.stop_reason = None
        self._since, known = time.perf_counter(), len(self.trace)
        try:
            # There is no deadline until a selection is known.
            last = math.inf if self._kept.best is None else self._until + GRACE_SECONDS
            with collector_paused(), deadline(last):
                next(self._stages)
        except StopIteration:
            self._finish()
            raise
        except TimeUp:
            self._stages.close()
            self._kept.prove(self._kept.bound, proved=False, endings=(Ending(Limit.TIME),))
            self._finish()
        finally:
            self._spent += (spent := time.perf_counter() - self._since)
            if len(self.trace) > known:
                self.trace.steps[-1] = replace(self.trace.steps[-1], seconds=spent)
        return self.trace.steps[-1]

    def _finish(self) -> None:
        best = self._kept.solution
        if self.stop_reason is None:
            optimal = best.status is Status.OPTIMAL
            self.stop_reason = StopReason.OPTIMAL if optimal else StopReason.FEASIBLE
        method = self.method if self.method in ("tree", "dag") else best.method
        self._kept.change(method=method, seconds=self._spent + time.perf_counter() - self._since)

    @property
    def unfinished(self) -> bool:
        """Return whether a stage is left to run; an interrupted stage ends the extraction."""
        return super().unfinished and inspect.getgeneratorstate(self._stages) != inspect.GEN_CLOSED

    def run(self, progress: Callable[[Step], None] | None = None) -> Solution:
        """Run all stages and return the best selection.

        Ctrl-C returns the best selection so far, or raises KeyboardInterrupt if there is none yet.
        """
        if self.drive(progress) is StopReason.INTERRUPTED:
            return self.interrupt()
        return cast(Solution, self.solution)

    def interrupt(self) -> Solution:
        """End the solvers and return the best selection so far; raise KeyboardInterrupt if there is none."""
        self._stages.close()
        self.stop_reason = StopReason.INTERRUPTED
        if self._kept.best is None:
            raise KeyboardInterrupt
        if Limit.INTERRUPTED not in self._kept.limits:
            self._kept.change(endings=(*self._kept.best.endings, Ending(Limit.INTERRUPTED)))
        self._kept.change(seconds=self._spent)
        return cast(Solution, self.solution)

    def __repr__(self) -> str:
        lines, s = [f"Extraction ({self.method}) from {len(self.egraph)} e-nodes"], self.solution
        if s is not None:
            known = f"cost {s.cost:.6g}, bound {s.bound:.6g}, gap {s.gap:.2%}, {s.status.value} ({s.scope})"
            lines.append(f"  {known}")
        lines += [
            f"  {step.note}: {'nothing yet' if step.cost is None else format(step.cost, '.6g')}"
            for step in self.trace.steps[-6:]
        ]
        return "\n".join(lines)


def extract(
    egraph: EGraph,
    costs: np.ndarray,
    method: str = "exact",
    *,
    seconds: float = 60.0,
    memory: int = SOLVER_MEMORY,
    effort: Effort = PROOF_EFFORT,
) -> Solution:
    """Return the cheapest term that a method finds in an e-graph.

    Args:
        egraph: The e-graph, with at least one root.
        costs: One cost per e-node; an infinite cost excludes the e-node, a negative one is a gain.
        method: A name of :data:`METHODS`, such as ``"tree"`` (least tree cost), ``"dag"`` (greedy with
            sharing), ``"exact"`` (proved optimal if ``seconds`` suffice) or ``"auto"`` (exact, but stops
            when it makes no more progress).
        seconds: Time limit.
        memory: Bytes that each solver's process may use.
        effort: How far an exact method proves its result.

    Raises:
        ValueError: For an unknown method or a limit that is not positive.
        NoExtraction: (a ValueError) for costs that cannot be used or a root without a finite term.
    """
    return Extraction(egraph, costs, method, seconds=seconds, memory=memory, effort=effort).run()
