"""Two-dimensional convolution, its transpose, and the weight-side operators that its rewrite rules need.

A convolution is ``act(conv(x, w) + b)`` with ``x [N, C, H, W]``, ``w [O, C/groups, kh, kw]`` and an
optional ``b [1, O, 1, 1]``; pads are explicit and in ONNX's order (top, left, bottom, right). The transposed
convolution has ``w [C, O/groups, kh, kw]``: the element at place ``i`` adds tap ``u`` at place ``strides · i +
dilations · u``; the pads are cut off, and ``extra`` places are added at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from workbench.ops.activations import activate, activate_torch, exact_product, export_activation
from workbench.ops.exact import Arithmetic, ExactForm
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, OpsetTooOld, export_ints, imports
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Names, OpSpec, Tensor, Types, moving
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing


def window_extent(
    n: N, kernel: N | int, stride: N | int, before: N | int, after: N | int, dilation: N | int
) -> N:
    """Return the extent of a sliding window's result: ``(n + p - d(k-1) - 1) // s + 1``.

    Args:
        n: The extent of the input.
        kernel: The extent k of the window.
        stride: The stride s.
        before: The pad before the input; p is the sum of both pads.
        after: The pad after the input.
        dilation: The dilation d.
    """
    return (n + before + after - dilation * (kernel - 1) - 1) // stride + 1


def require_window(
    t: Typing[T, N], extent: N, kernel: N | int, before: N | int, after: N | int, dilation: N | int
) -> None:
    """Require that a window fits into the padded extent; further arguments are those of :func:`window_extent`."""
    t.require(extent + before + after >= dilation * (kernel - 1) + 1, "the window exceeds its input")


def _operands(t: Typing[T, N], x: T, w: T, rows: str) -> None:
    t.require_float(x)
    t.require_same_dtype(x, w)
    t.require(t.rank(x) == 4, "the input must have four axes [N, C, H, W]")
    t.require(t.rank(w) == 4, f"the weight must have four axes [{rows}, kh, kw]")


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    x, w = xs[:2]
    (sh, sw), (top, left, bottom, right) = attrs["strides"], attrs["pads"]
    (dh, dw), groups = attrs["dilations"], attrs["groups"]
    _operands(t, x, w, "O, C/groups")
    for number in (sh, sw, dh, dw, groups):
        t.require(number >= 1, "strides, dilations and groups must be positive")
    for pad in (top, left, bottom, right):
        t.require(pad >= 0, "pads must not be negative")
    t.require(t.dim(x, -3) == t.dim(w, -3) * groups, f"channels of {x} do not fit {w} in the given groups")
    t.require(t.dim(w, -4) % groups == 0, "the output channels must divide into the groups")
    if len(xs) == 3:
        t.require_same(xs[2], t.tensor(x, 1, t.dim(w, -4), 1, 1), "the bias must be [1, O, 1, 1]")
    require_window(t, t.dim(x, -2), t.dim(w, -2), top, bottom, dh)
    require_window(t, t.dim(x, -1), t.dim(w, -1), left, right, dw)
    height = window_extent(t.dim(x, -2), t.dim(w, -2), sh, top, bottom, dh)
    width = window_extent(t.dim(x, -1), t.dim(w, -1), sw, left, right, dw)
    return t.tensor(x, t.dim(x, -4), t.dim(w, -4), height, width)


def windows(x: np.ndarray, kernel: Sequence[int], attrs: Attrs) -> np.ndarray:
    """Return ``x [N, C, H, W]`` (already padded) viewed as ``[N, C, oh, ow, kh, kw]`` windows.

    ``attrs`` are the distances between windows, and those between the elements of a window.
    """
    n, c, *space = x.shape
    sn, sc, sh, sw = x.strides
    (s, r), (d, e) = attrs["strides"], attrs.get("dilations", (1, 1))
    sides = zip(space, kernel, (s, r), (d, e), strict=True)
    out = [window_extent(extent, k, stride, 0, 0, dilation) for extent, k, stride, dilation in sides]
    steps = (sn, sc, sh * s, sw * r, sh * d, sw * e)
    return np.lib.stride_tricks.as_strided(x, (n, c, *out, *kernel), steps, writeable=False)


#: Largest number of elements of columns laid out at a time, which bounds the memory of a convolution.
_COLUMNS = 1 << 24


def _evaluate(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x, w = xs[:2]
    view = windows(padded(x, attrs["pads"]) if any(attrs["pads"]) else x, w.shape[2:], attrs)
    out = _depthwise(view, w) if w.shape[1] == 1 else _products(view, w, attrs["groups"])
    if len(xs) == 3:
        out = out + xs[2]
    return activate(out, attrs["act"])


def _depthwise(view: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Convolve each channel separately: one product of the whole image per tap of the kernel."""
    n, channels, height, width, kh, kw = view.shape
    taps = w.reshape(1, channels, -1, 1, 1, kh, kw)
    out = np.zeros((n, channels, taps.shape[2], height, width), dtype=view.dtype)
    for i, j in np.ndindex(kh, kw):
        out += view[:, :, None, :, :, i, j] * taps[..., i, j]
    return out.reshape(n, -1, height, width)


