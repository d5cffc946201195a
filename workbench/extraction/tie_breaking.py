"""Among selections of one cost, one in which more products share an operand, so that they can be merged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.problem import readers_of
from workbench.ops import Trait, with_trait
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.support.orders import postorder

#: Costs that differ by less than this part are equal.
_NEAR: Final = 1e-9
#: Most e-classes that are replaced at once, and the greatest depth of a term in their place.
_MOST: Final = 4
_DEEPEST: Final = 6
#: Most e-nodes that are tried in the place of one: terms with many free choices are exponentially many.
_TRIES: Final = 4_000


@dataclass(frozen=True, slots=True)
class _Term:
    """A term's cost, how much it shares with a selection, and the e-nodes that it adds to it, by e-class."""

    cost: float
    shared: int
    added: Mapping[int, int] = field(default_factory=dict)


_NONE: Final = _Term(math.inf, -1)


@dataclass(frozen=True, slots=True)
class _Place:
    """The e-classes that may be replaced, what nothing but their e-nodes read as a factor, and their cost."""

    own: frozenset[int]
    lone: frozenset[tuple[str, int, int]]
    cost: float


def gathered(egraph: EGraph, costs: np.ndarray, choice: np.ndarray) -> np.ndarray:
    """Return a selection with e-nodes exchanged for equally cheap ones, so that more products share operands.

    A product that shares no operand with another product of the selection is replaced, together with what is
    computed for it alone, if an equally cheap term has a product that shares one. The result says which
    operators to merge and is no solution by itself: the operands of new weights are left out.
    """
    state = _Selection(egraph, costs.tolist(), choice.tolist())
    for c in [c for c, node in enumerate(state.choice) if node >= 0]:
        if state.choice[c] >= 0:
            state.improve(c)
    return np.array(state.choice, dtype=choice.dtype)


@dataclass(slots=True)
class _Selection:
    """A selection, what is known about its e-graph, and the e-nodes left to try in the place of one."""

    egraph: EGraph
    costs: Sequence[float]
    choice: list[int]
    products: Set[str] = field(default_factory=lambda: with_trait(Trait.PRODUCT))
    sums: Set[str] = field(default_factory=lambda: with_trait(Trait.BROADCASTS) - with_trait(Trait.PRODUCT))
    known: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    left: int = 0
    operands: list[tuple[int, ...]] = field(init=False)
    members: list[list[int]] = field(init=False)
    readers: list[set[int]] = field(init=False)
    runs: list[bool] = field(init=False)
    factors: Counter[tuple[str, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        count, eclass = self.egraph.n_classes, self.egraph.eclass.tolist()
        self.operands = [tuple(map(int, self.egraph.operands(i))) for i in range(len(self.egraph))]
        self.members = self.egraph.members()
        above, self.runs = readers_of(self.operands, count), [False] * count
        given = (c for node, c in enumerate(eclass) if self.egraph.ops[node] in RUNTIME)
        for c in postorder(given, lambda c: [eclass[node] for node in above[c]]):
            self.runs[c] = True
        self.readers = [set() for _ in range(count)]
        for root in self.egraph.roots:
            self.readers[root].add(-1)
        self.factors = Counter()
        for c, node in enumerate(self.choice):
            if node >= 0:
                self._enter(c, 1)

    def _enter(self, c: int, sign: int) -> None:
        """Note what the choice in an e-class reads; with ``sign`` -1, that it no longer does."""
        node = self.choice[c]
        for d in self.operands[node]:
            (self.readers[d].add if sign > 0 else self.readers[d].discard)(c)
        for factor in self.running(node):
            self.factors[factor] += sign

    def running(self, node: int) -> list[tuple[str, int, int]]:
        """Return what an e-node shares with others that it may be merged with.

        Of a product these are the operands that depend on an input, with its operator and their places; of
        an elementwise operator, those of the products that it reads.
        """
        op, row = self.egraph.ops[node], self.operands[node]
        if op not in self.products and op not in self.sums:
            return []
        if node not in self.known:
            found = [(op, k, d) for k, d in enumerate(row) if self.runs[d]]
            if op in self.sums:
                read = (i for d in row for i in self.members[d] if self.egraph.ops[i] in self.products)
                found = list(dict.fromkeys((op, k, d) for i in read for _, k, d in self.running(i)))
            self.known[node] = found
        return self.known[node]

    def improve(self, c: int) -> None:
        """Replace the choice in an e-class, if then more of what is computed for it is shared with others."""
        own = self.own(c)
        lone = {f for d in own for f in self.running(self.choice[d]) if self.factors[f] == 1}
        if not lone:
            return
        place = _Place(own, frozenset(lone), math.fsum(self.costs[self.choice[d]] for d in own))
        before = sum(self.shared(self.choice[d], place) for d in own)
        best, self.left = _Term(place.cost, before), _TRIES
        for node in self.members[c]:
            if node != self.choice[c]:
                found = self.term(node, place, place.cost, (c,))
                if found.cost <= place.cost * (1 + _NEAR) and found.shared > best.shared:
                    best = replace(found, added={**found.added, c: node})
        for d in own if best.added else ():
            self._enter(d, -1)
            self.choice[d] = -1
        for d, node in best.added.items():
            self.choice[d] = node
            self._enter(d, 1)

    def shared(self, node: int, place: _Place) -> int:
        """Return how much an e-node shares with e-nodes that stay."""
        return sum(self.factors[f] > 0 and f not in place.lone for f in self.running(node))

    def own(self, c: int) -> frozenset[int]:
        """Return an e-class with e-classes that only its choice needs, at most a few."""
        found = {c}
        stack = [c]
        while stack and len(found) < _MOST:
            for d in self.operands[self.choice[stack.pop(0)]]:
                if self.runs[d] and d not in found and self.readers[d] <= found:
                    found.add(d)
                    stack.append(d)
        return frozenset(found)

    def term(self, node: int, place: _Place, most: float, above: tuple[int, ...]) -> _Term:
        """Return what an e-node and its operands cost, share and add, in the place of what is replaced."""
        self.left -= 1
        if self.left < 0:
            return _NONE
        cost, shared = self.costs[node], self.shared(node, place)
        added: dict[int, int] = {}
        for d in dict.fromkeys(self.operands[node]):
            if d in added or (self.choice[d] >= 0 and d not in place.own):
                continue
            if not self.runs[d]:
                added[d] = self.members[d][0]  # weights are computed once
                continue
            if cost > most * (1 + _NEAR) or d in above or len(above) > _DEEPEST:
                return _NONE
            part = self.cheapest(d, place, most - cost, (*above, d))
            cost, shared, added = cost + part.cost, shared + part.shared, {**added, **part.added}
        return _Term(cost, shared, added)

    def cheapest(self, d: int, place: _Place, most: float, above: tuple[int, ...]) -> _Term:
        """Return the cheapest term of an e-class, and among equally cheap ones that which shares most."""
        best = _NONE
        for node in self.members[d]:
            least = min(most, best.cost) * (1 + _NEAR) + _NEAR
            if self.costs[node] <= least:
                found = self.term(node, place, min(most, least), above)
                if found.cost < best.cost * (1 - _NEAR) or (
                    found.cost <= least and found.shared > best.shared
                ):
                    best = replace(found, added={**found.added, d: node})
        return best
