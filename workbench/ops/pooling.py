"""Two-dimensional pooling with ONNX's attributes, and reductions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

import numpy as np

from workbench.ops import onnx_form
from workbench.ops.convolution import WINDOW, explicit_pads, require_bfloat16, require_window, windows
from workbench.ops.exact import ORDERED, RATIONAL, Arithmetic, ExactForm
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, OpsetTooOld, imports, only_result
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Names, OnnxExport, OpSpec, Tensor, Types
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import CONCRETE, Attrs, N, T, Typing


def _extent(t: Typing[T, N], n: N, side: Sequence[Any], ceil: N | int) -> N:
    """Return the number of windows of an extent, a stride, pads before and after, and a dilation."""
    # ONNX: with ceil_mode a last window counts only if it starts inside the input or its leading pad.
    k, s, before, after, d = side
    span = n + before + after - d * (k - 1) - 1
    t.require(k >= 1, "the kernel must be positive")
    t.require(s >= 1, "the strides must be positive")
    floor: N = span // s + 1
    if isinstance(ceil, int) and not ceil:
        return floor
    t.concrete("pooling with ceil_mode")
    up: N = -(-span // s) + 1
    return up - 1 if (up - 1) * s >= n + before else up


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (x,) = xs
    (kh, kw), (sh, sw) = attrs["kernel"], attrs["strides"]
    (top, left, bottom, right), (dh, dw) = attrs["pads"], attrs.get("dilations", (1, 1))
    t.require_float(x)
    t.require(t.rank(x) == 4, "the input must have four axes [N, C, H, W]")
    # A pad as large as the kernel would give a window that contains only padding.
    for pads, reach in (((top, bottom), dh * (kh - 1)), ((left, right), dw * (kw - 1))):
        for pad in pads:
            t.require(pad <= reach, "a pad must be smaller than the window")
            t.require(pad >= 0, "pads must not be negative")
    require_window(t, t.dim(x, -2), kh, top, bottom, dh)
    require_window(t, t.dim(x, -1), kw, left, right, dw)
    height = _extent(t, t.dim(x, -2), (kh, sh, top, bottom, dh), attrs["ceil"])
    width = _extent(t, t.dim(x, -1), (kw, sw, left, right, dw), attrs["ceil"])
    return t.with_dim(t.with_dim(x, -2, height), -1, width)


def _border(shape: Sequence[int], attrs: Attrs) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the border (before, after) of both axes: the pads, and the overhang of ceil_mode."""
    (top, left, bottom, right), dilations = attrs["pads"], attrs.get("dilations", (1, 1))
    found = []
    for i, (before, after) in enumerate(((top, bottom), (left, right))):
        k, s, d, n = attrs["kernel"][i], attrs["strides"][i], dilations[i], shape[2 + i]
        out = _extent(CONCRETE, n, (k, s, before, after, d), attrs["ceil"])
        found.append((before, after + max(0, (out - 1) * s + d * (k - 1) + 1 - n - before - after)))
    return found[0], found[1]


def _pool_windows(x: np.ndarray, attrs: Attrs, value: float) -> np.ndarray:
    # The overhang of ceil_mode beyond the padding is filled with the neutral value, too.
    padded = np.pad(x, ((0, 0), (0, 0), *_border(x.shape, attrs)), constant_values=value)
    return windows(padded, attrs["kernel"], attrs)


