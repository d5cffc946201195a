"""Reductions of an extraction, each of which keeps an optimum.

Most reductions are those of the extraction gym: cycles of an e-class onto itself, empty and unreachable
e-classes, dominated and too expensive candidates, parts pulled up into their only reader, costs pulled up,
needed e-classes as roots. They use must-sets instead of children if there are few enough e-classes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from workbench.extraction.problem import Problem, settle_by_heap
from workbench.extraction.reduce.cycles import Loops
from workbench.extraction.reduce.dominators import Must, Weights, must_sets
from workbench.extraction.reduce.dual_ascent import Layout, affordable, climb
from workbench.run.trace import RuleStep

#: The largest number of rounds.
ROUNDS: Final = 8
#: A round that removes at most this share of the candidates is the last.
WORTH: Final = 1e-3
#: With more candidates left than the first number, each is compared with as many of the cheapest as the second.
MAX_COMPARED, CHEAPEST_COMPARED = 512, 64


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
    both = zip(problem.eclass, problem.children, strict=True)
    return problem.keep([c not in row for c, row in both])


def drop_repeated(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate if a sibling costs no more and reads no more: :func:`drop_dominated` without must-sets."""
    rows, cost = list(map(frozenset, problem.children)), problem.cost

    def ordered(c: int, siblings: list[int]) -> list[int]:
        return sorted(siblings, key=lambda i: (len(rows[i]), cost[i], i))

    def replaced(c: int, i: int, kept: list[int]) -> bool:
        # Only the first candidates are compared, so that the work stays linear in large e-classes.
        return any(cost[j] <= cost[i] and rows[j] <= rows[i] for j in kept[:CHEAPEST_COMPARED])

    return _without(problem, known, ordered, replaced)


def _without(
    problem: Problem,
    known: Knowledge,
    ordered: Callable[[int, list[int]], list[int]],
    replaced: Callable[[int, int, list[int]], bool],
) -> Problem:
    """Return the problem without the candidates of ``ordered`` siblings that those kept before have ``replaced``."""
    alive = [True] * len(problem.nodes)
    for c, siblings in problem.members().items():
        if len(siblings) < 2 or time.perf_counter() > known.until:
            continue
        kept: list[int] = []
        for k, i in enumerate(ordered(c, siblings)):
            if not k & 15 and time.perf_counter() > known.until:
                break
            if replaced(c, i, kept):
                alive[i] = False
            else:
                kept.append(i)
    return problem.keep(alive)


def pull_up(problem: Problem, known: Knowledge) -> Problem:
    """Merge an e-class of one candidate, with its cost, into its only reader, or into all if it costs nothing."""
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
    both = zip(problem.eclass, children, strict=True)
    return changed.keep([c not in gone and c not in row for c, row in both])


def pull_up_costs(problem: Problem, known: Knowledge) -> Problem:
    """Move the least cost of an e-class to its readers if these are in one e-class, so that one of them is taken."""
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


def _terms(problem: Problem, must: Must, around: Loops) -> tuple[dict[int, int], dict[int, int]]:
    """Return each e-class's least tree term: its candidate, its e-classes as bits; needed ones are free elsewhere."""
    needed, number = must.needed(), around.number
    rows = [
        tuple(d for d in row if d not in needed or number[d] == number[c])
        for c, row in zip(problem.eclass, problem.children, strict=True)
    ]
    layout = Layout.of(replace(problem, children=rows))
    found = settle_by_heap(layout.eclass, layout.children, layout.readers, problem.cost)
    choice: dict[int, int] = {}
    terms: dict[int, int] = {}
    for c, k in sorted(layout.number.items(), key=lambda item: found.rank[item[1]]):
        if (i := found.choice[k]) >= 0:
            choice[c], terms[c] = i, 1 << must.position[c]
            for d in rows[i]:
                terms[c] |= terms[d]
    return choice, terms


