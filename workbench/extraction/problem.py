"""The combinatorial core of an extraction: classes, candidate e-nodes, costs, children."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.extraction.egraph import EGraph

#: Tree costs end here, far below what a float holds and far above what is real.
CEILING: Final = 1e250


class NoExtraction(ValueError):
    """Say that a root has no finite term of finite cost, or that the costs do not fit the e-graph."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Hold what remains to be decided.

    ``nodes`` are e-nodes of the e-graph, ``eclass``, ``cost`` and ``children`` (distinct e-classes,
    those that cost nothing left out) describe them by position. ``fixed`` is the choice made for the
    e-classes left out: they have a term that costs nothing, so taking it is always best.
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
        """Return the problem without the candidates that are not alive, useless or unreachable.

        A candidate is useless when a child of it has no candidate left. Unless ``always``, a problem
        that stays the same is returned itself.
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

    Knuth's generalisation of Dijkstra's algorithm: e-classes are settled in order of cost, so the
    choice is acyclic. An e-class without a finite term keeps an infinite cost and choice -1.
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
                # In a deep term the sums double with every level; beyond the ceiling they are all alike.
                total[reader] = min(total[reader] + cost * operands[reader].count(c), CEILING)
            waiting[reader] -= 1
            if not waiting[reader] and choice[eclass[reader]] < 0 and total[reader] < math.inf:
                heapq.heappush(heap, (total[reader], reader))
    return best, choice


def check_costs(egraph: EGraph, costs: np.ndarray) -> np.ndarray:
    """Return the costs as floats; raise :class:`NoExtraction` where they cannot be used."""
    values = np.asarray(costs, dtype=float)
    if values.shape != (len(egraph),):
        raise NoExtraction(f"{len(egraph)} e-nodes need as many costs, not an array {values.shape}")
    if np.isnan(values).any() or (values < 0).any():
        bad = int(np.flatnonzero(np.isnan(values) | (values < 0))[0])
        raise NoExtraction(
            f"e-node {egraph.node_name(bad)} ({egraph.ops[bad]}) costs {values[bad]}: costs are 0 or more; "
            "give it such a cost, or an infinite one to keep it out of every term"
        )
    if not egraph.roots:
        raise NoExtraction("the e-graph has no root")
    return values


def make_problem(egraph: EGraph, costs: np.ndarray, best: Sequence[float], choice: Sequence[int]) -> Problem:
    """Return what is left to decide once every e-class with a free term has taken it."""
    for root in egraph.roots:
        if not math.isfinite(best[root]):
            raise NoExtraction(f"root e-class {root} has no finite term of finite cost")
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
    """Return the choice for every needed e-class: ``taken`` maps e-classes to e-nodes."""
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
    """Return the cost of a selection, every chosen e-node once; inf where it is too large a number."""
    with np.errstate(over="ignore"):
        return float(costs[choice[choice >= 0]].sum())


def is_acyclic(egraph: EGraph, choice: np.ndarray) -> bool:
    """Say whether the selection below the roots is complete and without a cycle."""
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
