"""Neighbourhoods of a selection: the choices of some e-classes are free, all others stay as they are.

The rest is a small extraction problem. An e-class that the roots reach without a free choice is built
in any case, so that reading it costs nothing. Reading it can still close a cycle. The reader therefore reads
the free e-classes below it in its place; these are needed in any case.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from workbench.extraction.problem import Problem

#: E-classes that are looked at for each that is taken into a neighbourhood.
LOOKS_PER_CLASS: Final = 20


def freed(
    problem: Problem,
    picked: Mapping[int, int],
    others: Sequence[int],
    free: Set[int],
    component: Sequence[int],
) -> Problem:
    """Return the extraction in which only the e-classes of ``free`` have a choice.

    Its ``nodes`` are positions of candidates of ``problem``, and its e-classes have numbers of their own, so
    that work on it does not grow with the e-graph. A solution of it, together with ``picked`` for all other
    e-classes, is an acyclic selection of ``problem``.

    Args:
        problem: The problem.
        picked: An acyclic selection (e-class → candidate).
        others: The candidate of every e-class that is neither built nor free, -1 if it has none.
        free: The e-classes with a choice.
        component: The strongly connected component of every e-class.
    """
    reached = _reached(problem, picked, free)
    needed = reached & free
    below: dict[int, frozenset[int]] = {}
    members: dict[int, list[int]] = {c: [] for c in free}
    for i, c in enumerate(problem.eclass):
        if c in members:
            members[c].append(i)
    nodes: list[int] = []
    children: list[tuple[int, ...]] = []
    seen = set(needed)
    stack = sorted(needed)
    for c in stack:  # the list grows during the loop
        for i in members[c] if c in free else [picked.get(c, others[c])]:
            if i < 0:
                continue
            row: dict[int, None] = {}
            for d in problem.children[i]:
                if d in reached and d not in free:
                    if component[d] == component[c]:
                        row |= dict.fromkeys(sorted(_free_below(problem, picked, free, component, below, d)))
                elif d not in needed or component[d] == component[c]:
                    row[d] = None
            if c in row:
                continue
            nodes.append(i)
            children.append(tuple(row))
            for d in row:
                if d not in seen:
                    seen.add(d)
                    stack.append(d)
    number = {c: k for k, c in enumerate(stack)}
    small = Problem(
        nodes,
        [number[problem.eclass[i]] for i in nodes],
        [problem.cost[i] for i in nodes],
        [tuple(number[d] for d in row) for row in children],
        tuple(range(len(needed))),
        len(number),
        {},
    )
    return small.keep([True] * len(nodes))


def _reached(problem: Problem, picked: Mapping[int, int], free: Set[int]) -> set[int]:
    """Return the e-classes that the roots reach without a free choice, and the free ones next to them."""
    reached = set(problem.roots)
    stack = list(reached)
    while stack:
        c = stack.pop()
        if c not in free:
            fresh = [d for d in problem.children[picked[c]] if d not in reached]
            reached.update(fresh)
            stack += fresh
    return reached


def _free_below(
    problem: Problem,
    picked: Mapping[int, int],
    free: Set[int],
    component: Sequence[int],
    below: dict[int, frozenset[int]],
    start: int,
) -> frozenset[int]:
    """Return the free e-classes of the same component that an e-class reaches by choices that stay."""
    stack = [start]
    while stack:
        c = stack[-1]
        if c in below:
            stack.pop()
            continue
        inner = [d for d in problem.children[picked[c]] if component[d] == component[start]]
        waiting = [d for d in inner if d not in free and d not in below]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        found = {d for d in inner if d in free}
        below[c] = frozenset(found.union(*(below[d] for d in inner if d not in free)))
    return below[start]


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """The members of e-classes and the candidates that read them: the ways from one e-class to another."""

    problem: Problem
    members: Sequence[Sequence[int]]
    readers: Sequence[Sequence[int]]

    @classmethod
    def of(cls, problem: Problem) -> Surroundings:
        """Return the surroundings of a problem's e-classes."""
        members: list[list[int]] = [[] for _ in range(problem.n_classes)]
        readers: list[list[int]] = [[] for _ in range(problem.n_classes)]
        for i, (c, row) in enumerate(zip(problem.eclass, problem.children, strict=True)):
            members[c].append(i)
            for d in row:
                readers[d].append(i)
        return cls(problem, members, readers)

    def draw(self, built: Sequence[int], size: int, rng: random.Random) -> set[int]:
        """Return random e-classes, with about ``size`` candidates together, around one or some built ones.

        A neighbourhood is one ball, a part of a term with all its alternatives, or several small balls.
        """
        way = rng.randrange(4)
        balls = 1 if way < 3 else rng.randint(2, 6)
        found: dict[int, None] = {}
        for _ in range(balls):
            self._ball(found, rng.choice(built), size // balls, rng, upwards=way != 2)
        return set(found)

    def _ball(
        self, found: dict[int, None], start: int, size: int, rng: random.Random, *, upwards: bool
    ) -> None:
        """Add e-classes near ``start``, breadth first and thinned at random, up to ``size`` candidates."""
        eclass, children = self.problem.eclass, self.problem.children
        order, seen, count = [start], {start}, 0
        for looked, c in enumerate(order):  # the list grows during the loop
            if count >= size or looked >= LOOKS_PER_CLASS * size:
                return
            if len(self.members[c]) > 1 and c not in found:
                found[c] = None
                count += len(self.members[c])
            near = [d for i in self._some(self.members[c], rng) for d in self._some(children[i], rng)]
            if upwards:
                near += [eclass[i] for i in self._some(self.readers[c], rng)]
            for d in near:
                if d not in seen:
                    seen.add(d)
                    order.append(d)

    @staticmethod
    def _some(items: Sequence[int], rng: random.Random, most: int = 8) -> Sequence[int]:
        return items if len(items) <= most else rng.sample(items, most)
