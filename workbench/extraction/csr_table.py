"""The candidates of a large extraction as arrays, and least costs of all e-classes in array operations."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

#: Costs are capped here: far below the largest float and far above any realistic cost.
CEILING: Final = 1e250
#: Terms with more layers than this are walked one e-class at a time.
DEEP: Final = 200
#: The array method is given up when it has evaluated this many times the candidates, or when more than ROUNDS
#: of its rounds have evaluated fewer than NARROW on average, as in a deep and narrow e-graph.
REPEATS, ROUNDS, NARROW = 40, 500, 100
#: Of more e-classes than this, the cheapest tenth is passed on first.
MANY: Final = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Candidates in order of their e-class.

    Candidate ``i`` is the e-node ``nodes[i]`` of e-class ``eclass[i]`` (ascending) and costs ``cost[i]``. It
    reads the e-classes ``children[start[i]:start[i + 1]]``.
    """

    nodes: np.ndarray
    eclass: np.ndarray
    cost: np.ndarray
    start: np.ndarray
    children: np.ndarray
    n_classes: int

    @classmethod
    def of(
        cls, eclass: np.ndarray, cost: np.ndarray, start: np.ndarray, children: np.ndarray, n: int
    ) -> Table:
        """Return the table of e-nodes in any order.

        Args:
            eclass: The e-class of every e-node.
            cost: The cost of every e-node.
            start: The place of every e-node's first operand in ``children``, and the length of that.
            children: The e-classes of all operands.
            n: The number of e-classes.
        """
        whole = cls(np.arange(len(eclass)), eclass.astype(np.int64), cost, start, children, n)
        return whole.at(np.argsort(eclass, kind="stable"))

    def at(self, positions: np.ndarray) -> Table:
        """Return the table of some candidates, given in order of their e-class."""
        entries, start = ranges(self.start, positions)
        columns = self.nodes[positions], self.eclass[positions], self.cost[positions]
        return Table(*columns, start, self.children[entries], self.n_classes)

    def reading(self, kept: np.ndarray) -> Table:
        """Return the table in which candidates read only the e-classes that a mask selects."""
        mask = kept[self.children]
        owner = np.repeat(np.arange(len(self.cost)), np.diff(self.start))[mask]
        start = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(self.cost)))))
        return Table(self.nodes, self.eclass, self.cost, start, self.children[mask], self.n_classes)

    def all_children(self, flags: np.ndarray) -> np.ndarray:
        """Return for every candidate whether all e-classes that it reads have a flag."""
        bad = np.concatenate(([0], np.cumsum(~flags[self.children])))
        return bad[self.start[1:]] == bad[self.start[:-1]]

    def offsets(self) -> np.ndarray:
        """Return the place of each e-class's first candidate, followed by the end."""
        return np.concatenate(([0], np.cumsum(np.bincount(self.eclass, minlength=self.n_classes))))

    def readers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the candidates that read each e-class one after another, and each e-class's first place."""
        owner = np.repeat(np.arange(len(self.cost)), np.diff(self.start))
        readers = owner[np.argsort(self.children, kind="stable")]
        counts = np.bincount(self.children, minlength=self.n_classes)
        return readers, np.concatenate(([0], np.cumsum(counts)))

    def reachable(self, roots: tuple[int, ...]) -> np.ndarray:
        """Return for every e-class whether candidates lead to it from the roots."""
        offsets = self.offsets()
        seen = np.zeros(self.n_classes, dtype=bool)
        front = np.unique(np.array(roots, dtype=np.int64))
        rounds = 0
        while front.size and rounds < DEEP:
            rounds += 1
            seen[front] = True
            candidates, _ = ranges(offsets, front)
            entries, _ = ranges(self.start, candidates)
            below = self.children[entries]
            front = np.unique(below[~seen[below]])
        if not front.size:
            return seen
        # A deep e-graph has few e-classes in a layer: the rest is walked one e-class at a time.
        bounds, start, children = offsets.tolist(), self.start.tolist(), self.children.tolist()
        seen[front] = True
        flags, stack = seen.tolist(), front.tolist()
        while stack:
            c = stack.pop()
            for d in children[start[bounds[c]] : start[bounds[c + 1]]]:
                if not flags[d]:
                    flags[d] = True
                    stack.append(d)
        return np.array(flags, dtype=bool)

    def depths(self, roots: tuple[int, ...], most: float) -> np.ndarray | None:
        """Return the least cost of a path down to each e-class, not its own; inf above ``most``, None if too deep."""
        offsets = self.offsets()
        depth = np.full(self.n_classes, math.inf)
        front = np.unique(np.array(roots, dtype=np.int64))
        depth[front] = 0.0
        for _ in range(DEEP):
            if not front.size:
                return depth
            candidates, _ = ranges(offsets, front)
            entries, begin = ranges(self.start, candidates)
            value = np.repeat(depth[self.eclass[candidates]] + self.cost[candidates], np.diff(begin))
            below = self.children[entries]
            better = (value < depth[below]) & (value <= most)
            np.minimum.at(depth, below[better], value[better])
            front = np.unique(below[better])
        return None

    def affordable(self, roots: tuple[int, ...], most: float) -> np.ndarray | None:
        """Return whether a selection with each candidate may cost at most ``most``; None if paths are too deep."""
        height, depth = least(self, highest=True), self.depths(roots, most)
        if height is None or depth is None:
            return None
        own = _values(self, self.cost, np.arange(len(self.cost)), height[0], highest=True)
        found: np.ndarray = depth[self.eclass] + own <= most
        return found


