"""The combinatorial core of an extraction: classes, candidate e-nodes, costs, children."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError
from itertools import accumulate, chain, compress, pairwise
from typing import Any, Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.csr_table import CEILING, Table, least
from workbench.support.machine import collector_paused
from workbench.support.orders import postorder, strong_components, topological

#: From this number of e-nodes, least costs are found in array operations.
BULK: Final = 5_000
#: From this number of e-nodes, those that are too expensive for any better selection are left out at once.
VAST: Final = 50_000

#: The fields of a problem that have an entry for each candidate.
_COLUMNS: Final = ("nodes", "eclass", "cost", "children")


class NoExtraction(ValueError):
    """Raised when a root has no finite term of finite cost, or when the costs do not fit the e-graph."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The choices of an extraction that are still open.

    ``nodes`` are e-nodes of the e-graph, called candidates. ``eclass``, ``cost`` and ``children`` describe
    them by position; ``children`` lists distinct e-classes and omits those in ``fixed``. ``fixed`` maps
    each decided e-class to its e-node: an e-class with a term that costs nothing always takes that term.
    ``egraph`` is the e-graph that the problem was made from; another process does not get it.
    """

    nodes: list[int]
    eclass: list[int]
    cost: list[float]
    children: list[tuple[int, ...]]
    roots: tuple[int, ...]
    n_classes: int
    fixed: dict[int, int]
    egraph: EGraph | None = field(default=None, repr=False)

    @classmethod
    def of(cls, egraph: EGraph, costs: np.ndarray) -> Problem:
        """Return the problem of an e-graph with costs of 0 or more; e-classes with a free term have taken it.

        Raise :class:`NoExtraction` if the costs cannot be used or a root has no finite term of finite cost.
        """
        return Terms.of(egraph, check_costs(egraph, costs)).problem()

    def __reduce__(self) -> tuple[type[Problem], tuple[object, ...]]:
        parts = (self.nodes, self.eclass, self.cost, self.children, self.roots, self.n_classes, self.fixed)
        return Problem, parts

    def members(self, among: Iterable[int] | None = None) -> dict[int, list[int]]:
        """Return the positions of every e-class's candidates, of all or of those ``among`` them."""
        result: dict[int, list[int]] = {}
        for i in range(len(self.eclass)) if among is None else among:
            result.setdefault(self.eclass[i], []).append(i)
        return result

    def readers(self, among: Iterable[int] | None = None) -> dict[int, list[int]]:
        """Return the positions of the candidates that read each e-class, of all or of those ``among`` them."""
        result: dict[int, list[int]] = {}
        for i in range(len(self.children)) if among is None else among:
            for d in self.children[i]:
                result.setdefault(d, []).append(i)
        return result

    def selection(self, taken: Mapping[int, int]) -> np.ndarray:
        """Return the e-node of every e-class that the roots of the e-graph need, -1 for the others.

        ``taken`` maps the undecided e-classes to e-nodes. Raise KeyError if a needed e-class has none.
        """
        assert self.egraph is not None
        choice = np.full(self.egraph.n_classes, -1, dtype=np.int64)
        for decided in (self.fixed, taken):
            choice[list(decided)] = list(decided.values())
        if (needed := below(self.egraph, choice)) is None:
            raise KeyError("a needed e-class has no choice")
        return needed

    def taken(self, picked: Mapping[int, int]) -> dict[int, int]:
        """Return a selection of candidates (by e-class) as one of e-nodes."""
        return {c: self.nodes[i] for c, i in picked.items()}

    def picked(self, nodes: Container[int]) -> dict[int, int]:
        """Return the candidates (by e-class) whose e-nodes are among ``nodes``."""
        return {c: i for i, (c, n) in enumerate(zip(self.eclass, self.nodes, strict=True)) if n in nodes}

    def selected(self, nodes: Container[int]) -> dict[int, int] | None:
        """Return the candidates whose e-nodes are among ``nodes``, or None unless they are a selection."""
        picked = self.picked(nodes)
        return picked if self.cost_of(picked) < math.inf and not self.loops(picked) else None

    def least(self) -> dict[int, float]:
        """Return the least cost of a candidate of each e-class."""
        found: dict[int, float] = {}
        for c, cost in zip(self.eclass, self.cost, strict=True):
            found[c] = min(cost, found.get(c, math.inf))
        return found

    def above(self, start: Iterable[int], among: Container[int] | None = None) -> set[int]:
        """Return candidates and those that lead to them; ``among`` leaves others out."""
        readers = {
            c: reading if among is None else [j for j in reading if j in among]
            for c, reading in self.readers().items()
        }
        return set(postorder(start, lambda i: readers.get(self.eclass[i], ())))

    def needed(self, picked: Mapping[int, int]) -> dict[int, int]:
        """Return the part of a selection (e-class → candidate) that the roots need; raise KeyError if it lacks one."""
        needed: dict[int, int] = {}
        stack = list(self.roots)
        while stack:
            c = stack.pop()
            if c not in needed:
                needed[c] = picked[c]
                stack += self.children[picked[c]]
        return needed

    def cost_of(self, picked: Mapping[int, int]) -> float:
        """Return the cost of a selection (e-class → candidate); inf if a needed e-class has no candidate."""
        try:
            return math.fsum(self.cost[i] for i in self.needed(picked).values())
        except KeyError:
            return math.inf

    def loops(self, picked: Mapping[int, int]) -> list[list[int]]:
        """Return the loops of a complete selection: sets of e-classes below the roots that need each other."""
        number = {r: k for k, r in enumerate(dict.fromkeys(self.roots))}
        edges: list[tuple[int, int]] = []
        stack = list(number)
        while stack:
            c = stack.pop()
            for d in self.children[picked[c]]:
                if d not in number:
                    number[d] = len(number)
                    stack.append(d)
                edges.append((number[c], number[d]))
        rows: list[list[int]] = [[] for _ in number]
        waiting = [0] * len(number)
        for a, b in edges:
            rows[a].append(b)
            waiting[b] += 1
        free = [a for a, count in enumerate(waiting) if not count]
        for a in free:  # the list grows during the loop
            for b in rows[a]:
                waiting[b] -= 1
                if not waiting[b]:
                    free.append(b)
        if len(free) == len(number):  # the usual case, decided without components because it is asked often
            return []
        labels = strong_components(rows)
        groups: dict[int, list[int]] = {}
        for c, k in number.items():
            groups.setdefault(labels[k], []).append(c)
        return [group for group in groups.values() if len(group) > 1]

    def keep(self, alive: Sequence[bool]) -> Problem:
        """Return the problem without candidates that are not alive, useless or unreachable; itself if there are none.

        A candidate is useless when one of its children has no candidate left.
        """
        alive, positions = list(alive), range(len(self.nodes))
        left = Counter(compress(self.eclass, alive))
        readers = self.readers(compress(positions, alive))
        empty = [d for d in readers if d not in left]
        while empty:
            for i in readers.get(empty.pop(), ()):
                if alive[i]:
                    alive[i] = False
                    left[self.eclass[i]] -= 1
                    if not left[self.eclass[i]]:
                        empty.append(self.eclass[i])
        members = self.members(compress(positions, alive))
        seen = postorder(self.roots, lambda c: [d for i in members.get(c, ()) for d in self.children[i]])
        kept = sorted(i for c in seen for i in members.get(c, ()))
        return self if len(kept) == len(self.nodes) else self.at(kept)

    def at(self, positions: Sequence[int], **changes: Any) -> Problem:
        """Return the problem of the candidates at some positions, with other fields changed."""
        kept = {name: [getattr(self, name)[i] for i in positions] for name in _COLUMNS}
        return replace(self, **(kept | changes))


