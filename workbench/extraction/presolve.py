"""Reductions of an extraction, each of which keeps an optimum.

Those of the extraction gym (cycles onto themselves, empty and unreachable e-classes, dominated and too
dear candidates, parts pulled up into their only reader, costs pulled up, needed e-classes as roots), on
must-sets instead of children where there are few enough e-classes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from workbench.extraction.must import Must, Weights, must_sets
from workbench.extraction.problem import Problem

#: A round that removes no larger share of the candidates is the last.
WORTH: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Effect:
    """Say what a reduction did: candidates before and after, summed over its rounds, and seconds."""

    name: str
    before: int
    after: int
    seconds: float


@dataclass(slots=True)
class Knowledge:
    """Hold what reductions work with: an incumbent's cost, a deadline, the must-sets of a problem."""

    incumbent: float = math.inf
    until: float = math.inf
    _of: Problem | None = None
    _must: Must | None = None

    def must(self, problem: Problem) -> Must | None:
        """Return a problem's must-sets, computed once; None where they are out of reach."""
        if self._of is not problem:
            self._of, self._must = problem, must_sets(problem, self.until)
        return self._must


Reduction = Callable[[Problem, Knowledge], Problem]


# -- of structure alone -----------------------------------------------------------------------------
def drop_useless(problem: Problem, known: Knowledge) -> Problem:
    """Leave out candidates that read themselves or an e-class without candidates, or are not reached."""
    return problem.keep(
        [c not in row for c, row in zip(problem.eclass, problem.children, strict=True)], always=False
    )


def drop_repeated(problem: Problem, known: Knowledge) -> Problem:
    """Leave out a candidate whose sibling costs no more and reads no more.

    What :func:`drop_dominated` does without must-sets: siblings are compared by their children.
    """
    alive = [True] * len(problem.nodes)
    for siblings in problem.members().values():
        if len(siblings) < 2:
            continue
        rows = {i: frozenset(problem.children[i]) for i in siblings}
        order = sorted(siblings, key=lambda i: (len(rows[i]), problem.cost[i], i))
        kept: list[int] = []
        for i in order:
            # In an e-class of hundreds, the first few are tried: the work stays linear.
            if any(problem.cost[j] <= problem.cost[i] and rows[j] <= rows[i] for j in kept[:64]):
                alive[i] = False
            else:
                kept.append(i)
    return problem.keep(alive, always=False)


def take_free(problem: Problem, known: Knowledge) -> Problem:
    """Fix e-classes with a candidate that costs nothing and reads nothing: it is always best."""
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
    """Pull an e-class of one candidate up into its readers: their reading it decides its choice.

    Into its only reader with its cost, or into all of them where it costs nothing.
    """
    members = problem.members()
    readers: dict[int, list[int]] = {}
    for i, row in enumerate(problem.children):
        for d in row:
            readers.setdefault(d, []).append(i)
    cost, children = list(problem.cost), list(problem.children)
    roots = set(problem.roots)
    fixed = dict(problem.fixed)
    gone: set[int] = set()
    for d, of_class in members.items():
        only = of_class[0]
        reading = readers.get(d, [])
        if len(of_class) > 1 or d in roots or not reading or d in children[only]:
            continue
        if len(reading) > 1 and (cost[only] > 0.0 or len(reading) * len(children[only]) > 64):
            continue
        gone.add(d)
        fixed[d] = problem.nodes[only]
        for i in reading:
            cost[i] += cost[only]
            row = children[i]
            more = tuple(e for e in children[only] if e not in row)
            children[i] = tuple(e for e in row if e != d) + more
            for e in more:
                readers[e].append(i)
        for e in children[only]:
            readers[e].remove(only)
    if not gone:
        return problem
    changed = replace(problem, cost=cost, children=children, fixed=fixed)
    return changed.keep(
        [c not in gone and c not in row for c, row in zip(problem.eclass, children, strict=True)]
    )


def pull_up_costs(problem: Problem, known: Knowledge) -> Problem:
    """Move what every candidate of an e-class costs to those who read it, where they are of one e-class.

    Exactly one of them is taken when the e-class is built, so the sum stays the same.
    """
    readers: dict[int, list[int]] = {}
    for i, row in enumerate(problem.children):
        for d in row:
            readers.setdefault(d, []).append(i)
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


# -- of must-sets -----------------------------------------------------------------------------------
def drop_circular(problem: Problem, known: Knowledge) -> Problem:
    """Leave out a candidate below which its own e-class always stands: no finite term takes it."""
    must = known.must(problem)
    if must is None:
        return problem
    return problem.keep(
        [not below >> must.position[c] & 1 for c, below in zip(problem.eclass, must.of_node, strict=True)],
        always=False,
    )


def drop_dominated(problem: Problem, known: Knowledge) -> Problem:
    """Leave out a candidate whose sibling costs no more and reads what is below it anyway.

    In a term that takes the candidate, the sibling's children all stand below it, so that the sibling
    can take its place without anything new and without a cycle.
    """
    must = known.must(problem)
    if must is None:
        return drop_repeated(problem, known)
    alive = [True] * len(problem.nodes)
    own = []
    for row in problem.children:
        bits = 0
        for d in row:
            bits |= 1 << must.position[d]
        own.append(bits)
    for c, siblings in problem.members().items():
        if len(siblings) < 2 or time.perf_counter() > known.until:
            continue
        # A circular candidate justifies nothing.
        finite = [i for i in siblings if not must.of_node[i] >> must.position[c] & 1]
        order = sorted(finite, key=lambda i: (problem.cost[i], own[i].bit_count(), i))
        for k, i in enumerate(order):
            if any(alive[j] and not own[j] & ~must.of_node[i] for j in order[:k]):
                alive[i] = False
    return problem.keep(alive, always=False)


def drop_expensive(problem: Problem, known: Knowledge) -> Problem:
    """Leave out a candidate with which every solution costs more than the incumbent."""
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


def root_needed(problem: Problem, known: Knowledge) -> Problem:
    """Make e-classes that every solution contains roots."""
    must = known.must(problem)
    if must is None:
        return problem
    roots = tuple(c for c in must.classes if must.of_roots >> must.position[c] & 1)
    if set(roots) == set(problem.roots):
        return problem
    changed = replace(problem, roots=roots)
    known._of = changed  # the sets are the same
    return changed


#: The reductions in the order in which they pay.
REDUCTIONS: Final[tuple[Reduction, ...]] = (
    drop_useless, drop_repeated, take_free, pull_up, pull_up_costs,
    drop_circular, drop_dominated, drop_expensive, root_needed,
)  # fmt: skip


def presolve(
    problem: Problem,
    incumbent: float,
    *,
    until: float = math.inf,
    reductions: tuple[Reduction, ...] = REDUCTIONS,
    rounds: int = 8,
) -> tuple[Problem, list[Effect]]:
    """Apply reductions until none removes a candidate any more; return the problem and their effects.

    ``incumbent`` is the cost of a known solution; one of at most that cost stays. Past ``until`` what
    has been reached is returned.
    """
    known = Knowledge(incumbent, until)
    effects: dict[str, Effect] = {}
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
