"""Local search: improve an acyclic selection by single switches and by building parts to share."""

from __future__ import annotations

import heapq
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from workbench.extraction.greedy.dag import TOLERANCE, acyclic, settle
from workbench.extraction.greedy.selection import Selection
from workbench.extraction.problem import Problem

#: Number of e-classes above a newly built one whose readers are examined.
REACH: Final = 30
#: The search ends after this many stirs without a gain, per e-class with a choice.
PATIENCE: Final = 20
#: The share of its cost that a round of switches must save for another round to follow.
GOOD_DEAL: Final = 1e-3
#: Candidates opened and places stirred between two descents; large problems get more.
OPENINGS: Final = 5_000
STIRS: Final = 500
#: Sizes of the neighbourhoods to stir.
SIZES: Final = (4, 8, 16, 32)
#: Moves of a stir per e-class of its neighbourhood.
MOVES: Final = 8
#: Temperatures of the stirs, relative to the mean cost of a built e-node.
HEATS: Final = (1.0, 0.3, 0.1)


@dataclass(slots=True)
class _Search:
    """The state of a local search.

    The selection never gets worse by a completed move, so it is itself the best so far. ``told`` is the
    last reported cost. ``cursor`` is the e-class whose candidates are opened next. ``vain`` counts the
    e-classes passed since an opening or a stir last gained. The search ends at ``until``, or ``rest``
    seconds after ``gained``, the time of its last gain.
    """

    selection: Selection
    readers: list[list[int]]
    until: float
    improved: Callable[[float], None] | None
    told: float
    rest: float
    gained: float
    cursor: int = 0
    vain: int = 0

    def late(self) -> bool:
        """Return whether time is up."""
        return time.perf_counter() > min(self.until, self.gained + self.rest)