def drop_circular(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate below which its own e-class always occurs: no finite term takes it."""
    must = known.must(problem)
    if must is None:
        return problem
    both = zip(problem.eclass, must.of_node, strict=True)
    return problem.keep([not below >> must.position[c] & 1 for c, below in both])


def drop_dominated(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate if a sibling costs no more and reads only e-classes that are there anyway.

    These are the e-classes below the candidate, and those that every solution contains. The sibling can
    replace the candidate without new e-classes and without a cycle.
    """
    must = known.must(problem)
    if must is None:
        return drop_repeated(problem, known)
    around = Loops.of(problem, must)
    own = [must.bits(row) for row in problem.children]

    def ordered(c: int, siblings: list[int]) -> list[int]:
        given = around.given(c)
        # A circular candidate cannot justify dropping another one.
        finite = [i for i in siblings if not must.of_node[i] >> must.position[c] & 1]
        return sorted(finite, key=lambda i: (problem.cost[i], (own[i] & ~given).bit_count(), i))

    def replaced(c: int, i: int, kept: list[int]) -> bool:
        there = must.of_node[i] | around.given(c)
        return any(not own[j] & ~there for j in compared(kept))

    return _without(problem, known, ordered, replaced)


def drop_replaceable(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate if a sibling with all that has to be built for it costs no more.

    Nothing has to be built for e-classes below the candidate and for those that every solution contains. The
    others are built by their least tree terms. If such a term reads an e-class of the sibling's own
    component that is not below the candidate, the sibling might close a cycle, and nothing is dropped.
    """
    must = known.must(problem)
    if must is None:
        return problem
    around = Loops.of(problem, must)
    choice, terms = _terms(problem, must, around)
    # A term may rely on its candidates, so these are kept.
    least = np.array([problem.cost[choice[c]] if c in choice else math.inf for c in must.classes])
    weight = Weights(must, least)

    def ordered(c: int, siblings: list[int]) -> list[int]:
        finite = [i for i in siblings if not must.of_node[i] >> must.position[c] & 1]
        return sorted(finite, key=lambda i: (problem.cost[i], i)) if c in choice else []

    def replaced(c: int, i: int, kept: list[int]) -> bool:
        there, loop = must.of_node[i] | around.given(c), around.loop(c)
        for j in compared(kept) if i != choice[c] else ():
            more = _missing(problem.children[j], there, must, terms)
            if more is not None and not more & loop and problem.cost[j] + weight(more) <= problem.cost[i]:
                return True
        return False

    return _without(problem, known, ordered, replaced)


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
    return problem.keep(alive)


def drop_unaffordable(problem: Problem, known: Knowledge) -> Problem:
    """Drop a candidate if a dual ascent shows that every solution with it costs more than the incumbent."""
    if known.incumbent == math.inf:
        return problem
    found = climb(problem, until=known.until)
    most = known.incumbent * (1 + 1e-9)
    if not found or time.perf_counter() > known.until:
        return problem
    return problem.keep(affordable(problem, found, most))


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
    drop_useless, drop_repeated, pull_up, pull_up_costs,
    drop_circular, drop_dominated, drop_replaceable, drop_expensive, drop_unaffordable, root_needed,
)  # fmt: skip
#: Those without dual ascents, which are slow in a whole; its parts are reduced once more, with all of them.
QUICK: Final = tuple(reduction for reduction in REDUCTIONS if reduction is not drop_unaffordable)
#: Those that show whether a problem falls apart; the others drop more of its parts, at less work.
FEW: Final = tuple(r for r in QUICK if r not in (drop_dominated, drop_replaceable, drop_expensive))


def presolve(
    problem: Problem,
    incumbent: float,
    *,
    until: float = math.inf,
    reductions: tuple[Reduction, ...] = REDUCTIONS,
    rounds: int = ROUNDS,
    earlier: Sequence[RuleStep] = (),
) -> tuple[Problem, list[RuleStep]]:
    """Apply reductions until they remove hardly any more candidates; return what is left, and their effects.

    Args:
        problem: The problem.
        incumbent: The cost of a known solution; at least one solution of at most this cost is kept.
        until: Deadline of ``time.perf_counter``; after it the problem reached so far is returned.
        reductions: The reductions of a round.
        rounds: Largest number of rounds.
        earlier: The effects of earlier reductions of the problem, which are included: candidates dropped, seconds.
    """
    known = Knowledge(incumbent, until)
    effects = {effect.rule: effect for effect in earlier}
    for _ in range(rounds):
        before = len(problem.nodes)
        for reduction in reductions:
            began, size, name = time.perf_counter(), len(problem.nodes), reduction.__name__
            if began > until:
                return problem, list(effects.values())
            problem = reduction(problem, known)
            old, dropped = effects.get(name, RuleStep(name, 0, 0.0)), size - len(problem.nodes)
            spent = old.seconds + time.perf_counter() - began
            effects[name] = RuleStep(name, old.matches + dropped, spent)
        if before - len(problem.nodes) <= WORTH * before:
            break
    return problem, list(effects.values())
