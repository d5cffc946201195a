"""Extraction as a stepwise object, and in one call."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from dataclasses import replace
from typing import Final

import numpy as np

from workbench.extraction.collector import collector_paused
from workbench.extraction.cycles import break_cycles
from workbench.extraction.egraph import EGraph
from workbench.extraction.exact import Exact, solve
from workbench.extraction.greedy import greedy_dag
from workbench.extraction.local import PATIENCE, improve
from workbench.extraction.must import chain_bound, lower_bound, must_sets
from workbench.extraction.presolve import presolve
from workbench.extraction.problem import (
    NoExtraction,
    Problem,
    check_costs,
    complete,
    dag_cost,
    is_acyclic,
    make_problem,
    tree_costs,
)
from workbench.extraction.race import MEMORY, Race
from workbench.extraction.solution import Solution, Status
from workbench.extraction.solving import Job, met
from workbench.extraction.tensat import ORDERS
from workbench.stepwise import Stepwise
from workbench.trace import RuleStep, Step, StopReason, Trace

#: What a method does, in a line.
METHODS: Final = {
    "exact": "greedy, local search, then HiGHS and CP-SAT at once until an optimum is proved",
    "auto": "as exact, but the solvers stop when they make no progress worth waiting for",
    "dag": "the least cost of each term with shared parts counted once, greedily",
    "local": "greedy, then local search: switches, and what pays when several share it",
    "tree": "the least cost of each term with shared parts counted every time",
    "highs": "as exact, with HiGHS alone",
    "cp-sat": "as exact, with CP-SAT alone",
    "filtered": "as exact on what is left when cycles are broken first, as Tensat does",
    "tensat": "Tensat's program by itself, with real order variables, in HiGHS",
    "tensat-integer": "Tensat's program by itself, with integer order variables",
    "tensat-filtered": "Tensat's program by itself, without order variables, cycles broken first",
}
_PORTFOLIO: Final = ("exact", "auto", "filtered")

#: The note of a run in which Tensat's program found nothing.
NOTHING: Final = "nothing found: this is the tree selection"
#: Shares of the time that greedy search, local search and presolve may take at most.
GREEDY, LOCAL, PRESOLVE = 0.3, 0.25, 0.3
#: Candidates from which local search pays before a solver is asked, and the seconds without a gain after
#: which it ends then, for each of them.
LARGE, REST = 2000, 2e-4
#: The share of local search grows with the candidates, of which so many leave a solver no chance.
MOST_LOCAL, HUGE = 0.5, 400_000
#: Seconds a candidate that it takes to hand a problem over to a solver.
LEAST: Final = 1e-5
#: ``auto`` stops when neither cost nor bound has moved by this share for so many seconds.
MOVED, IDLE = 1e-3, 5.0
#: Further seconds for every candidate: the first relaxation takes its time.
PER_CANDIDATE: Final = 5e-5


class Extraction(Stepwise):
    """Search an e-graph for its cheapest term, one improvement a step.

    The steps: the start graph's own selection, where it is known; the least tree cost; the least cost
    with sharing; local search; reductions; then an exact method. Each selection is kept only if it is
    better, so the result is never worse than the start graph. ``solution`` is the best so far at any
    time, and stays when a solver is killed, runs out of time or memory, or is interrupted.

    Tensat's programs run by themselves, as they did there: ``solution`` is None until one finds
    something, and the tree selection, with a note, where none does.

    ``costs`` has one entry per e-node, ``seconds`` bound the whole, and each solver's process may use
    ``memory`` bytes. Raise ValueError for an unknown method or a limit that is not positive, NoExtraction
    (a ValueError) for costs that cannot be used or a root without a finite term.
    """

    def __init__(
        self,
        egraph: EGraph,
        costs: np.ndarray,
        method: str = "exact",
        *,
        seconds: float = 60.0,
        memory: int = MEMORY,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"the extraction method is one of {', '.join(METHODS)}, not {method!r}")
        if not seconds > 0:
            raise ValueError(f"the time limit is positive, not {seconds}")
        if not memory > 0:
            raise ValueError(f"the memory limit is a positive number of bytes, not {memory}")
        super().__init__()
        self.egraph = egraph
        self.costs = check_costs(egraph, costs)
        self.method = method
        self.seconds = seconds
        self.memory = memory
        self.trace = Trace({"kind": "extraction", "method": method, "time_limit": seconds})
        self.solution: Solution | None = None
        self._stages: Generator[str] = self._plan()
        self._spent = 0.0
        self._until = math.inf
        self._bound = 0.0
        self._scope = "e-graph"

    def _share(self, share: float) -> float:
        """Return the moment until which a stage may take a share of the time left."""
        now = time.perf_counter()
        return now + share * max(0.0, self._until - now)

    def _plan(self) -> Generator[str]:
        self._until = time.perf_counter() + self.seconds
        best, choice = tree_costs(self.egraph, self.costs)
        problem = make_problem(self.egraph, self.costs, best, choice)
        # Tree-greedy asked for by itself is reported as it is, even where it loses to the original.
        tree = complete(self.egraph, problem, {c: i for c, i in enumerate(choice) if i >= 0})
        if self.method in ORDERS:
            yield from self._alone(problem, tree, choice)
            return
        self._bound = chain_bound(problem)
        if self.method == "tree":
            yield self._offer(tree, "tree")
            return
        original = self._original()
        if original is not None:
            yield self._offer(original, "original")
        yield self._offer(tree, "tree")
        if not problem.roots:
            yield self._prove(0.0, proved=True)
            return
        taken = greedy_dag(problem, self._share(GREEDY))
        if taken:
            yield self._offer(complete(self.egraph, problem, taken), "dag")
        if self.method == "dag":
            return
        if self._done():
            yield self._prove(self._bound, proved=True)
            return
        if self.method == "local" or (len(problem.nodes) >= LARGE and self.method in _PORTFOLIO):
            yield self._local(problem)
            if self.method == "local":
                return
        if self.method == "filtered":
            problem = self._cycle_free(problem, frozenset(self._incumbent(problem).values()))
        yield from self._exact(problem)

    def _done(self) -> bool:
        """Say whether the best selection meets its bound before any solver was asked."""
        compared = self.method in ("highs", "cp-sat")
        return not compared and self.solution is not None and met(self.solution.cost, self.solution.bound)

    def _original(self) -> np.ndarray | None:
        """Return the start graph's selection where it is an acyclic one."""
        choice = np.full(self.egraph.n_classes, -1, dtype=np.int64)
        for i in self.egraph.original.tolist():
            if i >= 0 and choice[self.egraph.eclass[i]] < 0:
                choice[self.egraph.eclass[i]] = i
        needed = _below(self.egraph, choice)
        return needed if needed is not None and is_acyclic(self.egraph, needed) else None

    def _incumbent(self, problem: Problem) -> dict[int, int]:
        """Return the best selection within a problem, e-class → e-node."""
        assert self.solution is not None
        choice = self.solution.choice
        return {c: int(choice[c]) for c in dict.fromkeys(problem.eclass) if choice[c] >= 0}

    def _cycle_free(self, problem: Problem, keep: Set[int]) -> Problem:
        """Break the cycles around an acyclic selection; bounds are of what is left from here on."""
        broken = break_cycles(problem, keep, ages(self.egraph))
        if broken.dropped:
            self._scope = "cycle-free part"
        return broken.problem

    def _local(self, problem: Problem) -> str:
        last, patience, rest = self._until, PATIENCE, math.inf
        if self.method != "local":
            # Descend only: what stirring finds after that, a solver finds too.
            size = len(problem.nodes)
            share = min(MOST_LOCAL, max(LOCAL, size / HUGE))
            last, patience, rest = self._share(share), 0, REST * size
        taken = improve(problem, self._incumbent(problem), last, patience=patience, rest=rest)
        return self._offer(complete(self.egraph, problem, taken), "local search")

    def _alone(self, problem: Problem, tree: np.ndarray, choice: Sequence[int]) -> Iterator[str]:
        """Run Tensat's program with no bound and no selection of ours; only free terms are settled before."""
        if self.method == "tensat-filtered":
            problem = self._cycle_free(problem, frozenset(choice))
        if not problem.roots:
            yield self._offer(complete(self.egraph, problem, {}), self.method)
            yield self._prove(0.0, proved=True)
            return
        left = max(0.01, self._until - time.perf_counter())
        race = Race(Job(problem, None, None, left), (self.method,), self.memory)
        for _ in race.run():
            self._bound = race.bound
            if race.best is None:
                self._note(self.method, self._bound)
            else:
                taken = {c: problem.nodes[i] for c, i in race.best.items()}
                self._offer(complete(self.egraph, problem, taken), self.method)
            yield self.method
        notes = tuple(race.notes)
        if self.solution is None:
            yield self._offer(tree, "tree")
            notes = (*notes, NOTHING)
        proved = race.proved and race.best is not None
        yield self._prove(race.cost if proved else race.bound, proved=proved, notes=notes)

    def _exact(self, problem: Problem) -> Iterator[str]:
        assert self.solution is not None
        reduced, effects = presolve(problem, self.solution.cost, until=self._share(PRESOLVE))
        bound = lower_bound(reduced, must_sets(reduced, self._share(PRESOLVE)))
        rules = tuple(RuleStep(e.name, e.before - e.after, e.seconds) for e in effects)
        self._note(f"presolve: {len(problem.nodes)} → {len(reduced.nodes)} candidates", bound, rules)
        yield "presolve"
        if not reduced.roots:
            # What is left to decide was decided by the reductions.
            yield self._offer(complete(self.egraph, reduced, {}), self.method)
            yield self._prove(self.solution.cost, proved=True)
            return

        left = self._until - time.perf_counter()
        if left < LEAST * len(reduced.nodes):
            yield self._prove(bound, proved=False, notes=("time limit",))
            return
        solver = "portfolio" if self.method in _PORTFOLIO else self.method
        patience = _Patience(len(reduced.nodes)) if self.method == "auto" else None
        found, cuts = Exact(None, bound), 0
        begin = self._incumbent(reduced)
        steps = solve(reduced, begin, left, solver=solver, patience=patience, memory=self.memory)
        for found in steps:
            bound = min(max(bound, found.bound), self.solution.cost)
            self.solution = replace(self.solution, bound=bound, scope=self._scope)
            added = (RuleStep("loop formulas", found.cuts - cuts, 0.0),) if found.cuts > cuts else ()
            cuts = max(cuts, found.cuts)
            if found.taken is not None:
                self._offer(complete(self.egraph, reduced, found.taken), "exact", added)
            yield "exact"
        yield self._prove(bound, proved=found.proved, notes=found.notes)

    def _prove(self, bound: float, *, proved: bool, notes: tuple[str, ...] = ()) -> str:
        assert self.solution is not None
        bound = min(bound, self.solution.cost)
        # Optimal only where cost and bound really meet.
        closed = met(self.solution.cost, bound)
        closed |= proved and self.solution.cost - bound <= 1e-6 * self.solution.cost
        status = Status.OPTIMAL if closed else self.solution.status
        notes = self.solution.notes + notes
        self.solution = replace(self.solution, bound=bound, status=status, scope=self._scope, notes=notes)
        self._note("; ".join([status.value, *notes]), bound)
        return "exact"

    def _offer(self, choice: np.ndarray, method: str, rules: tuple[RuleStep, ...] = ()) -> str:
        """Keep a selection if it is the best so far."""
        if not is_acyclic(self.egraph, choice):
            raise NoExtraction(f"{method} extraction chose a cyclic term: a defect")
        cost = dag_cost(choice, self.costs)
        bound = self._bound if self.solution is None else max(self._bound, self.solution.bound)
        if self.solution is None or cost < self.solution.cost - 1e-12 * abs(self.solution.cost):
            status = Status.FEASIBLE if method == "exact" or method in ORDERS else Status.GREEDY
            self.solution = Solution(choice, cost, min(bound, cost), status, method, self._scope)
        else:
            self.solution = replace(self.solution, bound=min(bound, self.solution.cost))
        self._note(method, self.solution.bound, rules)
        return method

    def _note(self, stage: str, bound: float, rules: tuple[RuleStep, ...] = ()) -> None:
        size = (len(self.egraph), self.egraph.n_classes)
        self.trace.add(
            Step(
                len(self.trace),
                0.0,
                *size,
                rules=rules,
                cost=None if self.solution is None else self.solution.cost,
                bound=bound if math.isfinite(bound) else None,
                note=stage,
            )
        )

    def step(self) -> Step:
        """Take the next stage; raise StopIteration where none is left."""
        if not self.unfinished:
            raise StopIteration("the extraction has finished")
        self.stop_reason = None
        began, known = time.perf_counter(), len(self.trace)
        try:
            with collector_paused():
                next(self._stages)
        except StopIteration:
            self._finish()
            raise
        finally:
            spent = time.perf_counter() - began
            self._spent += spent
            if len(self.trace) > known:
                self.trace.steps[-1] = replace(self.trace.steps[-1], seconds=spent)
        return self.trace.steps[-1]

    def _finish(self) -> None:
        assert self.solution is not None
        proved = self.solution.status is Status.OPTIMAL
        if self.stop_reason is None:
            self.stop_reason = StopReason.OPTIMAL if proved else StopReason.FEASIBLE
        method = self.method if self.method in ("tree", "dag") else self.solution.method
        self.solution = replace(self.solution, method=method, seconds=self._spent)

    @property
    def unfinished(self) -> bool:
        """Say whether there is a stage left to take; an interrupted stage is lost, and so is what follows."""
        return super().unfinished and inspect.getgeneratorstate(self._stages) != inspect.GEN_CLOSED

    def run(self, progress: Callable[[Step], None] | None = None) -> Solution:
        """Take all stages and return the best selection.

        Ctrl-C returns the best so far; it raises KeyboardInterrupt where there is none yet.
        """
        if self.drive(progress) is StopReason.INTERRUPTED:
            return self.interrupt()
        assert self.solution is not None
        return self.solution

    def interrupt(self) -> Solution:
        """End the solvers and return the best selection so far; raise KeyboardInterrupt without one."""
        self._stages.close()
        self.stop_reason = StopReason.INTERRUPTED
        if self.solution is None:
            raise KeyboardInterrupt
        if "interrupted" not in self.solution.notes:
            self.solution = replace(self.solution, notes=(*self.solution.notes, "interrupted"))
        self.solution = replace(self.solution, seconds=self._spent)
        return self.solution

    def __repr__(self) -> str:
        lines = [f"Extraction ({self.method}) from {len(self.egraph)} e-nodes"]
        if self.solution is not None:
            s = self.solution
            lines.append(
                f"  cost {s.cost:.6g}, bound {s.bound:.6g}, gap {s.gap:.2%}, {s.status.value} ({s.scope})"
            )
        lines += [
            f"  {step.note}: {'nothing yet' if step.cost is None else format(step.cost, '.6g')}"
            for step in self.trace.steps[-6:]
        ]
        return "\n".join(lines)


