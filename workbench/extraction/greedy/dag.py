"""Greedy extraction that counts shared parts once: by the best term of every e-class."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from itertools import count
from typing import Final

from workbench.extraction.problem import NoExtraction, Problem, Settled, settle

#: Largest number of pairs of an e-class and one below it that are kept; a pair takes about 50 bytes.
ENTRIES: Final = 20_000_000
#: Relative differences of cost below this are rounding, not improvements.
TOLERANCE: Final = 1e-12
#: Set entries processed between two checks of the clock, about a tenth of a second.
_STRIDE: Final = 1_000_000


def greedy(
    problem: Problem, until: float = math.inf, entries: int = ENTRIES, *, once: bool = False
) -> dict[int, int]:
    """Return a selection (e-class → e-node) by the least cost of whole terms, counting shared parts once.

    Every e-class keeps the e-classes below its best candidate with their costs. Candidates are tried again
    when a child improves (the worklist method of the extraction gym). Two orders are tried, because neither
    is always better: that in which tree costs settle the e-classes, and first in, first out as in the gym.
    E-classes that are undecided when a limit is reached are chosen by tree cost. The selection is always
    complete and acyclic and never costs more than that of tree cost. Raise NoExtraction if a root has no finite term.

    Args:
        problem: The problem.
        until: A deadline of ``time.perf_counter``.
        entries: The largest number of pairs that are kept.
        once: Whether only the first order is tried, which suffices as the start of an exact method.
    """
    tree = settle(problem, problem.cost)
    for root in problem.roots:
        if tree.choice[root] < 0:
            raise NoExtraction(f"root e-class {root} must have a finite term of finite cost, got none")
    plain = acyclic(problem, tree.choice, tree.best, tree)
    best, least = plain, problem.cost_of(plain)
    for in_order in (True,) if once else (True, False):
        choice, total = _search(problem, tree, until, entries, in_order=in_order)
        picked = acyclic(problem, choice, total, tree)
        cost = problem.cost_of(picked)
        if cost < least or (best is plain and cost == least):
            best, least = picked, cost
    return problem.taken(best)


def _search(
    problem: Problem, tree: Settled, until: float, entries: int, *, in_order: bool
) -> tuple[list[int], list[float]]:
    """Return choices and costs at the end or a limit; candidates wait by tree cost, or first in, first out."""
    eclass, cost, children = problem.eclass, problem.cost, problem.children
    by_class = sorted(range(len(eclass)), key=eclass.__getitem__)
    readers = {d: sorted(reading, key=eclass.__getitem__) for d, reading in problem.readers().items()}
    below: list[dict[int, float] | None] = [None] * problem.n_classes
    total = [math.inf] * problem.n_classes
    choice = [-1] * problem.n_classes
    # In this order a deep e-graph takes about one pass; first in, first out takes hundreds.
    rank = tree.rank
    turn = count()
    queue: list[tuple[int, int]] = []
    queued = bytearray(len(children))

    def push(i: int) -> None:
        heapq.heappush(queue, (rank[eclass[i]] if in_order else next(turn), i))
        queued[i] = 1

    for i in by_class:
        if not children[i] and cost[i] < math.inf:
            push(i)
    missing = [len(row) for row in children]  # e-classes that a candidate reads and that have no term yet
    kept, work = 0, _STRIDE + 1  # check the clock at once: the time may be up already
    while queue:
        if work > _STRIDE:
            work = 0
            if time.perf_counter() > until:
                return choice, total
        work += 20
        _, i = heapq.heappop(queue)
        queued[i] = 0
        if missing[i]:
            continue
        c, known = eclass[i], total[eclass[i]]
        work += len(children[i])
        parts = [part for part in (below[d] for d in children[i]) if part is not None]
        if any(c in part for part in parts):
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
        if sum_ >= (known * (1 - TOLERANCE) if in_order else known):
            continue
        old = below[c]
        kept += len(united) - (len(old) if old is not None else 0)
        below[c], total[c], choice[c] = united, sum_, i
        if kept > entries:
            return choice, total
        for j in readers.get(c, ()):
            missing[j] -= old is None
            if not queued[j] and cost[j] < math.inf:
                push(j)
    return choice, total


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
