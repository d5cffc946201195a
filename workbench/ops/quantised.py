"""Quantisation: whole numbers that stand for ``(q - zero) * scale``, per tensor or along the scale's axes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm, Number, Numbers, each
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, OpsetTooOld, imports
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Names, OpSpec, Tensor, Types, per_element
from workbench.ops.types import DTYPE_CODES, INTEGER_DTYPES, TensorType
from workbench.ops.typing import Attrs, N, T, Typing


def _typed(t: Typing[T, N], xs: Sequence[T], attrs: Attrs, *, quantises: bool) -> T:
    x, scale, zero = xs
    out = t.with_dtype(x, attrs["to"])
    real, whole = (x, out) if quantises else (out, x)
    t.require_float(real)
    t.require_same_dtype(real, scale)
    t.require_integer(whole)
    t.require_same_dtype(whole, zero)
    t.require_same(t.broadcast(real, scale), real, "the scale must broadcast to the operand")
    t.require_same(t.broadcast(whole, zero), whole, "the zero must broadcast to the operand")
    return out


def _bounds(dtype: str) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _quantize(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x, scale, zero = xs
    # The sum is computed in float64, which holds every whole number of the element types.
    whole = np.rint(x / scale).astype(np.float64) + zero
    return np.asarray(np.clip(whole, *_bounds(attrs["to"])).astype(attrs["to"]))


def _dequantize(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    q, scale, zero = xs
    wide = np.int64 if q.dtype.kind in "iu" else q.dtype
    moved = np.asarray(q.astype(wide) - zero.astype(wide))
    return np.asarray(moved.astype(scale.dtype) * scale)


def _even(x: Number) -> int:
    """Return the nearest whole number, the even one of two, as ONNX rounds."""
    down = int(x)
    down -= down > x
    rest = 2 * (x - down)
    return down + (rest > 1 or (rest == 1 and down % 2 == 1))


def _exact_quantize(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    x, scale, zero = xs
    if any(s == 0 for s in scale.flat):
        raise ZeroDivisionError("a division by zero")
    low, high = _bounds(attrs["to"])
    ratio = np.asarray(x / scale, dtype=object)
    whole = each(lambda x: numbers.number(Fraction(_even(x))), ratio)
    return np.minimum(np.maximum(np.asarray(whole + zero), numbers.number(low)), numbers.number(high))


def _quantize_torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    x, scale, zero = xs
    whole = torch.round(x / scale).double() + zero
    kind = TensorType(attrs["to"], ()).torch_dtype(torch)
    return torch.clamp(whole, *_bounds(attrs["to"])).to(kind)


# -- export -------------------------------------------------------------------------------------------
def _axis(e: Emitter, kinds: Sequence[TensorType], narrow: str) -> int | None:
    """Return the axis along which one ONNX operator has the parameters, -1 if none; None if it cannot."""
    x, scale, zero = kinds
    places = {axis for kind in (scale, zero) for axis in range(-kind.rank, 0) if kind.shape[axis] != 1}
    small = narrow in ("int8", "uint8") or (e.opset >= 21 and narrow in ("int16", "uint16"))
    if not small or e.opset < 10 or len(places) > 1 or (places and e.opset < 13):
        return None
    if not places:
        return -1
    (axis,) = places
    both = scale.shape[axis:][:1] == zero.shape[axis:][:1] and min(scale.rank, zero.rank) >= -axis
    return x.rank + axis if both else None


def _linear(op_type: str, e: Emitter, xs: Sequence[str], kinds: Sequence[TensorType], axis: int) -> str:
    shape = () if axis < 0 else (kinds[0].shape[axis],)
    operands = [xs[0], *(e.reshape(x, shape) for x in xs[1:])]
    return e.node(op_type, operands, axis=axis if axis >= 0 else None)


def _export_quantize(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    axis = _axis(e, types, out.dtype) if types[0].dtype == "float32" else None
    if axis is not None:
        return _linear("QuantizeLinear", e, xs, types, axis)
    if e.opset < 11:
        raise OpsetTooOld(f"operator set must be 11 or newer for rounding to even, got {e.opset}")
    x, scale, zero = xs
    wide = DTYPE_CODES["float64"]
    even = e.node("Round", [e.node("Div", [x, scale])])
    whole = e.node("Add", [e.node("Cast", [even], to=wide), e.node("Cast", [zero], to=wide)])
    low, high = (e.constant(np.asarray(b, np.float64)) for b in _bounds(out.dtype))
    return e.node("Cast", [e.node("Min", [e.node("Max", [whole, low]), high])], to=DTYPE_CODES[out.dtype])


def _export_dequantize(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    axis = _axis(e, types, types[0].dtype) if out.dtype == "float32" else None
    if axis is not None:
        return _linear("DequantizeLinear", e, xs, types, axis)
    q, scale, zero = xs
    wide = [e.node("Cast", [x], to=DTYPE_CODES["int64"]) for x in (q, zero)]
    moved = e.node("Cast", [e.node("Sub", wide)], to=DTYPE_CODES[out.dtype])
    return e.node("Mul", [moved, scale])


register(
    OpSpec(
        "quantize",
        3,
        partial(_typed, quantises=True),
        _quantize,
        (Attr("to", "dtype", "int8"),),
        per_element(3.0),
        exact=ExactForm(Arithmetic.RATIONAL, _exact_quantize),
        export=_export_quantize,
        torch=_quantize_torch,
        doc="round(x / scale) + zero, limited to the element type",
    ),
    OpSpec(
        "dequantize",
        3,
        partial(_typed, quantises=False),
        _dequantize,
        (Attr("to", "dtype", "float32"),),
        per_element(2.0),
        exact=ExactForm(
            Arithmetic.POLYNOMIAL,
            degree=lambda degrees: max(degrees[0], degrees[2]) + degrees[1],
            bound=lambda bounds, shapes, attrs: (bounds[0] + bounds[2]) * bounds[1],
        ),
        export=_export_dequantize,
        torch=lambda torch, xs, a: (xs[0].long() - xs[2].long()).to(xs[1].dtype) * xs[1],
        doc="(q - zero) * scale",
    ),
)


# -- import -------------------------------------------------------------------------------------------
@imports("QuantizeLinear", "DequantizeLinear")
def _import_linear(n: OnnxNode) -> int:
    kind, scale = n.type(0), n.type(1)
    assert n.results[0] is not None
    out = n.results[0].dtype
    narrow = out if n.op_type == "QuantizeLinear" else kind.dtype
    if n.is_constant(0):
        # A weight is stored in few bits on purpose; computing it would store it in many.
        raise NotModelled("a stored tensor stays quantised")
    if narrow not in INTEGER_DTYPES or n.attr("block_size", 0):
        raise NotModelled(f"quantisation of {narrow} in blocks or as floating-point numbers")
    if scale.rank > 1:
        raise NotModelled("a scale of several axes")
    zero = n.operand(2) if n.has(2) else n.constant(np.zeros(scale.shape, narrow))
    parameters = [n.operand(1), zero]
    axis = n.attr("axis", 1) % max(kind.rank, 1)
    ones: Any = () if prod(scale.shape) == 1 else (scale.shape[0], *[1] * (kind.rank - 1 - axis))
    shaped = [p if n.type_of(p).shape == ones else n.op("reshape", p, shape=ones) for p in parameters]
    return n.op("quantize" if n.op_type == "QuantizeLinear" else "dequantize", n.operand(0), *shaped, to=out)
