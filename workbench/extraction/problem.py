"""The combinatorial core of an extraction: classes, candidate e-nodes, costs, children."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.csr_table import CEILING, DEEP, Table, least, ranges
from workbench.support.machine import collector_paused

#: From this number of e-nodes, least costs are found in array operations.
BULK: Final = 5_000
#: From this number of e-nodes, those that are too expensive for any better selection are left out at once.
VAST: Final = 50_000


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

    def __reduce__(self) -> tuple[type[Problem], tuple[object, ...]]:
        parts = (self.nodes, self.eclass, self.cost, self.children, self.roots, self.n_classes, self.fixed)
        return Problem, parts

    def members(self) -> dict[int, list[int]]:
        """Return the positions of every e-class's candidates."""
        result: dict[int, list[int]] = {}
        for i, c in enumerate(self.eclass):
            result.setdefault(c, []).append(i)
        return result

    def readers(self) -> dict[int, list[int]]:
        """Return the positions of the candidates that read each e-class."""
        result: dict[int, list[int]] = {}
        for i, row in enumerate(self.children):
            for d in row:
                result.setdefault(d, []).append(i)
        return result

    def selection(self, taken: Mapping[int, int]) -> np.ndarray:
        """Return the e-node of every e-class that the roots of the e-graph need, -1 for the others.

        ``taken`` maps the undecided e-classes to e-nodes. Raise KeyError if a needed e-class has none.
        """
        assert self.egraph is not None
        choice = np.full(self.egraph.n_classes, -1, dtype=np.int64)
        for decided in (self.fixed, taken):
            choice[np.fromiter(decided, np.int64, len(decided))] = np.fromiter(
                decided.values(), np.int64, len(decided)
            )
        needed = below(self.egraph, choice)
        if needed is None:
            raise KeyError("a needed e-class has no choice")
        return needed

    def keep(self, alive: Sequence[bool], *, always: bool = True) -> Problem:
        """Return the problem without candidates that are not alive, useless or unreachable.

        ``alive`` has one entry per candidate. A candidate is useless when one of its children has no
        candidate left. If nothing is removed and ``always`` is false, the problem itself is returned.
        """
        alive = list(alive)
        left: dict[int, int] = {}
        readers: dict[int, list[int]] = {}
        for i, c in enumerate(self.eclass):
            if alive[i]:
                left[c] = left.get(c, 0) + 1
                for d in self.children[i]:
                    readers.setdefault(d, []).append(i)
        empty = [d for d in readers if d not in left]
        while empty:
            for i in readers.get(empty.pop(), ()):
                if alive[i]:
                    alive[i] = False
                    left[self.eclass[i]] -= 1
                    if not left[self.eclass[i]]:
                        empty.append(self.eclass[i])
        members: dict[int, list[int]] = {}
        for i, c in enumerate(self.eclass):
            if alive[i]:
                members.setdefault(c, []).append(i)
        seen = set(self.roots)
        stack = list(self.roots)
        kept: list[int] = []
        while stack:
            for i in members.get(stack.pop(), ()):
                kept.append(i)
                for c in self.children[i]:
                    if c not in seen:
                        seen.add(c)
                        stack.append(c)
        if len(kept) == len(self.nodes) and not always:
            return self
        kept.sort()
        return Problem(
            [self.nodes[i] for i in kept],
            [self.eclass[i] for i in kept],
            [self.cost[i] for i in kept],
            [self.children[i] for i in kept],
            self.roots,
            self.n_classes,
            self.fixed,
            self.egraph,
        )


def table_of(problem: Problem, price: Sequence[float] | None = None) -> Table:
    """Return a problem as arrays; the table's ``nodes`` are positions of candidates."""
    n = len(problem.nodes)
    start = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, problem.children), np.int64, n), out=start[1:])
    children = np.fromiter(chain.from_iterable(problem.children), np.int64, int(start[-1]))
    costs = np.array(problem.cost if price is None else price, dtype=float)
    return Table.of(np.array(problem.eclass, dtype=np.int64), costs, start, children, problem.n_classes)


