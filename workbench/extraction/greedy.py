"""Greedy extraction that counts sharing."""

from __future__ import annotations

import math
from collections import deque

from workbench.extraction.problem import Problem


def greedy_dag(problem: Problem) -> dict[int, int]:
    """Return e-class → e-node by the least cost of the whole term, shared parts once.

    Every e-class keeps the set of e-classes below its best candidate with their costs; candidates are
    tried again when a child improves (the worklist method of the extraction gym). A candidate whose
    own e-class stands below it is refused, so the result is acyclic.
    """
    eclass, cost, children = problem.eclass, problem.cost, problem.children
    readers: dict[int, list[int]] = {}
    for i, row in enumerate(children):
        for c in row:
            readers.setdefault(c, []).append(i)
    below: dict[int, dict[int, float]] = {}
    total: dict[int, float] = {}
    choice: dict[int, int] = {}
    queue = deque(i for i, row in enumerate(children) if not row)
    queued = set(queue)
    while queue:
        i = queue.popleft()
        queued.discard(i)
        c, row = eclass[i], children[i]
        if any(d not in below for d in row):
            continue
        known = total.get(c, math.inf)
        if cost[i] + max((total[d] for d in row), default=0.0) >= known:
            continue
        if any(c in below[d] for d in row):
            continue
        united: dict[int, float] = {}
        for d in sorted(row, key=lambda d: -len(below[d])):
            united = dict(below[d]) if not united else united | below[d]
        united[c] = cost[i]
        sum_ = math.fsum(united.values())
        if sum_ < known - 1e-12:
            below[c], total[c], choice[c] = united, sum_, i
            for reader in readers.get(c, ()):
                if reader not in queued:
                    queue.append(reader)
                    queued.add(reader)
    return _consistent(problem, choice)


def _consistent(problem: Problem, choice: dict[int, int]) -> dict[int, int]:
    """Return the part below the roots; later improvements may have closed a cycle: break it."""
    taken: dict[int, int] = {}
    state: dict[int, int] = {}
    for root in problem.roots:
        stack = [root]
        while stack:
            c = stack[-1]
            if state.get(c) == 2:
                stack.pop()
                continue
            if c not in choice:
                return {}
            waiting = [d for d in problem.children[choice[c]] if state.get(d) != 2]
            if any(state.get(d) == 1 for d in waiting):
                return {}
            if waiting:
                state[c] = 1
                stack += waiting
            else:
                state[c] = 2
                taken[c] = problem.nodes[choice[c]]
                stack.pop()
    return taken
