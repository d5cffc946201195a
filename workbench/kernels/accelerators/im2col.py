"""The windows of an image as columns of a matrix, which make a convolution a matrix product."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from workbench.ops.convolution import export_pad, require_window, window_extent, windows
from workbench.ops.exact import POLYNOMIAL
from workbench.ops.onnx_form import Emitter, OpsetTooOld
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Names, OpSpec, Types, no_flops
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing

if TYPE_CHECKING:
    from torch import Tensor


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (x,) = xs
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel"], attrs["strides"], attrs["dilations"]
    top, left, bottom, right = attrs["pads"]
    t.require(t.rank(x) == 4, "the operand must have four axes [N, C, H, W]")
    for number in (kh, kw, sh, sw, dh, dw):
        t.require(number >= 1, "kernel, strides and dilations must be positive")
    for pad in (top, left, bottom, right):
        t.require(pad >= 0, "pads must not be negative")
    require_window(t, t.dim(x, -2), kh, top, bottom, dh)
    require_window(t, t.dim(x, -1), kw, left, right, dw)
    height = window_extent(t.dim(x, -2), kh, sh, top, bottom, dh)
    width = window_extent(t.dim(x, -1), kw, sw, left, right, dw)
    return t.tensor(x, t.dim(x, -4), t.dim(x, -3) * kh * kw, height * width)


def _extents(shape: Sequence[int], attrs: Attrs) -> tuple[int, int]:
    """Return the numbers of windows down and across an image of a shape."""
    top, left, bottom, right = attrs["pads"]
    height, width = (
        window_extent(
            shape[2 + i], attrs["kernel"][i], attrs["strides"][i], before, after, attrs["dilations"][i]
        )
        for i, (before, after) in enumerate(((top, bottom), (left, right)))
    )
    return height, width


def _evaluate(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    (x,), (top, left, bottom, right) = xs, attrs["pads"]
    out = _extents(x.shape, attrs)
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    view = windows(padded, attrs["kernel"], attrs)
    columns = view.transpose(0, 1, 4, 5, 2, 3)
    return columns.reshape(x.shape[0], -1, out[0] * out[1])


def _torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    top, left, bottom, right = attrs["pads"]
    padded = torch.nn.functional.pad(xs[0], (left, right, top, bottom))
    return torch.nn.functional.unfold(
        padded, attrs["kernel"], dilation=attrs["dilations"], stride=attrs["strides"]
    )


def unfolds_nothing(attrs: Attrs) -> bool:
    """Return whether the windows are single pixels in order: the matrix is the image in another shape."""
    return tuple(attrs["kernel"]) == tuple(attrs["strides"]) == (1, 1) and not any(attrs["pads"])


def _export(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    """Write one slice of the padded image per tap of the kernel, and put them side by side."""
    (kind,) = types
    n, channels = kind.shape[:2]
    if unfolds_nothing(attrs):
        return e.reshape(xs[0], out.shape)
    if e.opset < 10:
        raise OpsetTooOld(f"operator set must be 10 or newer for a slice with a step, got {e.opset}")
    top, left, bottom, right = attrs["pads"]
    x = xs[0]
    if any(attrs["pads"]):
        x = export_pad(e, x, (top, left, bottom, right), kind)
    (sh, sw), (dh, dw) = attrs["strides"], attrs["dilations"]
    height, width = _extents(kind.shape, attrs)

    def numbers(*values: int) -> str:
        return e.constant(np.asarray(values, dtype=np.int64))

    taps = []
    for i, j in itertools.product(*map(range, attrs["kernel"])):
        first = (i * dh, j * dw)
        last = (first[0] + (height - 1) * sh + 1, first[1] + (width - 1) * sw + 1)
        tap = e.node("Slice", [x, numbers(*first), numbers(*last), numbers(2, 3), numbers(sh, sw)])
        taps.append(e.reshape(tap, (n, channels, 1, height * width)))
    whole = taps[0] if len(taps) == 1 else e.node("Concat", taps, axis=2)
    return e.reshape(whole, out.shape)


register(
    OpSpec(
        "unfold",
        1,
        _type,
        _evaluate,
        (
            Attr("kernel", "ints", (1, 1), 2),
            Attr("strides", "ints", (1, 1), 2),
            Attr("pads", "ints", (0, 0, 0, 0), 4),
            Attr("dilations", "ints", (1, 1), 2),
        ),
        no_flops,
        Trait.MOVES | Trait.UNROUNDED | Trait.LINEAR | Trait.FOUR_AXES,
        exact=POLYNOMIAL,
        export=_export,
        torch=_torch,
        doc="the windows of an image [N, C, H, W] as columns [N, C * kh * kw, windows] (im2col)",
    )
)