def tree_costs(egraph: EGraph, costs: np.ndarray, until: float = math.inf) -> tuple[list[float], list[int]]:
    """Return the least tree cost of every e-class and the e-node that attains it.

    An e-class without a finite term keeps an infinite cost and the choice -1. The choices are acyclic.
    After ``until`` (of ``time.perf_counter``) a large e-graph's costs are upper bounds, finite for all roots.
    """
    if len(egraph) < BULK:
        return _tree_costs_by_heap(egraph, costs)
    table = Table.of(egraph.eclass, costs, egraph.child_start, egraph.children, egraph.n_classes)
    found = least(table, until=until, roots=egraph.roots)
    if found is None:
        return _tree_costs_by_heap(egraph, costs)
    choice = np.where(found.choice < 0, -1, table.nodes[found.choice])
    return found.best.tolist(), choice.tolist()


def _tree_costs_by_heap(egraph: EGraph, costs: np.ndarray) -> tuple[list[float], list[int]]:
    """Return the same by Knuth's generalisation of Dijkstra's algorithm, in order of cost."""
    table = Table(
        np.arange(len(egraph)), egraph.eclass, costs, egraph.child_start, egraph.children, egraph.n_classes
    )
    by_class, offsets = table.readers()
    readers, first = by_class.tolist(), offsets.tolist()
    eclass = egraph.eclass.tolist()
    total = np.minimum(costs, CEILING, where=np.isfinite(costs), out=np.array(costs, dtype=float)).tolist()
    waiting = np.diff(egraph.child_start).tolist()
    best = [math.inf] * egraph.n_classes
    choice = [-1] * egraph.n_classes
    leaves = np.flatnonzero((np.diff(egraph.child_start) == 0) & np.isfinite(costs)).tolist()
    heap = [(total[i], i) for i in leaves]
    heapq.heapify(heap)
    while heap:
        cost, i = heapq.heappop(heap)
        c = eclass[i]
        if choice[c] >= 0:
            continue
        choice[c], best[c] = i, cost
        # A reader occurs once for every time that it reads the e-class.
        for reader in readers[first[c] : first[c + 1]]:
            # In a deep term the sums double with every level; above the ceiling all count as equal.
            total[reader] = min(total[reader] + cost, CEILING) if total[reader] < math.inf else math.inf
            waiting[reader] -= 1
            if not waiting[reader] and choice[eclass[reader]] < 0 and total[reader] < math.inf:
                heapq.heappush(heap, (total[reader], reader))
    return best, choice


def check_costs(egraph: EGraph, costs: np.ndarray, *, negative: bool = False) -> np.ndarray:
    """Return the costs as floats; raise :class:`NoExtraction` if they cannot be used.

    ``negative`` admits finite costs below 0.
    """
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


def check_roots(egraph: EGraph, best: Sequence[float]) -> None:
    """Raise :class:`NoExtraction` unless every root has a finite least cost."""
    for root in egraph.roots:
        if not math.isfinite(best[root]):
            name = egraph.class_name(root)
            raise NoExtraction(f"root e-class {name} must have a finite term of finite cost, got none")


