"""Dual ascent: a lower bound on the cost of every selection, and the price that each candidate still has.

A set of e-classes with a root in it can only be built if some candidate is taken that belongs to one of them
and reads none of them: ``Σ {x_i : class(i) ∈ L, children(i) ∩ L = ∅} ≥ 1`` (a loop formula whose e-class is
built in any case). Each such set may charge its candidates the same amount, until one of them has no price
left. The amounts add up to a lower bound: they are a feasible solution of the dual of the linear program that
has all sets. It is what Wong's dual ascent is for Steiner trees (Mathematical Programming 28, 1984), with
e-nodes in place of arcs. A candidate whose remaining price lifts the bound above an incumbent is in no better
selection.
"""

from __future__ import annotations

import heapq
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from workbench.extraction.problem import Problem, readers_of, settle_by_heap
from workbench.extraction.reduce.dominators import Must, lower_bound

#: Prices below this share of the largest are rounding.
NOTHING: Final = 1e-11
#: Sets between two looks at heights, at least; larger problems look less often.
LOOK: Final = 100
#: The largest random factor of a height, less 1.
NOISE: Final = 0.3
#: Numbers of candidates below which two ascents are made, and above which none.
SMALL, HUGE = 300, 400_000


@dataclass(frozen=True, slots=True, eq=False)
class Ascent:
    """A lower bound, the prices that are left, and the sets of candidates of which one is always taken."""

    bound: float
    price: Sequence[float]
    sets: Sequence[tuple[int, ...]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A problem by consecutive numbers of its e-classes: members, readers and children."""

    number: dict[int, int]
    eclass: list[int]
    members: list[list[int]]
    readers: list[list[int]]
    children: list[list[int]]
    roots: list[int]

    @classmethod
    def of(cls, problem: Problem) -> Layout:
        """Return the layout of a problem."""
        number = {c: k for k, c in enumerate(dict.fromkeys(problem.eclass))}
        eclass = [number[c] for c in problem.eclass]
        children = [[number[d] for d in row] for row in problem.children]
        members: list[list[int]] = [[] for _ in number]
        for i, c in enumerate(eclass):
            members[c].append(i)
        readers, roots = readers_of(children, len(number)), [number[r] for r in problem.roots]
        return cls(number, eclass, members, readers, children, roots)

    def heights(self, price: Sequence[float]) -> list[float]:
        """Return for every e-class the least price, over its terms, of the term's most expensive path."""
        return settle_by_heap(self.eclass, self.children, self.readers, price, highest=True).best

    def depths(self, price: Sequence[float]) -> list[float]:
        """Return for every e-class the least price of a path of candidates from a root to it."""
        depth = [math.inf] * len(self.members)
        heap = [(0.0, r) for r in self.roots]
        while heap:
            value, c = heapq.heappop(heap)
            if depth[c] <= value:
                continue
            depth[c] = value
            for i in self.members[c]:
                for d in self.children[i]:
                    if depth[d] > value + price[i]:
                        heapq.heappush(heap, (value + price[i], d))
        return depth

    def at_least(self, price: Sequence[float]) -> list[float]:
        """Return what every selection with a candidate pays: for a path from a root, for itself, for a path below."""
        depth, height = self.depths(price), self.heights(price)
        return [
            depth[c] + price[i] + max((height[d] for d in row), default=0.0)
            for i, (c, row) in enumerate(zip(self.eclass, self.children, strict=True))
        ]


def ascend(
    layout: Layout,
    price: Sequence[float],
    rng: random.Random | None = None,
    *,
    smallest: bool = True,
    until: float = math.inf,
) -> Ascent:
    """Return the bound of one dual ascent.

    A set grows from a root: for each candidate without price that it has and that reads none of it, one of
    the candidate's children that cannot be built for nothing joins. It is the one with the most expensive
    path below it, as a set that ends there can charge the most.

    Args:
        layout: The layout of a problem.
        price: The price of every candidate to begin with, 0 or more.
        rng: If given, heights are multiplied by random factors from 1 to 1 + :data:`NOISE`, so that several
            ascents differ.
        smallest: Whether the root with the smallest set is next; otherwise the lowest one.
        until: Deadline of ``time.perf_counter``; what has been charged by then counts.
    """
    state = _State(layout, list(price), rng)
    state.look()
    order = sorted(layout.roots, key=lambda c: (state.height[c], c))
    heap = [(0 if smallest else k, k, c) for k, c in enumerate(order)]
    look = max(LOOK, len(layout.eclass) // 50)
    amounts: list[float] = []
    sets: list[tuple[int, ...]] = []
    while heap and time.perf_counter() <= until:
        size, k, c = heapq.heappop(heap)
        if state.built[c]:
            continue
        by = state.grown(c)
        if smallest and heap and len(by) > max(size * 1.1 + 1, heap[0][0]):
            heapq.heappush(heap, (len(by), k, c))
            continue
        amounts.append(state.charge(by))
        sets.append(by)
        if not len(sets) % look:
            state.look()
        heapq.heappush(heap, (len(by) if smallest else k, k, c))
    return Ascent(math.fsum(amounts), state.price, sets)


class _State:
    """The prices during an ascent, and the e-classes that can be built from candidates without price."""

    __slots__ = ("_mark", "_rng", "_stamp", "_waiting", "built", "height", "layout", "nothing", "price")

    def __init__(self, layout: Layout, price: list[float], rng: random.Random | None) -> None:
        self.layout, self.price, self._rng = layout, price, rng
        self.nothing = NOTHING * max(price, default=0.0)
        self.built = [False] * len(layout.members)
        self.height: list[float] = []
        self._waiting = [len(row) for row in layout.children]
        self._mark, self._stamp = [0] * len(price), 0
        self._build([layout.eclass[i] for i, row in enumerate(layout.children) if not row and self._free(i)])

    def look(self) -> None:
        """Compute the heights of all e-classes by the present prices."""
        self.height = self.layout.heights(self.price)
        if self._rng is not None:
            self.height = [h * (1 + NOISE * self._rng.random()) for h in self.height]

    def _free(self, i: int) -> bool:
        return self.price[i] <= self.nothing

    def _build(self, stack: list[int]) -> None:
        while stack:
            c = stack.pop()
            if self.built[c]:
                continue
            self.built[c] = True
            for j in self.layout.readers[c]:
                self._waiting[j] -= 1
                if not self._waiting[j] and self._free(j):
                    stack.append(self.layout.eclass[j])

    def grown(self, root: int) -> tuple[int, ...]:
        """Return the candidates of a set around a root that read none of it; all of them have a price."""
        self._stamp += 1
        stamp, mark, price, nothing = self._stamp, self._mark, self.price, self.nothing
        layout, built, height = self.layout, self.built, self.height
        inside = [root]
        for j in layout.readers[root]:
            mark[j] = stamp
        for c in inside:  # the list grows during the loop
            for i in layout.members[c]:
                if price[i] <= nothing and mark[i] != stamp:
                    open_ = [d for d in layout.children[i] if not built[d]]
                    d = max(open_, key=height.__getitem__)
                    inside.append(d)
                    for j in layout.readers[d]:
                        mark[j] = stamp
        return tuple(i for c in inside for i in layout.members[c] if mark[i] != stamp)

    def charge(self, by: Sequence[int]) -> float:
        """Take the least price of some candidates from all of them, and return it."""
        price = self.price
        amount = min(price[i] for i in by)
        fresh = []
        for i in by:
            price[i] -= amount
            if price[i] <= self.nothing:
                price[i] = 0.0
                if not self._waiting[i]:
                    fresh.append(self.layout.eclass[i])
        self._build(fresh)
        return amount


def climb(problem: Problem, *, until: float = math.inf, once: bool = False) -> list[Ascent]:
    """Return one or two ascents of a problem until a deadline, the one with the highest bound first."""
    if not problem.roots or len(problem.nodes) > HUGE:
        return []
    layout, turns = Layout.of(problem), (True, False)[: 1 if once or len(problem.nodes) >= SMALL else 2]
    found = (
        ascend(layout, problem.cost, smallest=s, until=until) for s in turns if time.perf_counter() <= until
    )
    return sorted(found, key=lambda one: -one.bound)


def affordable(problem: Problem, found: Sequence[Ascent], most: float) -> list[bool]:
    """Return for every candidate whether some selection with it may cost at most ``most``."""
    layout = Layout.of(problem)
    alive = [True] * len(problem.nodes)
    for one in found:
        least = layout.at_least(one.price)
        alive = [a and one.bound + more <= most for a, more in zip(alive, least, strict=True)]
    return alive


def highest_bound(problem: Problem, must: Must | None, until: float = math.inf) -> float:
    """Return the highest lower bound of paths, must-sets and dual ascents until a deadline, without a solver."""
    return max([lower_bound(problem, must), *(one.bound for one in climb(problem, until=until))])
