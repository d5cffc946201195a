"""Reductions of an extraction, each of which keeps an optimum.

Most reductions are those of the extraction gym: cycles of an e-class onto itself, empty and unreachable
e-classes, dominated and too expensive candidates, parts pulled up into their only reader, costs pulled up,
needed e-classes as roots. They use must-sets instead of children if there are few enough e-classes.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import components, cyclic
from workbench.extraction.reduce.dominators import Must, Weights, must_sets
from workbench.extraction.reduce.dual_ascent import affordable, climb

#: The largest number of rounds.
ROUNDS: Final = 8
#: A round that removes at most this share of the candidates is the last.
WORTH: Final = 1e-3
#: In an e-class with more candidates left than the first number, each is compared with as many of the cheapest as the
#: second says.
MAX_COMPARED, CHEAPEST_COMPARED = 512, 64


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a reduction, summed over its rounds: candidates before and after, and seconds."""

    name: str
    before: int
    after: int
    seconds: float


@dataclass(slots=True)
class Knowledge:
    """The inputs of reductions: an incumbent's cost, a deadline, and the must-sets of a problem."""

    incumbent: float = math.inf
    until: float = math.inf
    _of: Problem | None = None
    _must: Must | None = None

    def must(self, problem: Problem) -> Must | None:
        """Return a problem's must-sets, computed once, or None if they are too large or time is up."""
        if self._of is not problem:
            self._of, self._must = problem, must_sets(problem, self.until)
        return self._must


Reduction = Callable[[Problem, Knowledge], Problem]


# -- reductions by structure ------------------------------------------------------------------------
def drop_useless(problem: Problem, known: Knowledge) -> Problem:
    """Drop candidates that read their own e-class or an empty one, and candidates that are unreachable."""
    return problem.keep(
        [c not in row for c, row in zip(problem.eclass, problem.children, strict=True)], always=False
    )


