"""Exact extraction by dynamic programming over a tree decomposition.

It takes time linear in the number of e-classes if the width is small, as in Goharshady, Lam and Parreaux,
"Fast and Optimal Extraction for Sparse Equality Graphs" (OOPSLA 2024). A state of a bag says which of its
e-classes are built, which of these have their candidate already, and which lead to which. The last keeps
selections acyclic, and is empty outside strongly connected components.

The graph that is decomposed joins an e-class to the e-classes that its candidates read. A candidate that reads
many is first split into a chain of candidates that read at most two, which can only make the width smaller.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workbench.extraction.exact.types import Solved
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import components, cyclic

#: A width above this is not determined.
MAX_WIDTH: Final = 30
#: Problems of a larger width are not solved this way.
MAX_SOLVED_WIDTH: Final = 7
#: Largest number of states of all bags together.
MAX_STATES: Final = 50_000
#: The width of a problem with more candidates is not looked for: that would take too long.
MAX_CANDIDATES: Final = 2_000

#: The built vertices and those with a candidate, as bits of a bag, and the pairs that lead to one another.
State = tuple[int, int, frozenset[tuple[int, int]]]
#: The least cost of a state, and the candidates behind it: None, (origin, rest), or (-1, rest, rest).
Entry = tuple[float, Any]
Table = dict[State, Entry]

_NO_PAIRS: Final[frozenset[tuple[int, int]]] = frozenset()


# -- tree decompositions by greedy elimination (minimum fill-in) ----------------------------------------
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
        component = components(problem)
        number = {c: k for k, c in enumerate(dict.fromkeys(problem.eclass))}
        rings = cyclic(problem, component)
        loops = [component[c] if c in rings else -1 for c in number]
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


# -- dynamic programming over bags --------------------------------------------------------------------
def by_width(problem: Problem, until: float) -> tuple[int | None, Solved | None]:
    """Return the width of a tree decomposition of a problem, and its solution if the width is small.

    A width above :data:`~workbench.extraction.exact.dynamic.MAX_WIDTH` is that number plus 1. It is None for
    a problem of more than :data:`MAX_CANDIDATES` candidates, or if time is up.
    """
    if len(problem.nodes) > MAX_CANDIDATES:
        return None, None
    sparse = Sparse.of(problem)
    tree = decomposition(sparse, until=until)
    if tree is None:
        return (MAX_WIDTH + 1 if time.perf_counter() <= until else None), None
    return tree.width, solve_dynamic(problem, sparse, tree, until) if tree.width <= MAX_SOLVED_WIDTH else None


def solve_dynamic(
    problem: Problem, sparse: Sparse, tree: Decomposition, until: float, states: int = MAX_STATES
) -> Solved | None:
    """Solve a problem to optimality, or return None if that takes too many states or time is up.

    Args:
        problem: The problem.
        sparse: The same with candidates that read at most two vertices.
        tree: A tree decomposition of ``sparse``.
        until: Deadline of ``time.perf_counter``.
        states: Largest number of states of all bags together.

    Returns:
        The best selection, which is proved; without one, the problem has none.
    """
    run = _Run(sparse, set(sparse.roots), until, states)
    work = _assigned(sparse, tree)
    waiting: list[list[tuple[Bag, Table]]] = [[] for _ in tree.bags]
    cost, trails = 0.0, []
    for k, bag in enumerate(tree.bags):
        table = run.table(bag, waiting[k], work[k])
        waiting[k].clear()
        if table is None:
            return None
        if bag.parent >= 0:
            waiting[bag.parent].append((bag, table))
            continue
        # A tree of its own, without a connection to others.
        final = run.forget(table, range(len(bag.vertices)))
        if not final:
            return Solved(None, float("inf"), proved=True)
        ((price, trail),) = final.values()
        cost += price
        trails.append(trail)
    picked = {problem.eclass[i]: i for trail in trails for i in _origins(trail)}
    return Solved(picked, cost, proved=True)


def _assigned(sparse: Sparse, tree: Decomposition) -> list[list[Piece]]:
    """Return for every bag the candidates that are taken there: a bag that holds all their vertices."""
    place = {bag.last: k for k, bag in enumerate(tree.bags)}
    work: list[list[Piece]] = [[] for _ in tree.bags]
    for piece in sparse.pieces:
        # The bag in which the first vertex of a group is last holds the whole group.
        work[min(place[v] for v in (piece.vertex, *piece.reads))].append(piece)
    return work


def _origins(trail: Any) -> Iterator[int]:
    stack = [trail]
    while stack:
        entry = stack.pop()
        if entry is None:
            continue
        if entry[0] >= 0:
            yield entry[0]
        stack += entry[1:]


@dataclass(slots=True, eq=False)
class _Run:
    """The limits of a run, and the number of states so far."""

    sparse: Sparse
    roots: set[int]
    until: float
    most: int
    count: int = 0

    def table(self, bag: Bag, parts: list[tuple[Bag, Table]], work: list[Piece]) -> Table | None:
        """Return the states of a bag from those of the bags below it, or None if there are too many."""
        bit = {v: k for k, v in enumerate(bag.vertices)}
        whole: Table = {(0, 0, _NO_PAIRS): (0.0, None)}
        known = 0
        for below, table in parts:
            gone = [k for k, v in enumerate(below.vertices) if v not in bit]
            moved = _renumbered(self.forget(table, gone), [bit.get(v, -1) for v in below.vertices])
            shared = sum(1 << bit[v] for v in below.vertices if v in bit)
            whole = _joined(whole, moved, known & shared)
            known |= shared
            if self._too_many(len(whole)):
                return None
        for k, v in enumerate(bag.vertices):
            if not known >> k & 1:
                built = {(b | 1 << k, s, p): e for (b, s, p), e in whole.items()}
                whole = built if v in self.roots else whole | built
        for piece in work:
            self._take(whole, piece, bit)
            if len(whole) > self.most:
                return None
        return None if self._too_many(len(whole)) else whole

    def _too_many(self, fresh: int) -> bool:
        self.count += fresh
        return self.count > self.most or time.perf_counter() > self.until

    def _take(self, table: Table, piece: Piece, bit: dict[int, int]) -> None:
        """Add the states in which a vertex takes a candidate."""
        at = bit[piece.vertex]
        need = sum(1 << bit[v] for v in piece.reads) | 1 << at
        loops = self.sparse.loops
        loop = loops[piece.vertex]
        inner = [bit[v] for v in piece.reads if loop >= 0 and loops[v] == loop]
        for (built, settled, pairs), (cost, trail) in list(table.items()):
            if built & need != need or settled >> at & 1:
                continue
            led = _led(pairs, at, inner) if inner else pairs
            if led is None:
                continue
            state = (built, settled | 1 << at, led)
            price = cost + piece.cost
            old = table.get(state)
            if old is None or price < old[0]:
                table[state] = (price, trail if piece.origin < 0 else (piece.origin, trail))

    @staticmethod
    def forget(table: Table, gone: list[int] | range) -> Table:
        """Return the states without some vertices, each of which is not built or has its candidate."""
        mask = sum(1 << k for k in gone)
        out = set(gone)
        left: Table = {}
        for (built, settled, pairs), entry in table.items():
            if (built ^ settled) & mask:
                continue
            rest = frozenset(p for p in pairs if p[0] not in out and p[1] not in out) if pairs else pairs
            state = (built & ~mask, settled & ~mask, rest)
            old = left.get(state)
            if old is None or entry[0] < old[0]:
                left[state] = entry
        return left


def _led(pairs: frozenset[tuple[int, int]], at: int, reads: list[int]) -> frozenset[tuple[int, int]] | None:
    """Return the pairs, closed again, when a vertex also leads to those it reads; None if that is a cycle."""
    below = set(reads)
    below.update(b for a, b in pairs if a in below)
    above = {at, *(a for a, b in pairs if b == at)}
    if above & below:
        return None
    return pairs | {(a, b) for a in above for b in below}


def _renumbered(table: Table, bits: list[int]) -> Table:
    """Return the states with their vertices at other bits."""
    moves = [(k, to) for k, to in enumerate(bits) if to >= 0]
    known: dict[int, int] = {}

    def moved(mask: int) -> int:
        found = known.get(mask)
        if found is None:
            found = known[mask] = sum(1 << to for k, to in moves if mask >> k & 1)
        return found

    return {
        (moved(b), moved(s), frozenset((bits[x], bits[y]) for x, y in p) if p else p): e
        for (b, s, p), e in table.items()
    }


def _joined(one: Table, other: Table, shared: int) -> Table:
    """Return the states of two parts together that agree in the built vertices of both."""
    by_built: dict[int, list[tuple[State, Entry]]] = {}
    for state, entry in other.items():
        by_built.setdefault(state[0] & shared, []).append((state, entry))
    joined: Table = {}
    for (built, settled, pairs), (cost, trail) in one.items():
        for (b, s, p), (more, branch) in by_built.get(built & shared, ()):
            # Two candidates for one vertex never cost less than one.
            if settled & s:
                continue
            both = _closed(pairs, p)
            if both is None:
                continue
            state = (built | b, settled | s, both)
            old = joined.get(state)
            if old is None or cost + more < old[0]:
                behind = (-1, trail, branch) if trail and branch else trail or branch
                joined[state] = (cost + more, behind)
    return joined


def _closed(
    one: frozenset[tuple[int, int]], other: frozenset[tuple[int, int]]
) -> frozenset[tuple[int, int]] | None:
    """Return the transitive closure of two sets of pairs, or None if it has a cycle."""
    if not one or not other:
        return one or other
    closed: frozenset[tuple[int, int]] | None = one
    for a, b in other:
        if closed is not None:
            closed = _led(closed, a, [b])
    return closed
