"""Choices between elements by truth values, as masks of attention make them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm
from workbench.ops.locality import elementwise
from workbench.ops.onnx_form import NotModelled, OnnxNode, export_as, imports
from workbench.ops.registry import register
from workbench.ops.spec import OpSpec
from workbench.ops.traits import Trait
from workbench.ops.types import FLOAT_DTYPES
from workbench.ops.typing import Attrs, N, T, Typing


def _select_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    condition, x, y = xs
    t.require_truth(condition)
    t.require_float(x)
    t.require_same_dtype(x, y)
    return t.broadcast(t.broadcast(x, y), condition)


def _is_nan_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    t.require_float(xs[0])
    return t.with_dtype(xs[0], "bool")


def _larger_of_two(bounds: Sequence[int], shapes: Sequence[tuple[int, ...]], attrs: ExactAttrs) -> int:
    return max(bounds[1:])


register(
    OpSpec(
        "select",
        3,
        3,
        _select_type,
        # In exact arithmetic a truth value is a number like others.
        lambda xs, a: np.where(xs[0].astype(bool), xs[1], xs[2]),
        traits=Trait.BROADCASTS | Trait.UNROUNDED,
        exact=ExactForm(Arithmetic.ORDERED, bound=_larger_of_two),
        export=export_as("Where"),
        torch=lambda torch, xs, a: torch.where(xs[0], xs[1], xs[2]),
        parts=elementwise,
        doc="x if the condition holds, otherwise y",
    ),
    # No number of exact arithmetic is NaN, so laws are judged in floating point.
    OpSpec(
        "is_nan",
        1,
        1,
        _is_nan_type,
        lambda xs, a: np.isnan(xs[0]),
        traits=Trait.UNROUNDED,
        exact=ExactForm(Arithmetic.FLOATS),
        export=export_as("IsNaN"),
        torch=lambda torch, xs, a: torch.isnan(xs[0]),
        parts=elementwise,
        doc="whether an element is not a number, such as a softmax of scores that are all minus infinity",
    ),
)


@imports("Where")
def _import_where(n: OnnxNode) -> int:
    kind = n.type(1)
    if kind.dtype not in FLOAT_DTYPES:
        raise NotModelled(f"a choice between elements of {kind.dtype}")
    return n.op("select", n.operand(0), n.operand(1), n.operand(2))


@imports("IsNaN")
def _import_is_nan(n: OnnxNode) -> int:
    return n.op("is_nan", n.operand(0))
