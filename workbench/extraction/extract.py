"""Extraction as a stepwise object, and in one call."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from workbench.extraction.cycles import break_cycles
from workbench.extraction.egraph import EGraph
from workbench.extraction.exact import Solved, solve
from workbench.extraction.greedy import greedy_dag
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
from workbench.extraction.solution import Solution, Status
from workbench.trace import Step, StopReason, Trace

METHODS = ("exact", "dag", "tree")


class Extraction:
    """Search an e-graph for its cheapest term, one improvement a step.

    The steps: the start graph's own selection, where it is known; the least tree cost; the least cost
    with sharing; then the exact method. Each is kept only if it is better, so the result is never
    worse than the start graph. ``solution`` is the best so far at any time.
    """

    def __init__(
        self, egraph: EGraph, costs: np.ndarray, method: str = "exact", *, seconds: float = 60.0
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"the extraction method is one of {', '.join(METHODS)}, not {method!r}")
        if seconds <= 0:
            raise ValueError(f"the time limit is positive, not {seconds}")
        self.egraph = egraph
        self.costs = check_costs(egraph, costs)
        self.method = method
        self.seconds = seconds
        self.trace = Trace({"kind": "extraction", "method": method, "time_limit": seconds})
        self.stop_reason: StopReason | None = None
        self.solution: Solution | None = None
        self._stages = self._plan()
        self._spent = 0.0

    def _plan(self) -> Iterator[str]:
        best, choice = tree_costs(self.egraph, self.costs)
        problem = make_problem(self.egraph, self.costs, best, choice)
        # Tree-greedy asked for by itself is reported as it is, even where it loses to the original.
        tree = complete(self.egraph, problem, {c: i for c, i in enumerate(choice) if i >= 0})
        if self.method == "tree":
            yield self._offer(tree, "tree")
            return
        original = self._original()
        if original is not None:
            yield self._offer(original, "original")
        yield self._offer(tree, "tree")
        taken = greedy_dag(problem)
        if taken or not problem.roots:
            yield self._offer(complete(self.egraph, problem, taken), "dag")
        if self.method == "dag":
            return
        yield self._exact(problem)

    def _original(self) -> np.ndarray | None:
        """Return the start graph's selection where it is an acyclic one."""
        choice = np.full(self.egraph.n_classes, -1, dtype=np.int64)
        for i in self.egraph.original.tolist():
            if i >= 0 and choice[self.egraph.eclass[i]] < 0:
                choice[self.egraph.eclass[i]] = i
        needed = _below(self.egraph, choice)
        return needed if needed is not None and is_acyclic(self.egraph, needed) else None

    def _exact(self, problem: Problem) -> str:
        assert self.solution is not None
        if not problem.roots:
            return self._prove(0.0, "e-graph", proved=True)
        # Incumbents live on e-classes that are left to decide; the rest is free anyway.
        incumbent = {
            c: int(self.solution.choice[c]) for c in set(problem.eclass) if self.solution.choice[c] >= 0
        }
        # Cycles are broken in two ways: without the youngest e-nodes, as Tensat does, and without the
        # dearest. What one of them loses the other usually keeps.
        keep = frozenset(incumbent.values())
        first = break_cycles(problem, keep, ages(self.egraph))
        if not first.dropped:
            found = self._solve(first.problem, incumbent)
            return self._prove(found.bound, "e-graph", proved=found.proved)
        ways = [first]
        other = break_cycles(problem, keep, self.costs.tolist())
        if other.problem.nodes != first.problem.nodes:
            ways.append(other)
        results = []
        for way in ways:
            results.append(self._solve(way.problem, incumbent))
            if self.stop_reason is StopReason.INTERRUPTED:
                break
        bound = min(found.bound for found in results)
        proved = all(found.proved for found in results) and len(results) == len(ways)
        return self._prove(bound, "cycle-free part", proved=proved)

    def _solve(self, problem: Problem, incumbent: dict[int, int]) -> Solved:
        """Solve a problem without cycles and offer what it finds."""
        assert self.solution is not None
        reduced = presolve(problem, self.solution.cost)

        def improved(cost: float, bound: float) -> None:
            self._note("exact", min(cost, self.solution.cost if self.solution else cost), bound)

        left = max(0.01, self.seconds - self._spent)
        found = solve(reduced, incumbent, left, improved)
        if found.taken is not None:
            choice = complete(self.egraph, reduced, found.taken)
            if is_acyclic(self.egraph, choice):
                self._offer(choice, "exact")
        if found.interrupted:
            self.stop_reason = StopReason.INTERRUPTED
        return found

    def _prove(self, bound: float, scope: str, *, proved: bool) -> str:
        assert self.solution is not None
        bound = min(bound, self.solution.cost)
        # Optimal only where cost and bound really meet.
        closed = self.solution.cost - bound <= 1e-6 * max(1.0, self.solution.cost)
        status = Status.OPTIMAL if proved and closed else Status.FEASIBLE
        self.solution = replace(self.solution, bound=bound, status=status, method="exact", scope=scope)
        self._note("exact", self.solution.cost, bound)
        return "exact"

    def _offer(self, choice: np.ndarray, method: str) -> str:
        """Keep a selection if it is the best so far."""
        if not is_acyclic(self.egraph, choice):
            raise NoExtraction(f"{method} extraction chose a cyclic term: a defect")
        cost = dag_cost(choice, self.costs)
        if self.solution is None or cost < self.solution.cost - 1e-12:
            self.solution = Solution(choice, cost, 0.0, Status.GREEDY, method)
        self._note(method, self.solution.cost, self.solution.bound)
        return method

    def _note(self, stage: str, cost: float, bound: float) -> None:
        size = (len(self.egraph), self.egraph.n_classes)
        known = bound if math.isfinite(bound) else None
        self.trace.add(Step(len(self.trace), 0.0, *size, cost=cost, bound=known, note=stage))

    def step(self) -> Step:
        """Take the next stage; raise StopIteration where none is left."""
        if self.stop_reason not in (None, StopReason.INTERRUPTED):
            raise StopIteration("the extraction has finished")
        began, known = time.perf_counter(), len(self.trace)
        try:
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
        method = self.method if self.method != "exact" else self.solution.method
        self.solution = replace(self.solution, method=method, seconds=self._spent)

    def run(self) -> Solution:
        """Take all stages and return the best selection; Ctrl-C returns the best so far."""
        try:
            while True:
                self.step()
        except StopIteration:
            pass
        except KeyboardInterrupt:
            self.stop_reason = StopReason.INTERRUPTED
            if self.solution is None:
                raise
        assert self.solution is not None
        return self.solution

    def __iter__(self) -> Iterator[Step]:
        while self.stop_reason is None:
            try:
                yield self.step()
            except StopIteration:
                return

    def __repr__(self) -> str:
        lines = [f"Extraction ({self.method}) from {len(self.egraph)} e-nodes"]
        if self.solution is not None:
            s = self.solution
            lines.append(
                f"  cost {s.cost:.6g}, bound {s.bound:.6g}, gap {s.gap:.2%}, {s.status.value} ({s.scope})"
            )
        lines += [f"  {step.note}: {step.cost:.6g}" for step in self.trace.steps[-6:]]
        return "\n".join(lines)


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


def extract(egraph: EGraph, costs: np.ndarray, method: str = "exact", *, seconds: float = 60.0) -> Solution:
    """Return the cheapest term that a method finds in an e-graph.

    ``costs`` has one entry per e-node. ``method`` is ``"tree"`` (least tree cost), ``"dag"`` (greedy
    with sharing) or ``"exact"`` (cycles broken, then an integer program solved to a proven optimum of
    the cycle-free part, or to the best found in ``seconds``).
    """
    return Extraction(egraph, costs, method, seconds=seconds).run()