def improve(
    problem: Problem,
    taken: dict[int, int],
    until: float,
    improved: Callable[[float], None] | None = None,
    seed: int = 0,
    patience: int = PATIENCE,
    rest: float = math.inf,
) -> dict[int, int]:
    """Return an acyclic selection (e-class → e-node) that costs at most as much as ``taken``.

    The search first descends. It switches e-classes to other candidates if that is cheaper. It also builds
    new e-classes and lets several readers switch to them, if together they gain more than the new
    e-class costs; a single reader need not gain. It then stirs: it anneals a small random neighbourhood
    and keeps the result if it does not cost more. Equal arguments give equal results unless time cuts
    the search short.

    Args:
        problem: The problem.
        taken: An acyclic selection to improve.
        until: Deadline of ``time.perf_counter``.
        improved: Callback for every better cost.
        seed: Seed of the random choices.
        patience: Largest number of stirs without a gain, per e-class with a choice.
        rest: Largest number of seconds without a gain.
    """
    tree = settle(problem, problem.cost)
    place = {node: i for i, node in enumerate(problem.nodes)}
    choice = [-1] * problem.n_classes
    for c, node in taken.items():
        choice[c] = place.get(node, -1)
    start = acyclic(problem, choice, [0.0] * problem.n_classes, tree)
    selection = Selection(problem, start, tree)
    readers: list[list[int]] = [[] for _ in range(problem.n_classes)]
    for i, row in enumerate(problem.children):
        if problem.cost[i] < math.inf:
            for d in row:
                readers[d].append(i)
    search = _Search(selection, readers, until, improved, selection.total, rest, time.perf_counter())
    rng = random.Random(seed)
    idle = 0
    while selection.total > 0.0 and not search.late():
        before = selection.total
        _descend(search)
        _openings(search, OPENINGS + len(problem.nodes) // 20)
        idle = _stirs(search, rng, STIRS + len(problem.nodes) // 100, idle, patience)
        if selection.total < before * (1 - TOLERANCE):
            idle = max(idle, 0)
        elif idle < 0 and search.vain >= problem.n_classes:
            break
    return {c: problem.nodes[i] for c, i in enumerate(selection.pick) if i >= 0}


def _keep(search: _Search) -> None:
    """Make the changes since the last call final, and report a better cost."""
    s = search.selection
    s.journal.clear()
    if s.total < search.told * (1 - TOLERANCE):
        search.told, search.gained = s.total, time.perf_counter()
        if search.improved is not None:
            search.improved(s.total)


def _descend(search: _Search) -> None:
    """Run rounds of switches while each saves enough, with new expected costs for every round."""
    s = search.selection
    before = math.inf
    while s.total < before * (1 - GOOD_DEAL) and not search.late():
        before = s.total
        price = [
            cost if s.pick[c] < 0 else 0.0 if s.pick[c] == i else math.inf
            for i, (c, cost) in enumerate(zip(s.problem.eclass, s.problem.cost, strict=True))
        ]
        s.guide(settle(s.problem, price))
        _switches(search)


def _switches(search: _Search) -> None:
    """Switch every built e-class to the first candidates that lower the total cost."""
    s = search.selection
    for c, candidates in enumerate(s.members):
        if s.pick[c] < 0:
            continue
        _try_all(s, c, candidates)
        _keep(search)
        if search.late():
            return


def _try_all(s: Selection, c: int, candidates: list[int]) -> None:
    for i in candidates:
        if s.pick[c] < 0:
            return
        if i == s.pick[c] or s.price(i) >= s.total:
            continue
        mark = s.mark()
        if not s.take(c, i) or s.total >= mark[1] * (1 - TOLERANCE):
            s.undo(mark)


def _openings(search: _Search, tries: int) -> None:
    """Try to build e-classes that cost something but that several others could share.

    The e-classes are visited in turn; the search ends after ``tries`` candidates or a full turn without a
    gain.
    """
    s = search.selection
    cost, children, pick, expected = s.problem.cost, s.problem.children, s.pick, s.expected
    while tries > 0 and search.vain < s.problem.n_classes:
        f = search.cursor
        search.cursor = (f + 1) % s.problem.n_classes
        search.vain += 1
        for i in s.members[f]:
            # A candidate that is free once one e-class is built is found when that e-class is opened.
            if cost[i] == 0.0 and sum(pick[d] < 0 and expected[d] > 0.0 for d in children[i]) < 2:
                continue
            if i == pick[f] or s.price(i) >= s.total:
                continue
            tries -= 1
            mark = s.mark()
            if _open(search, f, i) and s.total < mark[1] * (1 - TOLERANCE):
                _keep(search)
                search.vain = 0
            else:
                s.undo(mark)
        if s.members[f] and search.late():
            return


def _open(search: _Search, f: int, i: int) -> bool:
    """Take a candidate, then let readers switch to e-classes that it made cheaper if they lose nothing.

    The selection may cost more afterwards. Return False if the candidate cannot be taken.
    """
    s = search.selection
    eclass, cost, children = s.problem.eclass, s.problem.cost, s.problem.children
    pick, expected, rank = s.pick, s.expected, s.rank
    first, before = s.mark()
    if not s.take(f, i):
        return False
    s.uses[f] += 1  # keep it, although nothing reads it yet
    worth = max(0.0, s.total - before)
    changed: list[tuple[int, float]] = []
    heap = sorted({(0.0, c) for c, _, _ in s.journal[first:] if pick[c] >= 0})
    for _ in range(REACH):
        if not heap:
            break
        known, x = heapq.heappop(heap)
        if pick[x] < 0 and known > expected[x]:
            continue
        for j in search.readers[x]:
            c = eclass[j]
            if pick[c] >= 0:
                if pick[c] != j:
                    mark = s.mark()
                    if not s.take(c, j) or s.total > mark[1] * (1 + TOLERANCE):
                        s.undo(mark)
            elif rank[c] >= 0:
                value = cost[j]
                for d in children[j]:
                    if pick[d] < 0:
                        value += expected[d]
                        if value > worth:
                            break
                if value <= worth and value < expected[c] * (1 - TOLERANCE) and s.below(j, c):
                    changed.append((c, expected[c]))
                    expected[c] = value
                    heapq.heappush(heap, (value, c))
    for c, value in reversed(changed):
        expected[c] = value
    s.uses[f] -= 1
    s.drop((f,))
    return True


def _stirs(search: _Search, rng: random.Random, count: int, idle: int, patience: int) -> int:
    """Stir one place after another; return the number of stirs without a gain, -1 if patience has ended."""
    s = search.selection
    built = [c for c, i in enumerate(s.pick) if i >= 0 and len(s.members[c]) > 1]
    costs = [s.problem.cost[i] for i in s.pick if i >= 0 and s.problem.cost[i] > 0.0]
    mean = math.fsum(costs) / max(1, len(costs))
    for _ in range(count):
        if search.late():
            break
        if idle < 0 or idle >= patience * len(built):
            return -1
        before = s.total
        c = built[int(rng.random() * len(built))]
        size, heat = rng.choice(SIZES), rng.choice(HEATS)
        if s.pick[c] >= 0:
            _stir(search, rng, _around(search, rng, c, size), size * MOVES, heat * mean)
        idle += 1
        if s.total < before * (1 - TOLERANCE):
            idle = search.vain = 0
    return idle


def _stir(search: _Search, rng: random.Random, pool: list[int], moves: int, heat: float) -> None:
    """Anneal the choices of the e-classes in ``pool``, descend, and keep the result if it costs no more."""
    s = search.selection
    pick, members, random_ = s.pick, s.members, rng.random
    most = 3 * len(pool)
    start = s.mark()
    for n in range(moves):
        if n % 16 == 0 and search.late():
            break
        c = pool[int(random_() * len(pool))]
        if pick[c] < 0:
            continue
        i = members[c][int(random_() * len(members[c]))]
        mark = s.mark()
        if random_() < 0.1:
            f, i = _descent(s, rng, i)
            done = f >= 0 and s.price(i) < math.inf and _open(search, f, i)
        else:
            done = i != pick[c] and s.price(i) < math.inf and s.take(c, i)
        rise = s.total - mark[1]
        if not done or (rise > 0.0 and random_() >= math.exp(-rise * moves / (heat * (moves - n)))):
            s.undo(mark)
            continue
        for d, old, _ in s.journal[mark[0] :]:
            if old < 0 <= pick[d] and len(members[d]) > 1 and len(pool) < most:
                pool.append(d)
    for c in dict.fromkeys(pool):
        if pick[c] >= 0:
            _try_all(s, c, members[c])
    if s.total <= start[1] * (1 + TOLERANCE):
        _keep(search)
    else:
        s.undo(start)


def _descent(s: Selection, rng: random.Random, i: int) -> tuple[int, int]:
    """Walk down at random from a candidate to an unbuilt e-class (-1 if none) and one of its candidates."""
    pick, members, children, random_ = s.pick, s.members, s.problem.children, rng.random
    f = -1
    while True:
        open_ = [d for d in children[i] if pick[d] < 0]
        if not open_ or (f >= 0 and random_() < 0.5):
            return f, i
        f = open_[int(random_() * len(open_))]
        i = members[f][int(random_() * len(members[f]))]


def _around(search: _Search, rng: random.Random, c: int, size: int) -> list[int]:
    """Return built e-classes with a choice near ``c``: a breadth-first search, thinned at random."""
    s = search.selection
    members, children, eclass, random_ = s.members, s.problem.children, s.problem.eclass, rng.random
    order, found = [c], [c]
    seen = {c}
    for x in order:
        if len(found) >= size or len(order) >= 20 * size:
            break
        near = []
        for _ in range(4):
            row = children[members[x][int(random_() * len(members[x]))]]
            if row:
                near.append(row[int(random_() * len(row))])
            above = search.readers[x]
            if above:
                near.append(eclass[above[int(random_() * len(above))]])
        for d in near:
            if d not in seen:
                seen.add(d)
                order.append(d)
                if s.pick[d] >= 0 and len(members[d]) > 1:
                    found.append(d)
    return found