def _products(view: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    """Convolve by matrix products of the kernels with the windows laid out as columns."""
    n, channels, height, width, kh, kw = view.shape
    rows = w.reshape(groups, w.shape[0] // groups, -1)
    out = np.empty((n, groups, rows.shape[1], height, width), dtype=view.dtype)
    step = max(1, _COLUMNS // max(1, channels * kh * kw * width))
    for i in range(n):
        for start in range(0, height, step):
            block = view[i, :, start : start + step]
            columns = block.transpose(0, 3, 4, 1, 2).reshape(groups, rows.shape[2], -1)
            part = out[i, :, :, start : start + step]
            part[...] = (rows @ columns).reshape(part.shape)
    return out.reshape(n, w.shape[0], height, width)


def _torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    x, w = xs[:2]
    top, left, bottom, right = attrs["pads"]
    pads = (top, left)
    if pads != (bottom, right):
        x, pads = padded_torch(torch, x, attrs["pads"]), (0, 0)
    bias = xs[2].reshape(-1) if len(xs) == 3 else None
    y = torch.nn.functional.conv2d(x, w, bias, attrs["strides"], pads, attrs["dilations"], attrs["groups"])
    return activate_torch(torch, y, attrs["act"])


def padded_type(t: Typing[T, N], x: T, pads: Sequence[N | int]) -> T:
    """Return the type of a value with a border (top, left, bottom, right) around its last two axes."""
    top, left, bottom, right = pads
    for pad in pads:
        t.require(pad >= 0, "pads must not be negative")
    taller = t.with_dim(x, -2, t.dim(x, -2) + top + bottom)
    return t.with_dim(taller, -1, t.dim(x, -1) + left + right)


def padded(x: np.ndarray, pads: Sequence[int], value: object = 0) -> np.ndarray:
    """Return an array with a border of a number around its last two axes."""
    top, left, bottom, right = pads
    widths = [(0, 0)] * (x.ndim - 2) + [(top, bottom), (left, right)]
    return np.pad(x, widths, constant_values=value)  # type: ignore[call-overload]


def padded_torch(torch: ModuleType, x: Tensor, pads: Sequence[int], value: float = 0.0) -> Tensor:
    """Return a tensor with a border of a number; the arguments are those of :func:`padded`, after the module."""
    top, left, bottom, right = pads
    return torch.nn.functional.pad(x, (left, right, top, bottom), value=value)


def _enlarge_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    t.require(t.rank(xs[0]) == 4, "the operand must be a convolution's weight of four axes")
    return padded_type(t, xs[0], attrs["pads"])


def _merge_gconv_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (w,) = xs
    count, groups = attrs["count"], attrs["groups"]
    t.require(t.rank(w) == 4, "the operand must be a convolution's weight of four axes")
    t.require(count >= 1, "the count must be positive")
    t.require(groups >= 1, "the number of groups must be positive")
    t.require(groups % count == 0, "the groups must divide into blocks of count groups")
    t.require(t.dim(w, -4) % groups == 0, "the output channels must divide into the groups")
    return t.with_dim(w, -3, t.dim(w, -3) * count)


def _merge_gconv(w: Any, attrs: Attrs, zeros: Callable[[tuple[int, ...]], Any]) -> Any:
    """Return a weight of an array or a tensor; output channels of group g read the columns of block g mod count."""
    count, groups = attrs["count"], attrs["groups"]
    o, i, kh, kw = w.shape
    blocks = w.reshape(groups // count, count, o // groups, i, kh, kw)
    out = zeros((groups // count, count, o // groups, count, i, kh, kw))
    for block in range(count):
        out[:, block, :, block] = blocks[:, block]
    return out.reshape(o, count * i, kh, kw)


def _export(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    y = _convolution("Conv", e, xs, attrs, types, out)
    return export_activation(e, y, attrs["act"], out)


def _convolution(
    op_type: str, e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType, extra: Any = None
) -> str:
    """Write a convolution or its transpose, whose bias has one axis in ONNX."""
    inputs = list(xs)
    if len(xs) == 3 and types[2].rank != 1:
        inputs[2] = e.reshape(xs[2], (out.shape[1],))
    require_bfloat16(e, out)
    window = {name: attrs[name] for name in ("strides", "pads", "dilations")}
    kernel = types[1].shape[2:]
    return e.node(op_type, inputs, kernel_shape=kernel, **window, group=attrs["groups"], output_padding=extra)


def require_bfloat16(e: Emitter, kind: TensorType) -> None:
    """Require an operator set in which ONNX's windows may have elements of bfloat16."""
    if kind.dtype == "bfloat16" and e.opset < 22:
        raise OpsetTooOld(f"operator set must be 22 or newer for windows over bfloat16, got {e.opset}")


def export_pad(e: Emitter, x: str, pads: Sequence[int], kind: TensorType, value: float = 0.0) -> str:
    """Write a constant border around the last axes.

    Args:
        e: The emitter.
        x: The name of the value.
        pads: All begins, then all ends: (top, left, bottom, right) for two axes.
        kind: The type of the value.
        value: The value of the border.
    """
    half = len(pads) // 2
    rest = (0,) * (kind.rank - half)
    both = (*rest, *pads[:half], *rest, *pads[half:])
    if e.opset < 11:
        return e.node("Pad", [x], mode="constant", pads=both, value=value)
    filled = e.constant(np.asarray(value, dtype=kind.numpy_dtype()))
    return e.node("Pad", [x, export_ints(e, both), filled], mode="constant")


def export_slice(e: Emitter, x: str, cut: tuple[int, int, int, int]) -> str:
    """Write a slice of the value ``x``: of an axis, counted from the first, from, to and by how many places."""
    axis, start, stop, step = cut
    if e.opset < 10:
        if step != 1:
            raise OpsetTooOld(f"operator set must be 10 or newer for a slice with a step, got {e.opset}")
        return e.node("Slice", [x], axes=(axis,), starts=(start,), ends=(stop,))
    numbers = [(start,), (stop,), (axis,)] + ([(step,)] if step != 1 else [])
    return e.node("Slice", [x, *(export_ints(e, v) for v in numbers)])


def _export_merge_gconv(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    (w,) = xs
    count, groups = attrs["count"], attrs["groups"]
    channels, columns = types[0].shape[:2]
    rows = []
    for group in range(groups):
        first, last = group * channels // groups, (group + 1) * channels // groups
        block = group % count
        pads = (0, block * columns, 0, 0, 0, (count - 1 - block) * columns, 0, 0)
        rows.append(export_pad(e, export_slice(e, w, (0, first, last, 1)), pads, out))
    return rows[0] if groups == 1 else e.node("Concat", rows, axis=0)


#: The operators that rewrite the weight of a convolution move its elements and fill with zeros.
_WEIGHT_SIDE = Trait.MOVES | Trait.UNROUNDED | Trait.LINEAR | Trait.FOUR_AXES

#: The attributes of a window: strides, pads, dilations and groups.
WINDOW = (
    Attr("strides", "ints", (1, 1), 2),
    Attr("pads", "ints", (0, 0, 0, 0), 4),
    Attr("dilations", "ints", (1, 1), 2),
    Attr("groups", "int", 1),
)

register(
    OpSpec(
        "conv2d",
        (2, 3),
        _type,
        _evaluate,
        (*WINDOW, Attr("act", "act", "none")),
        lambda a, inputs, out: 2.0 * out.elements * math.prod(inputs[1].shape[1:]),
        Trait.PRODUCT | Trait.LINEAR | Trait.FOUR_AXES,
        exact=exact_product(
            _evaluate,
            lambda degrees: max(sum(degrees[:2]), *degrees),
            lambda bounds, shapes, attrs: bounds[0] * bounds[1] * math.prod(shapes[1][1:]) + sum(bounds[2:]),
        ),
        weights_from=1,
        export=_export,
        torch=_torch,
        doc="act(x convolved with w, plus b)",
    ),
    moving(
        "enlarge",
        1,
        _enlarge_type,
        lambda xs, a: padded(xs[0], a["pads"]),
        (Attr("pads", "ints", (0, 0, 0, 0), 4),),
        traits=_WEIGHT_SIDE,
        weights_from=0,
        export=lambda e, xs, a, types, out: export_pad(e, xs[0], a["pads"], out),
        torch=lambda torch, xs, a: padded_torch(torch, xs[0], a["pads"]),
        doc="a kernel with zero rows and columns added (top, left, bottom, right)",
    ),
    moving(
        "merge_gconv",
        1,
        _merge_gconv_type,
        lambda xs, a: _merge_gconv(xs[0], a, partial(np.zeros, dtype=xs[0].dtype)),
        (Attr("count", "int"), Attr("groups", "int")),
        traits=_WEIGHT_SIDE,
        weights_from=0,
        export=_export_merge_gconv,
        torch=lambda torch, xs, a: _merge_gconv(xs[0], a, xs[0].new_zeros),
        doc="the weight of a grouped convolution with count neighbouring groups merged into one",
    ),
)


def explicit_pads(n: OnnxNode, kernel: Sequence[int]) -> tuple[int, ...]:
    """Return the pads (all begins, then all ends) of an ONNX window operator.

    ``SAME_UPPER`` and ``SAME_LOWER`` give a result of extent ``ceil(extent / stride)``; the odd element of
    padding is put at the end or at the beginning, respectively.
    """
    mode, ones = n.attr("auto_pad", "NOTSET"), (1,) * len(kernel)
    if mode == "NOTSET":
        return tuple(n.attr("pads", (0,) * (2 * len(kernel))))
    if mode == "VALID":
        return (0,) * (2 * len(kernel))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise NotModelled(f"auto_pad={mode}")
    strides, dilations = n.attr("strides", ones), n.attr("dilations", ones)
    less, more = [], []
    for extent, k, s, d in zip(n.type(0).shape[2:], kernel, strides, dilations, strict=True):
        total = max(0, (-(-extent // s) - 1) * s + d * (k - 1) + 1 - extent)
        less.append(total // 2)
        more.append(total - total // 2)
    begins, ends = (less, more) if mode == "SAME_UPPER" else (more, less)
    return (*begins, *ends)


def _read(n: OnnxNode, op: str, channels: int, **attrs: Any) -> int:
    """Return a convolution or its transpose, whose bias has four axes here."""
    operands = [n.operand(0), n.operand(1)]
    if n.has(2):
        operands.append(n.op("reshape", n.operand(2), shape=(1, channels, 1, 1)))
    window = {ours: n.attr(ours, (1, 1)) for ours in ("strides", "dilations")}
    return n.op(op, *operands, **window, groups=n.attr("group", 1), **attrs)


@imports("Conv")
def _import_conv(n: OnnxNode) -> int:
    x, w = n.type(0), n.type(1)
    if x.rank != 4:
        raise NotModelled(f"a convolution over {x.rank - 2} axes; two are modelled")
    kernel = w.shape[2:]
    if tuple(n.attr("kernel_shape", kernel)) != kernel:
        raise NotModelled(f"kernel_shape {tuple(n.attr('kernel_shape'))} disagrees with the weight {w}")
    return _read(n, "conv2d", w.shape[0], pads=explicit_pads(n, kernel))


# -- transposed convolution ----------------------------------------------------------------------------
def _transposed_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    x, w = xs[:2]
    (sh, sw), (dh, dw), (eh, ew) = attrs["strides"], attrs["dilations"], attrs["extra"]
    (top, left, bottom, right), groups = attrs["pads"], attrs["groups"]
    _operands(t, x, w, "C, O/groups")
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


def _transposed(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
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


def _transposed_torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    x, w = xs[:2]
    top, left, bottom, right = attrs["pads"]
    bias = xs[2].reshape(-1) if len(xs) == 3 else None
    strides, extra, groups, dilations = (attrs[k] for k in ("strides", "extra", "groups", "dilations"))
    convolve = torch.nn.functional.conv_transpose2d
    if (top, left) == (bottom, right):
        return convolve(x, w, bias, strides, (top, left), extra, groups, dilations)
    full = convolve(x, w, bias, strides, 0, extra, groups, dilations)
    return full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right]


register(
    OpSpec(
        "conv_transpose",
        (2, 3),
        _transposed_type,
        _transposed,
        (*WINDOW, Attr("extra", "ints", (0, 0), 2)),
        lambda a, inputs, out: 2.0 * inputs[0].elements * math.prod(inputs[1].shape[1:]),
        Trait.PRODUCT | Trait.LINEAR | Trait.FOUR_AXES,
        export=lambda e, xs, a, types, out: _convolution(
            "ConvTranspose", e, xs, a, types, out, a["extra"] if any(a["extra"]) else None
        ),
        exact=ExactForm(
            Arithmetic.POLYNOMIAL,
            degree=lambda degrees: max(sum(degrees[:2]), *degrees),
            bound=lambda b, shapes, a: b[0] * b[1] * math.prod(shapes[1]) // shapes[1][1] + sum(b[2:]),
        ),
        torch=_transposed_torch,
        weights_from=1,
        doc="the transposed convolution: every element adds a multiple of the kernel; bias [1, O, 1, 1]",
    )
)


@imports("ConvTranspose")
def _import_transposed(n: OnnxNode) -> int:
    if n.type(0).rank != 4:
        raise NotModelled(f"transposed convolution over {n.type(0).rank - 2} axes; two are modelled")
    if n.attr("auto_pad", "NOTSET") != "NOTSET" or n.attr("output_shape"):
        raise NotModelled("a transposed convolution whose pads follow from its result")
    channels = n.type(2).elements if n.has(2) else 0
    pads, extra = n.attr("pads", (0, 0, 0, 0)), n.attr("output_padding", (0, 0))
    return _read(n, "conv_transpose", channels, pads=pads, extra=extra)
