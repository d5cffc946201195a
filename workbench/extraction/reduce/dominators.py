"""Must-sets: the e-classes that every term of an e-class contains (AND/OR-graph dominators), and bounds.

``Must(c)`` is ``c`` and every e-class that is in a must-set of some child of every candidate of ``c``:
the greatest solution of ``Must(c) = {c} ∪ ⋂ᵢ ⋃ Must(d)``, over candidates ``i`` and their children ``d``.
The solution is the greatest one because terms are finite: an e-class outside ``Must(c)`` can be avoided by
some finite term, and one inside it by none, even if the e-graph has cycles. Sets are the bits of an
integer.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

import numpy as np

from workbench.extraction.problem import Problem, settle
from workbench.support.orders import postorder

#: Sets of at most this many e-classes are summed one by one.
FEW: Final = 40
#: With more e-classes than this the sets are not computed, because their size grows with the square.
MOST_CLASSES: Final = 30_000
#: Largest number of bytes that all sets together may take.
MOST_BYTES: Final = 1 << 30
#: Largest number of sums that are remembered.
REMEMBERED: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Must:
    """The must-sets of e-classes, candidates (all below them) and roots, with each e-class's bit and its inverse."""

    of_class: dict[int, int]
    of_node: list[int]
    of_roots: int
    position: dict[int, int]
    classes: list[int] = field(default_factory=list)

    def needed(self) -> set[int]:
        """Return the e-classes that every solution contains."""
        return set(self.members(self.of_roots))

    def bits(self, classes: Iterable[int]) -> int:
        """Return e-classes as a set of bits."""
        return reduce(or_, (1 << self.position[c] for c in classes), 0)

    def members(self, bits: int) -> list[int]:
        """Return the e-classes of a set of bits."""
        found = []
        while bits:
            low = bits & -bits
            found.append(self.classes[low.bit_length() - 1])
            bits ^= low
        return found


def must_sets(problem: Problem, until: float = math.inf) -> Must | None:
    """Return the must-sets, or None if there are too many e-classes or time is up."""
    members = problem.members()
    sets = len(members) + len(problem.nodes)
    if len(members) > MOST_CLASSES or sets * len(members) > 8 * MOST_BYTES:
        return None
    # Children first as far as cycles allow, so that few rounds settle the sets.
    classes = postorder(problem.roots, lambda c: [d for i in members[c] for d in problem.children[i]])
    position = {c: k for k, c in enumerate(classes)}
    everything = (1 << len(position)) - 1
    of_class = dict.fromkeys(classes, everything)
    readers: dict[int, set[int]] = {c: set() for c in classes}
    for c, row in zip(problem.eclass, problem.children, strict=True):
        for d in row:
            readers[d].add(c)
    queue = deque(classes)
    waiting = set(classes)
    steps = 0
    while queue:
        c = queue.popleft()
        waiting.discard(c)
        steps += 1
        if not steps & 255 and time.perf_counter() > until:
            return None
        own = 1 << position[c]
        common = everything
        for i in members[c]:
            union = _union(of_class, problem.children[i])
            if not union & own:  # otherwise it is below itself, or its children are not known yet
                common &= union | own
        if common != of_class[c]:
            of_class[c] = common
            fresh = readers[c] - waiting
            queue.extend(sorted(fresh))
            waiting |= fresh
    of_node = [_union(of_class, row) for row in problem.children]
    return Must(of_class, of_node, _union(of_class, problem.roots), position, classes)


def _union(of_class: dict[int, int], row: Iterable[int]) -> int:
    return reduce(or_, map(of_class.__getitem__, row), 0)


@dataclass(slots=True, eq=False)
class Weights:
    """Sums of the least costs of the e-classes in a must-set."""

    must: Must
    least: np.ndarray
    memo: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, must: Must) -> Weights:
        """Return the weights of a problem: each e-class at its cheapest candidate."""
        least = problem.least()
        return cls(must, np.array([least[c] for c in must.classes]))

    def __call__(self, bits: int) -> float:
        """Return the sum over a set."""
        known = self.memo.get(bits)
        if known is None and bits.bit_count() <= FEW:
            known = 0.0
            rest = bits
            while rest:
                low = rest & -rest
                known += float(self.least[low.bit_length() - 1])
                rest ^= low
        elif known is None:
            raw = np.frombuffer(bits.to_bytes((len(self.least) + 7) // 8, "little"), dtype=np.uint8)
            known = float(self.least @ np.unpackbits(raw, bitorder="little")[: len(self.least)])
        if len(self.memo) >= REMEMBERED:
            self.memo.clear()
        self.memo[bits] = known
        return known


def surely_paid(problem: Problem) -> float:
    """Return a part of the cost that every selection pays, found in linear time.

    It is the sum, each at its cheapest, over the roots and over the e-classes that all candidates of such an
    e-class read. The must-sets contain these e-classes and more.
    """
    members = problem.members()

    def common(c: int) -> set[int]:
        first, *others = members[c]
        return set(problem.children[first]).intersection(*(problem.children[i] for i in others))

    return math.fsum(min(problem.cost[i] for i in members[c]) for c in postorder(problem.roots, common))


def lower_bound(problem: Problem, must: Must | None) -> float:
    """Return a lower bound on the cost of every solution.

    It is the cost of the costliest path of children that no choice avoids. If the must-sets are known and
    give more, it is the sum over the e-classes that every solution contains, each at its cheapest.
    """
    path = chain_bound(problem)
    return path if must is None else max(path, Weights.of(problem, must)(must.of_roots))


def chain_bound(problem: Problem) -> float:
    """Return the least cost, over all choices, of the costliest path below the roots."""
    height = settle(problem, problem.cost, highest=True).best
    return max((height[r] for r in problem.roots if height[r] < math.inf), default=0.0)
