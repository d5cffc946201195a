"""Dominance between the candidates of an e-class: one is dropped if another can always take its place.

E-classes that every solution contains are there in any case, so a replacement may read them. It must not
close a cycle, so this is used only outside the e-class's own strongly connected component.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import components, cyclic
from workbench.extraction.reduce.dominators import Must, Weights

#: In an e-class with more than WIDE candidates left, each is compared with the CHEAPEST only.
WIDE, CHEAPEST = 512, 64


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


def dominated(problem: Problem, must: Must, until: float = math.inf) -> Problem:
    """Drop a candidate if a sibling costs no more and reads only e-classes that are there anyway.

    These are the e-classes below the candidate, and those that every solution contains. The sibling can
    replace the candidate without new e-classes and without a cycle.
    """
    alive = [True] * len(problem.nodes)
    around = Surroundings.of(problem, must)
    own = []
    for row in problem.children:
        bits = 0
        for d in row:
            bits |= 1 << must.position[d]
        own.append(bits)
    for c, siblings in problem.members().items():
        if len(siblings) < 2 or time.perf_counter() > until:
            continue
        given = around.given(c)
        # A circular candidate cannot justify dropping another one.
        finite = [i for i in siblings if not must.of_node[i] >> must.position[c] & 1]
        order = sorted(finite, key=lambda i: (problem.cost[i], (own[i] & ~given).bit_count(), i))
        kept: list[int] = []
        for k, i in enumerate(order):
            if not k & 63 and time.perf_counter() > until:
                break
            there = must.of_node[i] | given
            if any(not own[j] & ~there for j in compared(kept)):
                alive[i] = False
            else:
                kept.append(i)
    return problem.keep(alive, always=False)


def replaceable(problem: Problem, must: Must, until: float = math.inf) -> Problem:
    """Drop a candidate if a sibling with all that has to be built for it costs no more.

    Nothing has to be built for e-classes below the candidate and for those that every solution contains. The
    others are built by their least tree terms. If such a term reads an e-class of the sibling's own
    component that is not below the candidate, the sibling might close a cycle, and nothing is dropped.
    """
    around = Surroundings.of(problem, must)
    choice, terms = _terms(problem, must, around)
    # A term may rely on its candidates, so these are kept.
    least = np.array([problem.cost[choice[c]] if c in choice else math.inf for c in must.classes])
    weight = Weights(must, least)
    alive = [True] * len(problem.nodes)
    for c, siblings in problem.members().items():
        if len(siblings) < 2 or c not in choice or time.perf_counter() > until:
            continue
        finite = [i for i in siblings if not must.of_node[i] >> must.position[c] & 1]
        order = sorted(finite, key=lambda i: (problem.cost[i], i))
        given = around.given(c)
        kept: list[int] = []
        for k, i in enumerate(order):
            if not k & 15 and time.perf_counter() > until:
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


def compared(kept: list[int]) -> list[int]:
    """Return the siblings with which a candidate is compared: all, or the cheapest of very many."""
    return kept if len(kept) <= WIDE else kept[:CHEAPEST]


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
