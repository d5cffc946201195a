"""Extraction, as a stepwise object and as one function call."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction import shares
from workbench.extraction.exact.race import Race
from workbench.extraction.exact.root_tightening import by_shape
from workbench.extraction.exact.solve import PROOF_EFFORT, Exact, solve
from workbench.extraction.exact.tensat import ORDERS
from workbench.extraction.exact.treewidth import MAX_WIDTH
from workbench.extraction.exact.types import Effort, Job, met
from workbench.extraction.greedy.beam import beam
from workbench.extraction.greedy.dag import ENTRIES, greedy
from workbench.extraction.greedy.local_search import PATIENCE, improve
from workbench.extraction.negative_costs import signed
from workbench.extraction.problem import (
    BULK,
    VAST,
    NoExtraction,
    Problem,
    below,
    check_roots,
    dag_cost,
    is_acyclic,
    make_problem,
    tree_costs,
)
from workbench.extraction.reduce.cycles import break_cycles, split
from workbench.extraction.reduce.dominators import chain_bound, must_sets, surely_paid
from workbench.extraction.reduce.dual_ascent import climb, highest_bound
from workbench.extraction.reduce.presolve import QUICK, REDUCTIONS, ROUNDS, Effect, presolve
from workbench.extraction.registry import METHODS, OWN, Extractor, checked_choice, methods
from workbench.extraction.result import DIED, Ending, Limit, Solution, Status
from workbench.run.stepper import Stepwise
from workbench.run.trace import RuleStep, Step, StepKind, StopReason, Trace
from workbench.support.deadline import TimeUp, deadline
from workbench.support.machine import collector_paused
from workbench.support.processes import SOLVER_MEMORY

if TYPE_CHECKING:
    import pulp


#: ``auto`` stops when neither cost nor bound has moved by the share MOVED for IDLE seconds.
MOVED, IDLE = 1e-3, 5.0
#: Additional idle seconds per candidate, because the first relaxation of a large problem is slow.
PER_CANDIDATE: Final = 5e-5


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """A problem after the reductions, their effects, and the number of candidates before them."""

    problem: Problem
    effects: list[Effect]
    before: int

    @classmethod
    def none(cls, problem: Problem) -> Reduced:
        """Return a problem without reductions so far."""
        return cls(problem, [], len(problem.nodes))


def reduced_further(given: Reduced, cost: float, until: float, *, once: bool = False) -> Reduced:
    """Return a problem after further reductions, those that suit its first size.

    Args:
        given: The problem, with the effects of earlier reductions if there were any.
        cost: The cost of a known selection.
        until: Deadline of ``time.perf_counter``.
        once: Whether to apply only the quick reductions, and each of them once.
    """
    chosen = REDUCTIONS if given.before >= shares.WHOLE and not once else QUICK
    rounds = 1 if once else ROUNDS
    problem, more = presolve(given.problem, cost, until=until, reductions=chosen, rounds=rounds)
    effects = {effect.name: effect for effect in given.effects}
    for effect in more:
        old = effects.get(effect.name, Effect(effect.name, 0, 0, 0.0))
        effects[effect.name] = Effect(
            effect.name,
            old.before + effect.before,
            old.after + effect.after,
            old.seconds + effect.seconds,
        )
    return Reduced(problem, list(effects.values()), given.before)


def in_blocks(problem: Problem, until: float) -> bool:
    """Return whether all independent parts of a problem are small: each is then improved and solved alone.

    The layers of a network are such parts. Whatever is done to the whole before would be done twice.
    """
    return all(len(part.nodes) < shares.WHOLE for part in split(problem, until))


def bound_by_parts(problem: Problem, until: float) -> float:
    """Return a lower bound without a solver: the sum of those of the independent parts."""
    parts = split(problem, until)
    bounds = []
    for first, *others in by_shape(parts):
        part = parts[first]
        bounds += [highest_bound(part, must_sets(part, until), until)] * (1 + len(others))
    return math.fsum(bounds)


class Idling:
    """A stopping rule of a race: go on while cost or bound move; larger problems may pause longer."""

    def __init__(self, candidates: int) -> None:
        self._idle = max(IDLE, PER_CANDIDATE * candidates)
        self._cost, self._bound, self._since = math.inf, 0.0, 0.0

    def __call__(self, seconds: float, cost: float, bound: float) -> bool:
        """Return whether the race continues."""
        moved = cost < self._cost * (1 - MOVED) or bound > self._bound + MOVED * cost
        if moved:
            self._cost, self._bound, self._since = cost, bound, seconds
        return seconds - self._since < max(self._idle, self._since)


def check_limits(seconds: float, memory: int) -> None:
    """Raise ValueError unless both limits of an extraction are positive."""
    if not seconds > 0:
        raise ValueError(f"the time limit must be positive, got {seconds} (try seconds=60)")
    if not memory > 0:
        raise ValueError(f"the memory limit must be a positive number of bytes, got {memory}")


def raised(best: Solution | None, problem: Problem, until: float) -> Solution:
    """Return the best selection of a large problem with the bound of a dual ascent, if that is higher.

    The reductions and solvers of a large problem may take all the time, so it has a bound before them.
    """
    assert best is not None
    if len(problem.nodes) < shares.LARGE:
        return best
    bounds = [one.bound for one in climb(problem, until=until, times=1)]
    return replace(best, bound=min(best.cost, max([best.bound, *bounds])))


def proves(bound: float, best: Solution, core: Problem | None) -> bool:
    """Return whether a bound proves a selection of a problem optimal."""
    if not met(best.cost, bound):
        return False
    return met(best.cost, bound, surely_paid(core) if core is not None and core.roots else 0.0)


def treewidth(width: int | None) -> dict[str, int]:
    """Return the counts that report the treewidth of the parts that took a search, if it is known."""
    if not width:
        return {}
    return {"treewidth above": MAX_WIDTH} if width > MAX_WIDTH else {"treewidth at most": width}


def ages(egraph: EGraph) -> list[int]:
    """Return the step in which every e-node was born, or 0 for all if the steps are not recorded."""
    known = egraph.birth_step.tolist()
    return known if known else [0] * len(egraph)


def original_selection(egraph: EGraph) -> np.ndarray | None:
    """Return the start graph's selection, or None if it is incomplete or cyclic."""
    choice = np.full(egraph.n_classes, -1, dtype=np.int64)
    for i in egraph.original.tolist():
        if i >= 0 and choice[egraph.eclass[i]] < 0:
            choice[egraph.eclass[i]] = i
    needed = below(egraph, choice)
    return needed if needed is not None and is_acyclic(egraph, needed) else None


