"""Extraction, as a stepwise object and as one function call.

Negative costs are subtracted if every selection has them, otherwise left to a method that takes them.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.exact.ilp import pulp_problem
from workbench.extraction.exact.solve import PROOF_EFFORT
from workbench.extraction.exact.types import Effort
from workbench.extraction.methods import PREPARATION_TIME_SHARE, Incumbent, Search, stages
from workbench.extraction.problem import BULK, Problem, Terms, check_costs, dag_cost, whole_table
from workbench.extraction.reduce.dominators import chain_bound, must_sets
from workbench.extraction.registry import METHODS, OWN, TENSAT, Extractor, methods
from workbench.extraction.result import Ending, Limit, Solution, Status
from workbench.run.stepper import Stepwise
from workbench.run.trace import Step, StepKind, StopReason, Trace
from workbench.support.deadline import TimeUp, deadline
from workbench.support.machine import collector_paused
from workbench.support.processes import SOLVER_MEMORY
from workbench.support.wings import offered

if TYPE_CHECKING:
    import pulp


# -- negative costs ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class Signed:
    """Shifted costs: the cost of every selection by them, plus ``offset``, is its true cost.

    ``core`` is None if no cost is negative any more. Otherwise it returns the problem with all its choices,
    as an e-class with a term that costs nothing need not take it. No selection costs less than nothing in it.
    ``terms`` are then the least tree terms of the e-nodes without their gains.
    """

    costs: np.ndarray
    offset: float = 0.0
    core: Callable[[], Problem] | None = None
    terms: Terms | None = None


def signed(egraph: EGraph, costs: np.ndarray, until: float = math.inf) -> Signed:
    """Return costs of which every selection costs 0 or more.

    A negative cost is a gain that an extraction makes when a root needs the e-node. Costs of an e-class that
    every selection contains are raised by a constant; after the moment ``until`` only the roots count as such. If other
    e-classes offer a gain, all such gains together are added to the first root, which every selection pays once. Raise
    :class:`NoExtraction` as :func:`~workbench.extraction.problem.check_costs`.
    """
    values = check_costs(egraph, costs, negative=True)
    if not (values < 0).any():
        return Signed(values)
    raised = np.maximum(values, 0.0)
    terms = Terms.of(egraph, raised, until)
    finite = np.isfinite(np.asarray(terms.best))
    usable = np.flatnonzero(whole_table(egraph, raised).all_children(finite) & np.isfinite(raised))
    result = raised.copy()  # e-nodes that no selection can take gain nothing
    result[usable] = values[usable]
    cheapest = np.full(egraph.n_classes, math.inf)
    np.minimum.at(cheapest, egraph.eclass[usable], result[usable])
    needed = set(egraph.roots)
    problem: Problem | None = None
    if time.perf_counter() <= until:
        problem = terms.problem(fix_free=False)
        must = must_sets(problem, until)
        needed |= set() if must is None else must.needed()
    always = np.zeros(egraph.n_classes)
    inner = sorted(needed)
    always[inner] = np.minimum(cheapest[inner], 0.0)
    result[usable] -= always[egraph.eclass[usable]]
    cheapest -= always
    gains = -np.minimum(cheapest, 0.0)
    if problem is not None:
        # E-classes that the roots do not reach gain nothing either.
        inside = np.zeros(egraph.n_classes, dtype=bool)
        inside[problem.eclass] = True
        gains[~inside] = 0.0
    if not gains.any():
        return Signed(np.maximum(result, 0.0), math.fsum(always.tolist()))
    total = math.fsum(gains.tolist())
    result[usable[egraph.eclass[usable] == egraph.roots[0]]] += total

    def core() -> Problem:
        whole = terms.problem(fix_free=False) if problem is None else problem
        return replace(whole, cost=result[np.array(whole.nodes, dtype=np.int64)].tolist())

    return Signed(result, math.fsum(always.tolist()) - total, core, replace(terms, costs=result))


# -- extraction -------------------------------------------------------------------------------------------
#: Seconds after the limit when a stage is ended from outside.
GRACE_SECONDS: Final = 0.25


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
        method: A name of :data:`METHODS`, or of a registered extractor, or an extractor.
        seconds: Time limit for all steps together.
        memory: Bytes that each solver's process may use.
        effort: How far an exact method proves its result.
        start: A selection of the e-graph that is nearly as good as a greedy one, which an exact method then does
            without, such as the result at other costs.

    Raises:
        ValueError: For an unknown method or a limit that is not positive.
        NoExtraction: (a ValueError) for costs that cannot be used or a root without a finite term.
    """

    def __init__(
        self,
        egraph: EGraph,
        costs: np.ndarray,
        method: str | Extractor = "exact",
        *,
        seconds: float = 60.0,
        memory: int = SOLVER_MEMORY,
        effort: Effort = PROOF_EFFORT,
        start: np.ndarray | None = None,
    ) -> None:
        method = OWN.named(method)
        if method not in METHODS and OWN.find(method) is None:
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
        self._begun_with = start
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
        if self.method in TENSAT:
            whole = self.method == "tensat-integer"
            model: pulp.LpProblem = offered("tensat_problem")(self.egraph, self.costs, integer_order=whole)
            return model
        return pulp_problem(self.egraph, self.costs)

    def _plan(self) -> Generator[StepKind]:
        self._until = time.perf_counter() + max(0.0, self.seconds - self._spent)
        given, kept, gains = self._signed, self._kept, self._signed.core is not None
        terms = given.terms or Terms.of(self.egraph, given.costs, self._until)
        tree = terms.selection()
        alone = self.method in TENSAT and not gains
        if len(self.egraph) >= BULK and self.method in METHODS and not alone:
            # Nothing must keep a large e-graph from having a selection; its bound comes later.
            yield kept.offer(tree, StepKind.TREE)
            if time.perf_counter() > self._until:
                yield kept.prove(0.0, proved=False, endings=(Ending(Limit.TIME),))
                return
        if given.core is not None:
            problem = given.core()
        else:
            problem = terms.problem(most=math.inf if alone else dag_cost(tree, given.costs))
            if not alone:
                kept.bound, kept.core = chain_bound(problem), problem
        limits = self.method, self._until, self.memory, self.effort
        search = Search(kept, problem, terms, self.costs, *limits, self._begun_with)
        for stage in stages(self.method, gains=gains):
            yield from stage(search)
            if kept.settled:
                return

    def step(self) -> Step:
        """Run the next stage; raise StopIteration if none is left."""
        if not self.unfinished:
            raise StopIteration("the extraction has finished")
        self.stop_reason = None
        self._since, known = time.perf_counter(), len(self.trace)
        try:
            # The deadline does not count until a selection is known.
            last = math.inf if self._kept.best is None else self._until + GRACE_SECONDS
            with collector_paused(), deadline(last):
                next(self._stages)
        except StopIteration:
            self._finish()
            raise
        except TimeUp:
            self._stages.close()
            if self._kept.best is None:
                raise  # the end is that of a block around this one
            self._kept.prove(self._kept.bound, proved=False, endings=(Ending(Limit.TIME),))
            self._finish()
        finally:
            self._spent += (spent := time.perf_counter() - self._since)
            if len(self.trace) > known:
                self.trace.steps[-1] = replace(self.trace.steps[-1], seconds=spent)
        return self.trace.steps[-1]

    def _finish(self) -> None:
        best = self._kept.solution
        optimal = best.status is Status.OPTIMAL
        self.stop_reason = self.stop_reason or (StopReason.OPTIMAL if optimal else StopReason.FEASIBLE)
        method = self.method if self.method in ("tree", "dag") else best.method
        self._kept.change(method=method, seconds=self._spent + time.perf_counter() - self._since)

    @property
    def unfinished(self) -> bool:
        """Return whether a stage is left to run; an interrupted stage ends the extraction."""
        return super().unfinished and inspect.getgeneratorstate(self._stages) != inspect.GEN_CLOSED

    def run(self, progress: Callable[[Step], None] | None = None) -> Solution:
        """Run all stages and return the best selection; Ctrl-C returns the best so far, as :meth:`interrupt` does."""
        if self.drive(progress) is StopReason.INTERRUPTED:
            return self.interrupt()
        return cast(Solution, self.solution)

    def interrupt(self) -> Solution:
        """End the solvers and return the best selection so far; raise KeyboardInterrupt if there is none."""
        self._stages.close()
        self.stop_reason = StopReason.INTERRUPTED
        if self._kept.best is None:
            raise KeyboardInterrupt
        if Limit.INTERRUPTED not in self._kept.best.limits:
            self._kept.change(endings=(*self._kept.best.endings, Ending(Limit.INTERRUPTED)))
        self._kept.change(seconds=self._spent)
        return cast(Solution, self.solution)

    def __repr__(self) -> str:
        lines = [f"Extraction ({self.method}) from {len(self.egraph)} e-nodes"]
        if (s := self.solution) is not None:
            gap = f"gap {s.gap:.2%}, {s.status.value} ({s.scope})"
            lines.append(f"  cost {s.cost:.6g}, bound {s.bound:.6g}, {gap}")
        lines += [
            f"  {step.note}: {'nothing yet' if step.cost is None else format(step.cost, '.6g')}"
            for step in self.trace.steps[-6:]
        ]
        return "\n".join(lines)


def extract(
    egraph: EGraph,
    costs: np.ndarray,
    method: str | Extractor = "exact",
    *,
    seconds: float = 60.0,
    memory: int = SOLVER_MEMORY,
    effort: Effort = PROOF_EFFORT,
    start: np.ndarray | None = None,
) -> Solution:
    """Return the cheapest term that a method finds in an e-graph, by :class:`Extraction` in one call.

    The arguments are those of :meth:`Extraction.__init__`.
    """
    return Extraction(egraph, costs, method, seconds=seconds, memory=memory, effort=effort, start=start).run()
