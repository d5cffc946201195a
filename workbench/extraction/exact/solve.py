"""Exact extraction: independent parts one after another, each by the solver that suits it.

Parts with few selections are enumerated. Other small parts are solved by HiGHS in this process, from some
size on with cutting planes. Large parts are solved in a process of their own
(:mod:`~workbench.extraction.exact.solver_process`). Of parts that are equal only one is solved.
"""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Final

from workbench.extraction.exact.cuts import solve_by_cuts
from workbench.extraction.exact.highs import SMALL_SIZE, solve_highs
from workbench.extraction.exact.solver_process import Patience, SolverProcess
from workbench.extraction.exact.types import GAP_TOLERANCE, Effort, Job, Solved, met
from workbench.extraction.greedy.dag import greedy
from workbench.extraction.greedy.local_search import improve
from workbench.extraction.problem import Problem, settle
from workbench.extraction.reduce.cycles import split
from workbench.extraction.reduce.dominators import must_sets
from workbench.extraction.reduce.dual_ascent import affordable, climb, highest_bound
from workbench.extraction.reduce.presolve import ROUNDS, presolve
from workbench.extraction.result import Ending, Limit
from workbench.support.processes import SOLVER_MEMORY

#: Parts with at most this many selections are enumerated.
MAX_ENUMERATED: Final = 256
#: Seconds after which a small part counts as a hard one.
EASY_SECONDS: Final = 0.5
#: Small parts of at least this many candidates are solved by cutting planes.
MIN_CUT_SIZE: Final = 50
#: Largest share of the time for splitting a problem, reducing its parts and their must-sets.
PREPARATION_TIME_SHARE: Final = 0.25
#: Parts with fewer candidates are not tightened, those with more take too long to improve.
MIN_TIGHTENED_SIZE: Final = 60
MAX_TIGHTENED_SIZE: Final = 5_000
#: Candidates opened between two descents before: nearly all that local search gains is gained soon.
TIGHTENED_OPENINGS: Final = 300
#: The share of the allowed gap within which a part is left as it is.
GOOD_SHARE: Final = 0.3
#: Times that a part is reduced and split, and rounds of its reductions if there is a gap.
MAX_TIGHTENINGS: Final = 3
FEW_ROUNDS: Final = 2
#: The effort of a proof: no gap, and no limit but time and memory.
PROOF_EFFORT: Final = Effort()
#: A part with its e-classes renumbered: e-classes, costs, children and roots.
Shape = tuple[tuple[int, ...], tuple[float, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]


def begin_loading() -> None:
    """Start to import HiGHS in the background, for example during saturation."""
    if "highspy" not in sys.modules:
        threading.Thread(target=import_module, args=["highspy"], daemon=True).start()


def solve(
    problem: Problem,
    incumbent: dict[int, int] | None,
    seconds: float,
    *,
    patience: Patience | None = None,
    memory: int = SOLVER_MEMORY,
    effort: Effort = PROOF_EFFORT,
) -> Iterator[Solved]:
    """Solve a problem to proven optimality, or as far as ``seconds`` allow.

    Yield the state before any solver runs and at every improvement; the last one is the outcome. Its selection maps
    e-classes to e-nodes, and is None while incomplete. Ctrl-C ends the solvers and is raised again.

    Args:
        problem: The problem.
        incumbent: A selection to begin with (e-class → e-node).
        seconds: Time limit.
        patience: Callback with seconds, cost and bound; returns whether a solver goes on.
        memory: Bytes that each solver's process may use.
        effort: How far the solution is proved.
    """
    until = time.perf_counter() + seconds
    ready = time.perf_counter() + (PREPARATION_TIME_SHARE if effort.nodes is None else 1.0) * seconds
    pieces = tighten(split(problem, ready), incumbent, ready, gap=GOOD_SHARE * effort.gap)
    paid, parts = _without_fixed_costs([part for part, _ in pieces])
    groups = by_shape(parts)  # a network repeats its blocks
    musts = [must_sets(parts[first], ready) for first, *_ in groups]
    if time.perf_counter() > until:
        yield Solved(None, 0.0, endings=(Ending(Limit.TIME),))
        return
    picks = [start for _, start in pieces]
    kind = {k: number for number, group in enumerate(groups) for k in group}
    highest = [highest_bound(parts[g[0]], must, ready) for g, must in zip(groups, musts, strict=True)]
    bounds = [highest[kind[k]] for k in range(len(parts))]
    started = zip(parts, picks, strict=True)
    slack = effort.gap * (paid + math.fsum(p.cost_of(s) for p, s in started if s is not None))
    endings: list[Ending] = []
    proved = True
    cuts = 0
    yield Solved(_taken(parts, picks), math.fsum((paid, *bounds)))
    solved: dict[int, Solved] = {}
    # Easy parts first, so that as much as possible is decided when time runs out.
    order = sorted(range(len(parts)), key=lambda k: (len(parts[k].nodes), k))
    for done, k in enumerate(order):
        part = parts[k]
        if (known := solved.get(kind[k])) is not None and known.picked is not None:
            found: Solved | None = replace(known, picked=picked_in(part, known.picked))
        else:
            found = _trivial(part, picks[k], bounds[k])
        if found is None:
            must = musts[kind[k]] if k == groups[kind[k]][0] else must_sets(part, until)
            share = Effort(max(0.0, slack) / (len(order) - done), effort.nodes)
            job = Job(part, must, picks[k], until - time.perf_counter())
            found = _at_once(job, bounds[k], share)
        if found is None:
            process = SolverProcess(replace(job, seconds=until - time.perf_counter()), memory=memory)
            for _ in process.run(patience):
                picks[k], bounds[k] = process.best.picked, max(bounds[k], process.best.bound)
                formulas = cuts + process.best.formulas
                yield Solved(_taken(parts, picks), math.fsum((paid, *bounds)), cuts=formulas)
            cuts += process.best.formulas
            found = process.solved
        if found.proved or effort.nodes is not None:
            solved[kind[k]] = found
        endings += found.endings
        bounds[k] = max(bounds[k], found.bound)
        proved &= found.proved
        picks[k] = picked = found.picked if found.picked is not None else picks[k]
        if picked is not None:
            slack -= max(0.0, part.cost_of(picked) - bounds[k])
    taken = _taken(parts, picks)
    distinct = tuple(dict.fromkeys(endings))
    yield Solved(taken, math.fsum((paid, *bounds)), proved and taken is not None, distinct, cuts)


def _without_fixed_costs(parts: Sequence[Problem]) -> tuple[float, list[Problem]]:
    """Return the cost that all selections pay, and the parts without it: a solver's tolerance is relative to cost."""
    paid: list[float] = []
    rest: list[Problem] = []
    for part in parts:
        roots = set(part.roots)
        least = {c: cost for c, cost in part.least().items() if c in roots}
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
        taken |= part.fixed | part.taken(picked)
    return taken


def _trivial(problem: Problem, start: dict[int, int] | None, bound: float) -> Solved | None:
    """Solve a part without a search worth the name; return None for other parts."""
    if start is not None and met(problem.cost_of(start), bound):
        return Solved(start, bound, proved=True)
    members = problem.members()
    if not any(problem.children):
        # No candidate has children: take the cheapest candidate of each e-class.
        cheapest = {c: min(m, key=problem.cost.__getitem__) for c, m in members.items()}
        return Solved(cheapest, math.fsum(problem.cost[i] for i in cheapest.values()), proved=True)
    if math.prod(map(len, members.values())) > MAX_ENUMERATED:
        return None
    best, choice = math.inf, None
    for picked in itertools.product(*members.values()):
        of_class = dict(zip(members, picked, strict=True))
        cost = problem.cost_of(of_class)
        if cost < best and not problem.loops(of_class):
            best, choice = cost, of_class
    return Solved(choice, best, proved=True)


def _at_once(job: Job, bound: float, effort: Effort) -> Solved | None:
    """Solve a part that needs no process of its own; return None for other parts."""
    problem, start, slack = job.problem, job.start, effort.gap
    known = None if start is None else dict(start)
    if job.seconds <= 0:
        return Solved(known, 0.0, proved=False, endings=(Ending(Limit.TIME),))
    if start is not None and slack > 0.0 and problem.cost_of(start) - bound <= slack:
        return Solved(known, bound, proved=False, endings=(Ending(Limit.CLOSE),))
    # Cutting planes take a while to begin with, but then often decide a part without a branch.
    by = solve_by_cuts if len(problem.nodes) >= MIN_CUT_SIZE else solve_highs
    if effort.nodes is not None:
        return by(job, slack=slack, nodes=effort.nodes * SMALL_SIZE // max(len(problem.nodes), SMALL_SIZE))
    if len(problem.nodes) < SMALL_SIZE:
        found = by(replace(job, seconds=min(job.seconds, EASY_SECONDS)))
        return found if found.proved else None
    return None


def solve_whole(job: Job) -> Solved:
    """Solve a problem with HiGHS without splitting it."""
    paid, (problem,) = _without_fixed_costs([job.problem])
    job = replace(job, problem=problem)
    if len(problem.nodes) < SMALL_SIZE:
        found = solve_highs(replace(job, seconds=min(job.seconds, EASY_SECONDS)))
        if found.proved:
            return replace(found, bound=found.bound + paid)
    process = SolverProcess(job)
    for _ in process.run():
        pass
    return replace(process.solved, bound=process.best.bound + paid)


# -- parts of the same shape, and smaller parts -----------------------------------------------------
def shape_of(part: Problem) -> Shape:
    """Return a part with its e-classes renumbered: equal shapes are equal problems, candidate by candidate."""
    number = {c: k for k, c in enumerate(dict.fromkeys(part.eclass))}
    return (
        tuple(number[c] for c in part.eclass),
        tuple(part.cost),
        tuple(tuple(sorted(number[d] for d in row)) for row in part.children),
        tuple(sorted(number[r] for r in part.roots)),
    )


def by_shape(parts: Sequence[Problem]) -> list[list[int]]:
    """Return the positions of parts, those of the same shape together, in the order of the first of each."""
    groups: dict[Shape, list[int]] = {}
    for k, part in enumerate(parts):
        groups.setdefault(shape_of(part), []).append(k)
    return list(groups.values())


def picked_in(part: Problem, picked: Mapping[int, int]) -> dict[int, int]:
    """Return a selection (e-class → candidate) of a part as one of another part of the same shape."""
    return {part.eclass[i]: i for i in picked.values()}


def moved(smaller: Sequence[Problem], before: Problem, after: Problem) -> list[Problem]:
    """Return what a part was reduced to as problems of another part, ``after``, of the same shape."""
    classes = dict(zip(before.eclass, after.eclass, strict=True))
    nodes = dict(zip(before.nodes, after.nodes, strict=True))
    return [
        replace(
            one,
            nodes=[nodes[n] for n in one.nodes],
            eclass=[classes[c] for c in one.eclass],
            children=[tuple(classes[d] for d in row) for row in one.children],
            roots=tuple(classes[r] for r in one.roots),
            fixed=after.fixed | {classes[c]: nodes[n] for c, n in one.fixed.items() if c in classes},
        )
        for one in smaller
    ]


def start_of(part: Problem, incumbent: Mapping[int, int] | None, until: float) -> dict[int, int] | None:
    """Return the incumbent within a part, or a selection near it if reductions removed some of its e-nodes.

    Without an incumbent, or if it is cheaper, it is a greedy selection. ``incumbent`` maps e-classes to
    e-nodes; the result maps e-classes to candidates.
    """
    found = []
    if incumbent is not None:
        kept = set(incumbent.values())
        if (picked := part.selected(kept)) is not None:
            return picked
        price = [0.0 if node in kept else cost for node, cost in zip(part.nodes, part.cost, strict=True)]
        found.append({c: i for c, i in enumerate(settle(part, price).choice) if i >= 0})
    found.insert(0, part.picked(set(greedy(part, until, once=True).values())))
    whole = [picked for picked in found if part.cost_of(picked) < math.inf]
    return min(whole, key=part.cost_of, default=None)


def tighten(
    parts: Sequence[Problem],
    incumbent: Mapping[int, int] | None,
    until: float,
    times: int = MAX_TIGHTENINGS,
    gap: float = 0.0,
) -> list[tuple[Problem, dict[int, int] | None]]:
    """Return smaller parts of which optima together are an optimum of all parts, each with a start.

    A candidate is dropped if every solution with it costs more than the incumbent. Within a part the incumbent
    is near its bound, so this removes far more than in the whole, and the part often splits again.
    Parts of the same shape are made smaller once, from the cheapest of their starts.

    Args:
        parts: The independent parts of an extraction problem.
        incumbent: A selection of e-nodes by e-class to start from, or None.
        until: The time at which to stop, in seconds of ``time.perf_counter``.
        times: How often a part is made smaller, at most.
        gap: The share of its cost by which the start of a part may be above a bound to stay as it is.
    """
    found: list[list[tuple[Problem, dict[int, int] | None]]] = [[] for _ in parts]
    for group in by_shape(parts):
        first = parts[group[0]]
        starts = [start for k in group if (start := start_of(parts[k], incumbent, until)) is not None]
        start = min(starts, key=lambda picked: first.cost_of(picked_in(first, picked)), default=None)
        pieces = _tightened(first, None if start is None else picked_in(first, start), until, times, gap)
        smaller = [piece for piece, _ in pieces]
        for k in group:
            there = smaller if k == group[0] else moved(smaller, first, parts[k])
            found[k] = [
                (piece, None if picked is None else picked_in(piece, picked))
                for piece, (_, picked) in zip(there, pieces, strict=True)
            ]
    return [piece for pieces in found for piece in pieces]


def _tightened(
    part: Problem, start: dict[int, int] | None, until: float, times: int, gap: float
) -> list[tuple[Problem, dict[int, int] | None]]:
    """Return the smaller parts of one part, from a start (e-class → candidate)."""
    if start is None or not MIN_TIGHTENED_SIZE <= len(part.nodes) <= MAX_TIGHTENED_SIZE:
        return [(part, start)]
    found = climb(part, until=until)
    if not found or part.cost_of(start) - found[0].bound <= max(gap, GAP_TOLERANCE) * part.cost_of(start):
        return [(part, start)]
    # A selection that local search improves rules out far more candidates, and reductions are what takes time.
    cost = part.cost_of(start)
    reduced = part.keep(affordable(part, found, cost * (1 + GAP_TOLERANCE)))
    if (inner := reduced.selected(set(part.taken(start).values()))) is not None:
        taken = improve(reduced, reduced.taken(inner), until, openings=TIGHTENED_OPENINGS)
        start = part.picked(set(taken.values()))
    if part.cost_of(start) >= cost and times < MAX_TIGHTENINGS:
        return [(part, start)]
    reduced, _ = presolve(reduced, part.cost_of(start), until=until, rounds=FEW_ROUNDS if gap else ROUNDS)
    if len(reduced.nodes) == len(part.nodes) or not times:
        return [(part, start)]
    return tighten(split(reduced, until), part.taken(start), until, times - 1, gap)
