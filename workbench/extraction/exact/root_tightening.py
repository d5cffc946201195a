"""Reduce independent parts of an extraction once more, each with an incumbent of its own.

A candidate is dropped if every solution with it costs more than the incumbent. Within a part the incumbent is
near its bound, so this removes far more than in the whole, and the part often splits again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from workbench.extraction.exact.cycle_constraints import unfounded
from workbench.extraction.exact.types import selection_cost
from workbench.extraction.greedy.dag import greedy_dag, settle
from workbench.extraction.greedy.local_search import improve
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import split
from workbench.extraction.reduce.presolve import presolve

#: A part with its e-classes renumbered: e-classes, costs, children and roots.
Shape = tuple[tuple[int, ...], tuple[float, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]


def shape_of(part: Problem) -> Shape:
    """Return a part with its e-classes renumbered; equal shapes are equal problems.

    Candidates at the same position of parts of the same shape correspond to each other.
    """
    number: dict[int, int] = {}
    for c in part.eclass:
        number.setdefault(c, len(number))
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
    """Return the problems that a part was reduced to as those of another part of the same shape.

    Args:
        smaller: The problems, with e-classes and e-nodes of the part ``before``.
        before: The part.
        after: The other part.
    """
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


#: Parts with fewer candidates are solved as they are, those with more take too long to improve.
MIN_CANDIDATES: Final = 60
MAX_CANDIDATES: Final = 5_000
#: Times that a part is reduced and split.
MAX_ROUNDS: Final = 3


def start_of(part: Problem, incumbent: Mapping[int, int] | None, until: float) -> dict[int, int] | None:
    """Return the incumbent within a part, or a selection near it if reductions removed some of its e-nodes.

    Without an incumbent, or if it is cheaper, it is a greedy selection. ``incumbent`` maps e-classes to
    e-nodes; the result maps e-classes to candidates.
    """
    if incumbent is not None:
        picked = _within(part, incumbent)
        if selection_cost(part, picked) < math.inf and not unfounded(part, picked):
            return picked
    found = [_within(part, greedy_dag(part, until))]
    if incumbent is not None:
        found.append(_near(part, picked))
    whole = [picked for picked in found if selection_cost(part, picked) < math.inf]
    return min(whole, key=lambda picked: selection_cost(part, picked), default=None)


def _near(part: Problem, picked: Mapping[int, int]) -> dict[int, int]:
    """Return an acyclic selection in which the remaining choices of another cost nothing."""
    price = list(part.cost)
    for i in picked.values():
        price[i] = 0.0
    return {c: i for c, i in enumerate(settle(part, price).choice) if i >= 0}


def tighten(
    parts: Sequence[Problem], incumbent: Mapping[int, int] | None, until: float, times: int = MAX_ROUNDS
) -> list[tuple[Problem, dict[int, int] | None]]:
    """Return smaller parts of which optima together are an optimum of all parts, each with a start.

    Parts of the same shape are made smaller once, from the cheapest of their starts.

    Args:
        parts: The independent parts of an extraction problem.
        incumbent: A selection of e-nodes by e-class to start from, or None.
        until: The time at which to stop, in seconds of ``time.perf_counter``.
        times: How often a part is made smaller, at most.
    """
    found: list[list[tuple[Problem, dict[int, int] | None]]] = [[] for _ in parts]
    for group in by_shape(parts):
        first = parts[group[0]]
        starts = [start for k in group if (start := start_of(parts[k], incumbent, until)) is not None]
        start = min(starts, key=lambda picked: selection_cost(first, picked_in(first, picked)), default=None)
        pieces = _tightened(first, None if start is None else picked_in(first, start), until, times)
        smaller = [piece for piece, _ in pieces]
        for k in group:
            there = smaller if k == group[0] else moved(smaller, first, parts[k])
            found[k] = [
                (piece, None if picked is None else picked_in(piece, picked))
                for piece, (_, picked) in zip(there, pieces, strict=True)
            ]
    return [piece for pieces in found for piece in pieces]


def _tightened(
    part: Problem, start: dict[int, int] | None, until: float, times: int
) -> list[tuple[Problem, dict[int, int] | None]]:
    """Return the smaller parts of one part, from a start (e-class → candidate)."""
    if start is None or not MIN_CANDIDATES <= len(part.nodes) <= MAX_CANDIDATES:
        return [(part, start)]
    reduced, _ = presolve(part, selection_cost(part, start), until=until)
    if len(reduced.nodes) == len(part.nodes):
        picked = _within(part, improve(part, _nodes(part, start), until, patience=0))
        if selection_cost(part, picked) >= selection_cost(part, start):
            return [(part, start)]
        start = picked
        reduced, _ = presolve(part, selection_cost(part, start), until=until)
    if len(reduced.nodes) == len(part.nodes) or not times:
        return [(part, start)]
    return tighten(split(reduced, until), _nodes(part, start), until, times - 1)


def _nodes(part: Problem, picked: Mapping[int, int]) -> dict[int, int]:
    """Return a selection of candidates as one of e-nodes."""
    return {c: part.nodes[i] for c, i in picked.items()}


def _within(part: Problem, taken: Mapping[int, int]) -> dict[int, int]:
    """Return the candidates of a part that a selection (e-class → e-node) takes."""
    place = {node: i for i, node in enumerate(part.nodes)}
    return {c: place[n] for c, n in taken.items() if n in place and part.eclass[place[n]] == c}
