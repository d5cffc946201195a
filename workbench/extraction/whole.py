"""Costs of a whole selection that are not a sum over its e-nodes, and extraction by them.

A fusion of producer and consumer, the peak of memory, the longest path, or any function of the user's own:
the k cheapest selections by a sum of costs are judged by it, and a local search improves the best of them.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.alternatives import k_best
from workbench.extraction.problem import NoExtraction, below, dag_cost, is_acyclic
from workbench.extraction.solution import Solution
from workbench.support.orders import postorder

#: The number of cheapest selections by the sum of costs that are judged first, and the share of the time for
#: them.
STARTS, SHARE = 8, 0.4
#: The local search ends after this many switches in turn without a gain, per e-class with a choice.
PATIENCE: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """An acyclic selection as a cost function sees it.

    ``choice[c]`` is the e-node of e-class ``c``, or -1 if the roots do not need it. ``order`` lists the
    needed e-classes, children first.
    """

    egraph: EGraph
    choice: np.ndarray
    order: tuple[int, ...]

    def children(self, eclass: int) -> list[int]:
        """Return the e-classes that the chosen e-node of an e-class reads, repeats included."""
        return [int(d) for d in self.egraph.operands(int(self.choice[eclass]))]

    def op(self, eclass: int) -> str:
        """Return the operator of the chosen e-node of an e-class."""
        return self.egraph.ops[int(self.choice[eclass])]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield each needed e-class with each e-class that its e-node reads: consumers and producers."""
        for c in self.order:
            for d in dict.fromkeys(self.children(c)):
                yield c, d


#: Cost of a selection: any number, where less is better; infinity refuses the selection.
Whole = Callable[[Selection], float]


def selection(egraph: EGraph, choice: np.ndarray) -> Selection:
    """Return a choice as a selection; raise ValueError if it is incomplete or cyclic."""
    needed = below(egraph, choice)
    if needed is None or not is_acyclic(egraph, needed):
        raise ValueError("the selection must be complete and acyclic, got one that is not")
    order = postorder(egraph.roots, lambda c: egraph.operands(int(needed[c])).tolist()[::-1])
    return Selection(egraph, needed, tuple(order))


def summed(costs: np.ndarray) -> Whole:
    """Return the sum of e-node costs as the cost of a selection."""

    def cost(chosen: Selection) -> float:
        return dag_cost(chosen.choice, costs)

    return cost


def fused(costs: np.ndarray, bonus: Callable[[str, str], float]) -> Whole:
    """Return the sum of costs less a bonus for fused pairs of a producer and its only consumer.

    Args:
        costs: One cost per e-node.
        bonus: Callback with the operators of consumer and producer; returns the gain if they are fused.
    """

    def cost(chosen: Selection) -> float:
        pairs = list(chosen.pairs())
        uses: dict[int, int] = dict.fromkeys(chosen.egraph.roots, 1)
        for _, d in pairs:
            uses[d] = uses.get(d, 0) + 1
        gain = (bonus(chosen.op(c), chosen.op(d)) for c, d in pairs if uses[d] == 1)
        return dag_cost(chosen.choice, costs) - math.fsum(gain)

    return cost


def critical_path(costs: np.ndarray) -> Whole:
    """Return the cost of the costliest path from a root: the time with unlimited parallel units."""

    def cost(chosen: Selection) -> float:
        height: dict[int, float] = {}
        for c in chosen.order:
            under = max((height[d] for d in chosen.children(c)), default=0.0)
            height[c] = under + float(costs[chosen.choice[c]])
        return max((height[r] for r in chosen.egraph.roots), default=0.0)

    return cost


def peak_memory(size: np.ndarray) -> Whole:
    """Return the largest sum of results alive at once, if they are computed in the selection's order.

    A result is alive from its computation to its last reader; roots stay alive. ``size`` has one number per
    e-class, for example its bytes. The order is depth first, the child of the larger subterm peak first.
    """

    def cost(chosen: Selection) -> float:
        return _peak(chosen, size)

    return cost


