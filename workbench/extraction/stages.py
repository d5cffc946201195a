"""Parts of an extraction around its stages: limits, the reduced problem, patience, treewidth, ages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction import shares
from workbench.extraction.exact.decompose import split
from workbench.extraction.exact.isomorphic_parts import by_shape
from workbench.extraction.exact.treewidth import WIDEST
from workbench.extraction.exact.types import met
from workbench.extraction.problem import Problem, below, is_acyclic
from workbench.extraction.reduce.dominators import must_sets, surely_paid
from workbench.extraction.reduce.dual_ascent import climb, highest_bound
from workbench.extraction.reduce.presolve import QUICK, REDUCTIONS, ROUNDS, Effect, presolve
from workbench.extraction.solution import Solution
from workbench.run.trace import Step

#: ``auto`` stops when neither cost nor bound has moved by the share MOVED for IDLE seconds.
MOVED, IDLE = 1e-3, 5.0
#: Additional idle seconds per candidate, because the first relaxation of a large problem is slow.
PER_CANDIDATE: Final = 5e-5


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """A problem after the reductions, their effects, and the number of candidates before them."""

    problem: Problem
    effects: list[Effect]
    before: int

    @classmethod
    def none(cls, problem: Problem) -> Reduced:
        """Return a problem without reductions so far."""
        return cls(problem, [], len(problem.nodes))


def reduced_further(given: Reduced, cost: float, until: float, *, once: bool = False) -> Reduced:
    """Return a problem after further reductions, those that suit its first size.

    Args:
        given: The problem, with the effects of earlier reductions if there were any.
        cost: The cost of a known selection.
        until: Deadline of ``time.perf_counter``.
        once: Whether to apply only the quick reductions, and each of them once.
    """
    chosen = REDUCTIONS if given.before >= shares.WHOLE and not once else QUICK
    rounds = 1 if once else ROUNDS
    problem, more = presolve(given.problem, cost, until=until, reductions=chosen, rounds=rounds)
    effects = {effect.name: effect for effect in given.effects}
    for effect in more:
        old = effects.get(effect.name, Effect(effect.name, 0, 0, 0.0))
        effects[effect.name] = Effect(
            effect.name,
            old.before + effect.before,
            old.after + effect.after,
            old.seconds + effect.seconds,
        )
    return Reduced(problem, list(effects.values()), given.before)


def in_blocks(problem: Problem, until: float) -> bool:
    """Return whether all independent parts of a problem are small: each is then improved and solved alone.

    The layers of a network are such parts. Whatever is done to the whole before would be done twice.
    """
    return all(len(part.nodes) < shares.WHOLE for part in split(problem, until))


def bound_by_parts(problem: Problem, until: float) -> float:
    """Return a lower bound without a solver: the sum of those of the independent parts."""
    parts = split(problem, until)
    bounds = []
    for first, *others in by_shape(parts):
        part = parts[first]
        bounds += [highest_bound(part, must_sets(part, until), until)] * (1 + len(others))
    return math.fsum(bounds)


class Idling:
    """A stopping rule of a race: go on while cost or bound move; larger problems may pause longer."""

    def __init__(self, candidates: int) -> None:
        self._idle = max(IDLE, PER_CANDIDATE * candidates)
        self._cost, self._bound, self._since = math.inf, 0.0, 0.0

    def __call__(self, seconds: float, cost: float, bound: float) -> bool:
        """Return whether the race continues."""
        moved = cost < self._cost * (1 - MOVED) or bound > self._bound + MOVED * cost
        if moved:
            self._cost, self._bound, self._since = cost, bound, seconds
        return seconds - self._since < max(self._idle, self._since)


def check_limits(seconds: float, memory: int) -> None:
    """Raise ValueError unless both limits of an extraction are positive."""
    if not seconds > 0:
        raise ValueError(f"the time limit must be positive, got {seconds} (try seconds=60)")
    if not memory > 0:
        raise ValueError(f"the memory limit must be a positive number of bytes, got {memory}")


def raised(best: Solution | None, problem: Problem, until: float) -> Solution:
    """Return the best selection of a large problem with the bound of a dual ascent, if that is higher.

    The reductions and solvers of a large problem may take all the time, so it has a bound before them.
    """
    assert best is not None
    if len(problem.nodes) < shares.LARGE:
        return best
    bounds = [one.bound for one in climb(problem, until=until, times=1)]
    return replace(best, bound=min(best.cost, max([best.bound, *bounds])))


def proves(bound: float, best: Solution, core: Problem | None) -> bool:
    """Return whether a bound proves a selection of a problem optimal."""
    if not met(best.cost, bound):
        return False
    return met(best.cost, bound, surely_paid(core) if core is not None and core.roots else 0.0)


def treewidth(width: int | None) -> dict[str, int]:
    """Return the counts that report the treewidth of the parts that took a search, if it is known."""
    if not width:
        return {}
    return {"treewidth above": WIDEST} if width > WIDEST else {"treewidth at most": width}


def ages(egraph: EGraph) -> list[int]:
    """Return the step in which every e-node was born, or 0 for all if the steps are not recorded."""
    known = egraph.birth_step.tolist()
    return known if known else [0] * len(egraph)


def original_selection(egraph: EGraph) -> np.ndarray | None:
    """Return the start graph's selection, or None if it is incomplete or cyclic."""
    choice = np.full(egraph.n_classes, -1, dtype=np.int64)
    for i in egraph.original.tolist():
        if i >= 0 and choice[egraph.eclass[i]] < 0:
            choice[egraph.eclass[i]] = i
    needed = below(egraph, choice)
    return needed if needed is not None and is_acyclic(egraph, needed) else None


def described(method: str, size: int, solution: Solution | None, steps: Sequence[Step]) -> str:
    """Return an extraction from ``size`` e-nodes as text: its best selection and its last steps.

    Args:
        method: The name of the method.
        size: The number of e-nodes.
        solution: The best selection so far, or None.
        steps: The last steps.
    """
    lines = [f"Extraction ({method}) from {size} e-nodes"]
    if solution is not None:
        s = solution
        lines.append(
            f"  cost {s.cost:.6g}, bound {s.bound:.6g}, gap {s.gap:.2%}, {s.status.value} ({s.scope})"
        )
    lines += [
        f"  {step.note}: {'nothing yet' if step.cost is None else format(step.cost, '.6g')}" for step in steps
    ]
    return "\n".join(lines)