class _Patience:
    """Go on while cost or bound move; the larger the problem, the longer they may rest."""

    def __init__(self, candidates: int) -> None:
        self._idle = max(IDLE, PER_CANDIDATE * candidates)
        self._cost, self._bound, self._since = math.inf, 0.0, 0.0

    def __call__(self, seconds: float, cost: float, bound: float) -> bool:
        moved = cost < self._cost * (1 - MOVED) or bound > self._bound + MOVED * cost
        if moved:
            self._cost, self._bound, self._since = cost, bound, seconds
        return seconds - self._since < max(self._idle, self._since)


def ages(egraph: EGraph) -> list[int]:
    """Return the step of every e-node's birth, 0 for all where that is not known."""
    known = egraph.birth_step.tolist()
    return known if known else [0] * len(egraph)


def _below(egraph: EGraph, choice: np.ndarray) -> np.ndarray | None:
    """Return the part of a choice that the roots need, None where it is incomplete."""
    result = np.full(egraph.n_classes, -1, dtype=np.int64)
    stack = list(egraph.roots)
    while stack:
        c = stack.pop()
        if result[c] >= 0:
            continue
        if choice[c] < 0:
            return None
        result[c] = choice[c]
        stack += egraph.operands(int(choice[c])).tolist()
    return result


def extract(
    egraph: EGraph,
    costs: np.ndarray,
    method: str = "exact",
    *,
    seconds: float = 60.0,
    memory: int = MEMORY,
) -> Solution:
    """Return the cheapest term that a method finds in an e-graph.

    ``costs`` has one entry per e-node, none negative. ``method`` is a name of
    :data:`METHODS`: ``"tree"`` (least tree cost), ``"dag"`` (greedy with sharing), ``"exact"`` (an
    optimum, proved where ``seconds`` suffice), ``"auto"`` (exact while it pays). Each solver's process
    may use ``memory`` bytes.
    """
    return Extraction(egraph, costs, method, seconds=seconds, memory=memory).run()