def table_of(problem: Problem, price: Sequence[float] | None = None) -> Table:
    """Return a problem as arrays; the table's ``nodes`` are positions of candidates."""
    ends = accumulate(map(len, problem.children), initial=0)
    start = np.fromiter(ends, np.int64, len(problem.nodes) + 1)
    children = np.fromiter(chain.from_iterable(problem.children), np.int64, int(start[-1]))
    costs = np.array(problem.cost if price is None else price, dtype=float)
    return Table.of(np.array(problem.eclass, dtype=np.int64), costs, start, children, problem.n_classes)


@dataclass(frozen=True, slots=True)
class Settled:
    """An acyclic choice for every e-class with a finite term: costs, candidates and their order.

    All lists are indexed by e-class. ``best`` is the least cost (infinite without a finite term),
    ``choice`` the position of the candidate (-1 without), ``rank`` a number above those of its children.
    """

    best: list[float]
    choice: list[int]
    rank: list[int]


def settle(problem: Problem, price: Sequence[float], *, highest: bool = False) -> Settled:
    """Return the choice of least tree cost if candidate ``i`` costs ``price[i]`` (0 or more).

    An infinite price excludes a candidate. With ``highest`` a candidate costs its price and that of its
    costliest child alone.
    """
    if len(problem.nodes) >= BULK and (found := least(table := table_of(problem, price), highest=highest)):
        return settled_in(table, found)
    readers = readers_of(problem.children, problem.n_classes)
    return settle_by_heap(problem.eclass, problem.children, readers, price, highest=highest)


