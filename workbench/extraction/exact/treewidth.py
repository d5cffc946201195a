"""Tree decompositions of extraction problems, found by greedy elimination (minimum fill-in).

The graph joins an e-class to the e-classes that its candidates read. A candidate that reads many is first
split into a chain of candidates that read at most two, which can only make the width smaller.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from workbench.extraction.problem import Problem
from workbench.support.orders import strong_components

#: A width above this is not determined.
MAX_WIDTH: Final = 30


@dataclass(frozen=True, slots=True)
class Piece:
    """A candidate of a sparse problem: vertex, cost, the vertices it reads, its origin or -1.

    The origin is the position of the candidate that it begins; the later pieces of a chain have none.
    """

    vertex: int
    cost: float
    reads: tuple[int, ...]
    origin: int


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """A problem of which every candidate reads at most two vertices.

    ``size`` is the number of vertices. ``loops`` has a number for every strongly connected component of more
    than one vertex, and -1 for a vertex on no cycle.
    """

    size: int
    pieces: list[Piece]
    roots: tuple[int, ...]
    loops: list[int]

    @classmethod
    def of(cls, problem: Problem) -> Sparse:
        """Return a problem with its candidates split into chains, without those that read themselves."""
        number = {c: k for k, c in enumerate(dict.fromkeys(problem.eclass))}
        below: list[list[int]] = [[] for _ in number]
        for c, row in zip(problem.eclass, problem.children, strict=True):
            below[number[c]] += [number[d] for d in row]
        component = strong_components(below)
        sizes = Counter(component)
        loops = [k if sizes[k] > 1 else -1 for k in component]
        pieces: list[Piece] = []
        for i, (c, row) in enumerate(zip(problem.eclass, problem.children, strict=True)):
            if c in row:
                continue
            vertex, cost, origin = number[c], problem.cost[i], i
            # Children in order of their numbers: neighbours in the e-graph stay neighbours in the chain.
            reads = sorted(number[d] for d in row)
            while len(reads) > 2:
                link = len(loops)
                loops.append(loops[number[c]])
                pieces.append(Piece(vertex, cost, (reads[0], link), origin))
                vertex, cost, origin, reads = link, 0.0, -1, reads[1:]
            pieces.append(Piece(vertex, cost, tuple(reads), origin))
        return cls(len(loops), pieces, tuple(number[r] for r in problem.roots), loops)


@dataclass(frozen=True, slots=True)
class Bag:
    """A bag of a tree decomposition: the vertex that is in no later bag, all vertices, the parent or -1."""

    last: int
    vertices: tuple[int, ...]
    parent: int


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A tree decomposition, bags before their parents; ``width`` is the size of the largest bag minus 1."""

    bags: tuple[Bag, ...]
    width: int


def decomposition(sparse: Sparse, widest: int = MAX_WIDTH, until: float = math.inf) -> Decomposition | None:
    """Return a tree decomposition, or None if greedy elimination finds none of at most a width.

    Args:
        sparse: The problem.
        widest: The largest width of interest.
        until: Deadline of ``time.perf_counter``, after which there is none either.
    """
    near: list[set[int]] = [set() for _ in range(sparse.size)]
    for piece in sparse.pieces:
        group = (piece.vertex, *piece.reads)
        for a in group:
            near[a].update(b for b in group if b != a)
    heap = [(_fill(near, v, widest), v) for v in range(sparse.size)]
    heapq.heapify(heap)
    known = [key for key, _ in sorted(heap, key=lambda entry: entry[1])]
    place = [-1] * sparse.size
    order: list[int] = []
    bags: list[tuple[int, ...]] = []
    while heap:
        key, v = heapq.heappop(heap)
        if place[v] >= 0 or key != known[v]:
            continue
        if len(near[v]) > widest or time.perf_counter() > until:
            return None
        place[v] = len(order)
        order.append(v)
        around = near[v]
        bags.append(tuple(sorted((v, *around))))
        for a in around:
            near[a] |= around
            near[a] -= {a, v}
        changed = set(around)
        for a in around:
            if len(near[a]) <= widest:
                changed |= near[a]
        for a in sorted(changed):
            fresh = _fill(near, a, widest)
            if fresh != known[a]:
                known[a] = fresh
                heapq.heappush(heap, (fresh, a))
    width = max((len(bag) for bag in bags), default=1) - 1
    parents = [min((place[v] for v in bag if place[v] > k), default=-1) for k, bag in enumerate(bags)]
    return Decomposition(tuple(map(Bag, order, bags, parents)), width)


def _fill(near: Sequence[set[int]], v: int, widest: int) -> int:
    """Return the number of edges that the elimination of a vertex adds; more than any if it is too wide."""
    around = near[v]
    degree = len(around)
    if degree > widest:
        return widest * widest + degree
    return (degree * (degree - 1) - sum(len(near[a] & around) for a in around)) // 2