def _peak(chosen: Selection, size: np.ndarray) -> float:
    rows = {c: list(dict.fromkeys(chosen.children(c))) for c in chosen.order}
    need: dict[int, float] = {}
    for c in chosen.order:  # as in Sethi and Ullman's numbering, shared parts counted in each
        held = peak = 0.0
        for d in sorted(rows[c], key=lambda d: -need[d]):
            peak = max(peak, held + need[d])
            held += float(size[d])
        need[c] = max(peak, held + float(size[c]))
    left = dict.fromkeys(rows, 0)
    for row in rows.values():
        for d in row:
            left[d] += 1
    for r in chosen.egraph.roots:
        left[r] += 1
    alive = most = 0.0
    done: set[int] = set()
    for root in dict.fromkeys(chosen.egraph.roots):
        stack = [(root, False)]
        while stack:
            c, ready = stack.pop()
            if c in done:
                continue
            if not ready:
                stack.append((c, True))
                stack += [(d, False) for d in sorted(rows[c], key=lambda d: need[d]) if d not in done]
                continue
            done.add(c)
            alive += float(size[c])
            most = max(most, alive)
            for d in rows[c]:
                left[d] -= 1
                alive -= 0.0 if left[d] else float(size[d])
    return most


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A selection with its cost by a function of the whole, and its sum of costs."""

    choice: np.ndarray
    cost: float
    summed: float


def extract_whole(
    egraph: EGraph,
    costs: np.ndarray,
    whole: Whole,
    *,
    seconds: float = 10.0,
    starts: int = STARTS,
    seed: int = 0,
) -> Judged:
    """Return the best selection found by a cost that is not a sum, without a bound.

    The cheapest selections by ``costs`` are judged, each at least two e-nodes from the others. A local search
    then switches e-classes of the best of them, and keeps a switch if the cost of the whole does not rise.

    Args:
        egraph: The e-graph.
        costs: One cost per e-node, 0 or more; they guide the search, and infinity excludes an e-node.
        whole: The cost of a selection.
        seconds: Time limit.
        starts: Number of selections to judge first, at least 1.
        seed: Seed of the random choices.

    Raises:
        NoExtraction: If ``whole`` refuses all selections that were tried, or a root has no finite term.
    """
    return min(candidates(egraph, costs, [whole], seconds=seconds, starts=starts, seed=seed)[0], key=_cost)


def _cost(judged: Judged) -> float:
    return judged.cost


def candidates(
    egraph: EGraph,
    costs: np.ndarray,
    wholes: Collection[Whole],
    *,
    seconds: float = 10.0,
    starts: int = STARTS,
    seed: int = 0,
) -> list[list[Judged]]:
    """Return for each of several costs all selections that were judged by it.

    The arguments are those of :func:`extract_whole`.
    Raise :class:`NoExtraction` if a cost refuses all of them.
    """
    until = time.perf_counter() + seconds
    first = k_best(egraph, costs, starts, seconds=SHARE * seconds, distance=1 if starts == 1 else 2)
    found = []
    for n, whole in enumerate(wholes):
        share = time.perf_counter() + (until - time.perf_counter()) / (len(wholes) - n)
        found.append(_searched(egraph, costs, whole, first, share, random.Random(seed)))
    return found


def _searched(
    egraph: EGraph,
    costs: np.ndarray,
    whole: Whole,
    starts: list[Solution],
    until: float,
    rng: random.Random,
) -> list[Judged]:
    """Return the judged selections of one local search, the starts included."""
    judged = [_judged(egraph, costs, whole, s.choice) for s in starts]
    judged = [j for j in judged if j.cost < math.inf]
    if not judged:
        raise NoExtraction("the cost of a selection must be finite for some selection, got none")
    best = min(judged, key=_cost)
    members = egraph.members()
    # An e-class that is not needed takes the e-node of a start that needs it, or one of least tree cost.
    rest = _rest(egraph, costs, starts)
    idle = 0
    while time.perf_counter() < until:
        open_ = [
            c
            for c in np.flatnonzero(best.choice >= 0).tolist()
            if sum(costs[i] < math.inf for i in members[c]) > 1
        ]
        if not open_ or idle >= PATIENCE * max(50, len(open_)):
            break
        choice = np.where(best.choice >= 0, best.choice, rest)
        for _ in range(rng.choice((1, 1, 2, 3))):
            c = rng.choice(open_)
            choice[c] = rng.choice([i for i in members[c] if costs[i] < math.inf])
        needed = below(egraph, choice)
        idle += 1
        if needed is None or not is_acyclic(egraph, needed):
            continue
        other = _judged(egraph, costs, whole, needed)
        if other.cost < math.inf:
            judged.append(other)
        if other.cost <= best.cost:
            idle = 0 if other.cost < best.cost else idle
            best = other
    return judged


def _rest(egraph: EGraph, costs: np.ndarray, starts: list[Solution]) -> np.ndarray:
    """Return a choice for every e-class that has a finite term."""
    from workbench.extraction.problem import tree_costs

    choice = np.array(tree_costs(egraph, costs)[1], dtype=np.int64)
    for start in reversed(starts):
        choice = np.where(start.choice >= 0, start.choice, choice)
    return choice


def _judged(egraph: EGraph, costs: np.ndarray, whole: Whole, choice: np.ndarray) -> Judged:
    chosen = selection(egraph, choice)
    value = float(whole(chosen))
    if math.isnan(value):
        raise NoExtraction("the cost of a selection must be a number, got NaN")
    return Judged(chosen.choice, value, dag_cost(chosen.choice, costs))


def pareto(
    egraph: EGraph,
    costs: np.ndarray,
    wholes: Mapping[str, Whole],
    *,
    seconds: float = 10.0,
    starts: int = STARTS,
    seed: int = 0,
) -> list[tuple[np.ndarray, dict[str, float]]]:
    """Return selections of which none is better than another by all of several costs.

    They are the front of all selections that the searches for each cost alone, and for sums of them with
    several weights, have judged; a better front may exist.

    Args:
        egraph: The e-graph.
        costs: One cost per e-node, 0 or more; they guide the searches.
        wholes: The costs by name, at least one.
        seconds: Time limit.
        starts: Number of selections to judge first.
        seed: Seed of the random choices.

    Returns:
        The selections with their costs by name, in order of the first cost.

    Raises:
        ValueError: If there are no costs.
        NoExtraction: If a cost refuses all selections, or a root has no finite term.
    """
    if not wholes:
        raise ValueError("a front needs at least one cost, got none")
    seen: dict[bytes, tuple[np.ndarray, dict[str, float]]] = {}

    def values(chosen: Selection) -> dict[str, float]:
        key = chosen.choice.tobytes()
        if key not in seen:
            seen[key] = chosen.choice, {name: float(whole(chosen)) for name, whole in wholes.items()}
        return seen[key][1]

    def weighted(share: float, scale: Mapping[str, float]) -> Whole:
        first, *others = wholes

        def cost(chosen: Selection) -> float:
            found = values(chosen)
            rest = math.fsum(found[name] / scale[name] for name in others)
            return share * found[first] / scale[first] + (1.0 - share) * rest

        return cost

    def single(name: str) -> Whole:
        return lambda chosen: values(chosen)[name]

    share = seconds / 2
    candidates(egraph, costs, [single(n) for n in wholes], seconds=share, starts=starts, seed=seed)
    if len(wholes) > 1:
        least = {n: max(1e-300, min(abs(found[n]) for _, found in seen.values())) for n in wholes}
        mixed = [weighted(w, least) for w in (0.2, 0.5, 0.8)]
        candidates(egraph, costs, mixed, seconds=share, starts=starts, seed=seed)
    return _front(list(seen.values()))


def _front(judged: list[tuple[np.ndarray, dict[str, float]]]) -> list[tuple[np.ndarray, dict[str, float]]]:
    """Return the judged selections that no other one equals or beats by every cost."""
    order = sorted(judged, key=lambda one: tuple(one[1].values()))
    front: list[tuple[np.ndarray, dict[str, float]]] = []
    for choice, found in order:
        if all(any(found[n] < known[n] for n in found) for _, known in front):
            front.append((choice, found))
    return front
