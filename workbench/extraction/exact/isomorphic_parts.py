"""Equal parts of an extraction: a network repeats its blocks, so each kind of part is worked on only once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from workbench.extraction.problem import Problem

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