def make_problem(
    egraph: EGraph,
    costs: np.ndarray,
    best: Sequence[float],
    choice: Sequence[int],
    *,
    fix_free: bool = True,
    most: float = math.inf,
) -> Problem:
    """Return the choices left once every e-class with a free term has taken it.

    Args:
        egraph: The e-graph.
        costs: One cost per e-node, 0 or more; an infinite cost excludes the e-node.
        best: The least tree cost of every e-class, from :func:`tree_costs`.
        choice: The e-node that attains it, -1 if the e-class has no finite term.
        fix_free: Whether an e-class with a free term takes it without a choice.
        most: The cost of a known selection. In a problem of :data:`VAST` e-nodes or more, those are left out
            with which a selection certainly costs more.

    Raises:
        NoExtraction: If a root has no finite term of finite cost.
    """
    check_roots(egraph, best)
    known = np.asarray(best, dtype=float)
    free = known == 0.0
    if not fix_free:
        free[:] = False
    picked = np.asarray(choice, dtype=np.int64)
    fixed = dict(zip(np.flatnonzero(free).tolist(), picked[free].tolist(), strict=True))
    whole = Table(
        np.arange(len(egraph)),
        egraph.eclass.astype(np.int64),
        costs,
        egraph.child_start.astype(np.int64),
        egraph.children.astype(np.int64),
        egraph.n_classes,
    )
    alive = ~free[whole.eclass] & np.isfinite(costs) & whole.all_children(np.isfinite(known))
    owner = np.repeat(whole.nodes, np.diff(whole.start))
    alive[owner[whole.children == whole.eclass[owner]]] = False
    order = np.flatnonzero(alive)
    order = order[np.argsort(whole.eclass[order], kind="stable")]
    seen = whole.at(order).reachable(tuple(r for r in egraph.roots if r not in fixed))
    roots = tuple(dict.fromkeys(r for r in egraph.roots if r not in fixed))
    chosen = order[seen[whole.eclass[order]]]
    if len(chosen) >= VAST and most < math.inf:
        part = whole.at(chosen).reading(~free)
        cheap = part.affordable(roots, most * (1 + 1e-9))
        if cheap is not None and not cheap.all():
            part, chosen = part.keep(cheap), chosen[cheap]
            chosen = chosen[part.reachable(roots)[part.eclass]]
    left = whole.at(np.sort(chosen))
    return Problem(
        left.nodes.tolist(),
        left.eclass.tolist(),
        left.cost.tolist(),
        _rows(left, ~free),
        roots,
        egraph.n_classes,
        fixed,
        egraph,
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
    result = np.full(egraph.n_classes, -1, dtype=np.int64)
    front = np.unique(np.array(egraph.roots, dtype=np.int64))
    rounds = 0
    while front.size:
        taken = choice[front]
        if (taken < 0).any():
            return None
        result[front] = taken
        rounds += 1
        if rounds > DEEP:
            return _below_by_stack(egraph, choice, result, front.tolist())
        entries, _ = ranges(egraph.child_start, taken)
        found = egraph.children[entries]
        front = np.unique(found[result[found] < 0])
    return result


def _below_by_stack(
    egraph: EGraph, choice: np.ndarray, result: np.ndarray, classes: list[int]
) -> np.ndarray | None:
    """Finish :func:`below` one e-class at a time: a deep term has few e-classes in a layer."""
    picked, done = choice.tolist(), result.tolist()
    start, children = egraph.child_start.tolist(), egraph.children.tolist()
    for c in classes:
        done[c] = -1
    stack = classes
    while stack:
        c = stack.pop()
        if done[c] >= 0:
            continue
        i = picked[c]
        if i < 0:
            return None
        done[c] = i
        stack += children[start[i] : start[i + 1]]
    return np.array(done, dtype=np.int64)


def dag_cost(choice: np.ndarray, costs: np.ndarray) -> float:
    """Return the cost of a selection, counting every chosen e-node once; inf if the sum overflows."""
    try:
        return math.fsum(costs[choice[choice >= 0]].tolist())
    except OverflowError:
        return math.inf


def is_acyclic(egraph: EGraph, choice: np.ndarray) -> bool:
    """Return whether the selection below the roots is complete and acyclic."""
    state: dict[int, int] = {}
    start, children = egraph.child_start.tolist(), egraph.children.tolist()
    picked = choice.tolist()
    for root in egraph.roots:
        if root in state:
            continue
        if picked[root] < 0:
            return False
        state[root] = 1
        stack = [(root, iter(children[start[picked[root]] : start[picked[root] + 1]]))]
        while stack:
            c, rest = stack[-1]
            for d in rest:
                mark = state.get(d, 0)
                if mark == 1 or picked[d] < 0:
                    return False
                if mark == 0:
                    state[d] = 1
                    stack.append((d, iter(children[start[picked[d]] : start[picked[d] + 1]])))
                    break
            else:
                state[c] = 2
                stack.pop()
    return True
