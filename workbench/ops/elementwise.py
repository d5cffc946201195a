"""Elementwise operators: binary ones broadcast as numpy does, unary ones keep the type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.ops.registry import register
from workbench.ops.spec import Attr, Attrs, OpSpec, Typing


def _binary_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    x, y = xs
    t.require_float(x)
    t.require_same_dtype(x, y)
    return t.broadcast(x, y)


def _unary_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    t.require_float(xs[0])
    return xs[0]


def _erf(x: np.ndarray) -> np.ndarray:
    from scipy.special import erf

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


ACTIVATE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
}


def _binary(name: str, f: Callable[[np.ndarray, np.ndarray], np.ndarray], doc: str) -> OpSpec:
    return OpSpec(name, 2, 2, _binary_type, lambda xs, a: f(xs[0], xs[1]), doc=doc)


def _unary(
    name: str,
    f: Callable[[np.ndarray, Attrs], np.ndarray],
    doc: str,
    attrs: tuple[Attr, ...] = (),
    cost: float = 1.0,
) -> OpSpec:
    return OpSpec(
        name,
        1,
        1,
        _unary_type,
        lambda xs, a: f(xs[0], a),
        attrs,
        lambda a, ins, out: cost * out.elements,
        doc=doc,
    )


register(
    _binary("add", np.add, "x + y"),
    _binary("sub", np.subtract, "x - y"),
    _binary("mul", np.multiply, "x * y"),
    _binary("div", np.divide, "x / y"),
    _binary("max", np.maximum, "the larger of x and y"),
    _binary("min", np.minimum, "the smaller of x and y"),
    _binary("pow", np.power, "x ** y"),
    _unary("relu", lambda x, a: np.maximum(x, 0), "max(x, 0)"),
    _unary(
        "leakyrelu",
        lambda x, a: np.where(x >= 0, x, x * x.dtype.type(a["alpha"])),
        "x where x >= 0, alpha * x elsewhere",
        (Attr("alpha", "float", 0.01),),
    ),
    _unary("sigmoid", lambda x, a: _sigmoid(x), "1 / (1 + exp(-x))", cost=4),
    _unary("tanh", lambda x, a: np.tanh(x), "the hyperbolic tangent", cost=4),
    _unary(
        "gelu",
        _gelu,
        "x * Phi(x); with tanh=1 its tanh approximation",
        (Attr("tanh", "int", 0),),
        cost=8,
    ),
    _unary("erf", lambda x, a: _erf(x), "the error function", cost=4),
    _unary("exp", lambda x, a: np.exp(x), "e ** x", cost=4),
    _unary("log", lambda x, a: np.log(x), "the natural logarithm", cost=4),
    _unary("sqrt", lambda x, a: np.sqrt(x), "the square root", cost=2),
    _unary("neg", lambda x, a: np.negative(x), "-x"),
    _unary("abs", lambda x, a: np.abs(x), "the absolute value"),
    _unary("reciprocal", lambda x, a: np.reciprocal(x), "1 / x"),
    _unary(
        "clip",
        lambda x, a: np.clip(x, x.dtype.type(a["low"]), x.dtype.type(a["high"])),
        "x limited to low..high",
        (Attr("low", "float", -math.inf), Attr("high", "float", math.inf)),
    ),
)
