"""Greedy extraction that counts shared parts once, within a time and a memory limit."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from workbench.extraction.problem import NoExtraction, Problem

#: Largest number of pairs of an e-class and one below it that are kept; a pair takes about 50 bytes.
ENTRIES: Final = 20_000_000
#: Cap on sums of costs: tree costs double with every level of sharing and would overflow.
CEILING: Final = 1e300
#: Relative differences of cost below this are rounding, not improvements.
TOLERANCE: Final = 1e-12
#: Set entries processed between two checks of the clock, about a tenth of a second.
_STRIDE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Greedy:
    """A complete acyclic selection (e-class → e-node), and whether the search finished."""

    taken: dict[int, int]
    finished: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """An acyclic choice for every e-class with a finite term: costs, candidates and their order.

    All lists are indexed by e-class. ``best`` is the least cost (infinite without a finite term),
    ``choice`` the position of the candidate (-1 without), ``rank`` a number above those of its children.
    """

    best: list[float]
    choice: list[int]
    rank: list[int]


def settle(problem: Problem, price: Sequence[float]) -> Settled:
    """Return the choice of least tree cost if candidate ``i`` costs ``price[i]`` (0 or more).

    This is Knuth's generalisation of Dijkstra's algorithm, as in ``tree_costs``. An infinite price excludes
    a candidate. Sums are capped at ``CEILING``; the choice stays acyclic.
    """
    eclass, children = problem.eclass, problem.children
    readers: list[list[int]] = [[] for _ in range(problem.n_classes)]
    total = list(price)
    waiting = [len(row) for row in children]
    for i, row in enumerate(children):
        for d in row:
            readers[d].append(i)
    best = [math.inf] * problem.n_classes
    choice = [-1] * problem.n_classes
    rank = [-1] * problem.n_classes
    heap = [(total[i], i) for i in range(len(eclass)) if not waiting[i] and total[i] < math.inf]
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
                total[j] = min(CEILING, total[j] + cost)
            waiting[j] -= 1
            if not waiting[j] and choice[eclass[j]] < 0 and total[j] < math.inf:
                heapq.heappush(heap, (total[j], j))
    return Settled(best, choice, rank)


def greedy_dag(problem: Problem, until: float | None = None, entries: int = ENTRIES) -> dict[int, int]:
    """Return a selection (e-class → e-node) of least whole-term cost, counting shared parts once.

    See :func:`greedy`, which also returns whether the search finished.
    """
    return greedy(problem, until, entries).taken


def greedy(problem: Problem, until: float | None = None, entries: int = ENTRIES) -> Greedy:
    """Choose by the least cost of the whole term, counting shared parts once.

    Every e-class keeps the e-classes below its best candidate with their costs. Candidates are tried again
    when a child improves (the worklist method of the extraction gym), in the order in which tree costs
    settle their e-classes. E-classes that are undecided when a limit is reached are chosen by tree cost.
    The selection is always complete and acyclic and never costs more than that of tree cost.

    ``until`` is a deadline of ``time.perf_counter``; ``entries`` bounds the number of pairs kept. Raise
    :class:`NoExtraction` if a root has no finite term.
    """
    tree = settle(problem, problem.cost)
    for root in problem.roots:
        if tree.choice[root] < 0:
            raise NoExtraction(f"root e-class {root} must have a finite term of finite cost, got none")
    choice, total, finished = _search(problem, tree, until, entries)
    picked = acyclic(problem, choice, total, tree)
    if not finished or any(i != tree.choice[c] for c, i in picked.items()):
        plain = acyclic(problem, tree.choice, tree.best, tree)
        if _cost(problem, plain) < _cost(problem, picked):
            picked = plain
    return Greedy({c: problem.nodes[i] for c, i in picked.items()}, finished)


def _search(
    problem: Problem, tree: Settled, until: float | None, entries: int
) -> tuple[list[int], list[float], bool]:
    """Return the choice and cost of every e-class, and whether the worklist was emptied."""
    eclass, cost, children = problem.eclass, problem.cost, problem.children
    readers: list[list[int]] = [[] for _ in range(problem.n_classes)]
    for i, row in enumerate(children):
        for d in row:
            readers[d].append(i)
    below: list[dict[int, float] | None] = [None] * problem.n_classes
    total = [math.inf] * problem.n_classes
    choice = [-1] * problem.n_classes
    # In this order a deep e-graph takes about one pass; first in, first out takes hundreds.
    rank = tree.rank
    queue = [(rank[eclass[i]], i) for i, row in enumerate(children) if not row and cost[i] < math.inf]
    heapq.heapify(queue)
    queued = bytearray(len(children))
    for _, i in queue:
        queued[i] = 1
    kept, work = 0, _STRIDE + 1  # check the clock at once: the time may be up already
    while queue:
        if work > _STRIDE:
            work = 0
            if until is not None and time.perf_counter() > until:
                return choice, total, False
        work += 20
        i = heapq.heappop(queue)[1]
        queued[i] = 0
        c, known = eclass[i], total[eclass[i]]
        parts = [part for part in (below[d] for d in children[i]) if part is not None]
        if len(parts) < len(children[i]) or any(c in part for part in parts):
            continue
        # The costliest child alone is a lower bound.
        if cost[i] + max((total[d] for d in children[i]), default=0.0) >= known:
            continue
        parts.sort(key=len, reverse=True)
        united = dict(parts[0]) if parts else {}
        for part in parts[1:]:
            united |= part
        united[c] = cost[i]
        work += 2 * len(united)
        sum_ = math.fsum(united.values())
        if sum_ >= known * (1 - TOLERANCE):
            continue
        old = below[c]
        kept += len(united) - (len(old) if old is not None else 0)
        below[c], total[c], choice[c] = united, sum_, i
        if kept > entries:
            return choice, total, False
        for j in readers[c]:
            if not queued[j] and cost[j] < math.inf:
                heapq.heappush(queue, (rank[eclass[j]], j))
                queued[j] = 1
    return choice, total, True


def acyclic(problem: Problem, choice: Sequence[int], total: Sequence[float], tree: Settled) -> dict[int, int]:
    """Return e-class → position below the roots, following ``choice`` unless it closes a cycle.

    A cycle is broken by switching one of its e-classes to the tree choice: the one with the smallest
    increase over ``total``. Such an e-class always exists, because the tree choice is acyclic.

    Args:
        problem: The problem.
        choice: The position of a candidate by e-class; -1 takes the tree choice.
        total: The cost of each e-class by that choice.
        tree: The choice of least tree cost.
    """
    picked = [i if i >= 0 else j for i, j in zip(choice, tree.choice, strict=True)]
    done: dict[int, int] = {}
    depth: dict[int, int] = {}  # of the e-classes on the path
    for root in problem.roots:
        if root in done:
            continue
        path, rest = [root], [iter(problem.children[picked[root]])]
        depth[root] = 0
        while path:
            c = path[-1]
            for d in rest[-1]:
                if d in done:
                    continue
                if d not in depth:
                    depth[d] = len(path)
                    path.append(d)
                    rest.append(iter(problem.children[picked[d]]))
                    break
                cycle = [e for e in path[depth[d] :] if picked[e] != tree.choice[e]]
                at = min(cycle, key=lambda e: (tree.best[e] - total[e], e))
                picked[at] = tree.choice[at]
                # E-classes below it on the path are searched again, and its own children start anew.
                cut = depth[at]
                for e in path[cut + 1 :]:
                    del depth[e]
                del path[cut + 1 :], rest[cut:]
                rest.append(iter(problem.children[picked[at]]))
                break
            else:
                done[c] = picked[c]
                del depth[c]
                path.pop()
                rest.pop()
    return done


def _cost(problem: Problem, picked: dict[int, int]) -> float:
    return math.fsum(problem.cost[i] for i in picked.values())
