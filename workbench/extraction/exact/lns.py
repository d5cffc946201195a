"""Large-neighbourhood search: solve one neighbourhood of the best selection after another.

Local search changes a few choices at a time. A solver decides hundreds at once, also on cycles. The size of a
neighbourhood follows from the proofs that the solver finishes in a short time.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from workbench.extraction.exact.highs import solve_highs
from workbench.extraction.exact.types import ALONE, Best, Job, Link, Solved
from workbench.extraction.greedy.dag import TOLERANCE
from workbench.extraction.problem import Problem, settle
from workbench.extraction.reduce.cycles import components
from workbench.extraction.reduce.dominators import must_sets
from workbench.extraction.reduce.presolve import presolve

#: Candidates of the first neighbourhood, and their least and largest number.
START_SIZE: Final = 120
MIN_SIZE: Final = 30
MAX_SIZE: Final = 4_000
#: Seconds for one neighbourhood. The size shrinks by the first factor if they do not suffice; otherwise it grows.
NEIGHBOURHOOD_SECONDS: Final = 0.5
SHRINK_FACTOR: Final = 0.85
GROWTH_FACTOR: Final = 1.05
#: Share of these seconds that the solver may take for the size to grow.
GROWTH_TIME_SHARE: Final = 0.3
#: Every second neighbourhood is solved with costs changed by this share, so that equal selections take turns.
COST_NOISE: Final = 1e-3
#: E-classes that are looked at for each that is taken into a neighbourhood.
LOOKS_PER_CLASS: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """The members of e-classes and the candidates that read them: the ways from one e-class to another."""

    problem: Problem
    members: Mapping[int, Sequence[int]]
    readers: Mapping[int, Sequence[int]]

    @classmethod
    def of(cls, problem: Problem) -> Surroundings:
        """Return the surroundings of a problem's e-classes."""
        return cls(problem, problem.members(), problem.readers())

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
            if len(self.members.get(c, ())) > 1 and c not in found:
                found[c] = None
                count += len(self.members.get(c, ()))
            near = [d for i in self._some(self.members.get(c, ()), rng) for d in self._some(children[i], rng)]
            if upwards:
                near += [eclass[i] for i in self._some(self.readers.get(c, ()), rng)]
            for d in near:
                if d not in seen:
                    seen.add(d)
                    order.append(d)

    @staticmethod
    def _some(items: Sequence[int], rng: random.Random, most: int = 8) -> Sequence[int]:
        return items if len(items) <= most else rng.sample(items, most)


def solve_lns(job: Job, link: Link = ALONE, *, turns: int | None = None, seed: int = 0) -> Solved:
    """Improve the acyclic start of a job, neighbourhood by neighbourhood, until time is up.

    The best selection is proved if a neighbourhood was the whole problem and was solved.

    Args:
        job: The problem, a start and the seconds.
        link: The way to other solvers.
        turns: Number of neighbourhoods, or None for no limit but time.
        seed: Seed of the random choices.
    """
    assert job.start is not None
    problem, until = job.problem, time.perf_counter() + job.seconds
    rng = random.Random(seed)
    surroundings = Surroundings.of(problem)
    component = components(problem)
    choices = {c for c, m in surroundings.members.items() if len(m) > 1}
    best, picked = Best.of(job, link), dict(job.start)
    others: list[int] = []
    size = float(START_SIZE)
    turn = 0
    while turns is None or turn < turns:
        if time.perf_counter() > until:
            break
        turn += 1
        if best.listen() and best.picked is not None:
            picked, others = best.picked, []
        if not others:
            picked = problem.needed(picked)
            others = _others(problem, picked)
        built = [c for c in picked if c in choices]
        if not built:
            return Solved(picked, 0.0, proved=False)
        free = surroundings.draw(built, int(size), rng)
        small = freed(problem, picked, others, free, component)
        whole = free >= choices
        if turn % 2 == 0 and not whole:
            small = replace(small, cost=[c * (1 + COST_NOISE * rng.random()) for c in small.cost])
        began = time.perf_counter()
        found, proved = _solved(problem, small, picked, min(until, began + NEIGHBOURHOOD_SECONDS))
        spent = time.perf_counter() - began
        if found is not None:
            better = picked | found
            price, before = problem.cost_of(better), best.cost
            if price <= before * (1 + TOLERANCE) and not problem.loops(better):
                picked = problem.needed(better)
                if price < before * (1 - TOLERANCE) and best.offer(picked):
                    others = []
        if proved and whole:
            return Solved(problem.needed(picked), best.cost, proved=True)
        if not proved:
            size = max(MIN_SIZE, size * SHRINK_FACTOR)
        elif spent < GROWTH_TIME_SHARE * NEIGHBOURHOOD_SECONDS:
            size = min(MAX_SIZE, size * GROWTH_FACTOR)
    return Solved(problem.needed(picked), 0.0, proved=False)


def _solved(
    problem: Problem, small: Problem, picked: Mapping[int, int], until: float
) -> tuple[dict[int, int] | None, bool]:
    """Return a better selection of a neighbourhood, or None, and whether that is proved to be the best.

    Both selections map e-classes of the whole problem to its candidates.
    """
    kept = set(picked.values())
    start = small.picked(kept)
    cost = small.cost_of(start)
    if cost == math.inf or not small.roots:
        return None, False
    reduced, _ = presolve(small, cost, until=until)
    chosen, proved = list(reduced.fixed.values()), True
    if reduced.roots:
        seconds = until - time.perf_counter()
        if seconds <= 0:
            return None, False
        found = solve_highs(Job(reduced, must_sets(reduced, until), reduced.selected(kept), seconds))
        if found.picked is None:
            return None, found.proved
        chosen += reduced.taken(found.picked).values()
        proved = found.proved
    return {problem.eclass[i]: i for i in chosen}, proved


def _others(problem: Problem, picked: Mapping[int, int]) -> list[int]:
    """Return for every e-class the candidate that adds the least to a selection, -1 if there is none."""
    price = list(problem.cost)
    for i in picked.values():
        price[i] = 0.0
    return list(settle(problem, price).choice)


def freed(
    problem: Problem,
    picked: Mapping[int, int],
    others: Sequence[int],
    free: Set[int],
    component: Sequence[int],
) -> Problem:
    """Return the extraction in which only the e-classes of ``free`` have a choice: a neighbourhood.

    An e-class that the roots reach without a free choice is built in any case, so that reading it costs
    nothing. Reading it can still close a cycle. The reader therefore reads the free e-classes below it in its
    place; these are needed in any case.

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