def ranges(start: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of some rows of a table one after another, and the start of each row among them."""
    first = start[rows]
    sizes = start[rows + 1] - first
    begin = np.concatenate(([0], np.cumsum(sizes)))
    entries = np.arange(begin[-1]) + np.repeat(first - begin[:-1], sizes)
    return entries, begin


def least(
    table: Table, *, highest: bool = False, until: float = math.inf, roots: tuple[int, ...] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return the least costs of all e-classes, or None if a method with a heap will be faster.

    The result is, by e-class: the least cost, the candidate that attains it, and a number above those of its
    children. An e-class without a finite term has an infinite cost, and -1 otherwise.

    A candidate costs its own cost and that of every child, or the highest of its children's if ``highest``
    is true. Every round evaluates the candidates that read an e-class which became cheaper. An e-class takes
    a candidate only if that is strictly cheaper, and no candidate costs less than its children; so the
    choices are acyclic for all cycles of the e-graph and all roundings of sums.

    Args:
        table: The candidates; costs are 0 or more, and an infinite cost excludes a candidate.
        highest: Whether to count the costliest child alone.
        until: Deadline of ``time.perf_counter``. It holds once all roots have a finite cost.
        roots: The e-classes that need a cost before time may be up.
    """
    n = len(table.cost)
    readers, offsets = table.readers()
    price = np.array(table.cost, dtype=float)
    price[price < math.inf] = np.minimum(price[price < math.inf], CEILING)
    best = np.full(table.n_classes, math.inf)
    choice = np.full(table.n_classes, -1, dtype=np.int64)
    when = np.zeros(table.n_classes, dtype=np.int64)
    active = np.flatnonzero((table.start[1:] == table.start[:-1]) & (price < math.inf))
    place = np.array(roots, dtype=np.int64)
    waiting = np.empty(0, dtype=np.int64)  # e-classes that became cheaper and are not yet passed on
    work = rounds = 0
    while active.size:
        rounds += 1
        work += active.size
        if work > REPEATS * n or (rounds > ROUNDS and work < NARROW * rounds):
            return None
        if time.perf_counter() > until and np.isfinite(best[place]).all():
            break
        value = _values(table, price, active, best, highest=highest)
        of = table.eclass[active]
        heads = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
        lowest = np.minimum.reduceat(value, heads)
        better = lowest < best[of[heads]]
        sizes = np.diff(np.concatenate((heads, [len(of)])))
        hits = np.flatnonzero((value == np.repeat(lowest, sizes)) & np.repeat(better, sizes))
        hits = hits[np.flatnonzero(np.diff(of[hits], prepend=-1))]
        classes = of[hits]
        best[classes], choice[classes], when[classes] = value[hits], active[hits], rounds
        waiting = _distinct(np.concatenate((waiting, classes)), table.n_classes)
        active = waiting[:0]
        while waiting.size and not active.size:
            # The cheaper part of many e-classes is passed on first: the others may yet become cheaper.
            value, few = best[waiting], len(waiting) // 10
            now = value <= (np.partition(value, few)[few] if len(value) > MANY else math.inf)
            entries, _ = ranges(offsets, waiting[now])
            active, waiting = _distinct(readers[entries], n), waiting[~now]
    order = np.lexsort((when, best))
    rank = np.empty(table.n_classes, dtype=np.int64)
    rank[order] = np.arange(table.n_classes)
    rank[choice < 0] = -1
    return best, choice, rank


def _values(
    table: Table, price: np.ndarray, active: np.ndarray, best: np.ndarray, *, highest: bool
) -> np.ndarray:
    """Return the cost of some candidates."""
    entries, begin = ranges(table.start, active)
    value = price[active]
    parts = best[table.children[entries]]
    filled = np.flatnonzero(begin[1:] > begin[:-1])
    if filled.size:
        fold = np.maximum if highest else np.add
        value[filled] += fold.reduceat(parts, begin[filled])
    finite = value < math.inf
    value[finite] = np.minimum(value[finite], CEILING)
    return value


def _distinct(positions: np.ndarray, n: int) -> np.ndarray:
    """Return positions below ``n`` in order, each once."""
    if len(positions) * 8 < n:
        ordered = np.sort(positions)
        return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]
    flags = np.zeros(n, dtype=bool)
    flags[positions] = True
    return np.flatnonzero(flags)
