"""The extents of terms by those of their variables, read off random well-typed instances."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from workbench.laws.verification.refuting.sampling import Draft, draw_type
from workbench.ops import TensorType, TypeMismatch
from workbench.rules.pattern import App, DimOf, tensor_variables

#: Instances with which an extent must agree.
DRAWN: Final = 24
#: Attempts to draw them.
TRIES: Final = 40 * DRAWN
#: Axes of a variable that are compared, counted from the last.
MOST_AXES: Final = 4


def equal_to_extent(terms: Sequence[App], place: int, axis: int, *, seed: int = 0) -> list[DimOf]:
    """Return the extents of variables that equal an extent of a term whenever all terms are well-typed.

    Args:
        terms: The terms.
        place: The number of the term.
        axis: The axis of its result, counted from the last.
        seed: Seed of the instances.

    >>> from workbench.rules.language import parse_term
    >>> terms = [parse_term("matmul(x, y)"), parse_term("matmul(x, z)")]
    >>> [f"dim({d.var}, {d.axis})" for d in equal_to_extent(terms, 1, -1)]
    ['dim(z, -1)']
    """
    rng = random.Random(seed)
    names = dict.fromkeys(v for t in terms for v in tensor_variables(t))
    left = [DimOf(n, a) for n in names for a in range(-MOST_AXES, 0)]
    drawn = 0
    for _ in range(TRIES):
        draft = Draft(rng, fixed={}, scalars=frozenset())
        try:
            kind = [draw_type(draft, t) for t in terms][place]
        except TypeMismatch:
            continue
        if kind.rank >= -axis:
            drawn += 1
            left = [d for d in left if _extent(draft.types[d.var], d.axis) == kind.shape[axis]]
        if drawn == DRAWN or not left:
            break
    return left if drawn else []


def _extent(kind: TensorType, axis: int | str) -> int | None:
    return kind.shape[axis] if isinstance(axis, int) and -axis <= kind.rank else None
