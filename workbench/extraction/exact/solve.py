"""Exact extraction: independent parts one after another, each by the solver that suits it.

Parts with few selections are enumerated. Small parts are solved in this process. Large parts are solved in
processes of their own, by HiGHS and CP-SAT at once (:mod:`~workbench.extraction.exact.race`).
"""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from workbench.extraction.exact.highs import QUICK, solve_highs
from workbench.extraction.exact.loops import unfounded
from workbench.extraction.exact.race import Patience, Race
from workbench.extraction.exact.solving import Job, Solved, met, selection_cost
from workbench.extraction.exact.split import split
from workbench.extraction.greedy.dag import greedy_dag
from workbench.extraction.limits import Ending, Limit
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.must import Must, lower_bound, must_sets
from workbench.support.processes import SOLVER_MEMORY

#: Parts with at most this many selections are enumerated.
TINY: Final = 256
#: Seconds after which a small part counts as a hard one.
SOON: Final = 0.5
#: The solvers of each method; CP-SAT's local searches share a core with its proof.
SOLVERS: Final = {"portfolio": ("highs", "cp-sat:2"), "highs": ("highs",), "cp-sat": ("cp-sat:2",)}


@dataclass(frozen=True, slots=True)
class Exact:
    """The state of a solution: e-class → e-node (None while incomplete), bound, and whether it is proved.

    ``endings`` are the reasons for which solvers ended early; ``cuts`` counts the loop formulas that
    solvers in processes of their own work with.
    """

    taken: dict[int, int] | None
    bound: float
    proved: bool = False
    endings: tuple[Ending, ...] = ()
    cuts: int = 0


def load_solver() -> None:
    """Import HiGHS, outside any timed solve."""
    import highspy  # noqa: F401


def begin_loading() -> None:
    """Start :func:`load_solver` in the background, for example during saturation."""
    if "highspy" not in sys.modules:
        threading.Thread(target=load_solver, name="load_solver", daemon=True).start()


def solve(
    problem: Problem,
    incumbent: dict[int, int] | None,
    seconds: float,
    *,
    solver: str = "portfolio",
    patience: Patience | None = None,
    memory: int = SOLVER_MEMORY,
) -> Iterator[Exact]:
    """Solve a problem to proven optimality, or as far as ``seconds`` allow.

    Ctrl-C ends the solvers and is raised again.

    Args:
        problem: The problem.
        incumbent: A selection to begin with (e-class → e-node).
        seconds: Time limit.
        solver: A name of :data:`SOLVERS`.
        patience: Callback with seconds, cost and bound; returns whether a race of solvers goes on.
        memory: Bytes that each solver's process may use.

    Yields:
        The state at every improvement; the last one is the outcome.
    """
    until = time.perf_counter() + seconds
    parts = split(problem, until)
    musts = [must_sets(p, until) for p in parts]
    if time.perf_counter() > until:
        yield Exact(None, 0.0, endings=(Ending(Limit.TIME),))
        return
    starts = [_start(p, incumbent, until) for p in parts]
    bounds = [lower_bound(p, m) for p, m in zip(parts, musts, strict=True)]
    picks = list(starts)
    endings: list[Ending] = []
    proved = True
    cuts = 0
    solved: dict[Shape, Solved] = {}  # a network repeats its blocks
    # Easy parts first, so that as much as possible is decided when time runs out.
    for k in sorted(range(len(parts)), key=lambda k: (len(parts[k].nodes), k)):
        part = parts[k]
        shape = _shape(part)
        found = solved.get(shape)
        if found is not None and found.picked is not None:
            # The same problem again, with its candidates at the same positions.
            chosen = set(found.picked.values())
            found = replace(found, picked={part.eclass[i]: i for i in chosen})
        else:
            found = _at_once(part, musts[k], picks[k], bounds[k], until, solver)
        if found is None:
            race = Race(Job(part, musts[k], picks[k], until - time.perf_counter()), SOLVERS[solver], memory)
            for _ in race.run(patience):
                picks[k], bounds[k] = race.best, max(bounds[k], race.bound)
                yield Exact(_taken(parts, picks), math.fsum(bounds), cuts=cuts + race.cuts)
            cuts += race.cuts
            found = race.solved
        if found.proved:
            solved[shape] = found
        endings += found.endings
        bounds[k] = max(bounds[k], found.bound)
        proved &= found.proved
        picks[k] = found.picked if found.picked is not None else picks[k]
    taken = _taken(parts, picks)
    distinct = tuple(dict.fromkeys(endings))
    yield Exact(taken, math.fsum(bounds), proved and taken is not None, distinct, cuts)


