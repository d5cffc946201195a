"""Elementwise operators: binary ones broadcast as numpy does, unary ones keep the type; the choice by truth values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from workbench.ops import onnx_form
from workbench.ops.exact import ORDERED, POLYNOMIAL, Arithmetic, ExactForm, Number, Numbers, each, in_digits
from workbench.ops.locality import elementwise
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, imports, only_result
from workbench.ops.registry import register, spec_of
from workbench.ops.spec import Attr, OpSpec, per_element
from workbench.ops.traits import Trait
from workbench.ops.types import FLOAT_DTYPES, TensorType
from workbench.ops.typing import Attrs, N, T, Typing


def broadcast_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    """Return the type of an elementwise operator: that of its operands, which broadcast."""
    first, *rest = xs
    t.require_float(first)
    for other in rest:
        t.require_same_dtype(first, other)
        first = t.broadcast(first, other)
    return first


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function, computed in float64."""
    try:
        from scipy.special import erf as compute
    except ImportError:  # of the extra `solvers`; ten times as fast
        compute = np.vectorize(math.erf, otypes=[np.float64])
    return np.asarray(compute(x.astype(np.float64)), dtype=x.dtype)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)) without overflow."""
    # exp is computed only of numbers that are not positive, so that it does not overflow.
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


# -- exact forms --------------------------------------------------------------------------------------
def exact_sigmoid(numbers: Numbers, x: Number) -> Number:
    """Return 1 / (1 + exp(-x)) of one number."""
    return 1 / (1 + numbers.exp(-x))


def _exact_quotient(numbers: Numbers, xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    top, bottom = (xs[0], xs[1]) if len(xs) == 2 else (1, xs[0])
    if any(e == 0 for e in bottom.flat):
        raise ZeroDivisionError("a division by zero")
    return np.asarray(top / bottom)


def _exact_clip(numbers: Numbers, xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    out = xs[0]
    if attrs["low"] > -math.inf:
        out = np.maximum(out, numbers.number(attrs["low"]))
    if attrs["high"] < math.inf:
        out = np.minimum(out, numbers.number(attrs["high"]))
    return np.asarray(out)


_SUM: Final = ExactForm(Arithmetic.POLYNOMIAL, bound=lambda bounds, shapes, attrs: sum(bounds))
_PRODUCT: Final = ExactForm(Arithmetic.POLYNOMIAL, degree=sum, bound=lambda b, shapes, attrs: b[0] * b[1])
_QUOTIENT: Final = ExactForm(Arithmetic.RATIONAL, _exact_quotient)


# -- export -------------------------------------------------------------------------------------------
def export_bounded(e: Emitter, x: str, low: float, high: float, out: TensorType) -> str:
    """Write the values of ``x`` between two bounds, either of which may be infinite.

    Args:
        e: The writer.
        x: The name of the values.
        low: The lower bound.
        high: The upper bound.
        out: The type of the values.
    """
    if out.dtype == "float64" and e.opset < 12 and (math.isfinite(low) or math.isfinite(high)):
        # ONNX Runtime has a kernel of the older Clip for float32 only.
        for op, bound in (("Max", low), ("Min", high)):
            if math.isfinite(bound):
                x = e.node(op, [x, onnx_form.export_scalar(e, out, bound)])
        return x
    if e.opset < 11:
        given = {"min": low, "max": high}
        return e.node("Clip", [x], **{k: v if math.isfinite(v) else None for k, v in given.items()})
    bounds = [onnx_form.export_scalar(e, out, v) if math.isfinite(v) else "" for v in (low, high)]
    while bounds and not bounds[-1]:
        bounds.pop()
    return e.node("Clip", [x, *bounds])


#: An operator that computes every element of its result from the operands' elements at its place.
by_element: Final = partial(OpSpec, infer=broadcast_type, parts=elementwise)


def _digits(function: str) -> ExactForm:
    """Return the form of a function that long decimals have by this name."""
    return in_digits(lambda numbers, x: getattr(numbers, function)(x))


_BY_NUMBER: Final = Trait.NUMBER_RIGHT | Trait.GROWS | Trait.BROADCASTS
_EXTREME: Final = Trait.UNROUNDED | Trait.BROADCASTS
_Row = tuple[str, int, Callable[..., np.ndarray], float, Trait, ExactForm, str]
_POWER: Final = ExactForm(Arithmetic.DIGITS, lambda n, xs, a: np.asarray(np.frompyfunc(n.power, 2, 1)(*xs)))
#: Operators without attributes: name, number of operands, semantics, flops per element, facts, exact form, meaning.
#: ONNX capitalises the name.
_PLAIN: Final[tuple[_Row, ...]] = (
    ("add", 2, np.add, 1, _BY_NUMBER, _SUM, "x + y"),
    ("sub", 2, np.subtract, 1, _BY_NUMBER, _SUM, "x - y"),
    ("mul", 2, np.multiply, 1, _BY_NUMBER | Trait.LINEAR, _PRODUCT, "x * y"),
    ("div", 2, np.divide, 1, _BY_NUMBER, _QUOTIENT, "x / y"),
    ("max", 2, np.maximum, 1, _EXTREME, ORDERED, "the larger of x and y"),
    ("min", 2, np.minimum, 1, _EXTREME, ORDERED, "the smaller of x and y"),
    ("pow", 2, np.power, 1, _BY_NUMBER, _POWER, "x ** y"),
    ("relu", 1, lambda x: np.maximum(x, 0), 1, Trait.UNROUNDED, ORDERED, "max(x, 0)"),
    ("sigmoid", 1, sigmoid, 4, Trait.NONE, in_digits(exact_sigmoid), "1 / (1 + exp(-x))"),
    ("tanh", 1, np.tanh, 4, Trait.NONE, _digits("tanh"), "the hyperbolic tangent"),
    ("erf", 1, erf, 4, Trait.NONE, _digits("erf"), "the error function"),
    ("exp", 1, np.exp, 4, Trait.GROWS, _digits("exp"), "e ** x"),
    ("log", 1, np.log, 4, Trait.NONE, _digits("log"), "the natural logarithm"),
    ("cos", 1, np.cos, 4, Trait.NONE, _digits("cos"), "the cosine"),
    ("sin", 1, np.sin, 4, Trait.NONE, _digits("sin"), "the sine"),
    ("sqrt", 1, np.sqrt, 2, Trait.NONE, _digits("root"), "the square root"),
    ("neg", 1, np.negative, 1, Trait.UNROUNDED | Trait.LINEAR, POLYNOMIAL, "-x"),
    ("abs", 1, np.abs, 1, Trait.UNROUNDED, ORDERED, "the absolute value"),
    ("reciprocal", 1, np.reciprocal, 1, Trait.GROWS, _QUOTIENT, "1 / x"),
)
_BY_ONE: Final = (None, 1.0)
#: The number of each operand with which the result is the other operand.
_NEUTRAL: Final = {"add": (0.0, 0.0), "sub": (None, 0.0), "mul": (1.0, 1.0), "div": _BY_ONE, "pow": _BY_ONE}


def _plain(row: _Row) -> OpSpec:
    name, count, f, cost, traits, exact, doc = row
    in_torch = {"max": "maximum", "min": "minimum"}.get(name, name)
    return by_element(
        name,
        count,
        evaluate=lambda xs, a: f(*xs),
        flops=per_element(cost),
        traits=traits,
        exact=exact,
        export=onnx_form.export_as(name.capitalize()),
        torch=lambda torch, xs, a: getattr(torch, in_torch)(*xs),
        neutral=_NEUTRAL.get(name, ()),
        doc=doc,
    )


def _clip(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    number = xs[0].dtype.type
    return np.asarray(np.minimum(np.maximum(xs[0], number(attrs["low"])), number(attrs["high"])))


register(
    *map(_plain, _PLAIN),
    by_element(
        "leakyrelu",
        1,
        evaluate=lambda xs, a: np.where(xs[0] >= 0, xs[0], xs[0] * xs[0].dtype.type(a["alpha"])),
        attrs=(Attr("alpha", "float", 0.01),),
        exact=ExactForm(
            Arithmetic.RATIONAL,
            lambda n, xs, a: each(lambda x: x if x >= 0 else x * n.number(a["alpha"]), xs[0]),
        ),
        export=onnx_form.export_as("LeakyRelu", alpha="alpha"),
        torch=lambda torch, xs, a: torch.nn.functional.leaky_relu(xs[0], a["alpha"]),
        doc="x if x >= 0, otherwise alpha * x",
    ),
    by_element(
        "clip",
        1,
        evaluate=_clip,
        attrs=(Attr("low", "float", -math.inf), Attr("high", "float", math.inf)),
        exact=ExactForm(Arithmetic.RATIONAL, _exact_clip),
        export=lambda e, xs, a, types, out: export_bounded(e, xs[0], a["low"], a["high"], out),
        torch=lambda torch, xs, a: torch.clamp(xs[0], a["low"], a["high"]),
        doc="x limited to low..high",
    ),
)


@imports(*(name.capitalize() for name, n, *_ in _PLAIN if n == 1), "LeakyRelu", "HardSwish", "Swish", "IsNaN")
def _import_unary(n: OnnxNode) -> int:
    op = "is_nan" if n.op_type == "IsNaN" else n.op_type.lower()
    return n.op(op, n.operand(0), **{a.name: n.attr(a.name, a.default) for a in spec_of(op).attrs})


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


@imports("Clip")
def _import_clip(n: OnnxNode) -> int:
    kind = only_result(n)
    bounds = {}
    for index, ours, theirs in ((1, "low", "min"), (2, "high", "max")):
        value = onnx_form.known_number(n, index, "a bound")
        value = n.attr(theirs) if value is None else value
        if value is not None:
            bounds[ours] = float(value)
    if not bounds.get("low", -math.inf) <= bounds.get("high", math.inf):
        raise NotModelled(f"bounds out of order on {kind}")
    return n.op("clip", n.operand(0), **bounds)


# -- truth values, as masks of attention make them ------------------------------------------------------
def _select_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    condition, x, y = xs
    t.require_truth(condition)
    t.require_float(x)
    t.require_same_dtype(x, y)
    return t.broadcast(t.broadcast(x, y), condition)


def _is_nan_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    t.require_float(xs[0])
    return t.with_dtype(xs[0], "bool")


register(
    by_element(
        "select",
        3,
        infer=_select_type,
        # In exact arithmetic a truth value is a number like others.
        evaluate=lambda xs, a: np.where(xs[0].astype(bool), xs[1], xs[2]),
        traits=_EXTREME,
        exact=ExactForm(Arithmetic.ORDERED, bound=lambda bounds, shapes, attrs: max(bounds[1:])),
        export=onnx_form.export_as("Where"),
        torch=lambda torch, xs, a: torch.where(*xs),
        doc="x if the condition holds, otherwise y",
    ),
    by_element(
        "is_nan",
        1,
        infer=_is_nan_type,
        evaluate=lambda xs, a: np.isnan(xs[0]),
        traits=Trait.UNROUNDED,
        # No number of exact arithmetic is NaN, so laws are judged in floating point.
        exact=ExactForm(Arithmetic.FLOATS),
        export=onnx_form.export_as("IsNaN"),
        torch=lambda torch, xs, a: torch.isnan(xs[0]),
        doc="whether an element is not a number, such as a softmax of scores that are all minus infinity",
    ),
)


@imports("Where")
def _import_where(n: OnnxNode) -> int:
    kind = n.type(1)
    if kind.dtype not in FLOAT_DTYPES:
        raise NotModelled(f"a choice between elements of {kind.dtype}")
    return n.op("select", n.operand(0), n.operand(1), n.operand(2))