def drop_repeated(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate if a sibling costs no more and reads no more.

    This is :func:`drop_dominated` without must-sets: siblings are compared by their children.
    """
    alive = [True] * len(problem.nodes)
    for siblings in problem.members().values():
        if len(siblings) < 2:
            continue
        rows = {i: frozenset(problem.children[i]) for i in siblings}
        order = sorted(siblings, key=lambda i: (len(rows[i]), problem.cost[i], i))
        kept: list[int] = []
        for i in order:
            # Only the first candidates are compared, so that the work stays linear in large e-classes.
            if any(problem.cost[j] <= problem.cost[i] and rows[j] <= rows[i] for j in kept[:64]):
                alive[i] = False
            else:
                kept.append(i)
    return problem.keep(alive, always=False)


def take_free(problem: Problem, known: Knowledge) -> Problem:
    """Decide e-classes with a candidate that costs nothing and reads nothing: it is always best."""
    free = {
        c: problem.nodes[i]
        for i, c in reversed(list(enumerate(problem.eclass)))
        if not problem.children[i] and problem.cost[i] == 0.0
    }
    if not free:
        return problem
    rest = [i for i, c in enumerate(problem.eclass) if c not in free]
    return replace(
        problem,
        nodes=[problem.nodes[i] for i in rest],
        eclass=[problem.eclass[i] for i in rest],
        cost=[problem.cost[i] for i in rest],
        children=[tuple(d for d in problem.children[i] if d not in free) for i in rest],
        roots=tuple(r for r in problem.roots if r not in free),
        fixed=problem.fixed | free,
    )


def pull_up(problem: Problem, known: Knowledge) -> Problem:
    """Merge an e-class with a single candidate into its readers, as it leaves no choice.

    It is merged into its only reader together with its cost, or into all readers if it costs nothing.
    """
    members = problem.members()
    readers: dict[int, dict[int, None]] = {}
    for i, row in enumerate(problem.children):
        for d in row:
            readers.setdefault(d, {})[i] = None
    cost, children = list(problem.cost), list(problem.children)
    rows: dict[int, dict[int, None]] = {}  # the e-classes that a changed candidate reads, in order
    roots = set(problem.roots)
    fixed = dict(problem.fixed)
    gone: set[int] = set()
    for d, of_class in members.items():
        only = of_class[0]
        reading = readers.get(d, {})
        if len(of_class) > 1 or d in roots or not reading:
            continue
        given = tuple(rows[only]) if only in rows else children[only]
        if d in given or (len(reading) > 1 and (cost[only] > 0.0 or len(reading) * len(given) > 64)):
            continue
        gone.add(d)
        fixed[d] = problem.nodes[only]
        for i in reading:
            cost[i] += cost[only]
            if i not in rows:
                rows[i] = dict.fromkeys(children[i])
            reads = rows[i]
            del reads[d]
            for e in given:
                if e not in reads:
                    reads[e] = None
                    readers[e][i] = None
        for e in given:
            del readers[e][only]
    if not gone:
        return problem
    for i, reads in rows.items():
        children[i] = tuple(reads)
    changed = replace(problem, cost=cost, children=children, fixed=fixed)
    return changed.keep(
        [c not in gone and c not in row for c, row in zip(problem.eclass, children, strict=True)]
    )


def pull_up_costs(problem: Problem, known: Knowledge) -> Problem:
    """Move the least cost of an e-class to its readers, if all readers are in one e-class.

    Exactly one reader is taken when the e-class is built, so the total stays the same.
    """
    readers = problem.readers()
    cost = list(problem.cost)
    roots = set(problem.roots)
    moved = False
    for d, of_class in problem.members().items():
        reading = readers.get(d, [])
        if d in roots or not reading or len({problem.eclass[i] for i in reading}) > 1:
            continue
        least = min(cost[i] for i in of_class)
        if least > 0.0 and problem.eclass[reading[0]] != d:
            moved = True
            for i in of_class:
                cost[i] -= least
            for i in reading:
                cost[i] += least
    return replace(problem, cost=cost) if moved else problem


# -- reductions by must-sets ------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """The strongly connected component of every e-class, as its number and as bits."""

    number: list[int]
    loops: dict[int, int]
    must: Must

    @classmethod
    def of(cls, problem: Problem, must: Must) -> Surroundings:
        """Return the components of a problem."""
        number = components(problem)
        loops: dict[int, int] = {}
        for c in cyclic(problem, number):
            loops[number[c]] = loops.get(number[c], 0) | 1 << must.position[c]
        return cls(number, loops, must)

    def loop(self, eclass: int) -> int:
        """Return the e-classes of a component as bits."""
        return self.loops.get(self.number[eclass], 1 << self.must.position[eclass])

    def given(self, eclass: int) -> int:
        """Return the e-classes that every solution contains and that cannot need this one, as bits."""
        return self.must.of_roots & ~self.loop(eclass)


def compared(kept: list[int]) -> list[int]:
    """Return the siblings with which a candidate is compared: all, or the cheapest of very many."""
    return kept if len(kept) <= MAX_COMPARED else kept[:CHEAPEST_COMPARED]


def _missing(row: tuple[int, ...], there: int, must: Must, terms: dict[int, int]) -> int | None:
    """Return the e-classes to be built for children, as bits, or None if a child has no known term."""
    found = 0
    for d in row:
        if there >> must.position[d] & 1:
            continue
        if d not in terms:
            return None
        found |= terms[d]
    return found & ~there


def _terms(problem: Problem, must: Must, around: Surroundings) -> tuple[dict[int, int], dict[int, int]]:
    """Return the least tree term of every e-class: its candidate, and the e-classes in it as bits.

    An e-class that every solution contains costs nothing in the terms of other components.
    """
    free = _free(problem, must, around)
    waiting: list[int] = []
    readers: dict[int, list[int]] = {}
    total = list(problem.cost)
    for i, row in enumerate(problem.children):
        open_ = [d for d in row if not free(i, d)]
        for d in open_:
            readers.setdefault(d, []).append(i)
        waiting.append(len(open_))
    heap = [(total[i], i) for i, count in enumerate(waiting) if not count]
    heapq.heapify(heap)
    choice: dict[int, int] = {}
    terms: dict[int, int] = {}
    while heap:
        cost, i = heapq.heappop(heap)
        c = problem.eclass[i]
        if c in choice:
            continue
        choice[c] = i
        bits = 1 << must.position[c]
        for d in problem.children[i]:
            bits |= 0 if free(i, d) else terms[d]
        terms[c] = bits
        for reader in readers.get(c, ()):
            total[reader] += cost
            waiting[reader] -= 1
            if not waiting[reader] and problem.eclass[reader] not in choice:
                heapq.heappush(heap, (total[reader], reader))
    return choice, terms


def _free(problem: Problem, must: Must, around: Surroundings) -> Callable[[int, int], bool]:
    needed, number, place = must.of_roots, around.number, must.position

    def free(candidate: int, child: int) -> bool:
        return bool(needed >> place[child] & 1) and number[child] != number[problem.eclass[candidate]]

    return free


def drop_circular(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate below which its own e-class always occurs: no finite term takes it."""
    must = known.must(problem)
    if must is None:
        return problem
    return problem.keep(
        [not below >> must.position[c] & 1 for c, below in zip(problem.eclass, must.of_node, strict=True)],
        always=False,
    )


def drop_dominated(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate if a sibling costs no more and reads only e-classes that are there anyway.

    These are the e-classes below the candidate, and those that every solution contains. The sibling can
    replace the candidate without new e-classes and without a cycle.
    """
    must = known.must(problem)
    if must is None:
        return drop_repeated(problem, known)
    alive = [True] * len(problem.nodes)
    around = Surroundings.of(problem, must)
    own = []
    for row in problem.children:
        bits = 0
        for d in row:
            bits |= 1 << must.position[d]
        own.append(bits)
    for c, siblings in problem.members().items():
        if len(siblings) < 2 or time.perf_counter() > known.until:
            continue
        given = around.given(c)
        # A circular candidate cannot justify dropping another one.
        finite = [i for i in siblings if not must.of_node[i] >> must.position[c] & 1]
        order = sorted(finite, key=lambda i: (problem.cost[i], (own[i] & ~given).bit_count(), i))
        kept: list[int] = []
        for k, i in enumerate(order):
            if not k & 63 and time.perf_counter() > known.until:
                break
            there = must.of_node[i] | given
            if any(not own[j] & ~there for j in compared(kept)):
                alive[i] = False
            else:
                kept.append(i)
    return problem.keep(alive, always=False)


def drop_replaceable(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate if a sibling with all that has to be built for it costs no more.

    Nothing has to be built for e-classes below the candidate and for those that every solution contains. The
    others are built by their least tree terms. If such a term reads an e-class of the sibling's own
    component that is not below the candidate, the sibling might close a cycle, and nothing is dropped.
    """
    must = known.must(problem)
    if must is None:
        return problem
    around = Surroundings.of(problem, must)
    choice, terms = _terms(problem, must, around)
    # A term may rely on its candidates, so these are kept.
    least = np.array([problem.cost[choice[c]] if c in choice else math.inf for c in must.classes])
    weight = Weights(must, least)
    alive = [True] * len(problem.nodes)
    for c, siblings in problem.members().items():
        if len(siblings) < 2 or c not in choice or time.perf_counter() > known.until:
            continue
        finite = [i for i in siblings if not must.of_node[i] >> must.position[c] & 1]
        order = sorted(finite, key=lambda i: (problem.cost[i], i))
        given = around.given(c)
        kept: list[int] = []
        for k, i in enumerate(order):
            if not k & 15 and time.perf_counter() > known.until:
                break
            if i == choice[c]:
                kept.append(i)
                continue
            there = must.of_node[i] | given
            for j in compared(kept):
                more = _missing(problem.children[j], there, must, terms)
                if more is None or more & around.loop(c):
                    continue
                if problem.cost[j] + weight(more) <= problem.cost[i]:
                    alive[i] = False
                    break
            if alive[i]:
                kept.append(i)
    return problem.keep(alive, always=False)


def drop_expensive(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate if every solution with it costs more than the incumbent."""
    must = known.must(problem)
    if must is None or known.incumbent == math.inf:
        return problem
    weight = Weights.of(problem, must)
    slack = 1e-9 * known.incumbent
    needed = weight(must.of_roots)
    alive = [True] * len(problem.nodes)
    for i, c in enumerate(problem.eclass):
        if not i & 255 and time.perf_counter() > known.until:
            break
        k = must.position[c]
        more = weight((must.of_node[i] | 1 << k) & ~must.of_roots)
        bound = needed + more - float(weight.least[k]) + problem.cost[i]
        alive[i] = bound <= known.incumbent + slack
    return problem.keep(alive, always=False)


def drop_unaffordable(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate if a dual ascent shows that every solution with it costs more than the incumbent."""
    if known.incumbent == math.inf:
        return problem
    found = climb(problem, until=known.until)
    most = known.incumbent * (1 + 1e-9)
    if not found or time.perf_counter() > known.until:
        return problem
    return problem.keep(affordable(problem, found, most), always=False)


def root_needed(problem: Problem, known: Knowledge) -> Problem:
    """Add the e-classes that every solution contains to the roots."""
    must = known.must(problem)
    if must is None:
        return problem
    roots = tuple(c for c in must.classes if must.of_roots >> must.position[c] & 1)
    if set(roots) == set(problem.roots):
        return problem
    changed = replace(problem, roots=roots)
    known._of = changed  # the must-sets do not change
    return changed


#: The reductions, in the order in which they work best.
REDUCTIONS: Final[tuple[Reduction, ...]] = (
    drop_useless, drop_repeated, take_free, pull_up, pull_up_costs,
    drop_circular, drop_dominated, drop_replaceable, drop_expensive, drop_unaffordable, root_needed,
)  # fmt: skip
#: Those without dual ascents, which are slow in a whole; its parts are reduced once more, with all of them.
QUICK: Final = tuple(reduction for reduction in REDUCTIONS if reduction is not drop_unaffordable)


def presolve(
    problem: Problem,
    incumbent: float,
    *,
    until: float = math.inf,
    reductions: tuple[Reduction, ...] = REDUCTIONS,
    rounds: int = ROUNDS,
    earlier: Sequence[Effect] = (),
) -> tuple[Problem, list[Effect]]:
    """Apply reductions until they remove hardly any more candidates.

    Args:
        problem: The problem.
        incumbent: The cost of a known solution; at least one solution of at most this cost is kept.
        until: Deadline of ``time.perf_counter``; after it the problem reached so far is returned.
        reductions: The reductions of a round.
        rounds: Largest number of rounds.
        earlier: The effects of earlier reductions of the problem.

    Returns:
        The reduced problem, and the effect of each reduction, earlier ones included.
    """
    known = Knowledge(incumbent, until)
    effects = {effect.name: effect for effect in earlier}
    for _ in range(rounds):
        before = len(problem.nodes)
        for reduction in reductions:
            began = time.perf_counter()
            if began > until:
                return problem, list(effects.values())
            size = len(problem.nodes)
            problem = reduction(problem, known)
            name = reduction.__name__
            old = effects.get(name, Effect(name, 0, 0, 0.0))
            effects[name] = Effect(
                name,
                old.before + size,
                old.after + len(problem.nodes),
                old.seconds + time.perf_counter() - began,
            )
        if before - len(problem.nodes) <= WORTH * before:
            break
    return problem, list(effects.values())
