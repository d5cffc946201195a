"""Elementwise operators: binary ones broadcast as numpy does, unary ones keep the type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.ops.onnx_form import (
    Emitter,
    NotModelled,
    OnnxNode,
    export_as,
    export_scalar,
    imports,
    only_result,
)
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Attrs, OnnxExport, OpSpec, TorchForm, Typing
from workbench.ops.types import TensorType


def _binary_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    x, y = xs
    t.require_float(x)
    t.require_same_dtype(x, y)
    return t.broadcast(x, y)


def _unary_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    t.require_float(xs[0])
    return xs[0]


def _erf(x: np.ndarray) -> np.ndarray:
    try:
        from scipy.special import erf
    except ImportError:  # a machine that only measures has no scipy
        erf = np.vectorize(math.erf, otypes=[np.float64])
    return np.asarray(erf(x.astype(np.float64)), dtype=x.dtype)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # exp of a non-positive number only: no overflow at either end.
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _gelu(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    if attrs["tanh"]:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return (0.5 * x * (1 + np.tanh(inner))).astype(x.dtype)
    return (0.5 * x * (1 + _erf(x / math.sqrt(2)))).astype(x.dtype)


def activate_torch(torch: Any, fresh: Any, act: str) -> Any:
    """Apply an activation in torch, in place: ``fresh`` is a tensor that nothing else reads."""
    return fresh if act == "none" else getattr(torch, f"{act}_")(fresh)


ACTIVATE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
}


def _export_gelu(
    e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType
) -> str:
    (x,) = xs
    if e.opset >= 20 and out.dtype != "float64":  # for which ONNX Runtime has no kernel
        return e.node("Gelu", [x], approximate="tanh" if attrs["tanh"] else "none")
    if attrs["tanh"]:
        cube = e.node("Mul", [e.node("Mul", [x, x]), x])
        inner = e.node("Add", [x, e.node("Mul", [cube, export_scalar(e, out, 0.044715)])])
        bent = e.node("Tanh", [e.node("Mul", [inner, export_scalar(e, out, math.sqrt(2 / math.pi))])])
    else:
        bent = e.node("Erf", [e.node("Div", [x, export_scalar(e, out, math.sqrt(2))])])
    # x * (1 + bent) * 0.5 in this order is the pattern that ONNX Runtime fuses.
    scaled = e.node("Mul", [x, e.node("Add", [bent, export_scalar(e, out, 1.0)])])
    return e.node("Mul", [scaled, export_scalar(e, out, 0.5)])


def _export_clip(
    e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType
) -> str:
    low, high = attrs["low"], attrs["high"]
    if e.opset < 11:
        given = {"min": low, "max": high}
        return e.node("Clip", xs, **{k: v if math.isfinite(v) else None for k, v in given.items()})
    bounds = [export_scalar(e, out, v) if math.isfinite(v) else "" for v in (low, high)]
    while bounds and not bounds[-1]:
        bounds.pop()
    return e.node("Clip", [*xs, *bounds])


def _binary(
    name: str, f: Callable[[np.ndarray, np.ndarray], np.ndarray], onnx: str, doc: str, in_torch: str = ""
) -> OpSpec:
    return OpSpec(
        name,
        2,
        2,
        _binary_type,
        lambda xs, a: f(xs[0], xs[1]),
        export=export_as(onnx),
        torch=lambda torch, xs, a: getattr(torch, in_torch or name)(xs[0], xs[1]),
        doc=doc,
    )


def _unary(
    name: str,
    f: Callable[[np.ndarray, Attrs], np.ndarray],
    onnx: str | OnnxExport,
    doc: str,
    attrs: tuple[Attr, ...] = (),
    cost: float = 1.0,
    torch: TorchForm | None = None,
) -> OpSpec:
    return OpSpec(
        name,
        1,
        1,
        _unary_type,
        lambda xs, a: f(xs[0], a),
        attrs,
        lambda a, ins, out: cost * out.elements,
        export=export_as(onnx) if isinstance(onnx, str) else onnx,
        torch=torch or (lambda torch, xs, a: getattr(torch, name)(xs[0])),
        doc=doc,
    )


register(
    _binary("add", np.add, "Add", "x + y"),
    _binary("sub", np.subtract, "Sub", "x - y"),
    _binary("mul", np.multiply, "Mul", "x * y"),
    _binary("div", np.divide, "Div", "x / y"),
    _binary("max", np.maximum, "Max", "the larger of x and y", "maximum"),
    _binary("min", np.minimum, "Min", "the smaller of x and y", "minimum"),
    _binary("pow", np.power, "Pow", "x ** y"),
    _unary("relu", lambda x, a: np.maximum(x, 0), "Relu", "max(x, 0)"),
    _unary(
        "leakyrelu",
        lambda x, a: np.where(x >= 0, x, x * x.dtype.type(a["alpha"])),
        export_as("LeakyRelu", alpha="alpha"),
        "x where x >= 0, alpha * x elsewhere",
        (Attr("alpha", "float", 0.01),),
        torch=lambda torch, xs, a: torch.nn.functional.leaky_relu(xs[0], a["alpha"]),
    ),
    _unary("sigmoid", lambda x, a: _sigmoid(x), "Sigmoid", "1 / (1 + exp(-x))", cost=4),
    _unary("tanh", lambda x, a: np.tanh(x), "Tanh", "the hyperbolic tangent", cost=4),
    _unary(
        "gelu",
        _gelu,
        _export_gelu,
        "x * Phi(x); with tanh=1 its tanh approximation",
        (Attr("tanh", "int", 0),),
        cost=8,
        torch=lambda torch, xs, a: torch.nn.functional.gelu(
            xs[0], approximate="tanh" if a["tanh"] else "none"
        ),
    ),
    _unary("erf", lambda x, a: _erf(x), "Erf", "the error function", cost=4),
    _unary("exp", lambda x, a: np.exp(x), "Exp", "e ** x", cost=4),
    _unary("log", lambda x, a: np.log(x), "Log", "the natural logarithm", cost=4),
    _unary("sqrt", lambda x, a: np.sqrt(x), "Sqrt", "the square root", cost=2),
    _unary("neg", lambda x, a: np.negative(x), "Neg", "-x"),
    _unary("abs", lambda x, a: np.abs(x), "Abs", "the absolute value"),
    _unary("reciprocal", lambda x, a: np.reciprocal(x), "Reciprocal", "1 / x"),
    _unary(
        "clip",
        lambda x, a: np.minimum(np.maximum(x, x.dtype.type(a["low"])), x.dtype.type(a["high"])),
        _export_clip,
        "x limited to low..high",
        (Attr("low", "float", -math.inf), Attr("high", "float", math.inf)),
        torch=lambda torch, xs, a: torch.clamp(xs[0], a["low"], a["high"]),
    ),
)


@imports("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Neg", "Abs", "Reciprocal")
def _import_unary(n: OnnxNode) -> int:
    return n.op(n.op_type.lower(), n.operand(0))


@imports("Add", "Sub", "Mul", "Div")
def _import_binary(n: OnnxNode) -> int:
    if n.attr("broadcast") is not None:
        raise NotModelled("broadcasting of operator sets before 7")
    return n.op(n.op_type.lower(), n.operand(0), n.operand(1))


@imports("Sum", "Max", "Min")
def _import_many(n: OnnxNode) -> int:
    first, *rest = n.operands()
    if not rest:
        return n.op("identity", first)
    for value in rest:
        first = n.op("add" if n.op_type == "Sum" else n.op_type.lower(), first, value)
    return first


@imports("Pow")
def _import_pow(n: OnnxNode) -> int:
    base, exponent = n.type(0), n.type(1)
    if base.dtype == exponent.dtype:
        return n.op("pow", n.operand(0), n.operand(1))
    value = n.known(1)
    if value is None:
        raise NotModelled(f"a power of {base.dtype} with an exponent of {exponent.dtype}")
    converted = value.astype(base.numpy_dtype())
    if not np.array_equal(converted.astype(np.float64), value.astype(np.float64)):
        raise NotModelled(f"an exponent that {base.dtype} cannot hold")
    return n.op("pow", n.operand(0), n.constant(converted))


@imports("LeakyRelu")
def _import_leakyrelu(n: OnnxNode) -> int:
    return n.op("leakyrelu", n.operand(0), alpha=n.attr("alpha", 0.01))


@imports("Gelu")
def _import_gelu(n: OnnxNode) -> int:
    return n.op("gelu", n.operand(0), tanh=int(n.attr("approximate", "none") == "tanh"))


@imports("Clip")
def _import_clip(n: OnnxNode) -> int:
    kind = only_result(n)
    bounds = {}
    for index, ours, theirs in ((1, "low", "min"), (2, "high", "max")):
        value = n.attr(theirs)
        if n.has(index):
            known = n.known(index)
            if known is None:
                raise NotModelled("a bound is computed at run time")
            value = float(known.reshape(-1)[0])
        if value is not None:
            bounds[ours] = float(value)
    if not bounds.get("low", -math.inf) <= bounds.get("high", math.inf):
        raise NotModelled(f"bounds out of order on {kind}")
    return n.op("clip", n.operand(0), **bounds)
