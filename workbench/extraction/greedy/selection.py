"""A selection that can change: its cost, an order of its e-classes, and changes that can be undone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from workbench.extraction.greedy.dag import Settled
from workbench.extraction.problem import Problem
from workbench.support.orders import postorder

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

    __slots__ = (
        "_top",
        "expected",
        "journal",
        "label",
        "members",
        "pick",
        "problem",
        "rank",
        "total",
        "uses",
    )

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
        """Build an e-class by a candidate, or switch it if it is built; drop e-classes no longer used.

        Return False if that closes a cycle or touches too many e-classes; the caller must then undo it.
        """
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
        """Drop those of the given e-classes that nothing uses, and all e-classes that only they used.

        Return False if the journal grows beyond ``stop``.
        """
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
