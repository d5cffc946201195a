"""The combinatorial core of an extraction: classes, candidate e-nodes, costs, children."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph

#: Tree costs are capped here: far below the largest float and far above any realistic cost.
CEILING: Final = 1e250


class NoExtraction(ValueError):
    """Raised when a root has no finite term of finite cost, or when the costs do not fit the e-graph."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The choices of an extraction that are still open.

    ``nodes`` are e-nodes of the e-graph, called candidates. ``eclass``, ``cost`` and ``children`` describe
    them by position; ``children`` lists distinct e-classes and omits those in ``fixed``. ``fixed`` maps
    each decided e-class to its e-node: an e-class with a term that costs nothing always takes that term.
    """

    nodes: list[int]
    eclass: list[int]
    cost: list[float]
    children: list[tuple[int, ...]]
    roots: tuple[int, ...]
    n_classes: int
    fixed: dict[int, int]

    def members(self) -> dict[int, list[int]]:
        """Return the positions of every e-class's candidates."""
        result: dict[int, list[int]] = {}
        for i, c in enumerate(self.eclass):
            result.setdefault(c, []).append(i)
        return result

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
        )


def tree_costs(egraph: EGraph, costs: np.ndarray) -> tuple[list[float], list[int]]:
    """Return the least tree cost of every e-class and the e-node that attains it.

    This is Knuth's generalisation of Dijkstra's algorithm: e-classes are settled in order of cost, so
    the choice is acyclic. An e-class without a finite term keeps an infinite cost and the choice -1.
    """
    start, children = egraph.child_start.tolist(), egraph.children.tolist()
    eclass, weight = egraph.eclass.tolist(), costs.tolist()
    readers: list[list[int]] = [[] for _ in range(egraph.n_classes)]
    total = list(weight)
    waiting = [0] * len(eclass)
    operands: list[list[int]] = []
    for i in range(len(eclass)):
        row = children[start[i] : start[i + 1]]
        operands.append(row)
        distinct = set(row)
        waiting[i] = len(distinct)
        for c in distinct:
            readers[c].append(i)
    best = [math.inf] * egraph.n_classes
    choice = [-1] * egraph.n_classes
    heap = [(total[i], i) for i in range(len(eclass)) if not waiting[i] and total[i] < math.inf]
    heapq.heapify(heap)
    while heap:
        cost, i = heapq.heappop(heap)
        c = eclass[i]
        if choice[c] >= 0:
            continue
        choice[c], best[c] = i, cost
        for reader in readers[c]:
            if total[reader] < math.inf:
                # In a deep term the sums double with every level; above the ceiling all count as equal.
                total[reader] = min(total[reader] + cost * operands[reader].count(c), CEILING)
            waiting[reader] -= 1
            if not waiting[reader] and choice[eclass[reader]] < 0 and total[reader] < math.inf:
                heapq.heappush(heap, (total[reader], reader))
    return best, choice


def check_costs(egraph: EGraph, costs: np.ndarray) -> np.ndarray:
    """Return the costs as floats; raise :class:`NoExtraction` if they cannot be used."""
    values = np.asarray(costs, dtype=float)
    if values.shape != (len(egraph),):
        raise NoExtraction(
            f"costs must be an array of {len(egraph)}, one per e-node, got shape {values.shape}"
        )
    if np.isnan(values).any() or (values < 0).any():
        bad = int(np.flatnonzero(np.isnan(values) | (values < 0))[0])
        raise NoExtraction(
            f"the cost of e-node {egraph.node_name(bad)} ({egraph.ops[bad]}) must be 0 or more, "
            f"got {values[bad]} (try an infinite cost to keep the e-node out of every term)"
        )
    if not egraph.roots:
        raise NoExtraction("the e-graph must have at least one root, got none")
    return values


def make_problem(egraph: EGraph, costs: np.ndarray, best: Sequence[float], choice: Sequence[int]) -> Problem:
    """Return the choices left once every e-class with a free term has taken it.

    Args:
        egraph: The e-graph.
        costs: One cost per e-node, 0 or more; an infinite cost excludes the e-node.
        best: The least tree cost of every e-class, from :func:`tree_costs`.
        choice: The e-node that attains it, -1 if the e-class has no finite term.

    Raises:
        NoExtraction: If a root has no finite term of finite cost.
    """
    for root in egraph.roots:
        if not math.isfinite(best[root]):
            raise NoExtraction(f"root e-class {root} must have a finite term of finite cost, got none")
    start, children = egraph.child_start.tolist(), egraph.children.tolist()
    eclass, weight = egraph.eclass.tolist(), costs.tolist()
    fixed = {c: choice[c] for c in range(egraph.n_classes) if best[c] == 0.0}
    nodes, classes, prices, below = [], [], [], []
    for i, c in enumerate(eclass):
        if c in fixed or not math.isfinite(weight[i]):
            continue
        row = tuple(dict.fromkeys(d for d in children[start[i] : start[i + 1]] if d not in fixed))
        if c in row or any(not math.isfinite(best[d]) for d in row):
            continue
        nodes.append(i)
        classes.append(c)
        prices.append(weight[i])
        below.append(row)
    roots = tuple(dict.fromkeys(r for r in egraph.roots if r not in fixed))
    problem = Problem(nodes, classes, prices, below, roots, egraph.n_classes, fixed)
    return problem.keep([True] * len(nodes))


def complete(egraph: EGraph, problem: Problem, taken: dict[int, int]) -> np.ndarray:
    """Return the choice for every needed e-class; ``taken`` maps undecided e-classes to e-nodes."""
    choice = np.full(egraph.n_classes, -1, dtype=np.int64)
    stack = list(egraph.roots)
    start, children = egraph.child_start, egraph.children
    while stack:
        c = stack.pop()
        if choice[c] >= 0:
            continue
        i = taken[c] if c in taken else problem.fixed[c]
        choice[c] = i
        stack += children[start[i] : start[i + 1]].tolist()
    return choice


def dag_cost(choice: np.ndarray, costs: np.ndarray) -> float:
    """Return the cost of a selection, counting every chosen e-node once; inf if the sum overflows."""
    with np.errstate(over="ignore"):
        return float(costs[choice[choice >= 0]].sum())


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