def _taken(parts: Sequence[Problem], picks: Sequence[dict[int, int] | None]) -> dict[int, int] | None:
    """Return the selections of all parts as one (e-class → e-node), or None if a part has none."""
    taken: dict[int, int] = {}
    for part, picked in zip(parts, picks, strict=True):
        if picked is None:
            return None
        taken |= {c: part.nodes[i] for c, i in picked.items()}
    return taken


def _start(part: Problem, incumbent: dict[int, int] | None, until: float) -> dict[int, int] | None:
    """Return the incumbent within a part, or a greedy selection if reductions removed some of its e-nodes."""
    place = {node: i for i, node in enumerate(part.nodes)}
    for taken in (incumbent, None):
        found = greedy_dag(part, until) if taken is None else taken
        picked = {c: place[n] for c, n in found.items() if n in place and part.eclass[place[n]] == c}
        if selection_cost(part, picked) < math.inf and not unfounded(part, picked):
            return picked
    return None


Shape = tuple[tuple[int, ...], tuple[float, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]


def _shape(part: Problem) -> Shape:
    """Return a part with its e-classes renumbered; equal shapes are equal problems."""
    number: dict[int, int] = {}
    for c in part.eclass:
        number.setdefault(c, len(number))
    return (
        tuple(number[c] for c in part.eclass),
        tuple(part.cost),
        tuple(tuple(sorted(number[d] for d in row)) for row in part.children),
        tuple(sorted(number[r] for r in part.roots)),
    )


def _at_once(
    problem: Problem,
    must: Must | None,
    start: dict[int, int] | None,
    bound: float,
    until: float,
    solver: str,
) -> Solved | None:
    """Solve a part that needs no process of its own; return None for other parts."""
    seconds = until - time.perf_counter()
    if start is not None and met(selection_cost(problem, start), bound):
        return Solved(start, bound, proved=True)
    members = problem.members()
    if not any(problem.children):
        # No candidate has children: take the cheapest candidate of each e-class.
        cheapest = {c: min(m, key=lambda i: problem.cost[i]) for c, m in members.items()}
        return Solved(cheapest, math.fsum(problem.cost[i] for i in cheapest.values()), proved=True)
    if math.prod(len(candidates) for candidates in members.values()) <= TINY:
        return _enumerate(problem, members)
    if seconds <= 0:
        return Solved(start, 0.0, proved=False, endings=(Ending(Limit.TIME),))
    if len(problem.nodes) < QUICK and solver in ("portfolio", "highs"):
        found = solve_highs(problem, must, start, min(seconds, SOON))
        return found if found.proved else None
    return None


def solve_whole(
    problem: Problem,
    must: Must | None,
    seconds: float,
    forbidden: tuple[tuple[int, ...], ...],
    start: dict[int, int] | None = None,
) -> Solved:
    """Solve a problem with HiGHS without splitting it.

    Args:
        problem: The problem.
        must: Its must-sets, if they are known.
        seconds: Time limit.
        forbidden: Sets of candidates that must not all be taken together.
        start: A selection to begin with (e-class → candidate).
    """
    if len(problem.nodes) < QUICK:
        found = solve_highs(problem, must, start, min(seconds, SOON), forbidden=forbidden)
        if found.proved:
            return found
    race = Race(Job(problem, must, start, seconds, forbidden), ("highs",))
    for _ in race.run():
        pass
    return race.solved


def _enumerate(problem: Problem, members: dict[int, list[int]]) -> Solved:
    """Try every selection of a small part."""
    best, choice = math.inf, None
    for picked in itertools.product(*members.values()):
        of_class = dict(zip(members, picked, strict=True))
        cost = selection_cost(problem, of_class)
        if cost < best and not unfounded(problem, of_class):
            best, choice = cost, of_class
    return Solved(choice, best, proved=True)
