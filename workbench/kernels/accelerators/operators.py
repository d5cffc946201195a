"""The operators of units: a matrix product cut into tiles, the loop nest and not its turns, and windows as columns.

With the windows of an image as the columns of a matrix, a convolution is a matrix product.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING, Final

import numpy as np

from workbench.ops.activations import activate, activate_torch, exact_product, export_activation
from workbench.ops.convolution import export_pad, padded, padded_torch, require_window, window_extent, windows
from workbench.ops.exact import POLYNOMIAL, ExactAttrs
from workbench.ops.onnx_form import Emitter, OpsetTooOld, export_ints
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Names, OpSpec, Types, no_flops
from workbench.ops.traits import Trait
from workbench.ops.types import DTYPE_CODES, TensorType
from workbench.ops.typing import Attrs, N, T, Typing

if TYPE_CHECKING:
    from torch import Tensor

#: The domain of the functions that a model with blocked products carries along.
DOMAIN: Final = "workbench.blocks"


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    a, b = xs[:2]
    t.require_same(t.with_dtype(a, attrs["streamed"]), a, "the streamed operand has the unit's element type")
    t.require_same(
        t.with_dtype(b, attrs["stationary"]), b, "the stationary operand has the unit's element type"
    )
    t.require(t.rank(a) >= 2, "the streamed operand must have two axes or more")
    t.require(t.rank(b) >= 2, "the stationary operand must have two axes or more")
    t.require(t.dim(a, -1) == t.dim(b, -2), f"inner extents differ in {a} @ {b}")
    for extent, least in ((attrs["rows"], 0), (attrs["inner"], 1), (attrs["columns"], 1)):
        t.require(extent >= least, "the extents of a tile must be positive (rows may be 0 for any number)")
    out = t.with_dim(t.broadcast(a, b, keep=2), -1, t.dim(b, -1))
    out = t.with_dtype(out, attrs["result"])
    if len(xs) == 3:
        t.require_same(t.broadcast(out, xs[2]), out, "the bias must broadcast to the product")
    return out


def widened(x: np.ndarray, declared: str, accumulator: str) -> np.ndarray:
    """Return an operand in the accumulator's element type, if it has the unit's own one."""
    if str(x.dtype) != declared or declared == accumulator:
        return x
    return x.astype(TensorType(accumulator, ()).numpy_dtype())


def _evaluate(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Add the products of the inner dimension's blocks in order; zeros that fill a block change no element."""
    declared = str(xs[0].dtype) == attrs["streamed"]
    a = widened(xs[0], attrs["streamed"], attrs["accumulator"])
    b = widened(xs[1], attrs["stationary"], attrs["accumulator"])
    step = attrs["inner"]
    parts = (
        np.matmul(a[..., k : k + step], b[..., k : k + step, :]).astype(a.dtype, copy=False)
        for k in range(0, a.shape[-1], step)
    )
    total = reduce(operator.iadd, parts)
    if len(xs) == 3:
        total = total + xs[2].astype(total.dtype, copy=False)
    out = activate(total, attrs["act"])
    return out.astype(TensorType(attrs["result"], ()).numpy_dtype(), copy=False) if declared else out


def _flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    return 2.0 * out.elements * inputs[0].shape[-1]


def _torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    kind = TensorType(attrs["accumulator"], ()).torch_dtype(torch)
    a, b = (x.to(kind) for x in xs[:2])
    step = attrs["inner"]
    parts = [torch.matmul(a[..., i : i + step], b[..., i : i + step, :]) for i in range(0, a.shape[-1], step)]
    total = sum(parts[1:], parts[0])
    if len(xs) == 3:
        total = total + xs[2].to(kind)
    return activate_torch(torch, total, attrs["act"]).to(TensorType(attrs["result"], ()).torch_dtype(torch))


def degree(degrees: Sequence[int]) -> int:
    """Return the degree of a product with an addend, by those of its operands."""
    return max(sum(degrees[:2]), *degrees)


def _bound(bounds: Sequence[int], shapes: Sequence[tuple[int, ...]], attrs: ExactAttrs) -> int:
    return bounds[0] * bounds[1] * shapes[0][-1] + sum(bounds[2:])


# -- export -------------------------------------------------------------------------------------------
#: One call of a unit: a stack of streamed tiles, each with its stationary tile.
_CALL: Final = """
<domain: "{domain}", opset_import: ["" : {opset}]>
{call} (x, w) => (y) {{
{body}
}}
"""

