"""Loop formulas: inequalities that acyclic selections satisfy and cyclic ones violate.

For a set ``L`` of e-classes, one of them can only be built if some e-class of ``L`` takes a candidate
that reads none of ``L``: ``y_j ≤ Σ {x_i : class(i) ∈ L, children(i) ∩ L = ∅}`` for every ``j`` in ``L``.
There are exponentially many, so only useful ones are added: those of pairs of e-classes up front, those
that a fractional solution violates, and those of the loops in an integer solution.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import numpy as np

from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import Loops, components, cyclic
from workbench.extraction.reduce.dominators import Must

#: Violations below this are rounding.
MIN_VIOLATION: Final = 1e-4
#: Flows are integers: this many units make 1.
FLOW_UNITS: Final = 1_000_000
#: Largest number of sources tried in one separation.
MAX_FLOW_SOURCES: Final = 60


@dataclass(frozen=True, slots=True)
class Formula:
    """The condition that an e-class in ``built``, or a candidate in ``taken``, needs a candidate in ``by``.

    As rows: ``Σ taken ≤ Σ by`` over candidates, and ``y_j ≤ Σ by`` for every ``j`` in ``built``.
    """

    by: tuple[int, ...]
    taken: tuple[int, ...] = ()
    built: tuple[int, ...] = ()


def formula_of(problem: Problem, loop: Sequence[int], members: Mapping[int, list[int]]) -> Formula:
    """Return the loop formula of a set of e-classes."""
    inside = set(loop)
    by = tuple(i for c in loop for i in members[c] if inside.isdisjoint(problem.children[i]))
    return Formula(by, built=tuple(loop))


def pair_formulas(problem: Problem, must: Must, most: int = 20_000) -> Iterator[Formula]:
    """Yield at most ``most`` formulas for pairs of e-classes that occur below each other's candidates.

    They are stronger than the formulas of cycles of length two: if ``d`` is always below a candidate of
    ``c``, then ``d`` cannot take a candidate below which ``c`` always occurs.
    """
    members, loops = problem.members(), Loops.of(problem, must)
    below: dict[int, dict[int, list[int]]] = {}
    for c in cyclic(problem, loops.number):
        rows: dict[int, list[int]] = {}
        for i in members[c]:
            for d in must.members(must.of_node[i] & loops.loop(c)):
                rows.setdefault(d, []).append(i)
        below[c] = rows
    count = 0
    for c, rows in below.items():
        for d, taking in rows.items():
            if (refused := set(below[d].get(c, ()))) and count < most:
                yield Formula(tuple(j for j in members[d] if j not in refused), taken=tuple(taking))
                count += 1


# -- separation of a fractional solution -------------------------------------------------------------
@dataclass(slots=True, eq=False)
class Separator:
    """A search for loop formulas that a fractional solution violates, by minimum cuts.

    A candidate with several children in the loop is blocked by any of them. Only the child with the least
    support in the solution is considered, which makes the cut a heuristic. Every formula found is checked.
    """

    problem: Problem
    members: dict[int, list[int]]
    cyclic: list[int]
    inner: list[tuple[int, ...]]
    readers: dict[int, list[int]]

    @classmethod
    def of(cls, problem: Problem, *, everywhere: bool = False) -> Separator:
        """Return the separator of a problem; ``everywhere`` also looks in sets without cycles, to raise the bound."""
        component, members = components(problem), problem.members()
        inner = [
            tuple(d for d in row if everywhere or component[d] == component[c])
            for c, row in zip(problem.eclass, problem.children, strict=True)
        ]
        searched = list(members) if everywhere else list(cyclic(problem, component))
        return cls(problem, members, searched, inner, problem.readers())

    def founded(self, x: Sequence[float]) -> dict[int, float]:
        """Return for every e-class the largest share that one term of it has: that of its scarcest candidate.

        E-classes settle from the largest share to the smallest, so that a loop cannot support itself.
        """
        waiting = [len(row) for row in self.problem.children]
        found: dict[int, float] = {}
        heap = [(-x[i], i) for i, count in enumerate(waiting) if not count]
        heapq.heapify(heap)
        while heap:
            share, i = heapq.heappop(heap)
            c = self.problem.eclass[i]
            if c in found:
                continue
            found[c] = -share
            for reader in self.readers.get(c, ()):
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(heap, (max(share, -x[reader]), reader))
        return found

    def __call__(self, x: Sequence[float], y: Mapping[int, float], until: float) -> list[Formula]:
        """Return violated formulas; ``x`` are the values of candidates, ``y`` those of e-classes."""
        found = self.founded(x)
        loose = [c for c in self.cyclic if y[c] - found.get(c, 0.0) > MIN_VIOLATION]
        if not loose or not find_spec("scipy"):  # of the extra `solvers`
            return []
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        place = {c: k for k, c in enumerate(self.cyclic)}
        sink = len(place)
        capacity: dict[tuple[int, int], int] = {}
        for c in self.cyclic:
            for i in self.members[c]:
                to = sink
                if self.inner[i]:
                    to = place[min(self.inner[i], key=lambda d: found.get(d, 0.0) - y[d])]
                edge = place[c], to
                capacity[edge] = capacity.get(edge, 0) + max(1, round(x[i] * FLOW_UNITS))
        rows, columns = zip(*capacity, strict=True)
        values = np.minimum(np.array(list(capacity.values())), 2**31 - 1).astype(np.int32)
        graph = csr_matrix((values, (rows, columns)), shape=(sink + 1, sink + 1))
        loops: set[tuple[int, ...]] = set()
        for j in sorted(loose, key=lambda c: found.get(c, 0.0) - y[c])[:MAX_FLOW_SOURCES]:
            if time.perf_counter() > until:
                break
            flow = maximum_flow(graph, place[j], sink)
            if flow.flow_value < (y[j] - 5 * MIN_VIOLATION) * FLOW_UNITS:
                left = graph - flow.flow
                left.data = np.where(left.data > 0, 1, 0).astype(np.int32)
                left.eliminate_zeros()
                reached = breadth_first_order(left, place[j], return_predecessors=False).tolist()
                loops.add(tuple(sorted(self.cyclic[k] for k in reached if k != sink)))
        formulas = []
        for loop in sorted(loops):
            formula = formula_of(self.problem, loop, self.members)
            supply = sum(x[i] for i in formula.by)
            built = tuple(c for c in loop if y[c] > supply + MIN_VIOLATION)
            if built:
                formulas.append(Formula(formula.by, built=built[:20]))
        return formulas
