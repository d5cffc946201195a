"""Greedy extraction that keeps several terms of every e-class, so that readers can share the better ones."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from workbench.extraction.greedy.dag import ENTRIES, acyclic, settle
from workbench.extraction.problem import Problem

#: Terms that are kept of every e-class.
WIDTH: Final = 3
#: Each candidate is tried at most this often on average; further tries hardly find anything.
TRIES: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """A term of an e-class: its cost, and the candidate of every e-class in it."""

    cost: float
    parts: dict[int, int]


def beam(
    problem: Problem, until: float | None = None, entries: int = ENTRIES, width: int = WIDTH
) -> dict[int, int] | None:
    """Return an acyclic selection (e-class → e-node) found by keeping ``width`` terms of every e-class.

    A candidate is tried with the combinations of its children's terms, child by child, of which the
    cheapest ``width`` go on. The result is None if time or ``entries`` (pairs of an e-class and one below
    it) end the search, or if terms of different children do not fit together at a root.

    Args:
        problem: The problem.
        until: Deadline of ``time.perf_counter``.
        entries: Largest number of pairs that are kept.
        width: Number of terms that are kept of every e-class.
    """
    tree = settle(problem, problem.cost)
    readers: list[list[int]] = [[] for _ in range(problem.n_classes)]
    for i, row in enumerate(problem.children):
        for d in row:
            readers[d].append(i)
    known: list[list[_Term]] = [[] for _ in range(problem.n_classes)]
    order = sorted(range(len(problem.nodes)), key=lambda i: (tree.rank[problem.eclass[i]], i))
    queue = deque(i for i in order if problem.cost[i] < math.inf)
    queued = bytearray(len(problem.nodes))
    for i in queue:
        queued[i] = 1
    kept = work = 0
    left = TRIES * len(problem.nodes)
    while queue and left:
        left -= 1
        work += 1
        if not work & 63 and until is not None and time.perf_counter() > until:
            return None
        i = queue.popleft()
        queued[i] = 0
        c = problem.eclass[i]
        before = known[c]
        fresh = [
            term
            for term in _combined(problem, known, problem.children[i], width)
            if c not in term.parts
        ]  # fmt: skip
        own = [_Term(term.cost + problem.cost[i], term.parts | {c: i}) for term in fresh]
        best = _cheapest([*before, *own], width)
        if len(best) == len(before) and all(a is b for a, b in zip(best, before, strict=True)):
            continue
        known[c] = best
        kept += sum(len(term.parts) for term in best) - sum(len(term.parts) for term in before)
        if kept > entries:
            return None
        for j in readers[c]:
            if not queued[j] and problem.cost[j] < math.inf:
                queue.append(j)
                queued[j] = 1
    whole = _combined(problem, known, problem.roots, width)
    if not whole:
        return None
    choice = [-1] * problem.n_classes
    for c, i in whole[0].parts.items():
        choice[c] = i
    picked = acyclic(problem, choice, [0.0] * problem.n_classes, tree)
    return {c: problem.nodes[i] for c, i in picked.items()}


def _combined(
    problem: Problem, known: list[list[_Term]], classes: tuple[int, ...], width: int
) -> list[_Term]:
    """Return the cheapest ways to build several e-classes at once."""
    found = [_Term(0.0, {})]
    for d in sorted(classes, key=lambda d: -len(known[d][0].parts) if known[d] else 0):
        if len(found) == 1 and len(known[d]) == 1:
            # The only way grows in place: copies of it would take quadratic time under a wide e-node.
            cost, grown = found[0].cost, found[0].parts
            for c, i in known[d][0].parts.items():
                if c not in grown:
                    grown[c] = i
                    cost += problem.cost[i]
            found = [_Term(cost, grown)]
            continue
        united = []
        for one in found:
            for other in known[d]:
                parts = other.parts | one.parts
                cost = one.cost
                for c, i in other.parts.items():
                    if c not in one.parts:
                        cost += problem.cost[i]
                united.append(_Term(cost, parts))
        found = _cheapest(united, width)
        if not found:
            return []
    return found


def _cheapest(terms: list[_Term], width: int) -> list[_Term]:
    """Return the cheapest terms, of equal costs the first only."""
    result: list[_Term] = []
    for term in sorted(terms, key=lambda term: term.cost):
        if not result or term.cost > result[-1].cost * (1 + 1e-12):
            result.append(term)
            if len(result) == width:
                break
    return result
