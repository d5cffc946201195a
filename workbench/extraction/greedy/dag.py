"""Greedy extraction that counts shared parts once: by the best term of every e-class, and by several (beam)."""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from workbench.extraction.problem import NoExtraction, Problem, Settled, settle

#: Largest number of pairs of an e-class and one below it that are kept; a pair takes about 50 bytes.
ENTRIES: Final = 20_000_000
#: Relative differences of cost below this are rounding, not improvements.
TOLERANCE: Final = 1e-12
#: Terms of every e-class that a beam search keeps.
WIDTH: Final = 3
#: It tries each candidate at most this often on average; further tries hardly find anything.
TRIES: Final = 6
#: Set entries processed between two checks of the clock, about a tenth of a second.
_STRIDE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Greedy:
    """A complete acyclic selection (e-class → e-node), and whether the search finished."""

    taken: dict[int, int]
    finished: bool


def greedy(problem: Problem, until: float | None = None, entries: int = ENTRIES) -> Greedy:
    """Choose by the least cost of the whole term, counting shared parts once.

    Every e-class keeps the e-classes below its best candidate with their costs. Candidates are tried again
    when a child improves (the worklist method of the extraction gym). Two orders are tried, because neither
    is always better: that in which tree costs settle the e-classes, and first in, first out as in the gym.
    E-classes that are undecided when a limit is reached are chosen by tree cost. The selection is always
    complete and acyclic and never costs more than that of tree cost.

    ``until`` is a deadline of ``time.perf_counter``; ``entries`` bounds the number of pairs kept. Raise
    :class:`NoExtraction` if a root has no finite term.
    """
    tree = settle(problem, problem.cost)
    for root in problem.roots:
        if tree.choice[root] < 0:
            raise NoExtraction(f"root e-class {root} must have a finite term of finite cost, got none")
    plain = acyclic(problem, tree.choice, tree.best, tree)
    best, least, complete = plain, problem.cost_of(plain), True
    for in_order in (True, False):
        choice, total, finished = _search(problem, tree, until, entries, in_order=in_order)
        complete &= finished
        picked = acyclic(problem, choice, total, tree)
        cost = problem.cost_of(picked)
        if cost < least or (best is plain and cost == least):
            best, least = picked, cost
    return Greedy(problem.taken(best), complete)


class _Queue:
    """Candidates that wait, each with a rank: the lowest rank first, or first in, first out."""

    __slots__ = ("_fifo", "_heap")

    def __init__(self, waiting: list[tuple[int, int]], in_order: bool) -> None:
        self._heap = waiting if in_order else None
        self._fifo = deque(waiting)
        if in_order:
            heapq.heapify(waiting)
            self._fifo.clear()

    def __bool__(self) -> bool:
        return bool(self._fifo if self._heap is None else self._heap)

    def push(self, item: tuple[int, int]) -> None:
        """Add a candidate with its rank."""
        if self._heap is None:
            self._fifo.append(item)
        else:
            heapq.heappush(self._heap, item)

    def pop(self) -> int:
        """Remove and return the next candidate."""
        return (self._fifo.popleft() if self._heap is None else heapq.heappop(self._heap))[1]


def _search(
    problem: Problem, tree: Settled, until: float | None, entries: int, *, in_order: bool
) -> tuple[list[int], list[float], bool]:
    """Return the choice and cost of every e-class, and whether the worklist was emptied.

    Candidates wait in the order of their e-class's tree cost, or first in, first out.
    """
    eclass, cost, children = problem.eclass, problem.cost, problem.children
    by_class = sorted(range(len(eclass)), key=eclass.__getitem__)
    readers = {d: sorted(reading, key=eclass.__getitem__) for d, reading in problem.readers().items()}
    below: list[dict[int, float] | None] = [None] * problem.n_classes
    total = [math.inf] * problem.n_classes
    choice = [-1] * problem.n_classes
    # In this order a deep e-graph takes about one pass; first in, first out takes hundreds.
    rank = tree.rank
    leaves = [i for i in by_class if not children[i] and cost[i] < math.inf]
    queue = _Queue([(rank[eclass[i]], i) for i in leaves], in_order)
    queued = bytearray(len(children))
    for i in leaves:
        queued[i] = 1
    missing = [len(row) for row in children]  # e-classes that a candidate reads and that have no term yet
    kept, work = 0, _STRIDE + 1  # check the clock at once: the time may be up already
    while queue:
        if work > _STRIDE:
            work = 0
            if until is not None and time.perf_counter() > until:
                return choice, total, False
        work += 20
        i = queue.pop()
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
            return choice, total, False
        for j in readers.get(c, ()):
            missing[j] -= old is None
            if not queued[j] and cost[j] < math.inf:
                queue.push((rank[eclass[j]], j))
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


# -- beam search ---------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """A term of an e-class: its cost, and the candidate of every e-class in it."""

    cost: float
    parts: dict[int, int]


def beam(
    problem: Problem, until: float | None = None, entries: int = ENTRIES, width: int = WIDTH
) -> dict[int, int] | None:
    """Return an acyclic selection (e-class → e-node) found by keeping ``width`` terms of every e-class.

    So readers can share the better ones. A candidate is tried with the combinations of its children's terms,
    child by child, of which the cheapest ``width`` go on. The result is None if time or ``entries`` (pairs of
    an e-class and one below it) end the search, or if terms of different children do not fit together at a
    root.

    Args:
        problem: The problem.
        until: Deadline of ``time.perf_counter``.
        entries: Largest number of pairs that are kept.
        width: Number of terms that are kept of every e-class.
    """
    tree = settle(problem, problem.cost)
    readers = problem.readers()
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
        for j in readers.get(c, ()):
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
    return problem.taken(picked)


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
