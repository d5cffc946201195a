"""Local search: improve an acyclic selection by single switches and by building parts to share."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from workbench.extraction.greedy.dag import TOLERANCE, acyclic
from workbench.extraction.problem import Problem, Settled, readers_of, settle
from workbench.support.orders import postorder

#: Number of e-classes above a newly built one whose readers are examined.
REACH: Final = 30
#: The share of its cost that a round of switches must save for another round to follow.
GOOD_DEAL: Final = 1e-3
#: Candidates opened between two descents; large problems get more.
OPENINGS: Final = 5_000
#: A switch that touches more e-classes than this is given up.
EFFORT: Final = 5_000
#: If labels get closer than this, they are spread again before rounding makes them equal.
_SPACING: Final = 1e-6


class Selection:
    """An acyclic selection that is changed by single switches, each of which can be undone.

    ``pick[c]`` is the position of the candidate of a built e-class, and -1 for others. ``uses[c]`` counts
    the built e-classes that read ``c``, plus one for a root. ``label`` grows from children to readers, so
    that only e-classes between two labels are searched for a cycle. ``total`` is the cost.

    When a switch needs an e-class that is not built, its cheapest candidate builds it. Built e-classes then
    count as free and others as ``expected`` by the guide. ``rank``, from the same guide, excludes
    candidates that could lead back to the e-class.
    """

    def __init__(self, problem: Problem, picked: Mapping[int, int], guide: Settled) -> None:
        n = problem.n_classes
        self.problem = problem
        self.members: list[list[int]] = [[] for _ in range(n)]
        for i, c in enumerate(problem.eclass):
            if problem.cost[i] < math.inf:
                self.members[c].append(i)
        self.pick = [-1] * n
        self.uses = [0] * n
        self.label = [0.0] * n
        self.total = 0.0
        self.journal: list[tuple[int, int, float]] = []  # e-class, its previous candidate and label
        self._top = 0.0
        for c in _children_first(problem, picked, problem.roots):
            self._build_here(c, picked[c])
        for root in problem.roots:
            self.uses[root] += 1
        self.guide(guide)

    def guide(self, guide: Settled) -> None:
        """Use another guide from now on, and make all changes so far final."""
        # The guide counted built e-classes as free; once dropped, they cost at least their own cost again.
        self.expected, self.rank = list(guide.best), guide.rank
        cost = self.problem.cost
        for c, i in enumerate(self.pick):
            if i >= 0:
                self.expected[c] = cost[i]
        self.total = math.fsum(cost[i] for i in self.pick if i >= 0)
        self.journal.clear()

    def mark(self) -> tuple[int, float]:
        """Return a mark with which :meth:`undo` restores the present state."""
        return len(self.journal), self.total

    def undo(self, mark: tuple[int, float]) -> None:
        """Undo every change since a mark."""
        length, self.total = mark
        journal, label, pick = self.journal, self.label, self.pick
        while len(journal) > length:
            c, i, label[c] = journal.pop()
            if i != pick[c]:
                self._repick(c, i)

    def price(self, i: int) -> float:
        """Return the expected cost of a candidate if built e-classes are free."""
        pick, expected = self.pick, self.expected
        value = self.problem.cost[i]
        for d in self.problem.children[i]:
            if pick[d] < 0:
                value += expected[d]
        return value

    def below(self, i: int, c: int) -> bool:
        """Return whether every child of a candidate is built or ranks below an e-class."""
        pick, rank = self.pick, self.rank
        return all(pick[d] >= 0 or 0 <= rank[d] < rank[c] for d in self.problem.children[i])

    def take(self, c: int, i: int) -> bool:
        """Build or switch an e-class by a candidate; return False for a cycle or too much work, to be undone."""
        pick, children = self.pick, self.problem.children
        old, stop = pick[c], len(self.journal) + EFFORT
        for d in children[i]:
            if pick[d] < 0 and not self._build(d, stop):
                return False
        if old < 0:
            if pick[c] >= 0:
                return False
            self._build_here(c, i)
            return True
        self._set(c, i, self.label[c])
        return self._place(c) and self.drop(children[old], stop)

    def drop(self, classes: Iterable[int], stop: float = math.inf) -> bool:
        """Drop e-classes that nothing uses, and all that only they used; False if the journal passes ``stop``."""
        pick, uses, children = self.pick, self.uses, self.problem.children
        stack = [c for c in classes if not uses[c] and pick[c] >= 0]
        while stack:
            if len(self.journal) > stop:
                return False
            c = stack.pop()
            i = pick[c]
            if i >= 0:
                self._set(c, -1, self.label[c])
                stack += [d for d in children[i] if not uses[d]]
        return True

    def _build(self, c: int, stop: int) -> bool:
        """Build an e-class, and all e-classes it needs, by the cheapest candidates; False if impossible."""
        pick, children = self.pick, self.problem.children
        stack = [(c, self._cheapest(c))]
        while stack:
            c, i = stack[-1]
            if pick[c] >= 0:
                stack.pop()
                continue
            if i < 0 or len(self.journal) + len(stack) > stop:
                return False
            waiting = [(d, self._cheapest(d)) for d in children[i] if pick[d] < 0]
            if waiting:
                stack += waiting
            else:
                stack.pop()
                self._build_here(c, i)
        return True

    def _cheapest(self, c: int) -> int:
        """Return the cheapest candidate of an e-class that is not built, or -1 if there is none."""
        pick, expected, rank = self.pick, self.expected, self.rank
        cost, children, own = self.problem.cost, self.problem.children, self.rank[c]
        best, least = -1, math.inf
        for i in self.members[c]:
            value = cost[i]
            for d in children[i]:
                if pick[d] < 0:
                    if not 0 <= rank[d] < own:
                        break
                    value += expected[d]
            else:
                if value < least:
                    best, least = i, value
        return best

    def _build_here(self, c: int, i: int) -> None:
        # Nothing reads it yet, so any label above all others is valid.
        self._top += 1.0
        self._set(c, i, self._top)

    def _set(self, c: int, i: int, label: float) -> None:
        cost, old = self.problem.cost, self.pick[c]
        self.journal.append((c, old, self.label[c]))
        self.total += (cost[i] if i >= 0 else 0.0) - (cost[old] if old >= 0 else 0.0)
        self._repick(c, i)
        self.label[c] = label

    def _repick(self, c: int, i: int) -> None:
        children, uses, old = self.problem.children, self.uses, self.pick[c]
        if i >= 0:
            for d in children[i]:
                uses[d] += 1
        if old >= 0:
            for d in children[old]:
                uses[d] -= 1
        self.pick[c] = i

    def _place(self, c: int) -> bool:
        """Restore the order of labels below an e-class; return False if the e-class is below itself.

        Only e-classes with labels above that of ``c`` can have ``c`` below them. They are moved between
        ``c`` and the highest of the other e-classes below them (after Pearce and Kelly, with gaps).
        """
        label, pick, children = self.label, self.pick, self.problem.children
        limit = label[c]
        stack = [d for d in children[pick[c]] if label[d] >= limit]
        above = set(stack)
        low = -math.inf
        while stack:
            for d in children[pick[stack.pop()]]:
                if label[d] < limit:
                    low = max(low, label[d])
                elif d == c:
                    return False
                elif d not in above:
                    above.add(d)
                    stack.append(d)
            if len(above) > EFFORT:
                return False
        low = max(low, limit - len(above) - 1.0)
        step = (limit - low) / (len(above) + 1)
        if step < _SPACING:
            order = _children_first(self.problem, self.pick, [c for c, i in enumerate(self.pick) if i >= 0])
            low, step = 0.0, 1.0
        else:
            order = sorted(above, key=label.__getitem__)
        for k, d in enumerate(order, 1):
            self.journal.append((d, pick[d], label[d]))
            label[d] = low + k * step
        return True


def _children_first(
    problem: Problem, picked: Mapping[int, int] | list[int], start: Iterable[int]
) -> list[int]:
    """Return the e-classes of a selection below the given ones, children before readers."""
    return postorder(start, lambda c: problem.children[picked[c]][::-1])


@dataclass(slots=True)
class _Search:
    """The state of a local search.

    The selection never gets worse by a completed move, so it is itself the best so far; ``best`` is its cost after
    the last one. ``cursor`` is the e-class whose candidates are opened next. ``vain`` counts the e-classes passed
    since an opening last gained. The search ends at ``until``, or ``rest`` seconds after ``gained``, the time of its
    last gain.
    """

    selection: Selection
    readers: list[list[int]]
    until: float
    best: float
    rest: float
    gained: float
    cursor: int = 0
    vain: int = 0

    def late(self) -> bool:
        """Return whether time is up."""
        return time.perf_counter() > min(self.until, self.gained + self.rest)


def improve(
    problem: Problem, taken: dict[int, int], until: float, rest: float = math.inf, openings: int | None = None
) -> dict[int, int]:
    """Return an acyclic selection (e-class → e-node) that costs at most as much as ``taken``.

    The search switches e-classes to other candidates if that is cheaper. It also builds new e-classes and lets
    several readers switch to them, if together they gain more than the new e-class costs; a single reader need
    not gain. Equal arguments give equal results unless time
    cuts the search short.

    Args:
        problem: The problem.
        taken: An acyclic selection to improve.
        until: Deadline of ``time.perf_counter``.
        rest: Largest number of seconds without a gain.
        openings: Number of candidates opened between two descents; the search ends when they gain nothing. By default
            it goes on until all have been opened in vain.
    """
    tree = settle(problem, problem.cost)
    place = {node: i for i, node in enumerate(problem.nodes)}
    choice = [-1] * problem.n_classes
    for c, node in taken.items():
        choice[c] = place.get(node, -1)
    start = acyclic(problem, choice, [0.0] * problem.n_classes, tree)
    selection = Selection(problem, start, tree)
    rows = (row if cost < math.inf else () for row, cost in zip(problem.children, problem.cost, strict=True))
    readers = readers_of(rows, problem.n_classes)
    search = _Search(selection, readers, until, selection.total, rest, time.perf_counter())
    while selection.total > 0.0 and not search.late():
        before = selection.total
        _descend(search)
        _openings(search, openings or OPENINGS + len(problem.nodes) // 20)
        in_vain = selection.total >= before * (1 - TOLERANCE)
        if in_vain and (openings or search.vain >= problem.n_classes):
            break
    return {c: problem.nodes[i] for c, i in enumerate(selection.pick) if i >= 0}


def _keep(search: _Search) -> None:
    """Make the changes since the last call final, and note the time of a gain."""
    s = search.selection
    s.journal.clear()
    if s.total < search.best * (1 - TOLERANCE):
        search.best, search.gained = s.total, time.perf_counter()


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
        for i in candidates:
            if s.pick[c] < 0:
                break
            if i == s.pick[c] or s.price(i) >= s.total:
                continue
            mark = s.mark()
            if not s.take(c, i) or s.total >= mark[1] * (1 - TOLERANCE):
                s.undo(mark)
        _keep(search)
        if search.late():
            return


def _openings(search: _Search, tries: int) -> None:
    """Open costly e-classes that others could share, in turn: ``tries`` candidates, or a full turn without a gain."""
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
    """Take a candidate, even at a loss, and let readers switch that lose nothing; False if it cannot be taken."""
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
