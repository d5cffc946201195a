"""Exact extraction: independent parts one after another, each by the solver that suits it.

Parts that few selections have are tried out; small ones are solved in place; large ones in processes,
HiGHS and CP-SAT at once (:mod:`~workbench.extraction.race`).
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

from workbench.extraction.components import split
from workbench.extraction.greedy import greedy_dag
from workbench.extraction.highs import QUICK, solve_highs
from workbench.extraction.loops import unfounded
from workbench.extraction.must import Must, lower_bound, must_sets
from workbench.extraction.problem import Problem
from workbench.extraction.race import MEMORY, Patience, Race
from workbench.extraction.solving import Job, Solved, met, selection_cost

#: Parts with at most this many selections are tried out.
TINY: Final = 256
#: Seconds after which a small part turns out to be a hard one.
SOON: Final = 0.5
#: The solvers of each method; CP-SAT's local searches share a core with its proof.
SOLVERS: Final = {"portfolio": ("highs", "cp-sat:2"), "highs": ("highs",), "cp-sat": ("cp-sat:2",)}


@dataclass(frozen=True, slots=True)
class Exact:
    """Hold what is known: e-class → e-node (None where nothing complete), bound, proof, notes, cuts.

    ``cuts`` counts the loop formulas that solvers in processes of their own work with.
    """

    taken: dict[int, int] | None
    bound: float
    proved: bool = False
    notes: tuple[str, ...] = ()
    cuts: int = 0


def load_solver() -> None:
    """Import HiGHS and scipy's graph routines (up to a second), so that it does not count as solving."""
    import highspy  # noqa: F401
    import scipy.sparse.csgraph  # noqa: F401


def begin_loading() -> None:
    """Import them in the background, as while the engine works; :func:`load_solver` then waits for it."""
    if "highspy" not in sys.modules:
        threading.Thread(target=load_solver, name="load_solver", daemon=True).start()


def solve(
    problem: Problem,
    incumbent: dict[int, int] | None,
    seconds: float,
    *,
    solver: str = "portfolio",
    patience: Patience | None = None,
    memory: int = MEMORY,
) -> Iterator[Exact]:
    """Solve a problem to proven optimality, or as far as ``seconds`` allow.

    Yields what is known at every improvement, the outcome last. ``incumbent`` maps e-classes to
    e-nodes, ``solver`` is a name of :data:`SOLVERS`, each of whose processes may use ``memory`` bytes.
    Ctrl-C ends the solvers and is raised again.
    """
    until = time.perf_counter() + seconds
    parts = split(problem, until)
    musts = [must_sets(p, until) for p in parts]
    if time.perf_counter() > until:
        yield Exact(None, 0.0, notes=("time limit",))
        return
    starts = [_start(p, incumbent, until) for p in parts]
    bounds = [lower_bound(p, m) for p, m in zip(parts, musts, strict=True)]
    picks = list(starts)
    notes: list[str] = []
    proved = True
    cuts = 0
    solved: dict[Shape, Solved] = {}  # a network repeats its blocks
    # The easy parts first: when time runs out, as much as possible is settled.
    for k in sorted(range(len(parts)), key=lambda k: (len(parts[k].nodes), k)):
        part = parts[k]
        shape = _shape(part)
        found = solved.get(shape)
        if found is not None and found.picked is not None:
            # The same problem: the candidates at the same places.
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
        notes += found.notes
        bounds[k] = max(bounds[k], found.bound)
        proved &= found.proved
        picks[k] = found.picked if found.picked is not None else picks[k]
    taken = _taken(parts, picks)
    told = tuple(dict.fromkeys(notes))
    yield Exact(taken, math.fsum(bounds), proved and taken is not None, told, cuts)


def _taken(parts: Sequence[Problem], picks: Sequence[dict[int, int] | None]) -> dict[int, int] | None:
    """Return the selections of all parts as one, e-class → e-node; None where one lacks."""
    taken: dict[int, int] = {}
    for part, picked in zip(parts, picks, strict=True):
        if picked is None:
            return None
        taken |= {c: part.nodes[i] for c, i in picked.items()}
    return taken


def _start(part: Problem, incumbent: dict[int, int] | None, until: float) -> dict[int, int] | None:
    """Return the incumbent within a part, or a greedy selection where reductions have left out some."""
    place = {node: i for i, node in enumerate(part.nodes)}
    for taken in (incumbent, None):
        found = greedy_dag(part, until) if taken is None else taken
        picked = {c: place[n] for c, n in found.items() if n in place and part.eclass[place[n]] == c}
        if selection_cost(part, picked) < math.inf and not unfounded(part, picked):
            return picked
    return None


Shape = tuple[tuple[int, ...], tuple[float, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]


def _shape(part: Problem) -> Shape:
    """Return a part with its e-classes renumbered: equal for parts that are the same problem."""
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
    """Solve what needs no process of its own; None for the rest."""
    seconds = until - time.perf_counter()
    if start is not None and met(selection_cost(problem, start), bound):
        return Solved(start, bound, proved=True)
    members = problem.members()
    if not any(problem.children):
        # Nothing depends on the choice: the cheapest candidate of each e-class.
        cheapest = {c: min(m, key=lambda i: problem.cost[i]) for c, m in members.items()}
        return Solved(cheapest, math.fsum(problem.cost[i] for i in cheapest.values()), proved=True)
    if math.prod(len(candidates) for candidates in members.values()) <= TINY:
        return _enumerate(problem, members)
    if seconds <= 0:
        return Solved(start, 0.0, proved=False, notes=("time limit",))
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
    """Solve a problem as it is with HiGHS; sets of candidates can be forbidden."""
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
