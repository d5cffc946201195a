"""Exact extraction: independent parts one after another, each by the solver that suits it.

Parts with few selections are enumerated. Parts of small treewidth are solved by dynamic programming, other
small parts by HiGHS in this process, from some size on with cutting planes. Large parts are solved in
processes of their own, by HiGHS and CP-SAT at once (:mod:`~workbench.extraction.exact.race`);
large-neighbourhood search joins them. Of parts that are equal only one is solved.
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

from workbench.extraction.exact.cuts import solve_by_cuts
from workbench.extraction.exact.cycle_constraints import unfounded
from workbench.extraction.exact.dynamic import by_width
from workbench.extraction.exact.highs import SMALL_SIZE, bound_highs, solve_highs
from workbench.extraction.exact.race import Patience, Race
from workbench.extraction.exact.root_tightening import by_shape, picked_in, tighten
from workbench.extraction.exact.types import Effort, Job, Solved, met, selection_cost
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import split
from workbench.extraction.reduce.dominators import Must, must_sets
from workbench.extraction.reduce.dual_ascent import highest_bound
from workbench.extraction.result import Ending, Limit
from workbench.support.processes import SOLVER_MEMORY

#: Parts with at most this many selections are enumerated.
MAX_ENUMERATED: Final = 256
#: Seconds after which a small part counts as a hard one.
EASY_SECONDS: Final = 0.5
#: Small parts of at least this many candidates are solved by cutting planes.
MIN_CUT_SIZE: Final = 50
#: The solvers of each method; CP-SAT's local searches share a core with its proof.
SOLVERS: Final = {"portfolio": ("highs", "cp-sat:2"), "highs": ("highs",), "cp-sat": ("cp-sat:2",)}
#: Large-neighbourhood search joins in for parts of at least this many candidates.
MIN_LNS_SIZE: Final = 1_000
#: Largest share of the time for splitting a problem, reducing its parts and their must-sets.
PREPARATION_TIME_SHARE: Final = 0.25
#: With a limit on nodes, branch and bound is for parts of at most this many candidates.
MAX_BRANCHING_SIZE: Final = 300
#: The effort of a proof: no gap, and no limit but time and memory.
PROOF_EFFORT: Final = Effort()


@dataclass(frozen=True, slots=True)
class Exact:
    """The state of a solution: e-class → e-node (None while incomplete), bound, and whether it is proved.

    ``endings`` are the reasons for which solvers ended early; ``cuts`` counts the loop formulas that
    solvers in processes of their own work with. ``width`` is the largest treewidth, as far as a greedy
    decomposition tells, of the parts that are neither trivial nor enumerated: at most one more than
    :data:`~workbench.extraction.exact.treewidth.MAX_WIDTH`, and None if that of some part is not known.
    """

    taken: dict[int, int] | None
    bound: float
    proved: bool = False
    endings: tuple[Ending, ...] = ()
    cuts: int = 0
    width: int | None = 0


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
    effort: Effort = PROOF_EFFORT,
) -> Iterator[Exact]:
    """Solve a problem to proven optimality, or as far as ``seconds`` allow.

    Ctrl-C ends the solvers and is raised again.

    Args:
        problem: The problem.
        incumbent: A selection to begin with (e-class → e-node).
        seconds: Time limit.
        solver: A name of :data:`SOLVERS`.
        patience: Callback with seconds, cost and bound; returns whether a race of solvers continues.
        memory: Bytes that each solver's process may use.
        effort: How far the solution is proved.

    Yields:
        The state at every improvement; the last one is the outcome.
    """
    until = time.perf_counter() + seconds
    ready = time.perf_counter() + PREPARATION_TIME_SHARE * seconds
    pieces = tighten(split(problem, ready), incumbent, ready)
    paid, parts = _without_fixed_costs([part for part, _ in pieces])
    groups = by_shape(parts)  # a network repeats its blocks
    musts = [must_sets(parts[first], ready) for first, *_ in groups]
    if time.perf_counter() > until:
        yield Exact(None, 0.0, endings=(Ending(Limit.TIME),))
        return
    picks = [start for _, start in pieces]
    bounds = [0.0] * len(parts)
    kind = dict.fromkeys(range(len(parts)), 0)
    for number, (group, must) in enumerate(zip(groups, musts, strict=True)):
        kind |= dict.fromkeys(group, number)
        bound = highest_bound(parts[group[0]], must, ready)
        for k in group:
            bounds[k] = bound
    started = zip(parts, picks, strict=True)
    slack = effort.gap * (paid + math.fsum(selection_cost(p, s) for p, s in started if s is not None))
    endings: list[Ending] = []
    proved = True
    cuts = 0
    width: int | None = 0
    solved: dict[int, Solved] = {}
    # Easy parts first, so that as much as possible is decided when time runs out.
    order = sorted(range(len(parts)), key=lambda k: (len(parts[k].nodes), k))
    for done, k in enumerate(order):
        part = parts[k]
        found = _again(part, solved.get(kind[k])) or _trivial(part, picks[k], bounds[k])
        if found is None:
            must = musts[kind[k]] if k == groups[kind[k]][0] else must_sets(part, until)
            share = Effort(slack / (len(order) - done), effort.nodes)
            one, found = by_width(part, until) if solver == "portfolio" else (None, None)
            width = None if one is None or width is None else max(width, one)
            if found is None:
                found = _at_once(part, must, picks[k], bounds[k], until, solver, share)
        if found is None:
            race = _race(part, must, picks[k], until, solver, memory)
            for _ in race.run(patience):
                picks[k], bounds[k] = race.best, max(bounds[k], race.bound)
                yield Exact(_taken(parts, picks), math.fsum((paid, *bounds)), cuts=cuts + race.cuts)
            cuts += race.cuts
            found = race.solved
        if found.proved or effort.nodes is not None:
            solved[kind[k]] = found
        endings += found.endings
        bounds[k] = max(bounds[k], found.bound)
        proved &= found.proved
        picks[k] = found.picked if found.picked is not None else picks[k]
        picked = picks[k]
        if picked is not None:
            slack -= max(0.0, selection_cost(part, picked) - bounds[k])
    taken = _taken(parts, picks)
    distinct = tuple(dict.fromkeys(endings))
    yield Exact(taken, math.fsum((paid, *bounds)), proved and taken is not None, distinct, cuts, width)


def _again(part: Problem, known: Solved | None) -> Solved | None:
    """Return the solution of a part of the same shape for this one."""
    if known is None or known.picked is None:
        return None
    return replace(known, picked=picked_in(part, known.picked))


def _race(
    part: Problem, must: Must | None, start: dict[int, int] | None, until: float, solver: str, memory: int
) -> Race:
    """Return the race of the solvers for a part."""
    job = Job(part, must, start, until - time.perf_counter())
    joins = solver == "portfolio" and len(part.nodes) >= MIN_LNS_SIZE and start is not None
    return Race(job, SOLVERS[solver], memory, ("lns",) if joins else ())


def _without_fixed_costs(parts: Sequence[Problem]) -> tuple[float, list[Problem]]:
    """Return the cost that every selection pays for roots, and the parts without it.

    A solver's tolerances are relative to its costs, so it gets only the costs that depend on the choice.
    """
    paid: list[float] = []
    rest: list[Problem] = []
    for part in parts:
        least: dict[int, float] = dict.fromkeys(part.roots, math.inf)
        for c, cost in zip(part.eclass, part.cost, strict=True):
            if cost < least.get(c, -math.inf):
                least[c] = cost
        paid += least.values()
        costs = [cost - least.get(c, 0.0) for c, cost in zip(part.eclass, part.cost, strict=True)]
        rest.append(replace(part, cost=costs))
    return math.fsum(paid), rest


def _taken(parts: Sequence[Problem], picks: Sequence[dict[int, int] | None]) -> dict[int, int] | None:
    """Return the selections of all parts as one (e-class → e-node), or None if a part has none."""
    taken: dict[int, int] = {}
    for part, picked in zip(parts, picks, strict=True):
        if picked is None:
            return None
        taken |= part.fixed
        taken |= {c: part.nodes[i] for c, i in picked.items()}
    return taken


def _trivial(problem: Problem, start: dict[int, int] | None, bound: float) -> Solved | None:
    """Solve a part without a search worth the name; return None for other parts."""
    if start is not None and met(selection_cost(problem, start), bound):
        return Solved(start, bound, proved=True)
    members = problem.members()
    if not any(problem.children):
        # No candidate has children: take the cheapest candidate of each e-class.
        cheapest = {c: min(m, key=lambda i: problem.cost[i]) for c, m in members.items()}
        return Solved(cheapest, math.fsum(problem.cost[i] for i in cheapest.values()), proved=True)
    if math.prod(len(candidates) for candidates in members.values()) <= MAX_ENUMERATED:
        return _enumerate(problem, members)
    return None


def _at_once(
    problem: Problem,
    must: Must | None,
    start: dict[int, int] | None,
    bound: float,
    until: float,
    solver: str,
    effort: Effort,
) -> Solved | None:
    """Solve a part that needs no process of its own; return None for other parts."""
    seconds = until - time.perf_counter()
    if seconds <= 0:
        return Solved(start, 0.0, proved=False, endings=(Ending(Limit.TIME),))
    slack = effort.gap
    if start is not None and slack > 0.0 and selection_cost(problem, start) - bound <= slack:
        return Solved(start, bound, proved=False, endings=(Ending(Limit.CLOSE),))
    if effort.nodes is not None and start is not None and len(problem.nodes) > MAX_BRANCHING_SIZE:
        found = bound_highs(problem, must, start, seconds, slack=slack)
        return replace(found, bound=max(found.bound, bound))
    if effort.nodes is not None:
        return solve_highs(problem, must, start, seconds, slack=slack, nodes=effort.nodes)
    if len(problem.nodes) < SMALL_SIZE and solver in ("portfolio", "highs"):
        # Cutting planes take a while to begin with, but then often decide a part without a branch.
        cuts = len(problem.nodes) >= MIN_CUT_SIZE and solver == "portfolio"
        found = (solve_by_cuts if cuts else solve_highs)(problem, must, start, min(seconds, EASY_SECONDS))
        return found if found.proved else None
    return None


def solve_whole(
    problem: Problem,
    must: Must | None,
    seconds: float,
    forbidden: tuple[tuple[int, ...], ...],
    start: dict[int, int] | None = None,
    apart: int = 1,
) -> Solved:
    """Solve a problem with HiGHS without splitting it.

    Args:
        problem: The problem.
        must: Its must-sets, if they are known.
        seconds: Time limit.
        forbidden: Sets of candidates that must not all be taken together.
        start: A selection to begin with (e-class → candidate).
        apart: The number of candidates of each forbidden set to be left out at least.
    """
    paid, (problem,) = _without_fixed_costs([problem])
    if len(problem.nodes) < SMALL_SIZE:
        found = solve_highs(
            problem, must, start, min(seconds, EASY_SECONDS), forbidden=forbidden, apart=apart
        )
        if found.proved:
            return replace(found, bound=found.bound + paid)
    race = Race(Job(problem, must, start, seconds, forbidden, apart), ("highs",))
    for _ in race.run():
        pass
    return replace(race.solved, bound=race.bound + paid)


def _enumerate(problem: Problem, members: dict[int, list[int]]) -> Solved:
    """Try every selection of a small part."""
    best, choice = math.inf, None
    for picked in itertools.product(*members.values()):
        of_class = dict(zip(members, picked, strict=True))
        cost = selection_cost(problem, of_class)
        if cost < best and not unfounded(problem, of_class):
            best, choice = cost, of_class
    return Solved(choice, best, proved=True)