def _avg_pool(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    (x,) = xs
    view = _pool_windows(x, attrs, 0)
    counted = np.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    if attrs["include_pad"]:
        # Explicit pads count; the overhang of ceil_mode never does.
        top, left, bottom, right = attrs["pads"]
        counted = np.pad(counted, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=1)
        counts = _pool_windows(counted, dict(attrs) | {"pads": (0, 0, 0, 0)}, 0)
        counts = counts[:, :, : view.shape[2], : view.shape[3]]
    else:
        counts = _pool_windows(counted, attrs, 0)
    return (view.sum(axis=(4, 5)) / counts.sum(axis=(4, 5))).astype(x.dtype)


def _pads_as_torch(attrs: Attrs) -> bool:
    """Return whether torch's pools support the pads: equal on both sides, at most half a kernel."""
    top, left, bottom, right = attrs["pads"]
    kh, kw = attrs["kernel"]
    return (top, left) == (bottom, right) and 2 * top <= kh and 2 * left <= kw


def _max_pool_torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    (x,), f = xs, torch.nn.functional
    kernel, strides, dilations = attrs["kernel"], attrs["strides"], attrs["dilations"]
    if _pads_as_torch(attrs):
        return f.max_pool2d(x, kernel, strides, attrs["pads"][:2], dilations, bool(attrs["ceil"]))
    rows, columns = _border(x.shape, attrs)
    padded = f.pad(x, (*columns, *rows), value=float("-inf"))
    return f.max_pool2d(padded, kernel, strides, 0, dilations)


def _avg_pool_torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    (x,), f = xs, torch.nn.functional
    kernel, strides, include = attrs["kernel"], attrs["strides"], bool(attrs["include_pad"])
    if _pads_as_torch(attrs):
        return f.avg_pool2d(x, kernel, strides, attrs["pads"][:2], bool(attrs["ceil"]), include)
    (top, left, bottom, right), (rows, columns) = attrs["pads"], _border(x.shape, attrs)
    counted = f.pad(x.new_ones(1, 1, *x.shape[2:]), (left, right, top, bottom), value=float(include))
    counted = f.pad(counted, (0, columns[1] - right, 0, rows[1] - bottom))
    total = f.avg_pool2d(f.pad(x, (*columns, *rows)), kernel, strides)
    return total / f.avg_pool2d(counted, kernel, strides)


def _pool_flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    kh, kw = attrs["kernel"]
    return float(out.elements * kh * kw)


def _reduce_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (x,) = xs
    axes, keep = attrs["axes"], attrs["keepdims"]
    t.require_float(x)
    if not isinstance(axes, tuple) or not isinstance(keep, int) or not keep:
        (operand,) = t.concrete("a reduction that drops axes or whose axes are a variable", x)
    t.require(len(axes) > 0, "a reduction must name its axes")
    for a, b in itertools.combinations(axes, 2):
        t.require(a != b, "the axes of a reduction must be distinct")
    out = x
    for axis in axes:
        t.require_axis(x, axis)
        out = t.with_dim(out, axis, 1)
    if keep:
        return out
    return t.tensor(x, *(t.dim(x, a) for a in range(-operand.rank, 0) if a not in axes))


def _drops_window(x: TensorType, attrs: Attrs, out: TensorType) -> bool:
    # Before operator set 22 ONNX counted a last window that starts in the padding.
    pads, dilations = attrs["pads"], attrs.get("dilations", (1, 1))
    sides = zip(x.shape[2:], attrs["kernel"], attrs["strides"], pads[:2], pads[2:], dilations, strict=True)
    up = tuple(-(-(n + before + after - d * (k - 1) - 1) // s) + 1 for n, k, s, before, after, d in sides)
    return up != out.shape[2:]


def _export_pool(op_type: str) -> OnnxExport:
    def export(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
        require_bfloat16(e, out)
        more: dict[str, Any] = {}
        if op_type == "AveragePool":
            more["count_include_pad"] = attrs["include_pad"]
        elif attrs["dilations"] != (1, 1):
            if e.opset < 10:
                raise OpsetTooOld(f"operator set must be 10 or newer for dilated pooling, got {e.opset}")
            more["dilations"] = attrs["dilations"]
        if attrs["ceil"]:
            oldest = 22 if _drops_window(types[0], attrs, out) else 10
            if e.opset < oldest:
                raise OpsetTooOld(f"operator set must be {oldest} or newer for this ceil_mode, got {e.opset}")
            more["ceil_mode"] = 1
        window = {"kernel_shape": attrs["kernel"], "strides": attrs["strides"], "pads": attrs["pads"]}
        return e.node(op_type, xs, **window, **more)

    return export


#: From these operator sets on, the axes of a reduction are an operand.
_AXES_OPERAND: Final = {"ReduceSum": 13, "ReduceMean": 18, "ReduceMax": 18}


def _export_reduce(op_type: str, whole: str) -> OnnxExport:
    def export(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
        rank, keep = types[0].rank, attrs["keepdims"]
        axes = sorted(rank + a for a in attrs["axes"])
        # ONNX Runtime has no pooling of float64.
        pools = out.dtype != "float64" and (out.dtype != "bfloat16" or e.opset >= 22)
        if whole and keep and rank == 4 and axes == [2, 3] and pools:
            return e.node(whole, xs)
        if e.opset < _AXES_OPERAND[op_type]:
            return e.node(op_type, xs, axes=axes, keepdims=keep)
        return e.node(op_type, [*xs, onnx_form.export_ints(e, axes)], keepdims=keep)

    return export


_Reduction = tuple[str, Callable[..., np.ndarray], str, str, Trait, ExactForm, str]
_SUM: Final = ExactForm(Arithmetic.POLYNOMIAL, bound=lambda b, shapes, attrs: b[0] * math.prod(shapes[0]))
#: Reductions: name, semantics, name in torch, ONNX operator of whole images, facts, exact form, meaning.
_REDUCTIONS: Final[tuple[_Reduction, ...]] = (
    ("reduce_sum", np.sum, "sum", "", Trait.LINEAR, _SUM, "the sum over axes"),
    (
        "reduce_mean",
        np.mean,
        "mean",
        "GlobalAveragePool",
        Trait.LINEAR,
        RATIONAL,
        "the mean over axes (global average pooling: axes -2, -1)",
    ),
    (
        "reduce_max",
        np.max,
        "amax",
        "GlobalMaxPool",
        Trait.NONE,
        ORDERED,
        "the maximum over axes (global max pooling: axes -2, -1)",
    ),
)


def _reduce(row: _Reduction) -> OpSpec:
    name, f, theirs, whole, traits, exact, doc = row
    return OpSpec(
        name,
        1,
        _reduce_type,
        lambda xs, a: f(xs[0], axis=a["axes"], keepdims=bool(a["keepdims"])),
        (Attr("axes", "axes"), Attr("keepdims", "int", 1)),
        lambda a, ins, out: float(ins[0].elements),
        traits | Trait.REDUCES,
        exact=exact,
        export=_export_reduce(f"Reduce{name.removeprefix('reduce_').capitalize()}", whole),
        torch=lambda torch, xs, a: getattr(torch, theirs)(xs[0], dim=a["axes"], keepdim=bool(a["keepdims"])),
        doc=doc,
    )


_WINDOW = (Attr("kernel", "ints", None, 2), *WINDOW[:2])

register(
    OpSpec(
        "maxpool",
        1,
        _type,
        lambda xs, a: _pool_windows(xs[0], a, -np.inf).max(axis=(4, 5)),
        (*_WINDOW, WINDOW[2], Attr("ceil", "int", 0)),
        _pool_flops,
        Trait.REDUCES | Trait.FOUR_AXES,
        exact=ORDERED,
        export=_export_pool("MaxPool"),
        torch=_max_pool_torch,
        doc="the maximum of each window; padding never wins",
    ),
    OpSpec(
        "avgpool",
        1,
        _type,
        _avg_pool,
        (*_WINDOW, Attr("ceil", "int", 0), Attr("include_pad", "int", 0)),
        _pool_flops,
        Trait.REDUCES | Trait.FOUR_AXES,
        exact=RATIONAL,
        export=_export_pool("AveragePool"),
        torch=_avg_pool_torch,
        doc="the mean of each window; with include_pad=1 padding counts as zeros",
    ),
    *map(_reduce, _REDUCTIONS),
)


@imports("MaxPool", "AveragePool")
def _import_pool(n: OnnxNode) -> int:
    only_result(n)
    if n.type(0).rank != 4:
        raise NotModelled(f"pooling over {n.type(0).rank - 2} axes; two are modelled")
    kernel, dilations = n.attr("kernel_shape"), n.attr("dilations", (1, 1))
    attrs: dict[str, Any] = {
        "kernel": kernel,
        "strides": n.attr("strides", (1, 1)),
        "pads": explicit_pads(n, kernel),
        "ceil": n.attr("ceil_mode", 0) if n.attr("auto_pad", "NOTSET") == "NOTSET" else 0,
    }
    if n.op_type == "MaxPool":
        return n.op("maxpool", n.operand(0), dilations=dilations, **attrs)
    if tuple(dilations) != (1, 1):
        raise NotModelled("average pooling with dilations")
    return n.op("avgpool", n.operand(0), include_pad=n.attr("count_include_pad", 0), **attrs)


@imports("GlobalAveragePool", "GlobalMaxPool")
def _import_global_pool(n: OnnxNode) -> int:
    rank = n.type(0).rank
    if rank < 3:
        raise NotModelled(f"global pooling of a rank-{rank} tensor")
    op = "reduce_mean" if n.op_type == "GlobalAveragePool" else "reduce_max"
    return n.op(op, n.operand(0), axes=tuple(range(2 - rank, 0)), keepdims=1)


@imports("ReduceSum", "ReduceMean", "ReduceMax")
def _import_reduce(n: OnnxNode) -> int:
    rank = n.type(0).rank
    axes = onnx_form.known_ints(n, 1, "axes")
    if not axes and not n.attr("noop_with_empty_axes", 0):
        axes = tuple(range(rank))
    if not axes:
        return n.op("identity", n.operand(0))
    counted = tuple(sorted(onnx_form.from_end(a, rank) for a in axes))
    op = f"reduce_{n.op_type.removeprefix('Reduce').lower()}"
    return n.op(op, n.operand(0), axes=counted, keepdims=n.attr("keepdims", 1))
