"""The incumbent of an extraction: the best selection so far, its bound, and the trace of both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.exact.types import met
from workbench.extraction.problem import NoExtraction, Problem, dag_cost, is_acyclic
from workbench.extraction.reduce.dominators import surely_paid
from workbench.extraction.result import Ending, Solution, Status
from workbench.run.trace import RuleStep, Step, StepKind, Trace


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
        """Settle the bound of the best selection (before the offset), and whether that is proved optimal.

        ``endings`` say why solvers ended.
        """
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
