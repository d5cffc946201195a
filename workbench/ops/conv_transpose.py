"""Transposed convolution in two dimensions: every element adds a multiple of the kernel to the result.

The operands are ``x [N, C, H, W]``, ``w [C, O/groups, kh, kw]`` and an optional ``b [1, O, 1, 1]``. The
element at place ``i`` adds tap ``u`` at place ``strides · i + dilations · u``; the pads are cut off, and
``extra`` places are added at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from workbench.ops.convolution import require_bfloat16
from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, imports
from workbench.ops.registry import register
from workbench.ops.spec import Attr, OpSpec
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing

if TYPE_CHECKING:
    from torch import Tensor


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    x, w = xs[:2]
    (sh, sw), (dh, dw), (eh, ew) = attrs["strides"], attrs["dilations"], attrs["extra"]
    (top, left, bottom, right), groups = attrs["pads"], attrs["groups"]
    t.require_float(x)
    t.require_same_dtype(x, w)
    t.require(t.rank(x) == 4, "the input must have four axes [N, C, H, W]")
    t.require(t.rank(w) == 4, "the weight must have four axes [C, O/groups, kh, kw]")
    for number in (sh, sw, dh, dw, groups):
        t.require(number >= 1, "strides, dilations and groups must be positive")
    for number in (top, left, bottom, right, eh, ew):
        t.require(number >= 0, "pads and extra places must not be negative")
    for extra, stride in ((eh, sh), (ew, sw)):
        t.require(extra < stride, "extra places must be fewer than the stride")
    t.require(t.dim(x, -3) == t.dim(w, -4), f"channels of {x} do not fit {w}")
    t.require(t.dim(x, -3) % groups == 0, "the input channels must divide into the groups")
    channels = t.dim(w, -3) * groups
    if len(xs) == 3:
        t.require_same(xs[2], t.tensor(x, 1, channels, 1, 1), "the bias must be [1, O, 1, 1]")
    height = (t.dim(x, -2) - 1) * sh + (t.dim(w, -2) - 1) * dh + 1 + eh - top - bottom
    width = (t.dim(x, -1) - 1) * sw + (t.dim(w, -1) - 1) * dw + 1 + ew - left - right
    for extent in (height, width):
        t.require(extent >= 1, "the pads must leave a result")
    return t.tensor(x, t.dim(x, -4), channels, height, width)


def _evaluate(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x, w = xs[:2]
    (sh, sw), (dh, dw), (eh, ew) = attrs["strides"], attrs["dilations"], attrs["extra"]
    (top, left, bottom, right), groups = attrs["pads"], attrs["groups"]
    n, channels, height, width = x.shape
    _, per_group, kh, kw = w.shape
    rows, columns = (height - 1) * sh + 1, (width - 1) * sw + 1
    full = (rows + (kh - 1) * dh + eh, columns + (kw - 1) * dw + ew)
    out = np.zeros((n, groups * per_group, *full), dtype=x.dtype)
    places = x.reshape(n, groups, channels // groups, height * width)
    taps = w.reshape(groups, channels // groups, per_group, kh, kw)
    for u, v in np.ndindex(kh, kw):
        part = (taps[..., u, v].transpose(0, 2, 1) @ places).reshape(n, -1, height, width)
        out[:, :, u * dh : u * dh + rows : sh, v * dw : v * dw + columns : sw] += part.astype(x.dtype)
    out = out[:, :, top : full[0] - bottom, left : full[1] - right]
    return out + xs[2] if len(xs) == 3 else out


def _torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    x, w = xs[:2]
    top, left, bottom, right = attrs["pads"]
    bias = xs[2].reshape(-1) if len(xs) == 3 else None
    strides, extra, groups, dilations = (attrs[k] for k in ("strides", "extra", "groups", "dilations"))
    convolve = torch.nn.functional.conv_transpose2d
    if (top, left) == (bottom, right):
        found: Tensor = convolve(x, w, bias, strides, (top, left), extra, groups, dilations)
        return found
    full: Tensor = convolve(x, w, bias, strides, 0, extra, groups, dilations)
    return full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right]


def _flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    _, per_group, kh, kw = inputs[1].shape
    return 2.0 * inputs[0].elements * per_group * kh * kw


def _export(e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType) -> str:
    inputs = list(xs)
    if len(xs) == 3 and types[2].rank != 1:
        inputs[2] = e.reshape(xs[2], (out.shape[1],))
    require_bfloat16(e, out)
    return e.node(
        "ConvTranspose",
        inputs,
        kernel_shape=types[1].shape[2:],
        strides=attrs["strides"],
        pads=attrs["pads"],
        dilations=attrs["dilations"],
        group=attrs["groups"],
        output_padding=attrs["extra"] if any(attrs["extra"]) else None,
    )


def _degree(degrees: Sequence[int]) -> int:
    return max(sum(degrees[:2]), *degrees)


def _bound(bounds: Sequence[int], shapes: Sequence[tuple[int, ...]], attrs: ExactAttrs) -> int:
    channels, _, kh, kw = shapes[1]
    return bounds[0] * bounds[1] * math.prod((channels, kh, kw)) + sum(bounds[2:])


register(
    OpSpec(
        "conv_transpose",
        2,
        3,
        _type,
        _evaluate,
        (
            Attr("strides", "ints", (1, 1), 2),
            Attr("pads", "ints", (0, 0, 0, 0), 4),
            Attr("dilations", "ints", (1, 1), 2),
            Attr("groups", "int", 1),
            Attr("extra", "ints", (0, 0), 2),
        ),
        _flops,
        Trait.PRODUCT | Trait.LINEAR | Trait.FOUR_AXES,
        export=_export,
        exact=ExactForm(Arithmetic.POLYNOMIAL, degree=_degree, bound=_bound),
        torch=_torch,
        weights_from=1,
        doc="the transposed convolution: every element adds a multiple of the kernel; bias [1, O, 1, 1]",
    )
)


@imports("ConvTranspose")
def _import(n: OnnxNode) -> int:
    if n.type(0).rank != 4:
        raise NotModelled(f"transposed convolution over {n.type(0).rank - 2} axes; two are modelled")
    if n.attr("auto_pad", "NOTSET") != "NOTSET" or n.attr("output_shape"):
        raise NotModelled("a transposed convolution whose pads follow from its result")
    operands = [n.operand(0), n.operand(1)]
    if n.has(2):
        operands.append(n.op("reshape", n.operand(2), shape=(1, n.type(2).elements, 1, 1)))
    return n.op(
        "conv_transpose",
        *operands,
        strides=n.attr("strides", (1, 1)),
        pads=n.attr("pads", (0, 0, 0, 0)),
        dilations=n.attr("dilations", (1, 1)),
        groups=n.attr("group", 1),
        extra=n.attr("output_padding", (0, 0)),
    )