#: The loop nest on ``a [B, M, K]`` and ``b [B or 1, K, N]``: fill with zeros, cut, call, add, join, cut off.
_NEST: Final = """
<domain: "{domain}", opset_import: ["" : {opset}, "{domain}" : 1]>
{nest} <pads_a, pads_b, cut_a, cut_b, joined, columns> (a, b, zero_a, zero_b) => (y) {{
  to_a = Constant <value_ints: ints = @pads_a> ()
  to_b = Constant <value_ints: ints = @pads_b> ()
  tiles_a = Constant <value_ints: ints = @cut_a> ()
  tiles_b = Constant <value_ints: ints = @cut_b> ()
  whole = Constant <value_ints: ints = @joined> ()
  stop = Constant <value_ints: ints = @columns> ()
  full_a = Pad (a, to_a, zero_a)
  full_b = Pad (b, to_b, zero_b)
  rows = Reshape (full_a, tiles_a)
  streamed = Transpose <perm: ints = [0, 3, 2, 1, 4]> (rows)
  blocks = Reshape (full_b, tiles_b)
  stationary = Transpose <perm: ints = [0, 1, 3, 2, 4]> (blocks)
  products = {domain}.{call} (streamed, stationary)
  inner = Constant <value_ints: ints = [1]> ()
  sums = ReduceSum <keepdims: int = 0> (products, inner)
  beside = Transpose <perm: ints = [0, 2, 1, 3]> (sums)
  wide = Reshape (beside, whole)
  start = Constant <value_ints: ints = [0]> ()
  last = Constant <value_ints: ints = [2]> ()
  y = Slice (wide, start, stop, last)
}}
"""


def call_text(attrs: Attrs, opset: int) -> tuple[str, str]:
    """Return the name of the function that is one call of a unit, and its text."""
    streamed, stationary, accumulator = attrs["streamed"], attrs["stationary"], attrs["accumulator"]
    name = f"unit_{attrs['inner']}x{attrs['columns']}_{streamed}_{stationary}_{accumulator}"
    lines = [
        f"  {o} = Cast <to: int = {DTYPE_CODES[accumulator]}> ({i})"
        if kind != accumulator
        else f"  {o} = Identity ({i})"
        for o, i, kind in (("p", "x", streamed), ("q", "w", stationary))
    ]
    body = "\n".join([*lines, "  y = MatMul (p, q)"])
    return name, _CALL.format(domain=DOMAIN, opset=opset, call=name, body=body)