def tree_costs(egraph: EGraph, costs: np.ndarray, until: float = math.inf) -> tuple[list[float], list[int]]:
    """Return the least tree cost of every e-class and the e-node that attains it.

    An e-class without a finite term keeps an infinite cost and the choice -1. The choices are acyclic.
    After ``until`` (of ``time.perf_counter``) a large e-graph's costs are upper bounds, finite for all roots.
    """
    if len(egraph) >= BULK:
        table = Table.of(egraph.eclass, costs, egraph.child_start, egraph.children, egraph.n_classes)
        if (bulk := least(table, until=until, roots=egraph.roots)) is not None:
            found = settled_in(table, bulk)
            return found.best, found.choice
    children = egraph.children.tolist()
    rows = [children[a:b] for a, b in pairwise(egraph.child_start.tolist())]
    price = np.where(np.isfinite(costs), np.minimum(costs, CEILING), costs).tolist()
    found = settle_by_heap(egraph.eclass.tolist(), rows, readers_of(rows, egraph.n_classes), price)
    return found.best, found.choice


def settled_in(table: Table, found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Settled:
    """Return what :func:`~workbench.extraction.csr_table.least` found, with a table's nodes as the choices."""
    best, choice, rank = found
    return Settled(best.tolist(), np.where(choice < 0, -1, table.nodes[choice]).tolist(), rank.tolist())


def readers_of(rows: Iterable[Sequence[int]], n: int) -> list[list[int]]:
    """Return for each of ``n`` e-classes the candidates that read it; ``rows`` are what each candidate reads."""
    readers: list[list[int]] = [[] for _ in range(n)]
    for i, row in enumerate(rows):
        for d in row:
            readers[d].append(i)
    return readers


def settle_by_heap(
    eclass: Sequence[int],
    rows: Sequence[Sequence[int]],
    readers: Sequence[Sequence[int]],
    price: Sequence[float],
    *,
    highest: bool = False,
) -> Settled:
    """Settle e-classes in order of cost: Knuth's generalisation of Dijkstra's algorithm.

    In a deep term sums double with every level. Above the ceiling all count as equal.

    Args:
        eclass: The e-class of every candidate.
        rows: The e-classes that every candidate reads.
        readers: The candidates that read every e-class.
        price: The cost of every candidate, 0 or more.
        highest: Whether a candidate costs its price and that of its costliest child alone.
    """
    total, waiting = list(price), [len(row) for row in rows]
    best = [math.inf] * len(readers)
    choice, rank = [-1] * len(readers), [-1] * len(readers)
    heap = [(total[i], i) for i, count in enumerate(waiting) if not count and total[i] < math.inf]
    heapq.heapify(heap)
    settled = 0
    while heap:
        cost, i = heapq.heappop(heap)
        c = eclass[i]
        if choice[c] >= 0:
            continue
        best[c], choice[c], rank[c] = cost, i, settled
        settled += 1
        for j in readers[c]:
            if total[j] < math.inf:
                # E-classes settle in order of cost, so the child that settles last is the highest.
                total[j] = min(CEILING, cost + (price[j] if highest else total[j]))
            waiting[j] -= 1
            if not waiting[j] and choice[eclass[j]] < 0 and total[j] < math.inf:
                heapq.heappush(heap, (total[j], j))
    return Settled(best, choice, rank)


def check_costs(egraph: EGraph, costs: np.ndarray, *, negative: bool = False) -> np.ndarray:
    """Return costs as floats, finite ones below 0 if ``negative``; raise :class:`NoExtraction` for all others."""
    values = np.asarray(costs, dtype=float)
    if values.shape != (len(egraph),):
        raise NoExtraction(
            f"costs must be an array of {len(egraph)}, one per e-node, got shape {values.shape}"
        )
    wrong = np.isnan(values) | (values == -math.inf if negative else values < 0)
    if wrong.any():
        bad = int(np.flatnonzero(wrong)[0])
        norm = "a number above minus infinity" if negative else "0 or more"
        raise NoExtraction(
            f"the cost of e-node {egraph.node_name(bad)} ({egraph.ops[bad]}) must be {norm}, "
            f"got {values[bad]} (try an infinite cost to keep the e-node out of every term)"
        )
    if not egraph.roots:
        raise NoExtraction("the e-graph must have at least one root, got none")
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """An e-graph, its costs, and the least tree term of every e-class: what problems are made from.

    ``costs`` has one cost per e-node; an infinite cost excludes the e-node. ``best`` is the least tree cost of
    every e-class, ``choice`` the e-node that attains it, -1 for an e-class without a finite term.
    """

    egraph: EGraph
    costs: np.ndarray
    best: Sequence[float]
    choice: Sequence[int]

    @classmethod
    def of(cls, egraph: EGraph, costs: np.ndarray, until: float = math.inf) -> Terms:
        """Return the least tree terms by costs of 0 or more; raise NoExtraction if a root has no finite one."""
        best, choice = tree_costs(egraph, costs, until)
        for root in egraph.roots:
            if not math.isfinite(best[root]):
                name = egraph.class_name(root)
                raise NoExtraction(f"root e-class {name} must have a finite term of finite cost, got none")
        return cls(egraph, costs, best, choice)

    def selection(self) -> np.ndarray:
        """Return the selection of the roots' least tree terms; raise NoExtraction if its cost overflows."""
        found = below(self.egraph, np.array(self.choice, dtype=np.int64))
        assert found is not None
        if dag_cost(found, self.costs) == math.inf:
            raise NoExtraction(
                "a term's costs must add up to less than 1.8e308, got more (try a larger unit)"
            )
        return found

    def problem(self, *, fix_free: bool = True, most: float = math.inf) -> Problem:
        """Return the choices left once every e-class with a free term has taken it, if ``fix_free``.

        ``most`` is the cost of a known selection. In a problem of :data:`VAST` e-nodes or more, those are left out with
        which a selection certainly costs more.
        """
        egraph = self.egraph
        known = np.asarray(self.best, dtype=float)
        free = (known == 0.0) & fix_free
        picked = np.asarray(self.choice, dtype=np.int64)
        fixed = dict(zip(np.flatnonzero(free).tolist(), picked[free].tolist(), strict=True))
        whole = whole_table(egraph, self.costs)
        alive = ~free[whole.eclass] & np.isfinite(self.costs) & whole.all_children(np.isfinite(known))
        owner = np.repeat(whole.nodes, np.diff(whole.start))
        alive[owner[whole.children == whole.eclass[owner]]] = False
        order = np.flatnonzero(alive)
        order = order[np.argsort(whole.eclass[order], kind="stable")]
        roots = tuple(dict.fromkeys(r for r in egraph.roots if r not in fixed))
        chosen = order[whole.at(order).reachable(roots)[whole.eclass[order]]]
        if len(chosen) >= VAST and most < math.inf:
            part = whole.at(chosen).reading(~free)
            cheap = part.affordable(roots, most * (1 + 1e-9))
            if cheap is not None and not cheap.all():
                part, chosen = part.at(np.flatnonzero(cheap)), chosen[cheap]
                chosen = chosen[part.reachable(roots)[part.eclass]]
        left = whole.at(np.sort(chosen))
        columns = left.nodes.tolist(), left.eclass.tolist(), left.cost.tolist(), _rows(left, ~free)
        return Problem(*columns, roots, egraph.n_classes, fixed, egraph)


def whole_table(egraph: EGraph, costs: np.ndarray) -> Table:
    """Return an e-graph as arrays; the e-nodes are in their own order, not in that of their e-classes."""
    return Table(
        np.arange(len(egraph)),
        egraph.eclass.astype(np.int64),
        costs,
        egraph.child_start.astype(np.int64),
        egraph.children.astype(np.int64),
        egraph.n_classes,
    )


def _rows(table: Table, kept: np.ndarray) -> list[tuple[int, ...]]:
    """Return the e-classes that each candidate reads, each once, of those that a mask keeps."""
    mask = kept[table.children]
    owner = np.repeat(np.arange(len(table.cost)), np.diff(table.start))[mask]
    children = table.children[mask]
    _, first = np.unique(owner * table.n_classes + children, return_index=True)
    first.sort()
    flat = children[first].tolist()
    ends = np.cumsum(np.bincount(owner[first], minlength=len(table.cost))).tolist()
    with collector_paused():
        return [tuple(flat[a:b]) for a, b in pairwise([0, *ends])]


def below(egraph: EGraph, choice: np.ndarray) -> np.ndarray | None:
    """Return the part of a choice that the roots need, or None if the choice is incomplete."""
    chosen = whole_table(egraph, np.zeros(len(egraph))).at(choice[choice >= 0])
    needed = chosen.reachable(egraph.roots)
    return None if (choice[needed] < 0).any() else np.where(needed, choice, -1)


def dag_cost(choice: np.ndarray, costs: np.ndarray) -> float:
    """Return the cost of a selection, counting every chosen e-node once; inf if the sum overflows."""
    try:
        return math.fsum(costs[choice[choice >= 0]].tolist())
    except OverflowError:
        return math.inf


def is_acyclic(egraph: EGraph, choice: np.ndarray) -> bool:
    """Return whether the selection below the roots is complete and acyclic."""
    if below(egraph, choice) is None:
        return False
    start, children, picked = egraph.child_start.tolist(), egraph.children.tolist(), choice.tolist()
    try:
        topological(egraph.roots, lambda c: children[start[picked[c]] : start[picked[c] + 1]])
    except CycleError:
        return False
    return True


def original_selection(egraph: EGraph) -> np.ndarray | None:
    """Return the start graph's selection, or None if it is incomplete or cyclic."""
    choice = np.full(egraph.n_classes, -1, dtype=np.int64)
    for i in egraph.original.tolist():
        if i >= 0 and choice[egraph.eclass[i]] < 0:
            choice[egraph.eclass[i]] = i
    needed = below(egraph, choice)
    return needed if needed is not None and is_acyclic(egraph, needed) else None
