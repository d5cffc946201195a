"""Operators that move, select or reinterpret data without arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.ops.registry import register
from workbench.ops.spec import MANY, Attr, Attrs, OpSpec, Typing, no_flops
from workbench.ops.types import TensorType


def _concat_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    axis = attrs["axis"]
    first = xs[0]
    t.require_axis(first, axis)
    total = t.dim(first, axis)
    for x in xs[1:]:
        t.require(t.rank(first) == t.rank(x), "operands of one rank are expected")
        t.require_same(t.with_dim(first, axis, 1), t.with_dim(x, axis, 1), "extents differ off the axis")
        total = total + t.dim(x, axis)
    return t.with_dim(first, axis, total)


def _slice_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    (x,) = xs
    axis, start, stop, step = attrs["axis"], attrs["start"], attrs["stop"], attrs["step"]
    t.require_axis(x, axis)
    t.require(start >= 0, "a slice starts at 0 or later")
    t.require(stop > start, "a slice is not empty")
    t.require(stop <= t.dim(x, axis), "a slice ends inside its axis")
    t.require(step >= 1, "a slice steps forward")
    return t.with_dim(x, axis, (stop - start + step - 1) // step)


def _slice(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    index: list[slice] = [slice(None)] * xs[0].ndim
    index[attrs["axis"]] = slice(attrs["start"], attrs["stop"], attrs["step"])
    return xs[0][tuple(index)]


def _reshape_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    out = t.with_shape(xs[0], attrs["shape"])
    t.require(t.elements(xs[0]) == t.elements(out), f"{xs[0]} does not reshape to {out}")
    return out


def _transpose_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    return t.permute(xs[0], attrs["perm"])


def _pad_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    (x,) = xs
    top, left, bottom, right = attrs["pads"]
    t.require_float(x)
    t.require(t.rank(x) >= 2, "padding needs two axes or more")
    for pad in (top, left, bottom, right):
        t.require(pad >= 0, "pads are not negative")
    taller = t.with_dim(x, -2, t.dim(x, -2) + top + bottom)
    return t.with_dim(taller, -1, t.dim(x, -1) + left + right)


def _pad(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    top, left, bottom, right = attrs["pads"]
    widths = [(0, 0)] * (xs[0].ndim - 2) + [(top, bottom), (left, right)]
    return np.pad(xs[0], widths, constant_values=attrs["value"])


def _expand_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    out = t.with_shape(xs[0], attrs["shape"])
    t.require_same(t.broadcast(out, xs[0]), out, "the operand does not broadcast to the shape")
    return out


def _gather_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    data, indices = xs
    axis = attrs["axis"]
    t.concrete("gather")
    t.require_axis(data, axis)
    t.require(indices.dtype in ("int32", "int64"), f"indices are int32 or int64, not {indices}")
    at = len(data.shape) + axis
    return t.tensor(data, *data.shape[:at], *indices.shape, *data.shape[at + 1 :])


def _gather(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.take(xs[0], xs[1], axis=attrs["axis"])


def _cast_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    return t.with_dtype(xs[0], attrs["to"])


def _cast(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return xs[0].astype(TensorType(attrs["to"], ()).numpy_dtype())


register(
    OpSpec(
        "concat",
        1,
        MANY,
        _concat_type,
        lambda xs, a: np.concatenate(xs, axis=a["axis"]),
        (Attr("axis", "int"),),
        no_flops,
        doc="operands joined along an axis",
    ),
    OpSpec(
        "slice",
        1,
        1,
        _slice_type,
        _slice,
        (Attr("axis", "int"), Attr("start", "int"), Attr("stop", "int"), Attr("step", "int", 1)),
        no_flops,
        doc="start..stop of an axis, every step-th; a split is a set of slices",
    ),
    OpSpec(
        "reshape",
        1,
        1,
        _reshape_type,
        lambda xs, a: np.reshape(xs[0], a["shape"]),
        (Attr("shape", "shape"),),
        no_flops,
        view=True,
        doc="the same elements in another shape (also squeeze, unsqueeze, flatten)",
    ),
    OpSpec(
        "transpose",
        1,
        1,
        _transpose_type,
        lambda xs, a: np.transpose(xs[0], a["perm"]),
        (Attr("perm", "perm"),),
        no_flops,
        doc="axes permuted: result axis i is operand axis perm[i]",
    ),
    OpSpec(
        "pad",
        1,
        1,
        _pad_type,
        _pad,
        (Attr("pads", "ints", (0, 0, 0, 0), 4), Attr("value", "float", 0.0)),
        no_flops,
        doc="a constant border around the last two axes (top, left, bottom, right)",
    ),
    OpSpec(
        "expand",
        1,
        1,
        _expand_type,
        lambda xs, a: np.broadcast_to(xs[0], a["shape"]),
        (Attr("shape", "shape"),),
        no_flops,
        doc="the operand repeated to a shape it broadcasts to",
    ),
    OpSpec(
        "gather",
        2,
        2,
        _gather_type,
        _gather,
        (Attr("axis", "int"),),
        no_flops,
        doc="entries of an axis picked by an index tensor",
    ),
    OpSpec(
        "cast",
        1,
        1,
        _cast_type,
        _cast,
        (Attr("to", "dtype"),),
        doc="elements converted to another dtype",
    ),
    OpSpec(
        "identity",
        1,
        1,
        lambda t, xs, a: xs[0],
        lambda xs, a: xs[0],
        (),
        no_flops,
        view=True,
        doc="the operand itself (also dropout at inference)",
    ),
)