def _export(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    """Write a call of the loop nest, a function that the model carries along, on operands of three axes."""
    if e.opset < 13:
        raise OpsetTooOld(f"operator set must be 13 or newer for blocked products, got {e.opset}")
    call, text = call_text(attrs, e.opset)
    nest = f"blocked_{call}"
    e.function(text)
    e.function(_NEST.format(domain=DOMAIN, opset=e.opset, nest=nest, call=call))
    k, n = attrs["inner"], attrs["columns"]
    inner, columns = types[1].shape[-2:]
    rows = out.shape[-2]
    batches = math.prod(out.shape[:-2])
    shared = math.prod(types[1].shape[:-2]) == 1
    a, b = xs[:2]
    if shared:  # all batches are rows of one product
        rows, batches = batches * rows, 1
    a = e.reshape(_all(e, a, types[0], (*out.shape[:-1], inner)), (batches, rows, inner))
    b = b if shared else _all(e, b, types[1], (*out.shape[:-2], inner, columns))
    b = e.reshape(b, (batches, inner, columns))
    across, down = -(-inner // k), -(-columns // n)
    zeros = [e.constant(np.zeros((), dtype=kind.numpy_dtype())) for kind in types[:2]]
    y = e.node(
        f"{DOMAIN}::{nest}",
        [a, b, *zeros],
        pads_a=(0, 0, 0, 0, 0, across * k - inner),
        pads_b=(0, 0, 0, 0, across * k - inner, down * n - columns),
        cut_a=(batches, rows, 1, across, k),
        cut_b=(batches, across, k, down, n),
        joined=(batches, rows, down * n),
        columns=(columns,),
    )
    y = e.reshape(y, out.shape)
    if len(xs) == 3:
        bias = xs[2]
        if types[2].dtype != attrs["accumulator"]:
            bias = e.node("Cast", [bias], to=DTYPE_CODES[attrs["accumulator"]])
        y = e.node("Add", [y, bias])
    y = export_activation(e, y, attrs["act"], TensorType(attrs["accumulator"], out.shape))
    if attrs["result"] != attrs["accumulator"]:
        y = e.node("Cast", [y], to=DTYPE_CODES[attrs["result"]])
    return y


def _all(e: Emitter, x: str, kind: TensorType, shape: Sequence[int]) -> str:
    """Return an operand broadcast to all batches."""
    return x if kind.elements == math.prod(shape) else e.node("Expand", [x, export_ints(e, shape)])


_ATTRS: Final[tuple[Attr, ...]] = (
    Attr("rows", "int", 0, tried=(0, 2, 4)),
    Attr("inner", "int", 16, tried=(1, 2, 3)),
    Attr("columns", "int", 16, tried=(1, 2, 3)),
    *(Attr(name, "dtype", "float32") for name in ("streamed", "stationary", "accumulator", "result")),
    Attr("act", "act", "none"),
)


register(
    OpSpec(
        "blocked",
        (2, 3),
        _type,
        _evaluate,
        _ATTRS,
        _flops,
        Trait.PRODUCT | Trait.BROADCASTS | Trait.LINEAR,
        exact=exact_product(_evaluate, degree, _bound),
        export=_export,
        torch=_torch,
        doc="act(a @ b + c) in tiles of a unit: rows of a (0: any number), inner by columns of b",
    )
)


# -- windows as columns ---------------------------------------------------------------------------------
def _windows_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
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
    height, width = _extents((t.dim(x, -2), t.dim(x, -1)), attrs)
    return t.tensor(x, t.dim(x, -4), t.dim(x, -3) * kh * kw, height * width)


def _extents(size: Sequence[N], attrs: Attrs) -> tuple[N, N]:
    """Return the numbers of windows down and across an image of a height and a width."""
    top, left, bottom, right = attrs["pads"]
    steps = zip(
        size, attrs["kernel"], attrs["strides"], (top, left), (bottom, right), attrs["dilations"], strict=True
    )
    height, width = (window_extent(*step) for step in steps)
    return height, width


def _unfold(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    (x,), out = xs, _extents(xs[0].shape[2:], attrs)
    view = windows(padded(x, attrs["pads"]), attrs["kernel"], attrs)
    return view.transpose(0, 1, 4, 5, 2, 3).reshape(x.shape[0], -1, out[0] * out[1])


def _unfold_torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    x = padded_torch(torch, xs[0], attrs["pads"])
    return torch.nn.functional.unfold(
        x, attrs["kernel"], dilation=attrs["dilations"], stride=attrs["strides"]
    )


def unfolds_nothing(attrs: Attrs) -> bool:
    """Return whether the windows are single pixels in order: the matrix is the image in another shape."""
    return tuple(attrs["kernel"]) == tuple(attrs["strides"]) == (1, 1) and not any(attrs["pads"])


def _export_unfold(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    """Write one slice of the padded image per tap of the kernel, and put them side by side."""
    (kind,) = types
    n, channels = kind.shape[:2]
    if unfolds_nothing(attrs):
        return e.reshape(xs[0], out.shape)
    if e.opset < 10:
        raise OpsetTooOld(f"operator set must be 10 or newer for a slice with a step, got {e.opset}")
    x = export_pad(e, xs[0], attrs["pads"], kind) if any(attrs["pads"]) else xs[0]
    (sh, sw), (dh, dw) = attrs["strides"], attrs["dilations"]
    height, width = _extents(kind.shape[2:], attrs)
    taps = []
    for i, j in itertools.product(*map(range, attrs["kernel"])):
        first = (i * dh, j * dw)
        last = (first[0] + (height - 1) * sh + 1, first[1] + (width - 1) * sw + 1)
        tap = e.node("Slice", [x, *(export_ints(e, ints) for ints in (first, last, (2, 3), (sh, sw)))])
        taps.append(e.reshape(tap, (n, channels, 1, height * width)))
    whole = taps[0] if len(taps) == 1 else e.node("Concat", taps, axis=2)
    return e.reshape(whole, out.shape)


register(
    OpSpec(
        "unfold",
        1,
        _windows_type,
        _unfold,
        (
            Attr("kernel", "ints", (1, 1), 2),
            Attr("strides", "ints", (1, 1), 2),
            Attr("pads", "ints", (0, 0, 0, 0), 4),
            Attr("dilations", "ints", (1, 1), 2),
        ),
        no_flops,
        Trait.MOVES | Trait.UNROUNDED | Trait.LINEAR | Trait.FOUR_AXES,
        exact=POLYNOMIAL,
        export=_export_unfold,
        torch=_unfold_torch,
        doc="the windows of an image [N, C, H, W] as columns [N, C * kh * kw, windows] (im2col)",
    )
)