def described(method: str, size: int, solution: Solution | None, steps: Sequence[Step]) -> str:
    """Return an extraction from ``size`` e-nodes as text: its best selection and its last steps.

    Args:
        method: The name of the method.
        size: The number of e-nodes.
        solution: The best selection so far, or None.
        steps: The last steps.
    """
    lines = [f"Extraction ({method}) from {size} e-nodes"]
    if solution is not None:
        s = solution
        lines.append(
            f"  cost {s.cost:.6g}, bound {s.bound:.6g}, gap {s.gap:.2%}, {s.status.value} ({s.scope})"
        )
    lines += [
        f"  {step.note}: {'nothing yet' if step.cost is None else format(step.cost, '.6g')}" for step in steps
    ]
    return "\n".join(lines)


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
        check_limits(seconds, memory)
        super().__init__()
        self.egraph = egraph
        self._since = time.perf_counter()
        shifted = signed(egraph, costs, self._since + shares.FIRST * seconds)
        self.costs = np.asarray(costs, dtype=float)
        self._costs, self._offset, self._gains = shifted.costs, shifted.offset, shifted
        self.method = method
        self.seconds = seconds
        self.memory = memory
        self.effort = effort
        self.trace = Trace({"kind": "extraction", "method": method, "time_limit": seconds})
        self._best: Solution | None = None
        self._stages: Generator[StepKind] = self._plan()
        self._spent = time.perf_counter() - self._since  # a look at negative costs may be long
        self._until, self._bound = math.inf, 0.0
        self._scope = "e-graph"
        self._core: Problem | None = None
        self._widths: dict[str, int] = {}

    @property
    def solution(self) -> Solution | None:
        """Return the best selection so far, or None if there is none yet."""
        found, offset = self._best, self._offset
        if found is None or not offset:
            return found
        return replace(found, cost=dag_cost(found.choice, self.costs), bound=found.bound + offset)

    def model(self) -> pulp.LpProblem:
        """Return the integer program of this extraction, to read, to write as LP or MPS, or to solve.

        Any solver that PuLP knows can solve it; its optimum is the cheapest acyclic selection. With the
        methods ``"tensat"`` and ``"tensat-integer"`` it is the program of Tensat (MLSys 2021, section 5.2).
        :func:`~workbench.extraction.exact.formulation.selection_of` reads a solved model.

        >>> model = Extraction(egraph, costs).model()  # doctest: +SKIP
        >>> model.writeLP("extraction.lp")             # doctest: +SKIP
        """
        from workbench.extraction.exact.formulation import pulp_problem, tensat_problem

        if self.method in ORDERS:
            return tensat_problem(self.egraph, self.costs, integer_order=self.method == "tensat-integer")
        return pulp_problem(self.egraph, self.costs)

    def _share(self, share: float) -> float:
        """Return the moment (of ``time.perf_counter``) at which a share of the remaining time is spent."""
        return (now := time.perf_counter()) + share * max(0.0, self._until - now)

    def _plan(self) -> Generator[StepKind]:
        self._until = time.perf_counter() + max(0.0, self.seconds - self._spent)
        best: Sequence[float] = ()
        choice = self._gains.tree
        if self._gains.core is None:
            best, choice = tree_costs(self.egraph, np.maximum(self._costs, 0.0), self._until)
            check_roots(self.egraph, best)
        tree = below(self.egraph, np.array(choice, dtype=np.int64))
        assert tree is not None
        if dag_cost(tree, self._costs) == math.inf:
            raise NoExtraction(
                "a term's costs must add up to less than 1.8e308, got more (try a larger unit)"
            )
        if self._gains.core is not None:
            yield from self._with_gains(self._gains.core, tree)
            return
        if len(self.egraph) >= BULK and self._own is None and self.method not in ORDERS:
            # Nothing must keep a large e-graph from having a selection; its bound comes later.
            yield self._offer(tree, StepKind.TREE)
            if time.perf_counter() > self._until:
                yield self._prove(0.0, proved=False, endings=(Ending(Limit.TIME),))
                return
        most = math.inf if self.method in ORDERS else dag_cost(tree, self._costs)
        problem = make_problem(self.egraph, self._costs, best, choice, most=most)
        if self._own is not None:
            yield self._by_user(problem, self._own)
            yield self._prove(self._bound, proved=False)
            return
        if self.method in ORDERS:
            yield from self._alone(problem, tree, choice)
            return
        self._bound, self._core = chain_bound(problem), problem
        if self.method == "tree":
            yield self._offer(tree, StepKind.TREE)
            return
        if (original := original_selection(self.egraph)) is not None:
            yield self._offer(original, StepKind.ORIGINAL)
        yield self._offer(tree, StepKind.TREE)
        if not problem.roots:
            yield self._prove(0.0, proved=True)
            return
        entries = min(ENTRIES, self.memory // shares.ENTRY)
        first = greedy(problem, self._share(shares.GREEDY), entries)
        yield self._offer(problem.selection(first.taken), StepKind.DAG)
        if self.method == "dag":
            pays = first.finished and not self._done() and len(problem.nodes) < VAST
            if pays and (wider := beam(problem, self._until, entries)) is not None:
                found = problem.selection(wider)
                if self._best is None or dag_cost(found, self._costs) < self._best.cost:
                    yield self._offer(found, StepKind.DAG)
            return
        left = Reduced.none(problem)
        large = len(problem.nodes) >= shares.LARGE and self.method in _PORTFOLIO
        if large and self.method != "filtered":
            assert self._best is not None
            left = reduced_further(left, self._best.cost, self._share(shares.FIRST), once=True)
            if not self._done() and in_blocks(left.problem, self._share(shares.FIRST)):
                yield from self._exact(left)
                return
        self._best = raised(self._best, left.problem, self._share(shares.FIRST))
        if self._done():
            yield self._prove(self._bound, proved=True)
            return
        if self.method == "local":
            yield self._local(problem)
            return
        if large:
            # Reductions often shrink it a lot. The size of the rest shows whether local search pays.
            left = reduced_further(left, self._best.cost, self._share(shares.FIRST))
            if len(left.problem.nodes) >= shares.LARGE and self.effort.nodes is None:
                yield self._local(problem)
            elif self.method != "filtered":
                yield from self._exact(left)
                return
        if self.method == "filtered":
            left = Reduced.none(self._cycle_free(problem, frozenset(self._incumbent(problem).values())))
        yield from self._exact(reduced_further(left, self._best.cost, self._share(shares.PRESOLVE)))

    def _done(self) -> bool:
        """Return whether the best selection meets its bound, so that no solver is needed."""
        compared = self.method in ("highs", "cp-sat")
        best = self._best
        return not compared and best is not None and proves(best.bound, best, self._core)

    def _incumbent(self, problem: Problem) -> dict[int, int]:
        """Return the best selection within a problem, e-class → e-node."""
        assert self._best is not None
        choice = self._best.choice
        return {c: int(choice[c]) for c in dict.fromkeys(problem.eclass) if choice[c] >= 0}

    def _cycle_free(self, problem: Problem, keep: Set[int]) -> Problem:
        """Break all cycles but keep an acyclic selection; later bounds hold for the remaining part only."""
        broken = break_cycles(problem, keep, ages(self.egraph))
        if broken.dropped:
            self._scope = "cycle-free part"
        return broken.problem

    def _local(self, problem: Problem) -> StepKind:
        last, patience, rest = self._until, PATIENCE, math.inf
        if self.method != "local":
            # Only descend: a solver also finds the gains of random stirring.
            size = len(problem.nodes)
            share = min(shares.MOST_LOCAL, max(shares.LOCAL, size / shares.HUGE))
            last, patience, rest = self._share(share), 0, shares.REST * size
        taken = improve(problem, self._incumbent(problem), last, patience=patience, rest=rest)
        return self._offer(problem.selection(taken), StepKind.LOCAL_SEARCH)

    def _alone(self, problem: Problem, tree: np.ndarray, choice: Sequence[int]) -> Iterator[StepKind]:
        """Run Tensat's program without our bounds and selections; only free terms are decided before."""
        if self.method == "tensat-filtered":
            problem = self._cycle_free(problem, frozenset(choice))
        if not problem.roots:
            yield self._offer(problem.selection({}), StepKind.INCUMBENT, self.method)
            yield self._prove(0.0, proved=True)
            return
        left = max(0.01, self._until - time.perf_counter())
        race = Race(Job(problem, None, None, left), (self.method,), self.memory)
        for _ in race.run():
            self._bound = race.bound
            if race.best is None:
                self._note(StepKind.INCUMBENT, self._bound, self.method)
            else:
                taken = {c: problem.nodes[i] for c, i in race.best.items()}
                self._offer(problem.selection(taken), StepKind.INCUMBENT, self.method)
            yield StepKind.INCUMBENT
        endings = tuple(race.endings)
        if self._best is None:
            yield self._offer(tree, StepKind.TREE)
            endings = (*endings, Ending(Limit.NOTHING))
        proved = race.proved and race.best is not None
        yield self._prove(race.cost if proved else race.bound, proved=proved, endings=endings)

    def _with_gains(self, make: Callable[[], Problem], tree: np.ndarray) -> Iterator[StepKind]:
        """Extract with negative costs that a selection can avoid: from the tree selection by CP-SAT alone."""
        if self._own is not None:
            yield self._by_user(make(), self._own)
            return
        yield self._offer(tree, StepKind.TREE)
        if self.method in ("tree", "dag", "local"):
            return
        if time.perf_counter() > self._until:
            yield self._prove(0.0, proved=False, endings=(Ending(Limit.TIME),))
            return
        problem = make()
        place = {node: i for i, node in enumerate(problem.nodes)}
        start = {c: place[i] for c, i in self._incumbent(problem).items()}
        race = Race(
            Job(problem, None, start, max(0.01, self._until - time.perf_counter())), ["cp-sat:2"], self.memory
        )
        for _ in race.run(Idling(len(problem.nodes)) if self.method == "auto" else None):
            taken = {c: problem.nodes[i] for c, i in (race.best or start).items()}
            self._bound = race.bound
            yield self._offer(problem.selection(taken), StepKind.INCUMBENT, "cp-sat")
        yield self._prove(race.bound, proved=race.proved, endings=tuple(race.endings))

    def _by_user(self, problem: Problem, extractor: Extractor) -> StepKind:
        """Run a user's extractor and check its choice; raise BadExtraction if the choice is not a term."""
        self._bound = 0.0 if self._gains.core is not None else chain_bound(problem)
        left = max(0.01, self._until - time.perf_counter())
        given = extractor(self.egraph, self.costs, seconds=left)
        choice = checked_choice(self.method, self.egraph, self.costs, given)
        return self._offer(choice, StepKind.OWN, self.method)

    def _exact(self, given: Reduced) -> Iterator[StepKind]:
        assert self._best is not None
        reduced = given.problem
        bound = bound_by_parts(reduced, self._share(shares.PRESOLVE))
        rules = tuple(RuleStep(e.name, e.before - e.after, e.seconds) for e in given.effects)
        counts = {"before": given.before, "after": len(reduced.nodes)}
        note = "presolve: {before} → {after} candidates".format(**counts)
        yield self._note(StepKind.PRESOLVE, bound, note, rules, counts)
        if not reduced.roots:  # the reductions have decided every choice
            yield self._offer(reduced.selection({}), StepKind.INCUMBENT, self.method)
            yield self._prove(self._best.cost, proved=True)
            return

        left = self._until - time.perf_counter()
        if left < shares.LEAST * len(reduced.nodes):
            yield self._prove(bound, proved=False, endings=(Ending(Limit.TIME),))
            return
        solver = "portfolio" if self.method in _PORTFOLIO else self.method
        patience = Idling(len(reduced.nodes)) if self.method == "auto" else None
        found, cuts = Exact(None, bound), 0
        begin = self._incumbent(reduced)
        steps = solve(
            reduced, begin, left, solver=solver, patience=patience, memory=self.memory, effort=self.effort
        )
        for found in steps:
            bound = min(max(bound, found.bound), self._best.cost)
            status = self._best.status if found.endings else Status.FEASIBLE  # a solver reported it
            self._best = replace(self._best, bound=bound, status=status, scope=self._scope)
            added = (RuleStep("loop formulas", found.cuts - cuts, 0.0),) if found.cuts > cuts else ()
            cuts = max(cuts, found.cuts)
            if found.taken is not None:
                selection = reduced.selection(found.taken)
                self._offer(selection, StepKind.INCUMBENT, "exact", added)
            yield StepKind.INCUMBENT
        if not {ending.limit for ending in found.endings} & DIED:
            self._best = replace(self._best, status=Status.FEASIBLE)
        self._widths = treewidth(found.width)
        yield self._prove(bound, proved=found.proved, endings=found.endings)

    def _prove(self, bound: float, *, proved: bool, endings: tuple[Ending, ...] = ()) -> StepKind:
        assert self._best is not None
        bound = min(max(bound, self._best.bound), self._best.cost)
        closed = proves(bound, self._best, self._core) or (
            proved and self._best.cost - bound <= 1e-6 * self._best.cost
        )
        status = Status.OPTIMAL if closed else self._best.status
        endings = self._best.endings + endings
        self._best = replace(self._best, bound=bound, status=status, scope=self._scope, endings=endings)
        widths = [f"{name} {width}" for name, width in self._widths.items()]
        note = "; ".join([status.value, *self._best.notes, *widths])
        return self._note(StepKind.SETTLED, bound, note, counts=self._widths)

    def _offer(
        self, choice: np.ndarray, kind: StepKind, solver: str = "", rules: tuple[RuleStep, ...] = ()
    ) -> StepKind:
        """Keep a selection if it is the best so far; ``solver`` names the method of an incumbent."""
        method = solver or kind.value
        if not is_acyclic(self.egraph, choice):
            raise NoExtraction(f"{method} extraction chose a cyclic term: a defect")
        cost = dag_cost(choice, self._costs)
        bound = self._bound if self._best is None else max(self._bound, self._best.bound)
        if self._best is None or cost < self._best.cost:
            status = Status.FEASIBLE if kind is StepKind.INCUMBENT else Status.GREEDY
            self._best = Solution(choice, cost, min(bound, cost), status, method, self._scope)
        else:
            self._best = replace(self._best, bound=min(bound, self._best.cost))
        return self._note(kind, self._best.bound, method, rules)

    def _note(
        self,
        kind: StepKind,
        bound: float,
        note: str,
        rules: tuple[RuleStep, ...] = (),
        counts: Mapping[str, int] | None = None,
    ) -> StepKind:
        """Add a step to the trace, and return its kind."""
        self.trace.add(
            Step(
                len(self.trace),
                kind,
                0.0,
                len(self.egraph),
                self.egraph.n_classes,
                rules=rules,
                cost=None if self._best is None else self._best.cost + self._offset,
                bound=bound + self._offset if math.isfinite(bound) else None,
                note=note,
                counts=counts or {},
            )
        )
        return kind

    def step(self) -> Step:
        """Run the next stage; raise StopIteration if none is left."""
        if not self.unfinished:
            raise StopIteration("the extraction has finished")
        self.stop_reason = None
        self._since, known = time.perf_counter(), len(self.trace)
        try:
            # There is no deadline until a selection is known.
            last = math.inf if self._best is None else self._until + shares.GRACE
            with collector_paused(), deadline(last):
                next(self._stages)
        except StopIteration:
            self._finish()
            raise
        except TimeUp:
            self._stages.close()
            self._prove(self._bound, proved=False, endings=(Ending(Limit.TIME),))
            self._finish()
        finally:
            self._spent += (spent := time.perf_counter() - self._since)
            if len(self.trace) > known:
                self.trace.steps[-1] = replace(self.trace.steps[-1], seconds=spent)
        return self.trace.steps[-1]

    def _finish(self) -> None:
        assert self._best is not None
        if self.stop_reason is None:
            optimal = self._best.status is Status.OPTIMAL
            self.stop_reason = StopReason.OPTIMAL if optimal else StopReason.FEASIBLE
        method = self.method if self.method in ("tree", "dag") else self._best.method
        self._best = replace(
            self._best, method=method, seconds=self._spent + time.perf_counter() - self._since
        )

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
        if self._best is None:
            raise KeyboardInterrupt
        if Limit.INTERRUPTED not in self._best.limits:
            self._best = replace(self._best, endings=(*self._best.endings, Ending(Limit.INTERRUPTED)))
        self._best = replace(self._best, seconds=self._spent)
        return cast(Solution, self.solution)

    def __repr__(self) -> str:
        return described(self.method, len(self.egraph), self.solution, self.trace.steps[-6:])


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
