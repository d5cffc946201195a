"""Elementwise operators: binary ones broadcast as numpy does, unary ones keep the type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from workbench.ops.exact import (
    ORDERED,
    POLYNOMIAL,
    Arithmetic,
    ExactAttrs,
    ExactForm,
    Inexact,
    Number,
    Numbers,
    each,
    in_digits,
)
from workbench.ops.locality import elementwise
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
from workbench.ops.spec import Attr, OnnxExport, OpSpec, TorchForm
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing

if TYPE_CHECKING:
    pass


def _binary_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    x, y = xs
    t.require_float(x)
    t.require_same_dtype(x, y)
    return t.broadcast(x, y)


def _unary_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    t.require_float(xs[0])
    return xs[0]


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function, computed in float64."""
    try:
        from scipy.special import erf as compute
    except ImportError:  # a machine that only measures does not have scipy
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


def _exact_quotient(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    top, bottom = (xs[0], xs[1]) if len(xs) == 2 else (1, xs[0])
    if any(e == 0 for e in bottom.flat):
        raise Inexact("a division by zero")
    return np.asarray(top / bottom)


def _exact_power(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    return np.asarray(np.frompyfunc(numbers.power, 2, 1)(xs[0], xs[1]))


def _exact_leakyrelu(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    alpha = numbers.number(attrs["alpha"])
    return each(lambda x: x if x >= 0 else x * alpha, xs[0])


def _exact_clip(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    out = xs[0]
    if attrs["low"] > -math.inf:
        out = np.maximum(out, numbers.number(attrs["low"]))
    if attrs["high"] < math.inf:
        out = np.minimum(out, numbers.number(attrs["high"]))
    return np.asarray(out)


_SUM: Final = ExactForm(Arithmetic.POLYNOMIAL, bound=lambda bounds, shapes, attrs: sum(bounds))
_PRODUCT: Final = ExactForm(
    Arithmetic.POLYNOMIAL, degree=sum, bound=lambda bounds, shapes, attrs: bounds[0] * bounds[1]
)
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
                x = e.node(op, [x, export_scalar(e, out, bound)])
        return x
    if e.opset < 11:
        given = {"min": low, "max": high}
        return e.node("Clip", [x], **{k: v if math.isfinite(v) else None for k, v in given.items()})
    bounds = [export_scalar(e, out, v) if math.isfinite(v) else "" for v in (low, high)]
    while bounds and not bounds[-1]:
        bounds.pop()
    return e.node("Clip", [x, *bounds])


def _export_clip(
    e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType
) -> str:
    return export_bounded(e, xs[0], attrs["low"], attrs["high"], out)


def _binary(
    name: str,
    f: Callable[[np.ndarray, np.ndarray], np.ndarray],
    onnx: str,
    doc: str,
    in_torch: str = "",
    *,
    traits: Trait,
    exact: ExactForm,
) -> OpSpec:
    return OpSpec(
        name,
        2,
        2,
        _binary_type,
        lambda xs, a: f(xs[0], xs[1]),
        traits=traits | Trait.BROADCASTS,
        exact=exact,
        export=export_as(onnx),
        torch=lambda torch, xs, a: getattr(torch, in_torch or name)(xs[0], xs[1]),
        parts=elementwise,
        doc=doc,
    )


def unary(
    name: str,
    f: Callable[[np.ndarray, Attrs], np.ndarray],
    onnx: str | OnnxExport,
    doc: str,
    attrs: tuple[Attr, ...] = (),
    cost: float = 1.0,
    torch: TorchForm | None = None,
    *,
    traits: Trait = Trait.NONE,
    exact: ExactForm,
) -> OpSpec:
    """Return an elementwise operator of one operand, whose type it keeps.

    Args:
        name: The name, also of the function in torch unless ``torch`` is given.
        f: The semantics, of the operand and the attributes.
        onnx: The ONNX operator, or a function that writes several.
        doc: The meaning in a few words.
        attrs: The attributes.
        cost: The number of operations per element.
        torch: The semantics in torch.
        traits: Facts that other parts of the workbench act on.
        exact: The semantics in exact arithmetic.
    """
    return OpSpec(
        name,
        1,
        1,
        _unary_type,
        lambda xs, a: f(xs[0], a),
        attrs,
        lambda a, ins, out: cost * out.elements,
        traits,
        exact=exact,
        export=export_as(onnx) if isinstance(onnx, str) else onnx,
        torch=torch or (lambda torch, xs, a: getattr(torch, name)(xs[0])),
        parts=elementwise,
        doc=doc,
    )


register(
    _binary("add", np.add, "Add", "x + y", traits=Trait.NUMBER_RIGHT | Trait.GROWS, exact=_SUM),
    _binary("sub", np.subtract, "Sub", "x - y", traits=Trait.NUMBER_RIGHT | Trait.GROWS, exact=_SUM),
    _binary(
        "mul",
        np.multiply,
        "Mul",
        "x * y",
        traits=Trait.NUMBER_RIGHT | Trait.GROWS | Trait.LINEAR,
        exact=_PRODUCT,
    ),
    _binary("div", np.divide, "Div", "x / y", traits=Trait.NUMBER_RIGHT | Trait.GROWS, exact=_QUOTIENT),
    _binary(
        "max",
        np.maximum,
        "Max",
        "the larger of x and y",
        "maximum",
        traits=Trait.UNROUNDED,
        exact=ORDERED,
    ),
    _binary(
        "min",
        np.minimum,
        "Min",
        "the smaller of x and y",
        "minimum",
        traits=Trait.UNROUNDED,
        exact=ORDERED,
    ),
    _binary(
        "pow",
        np.power,
        "Pow",
        "x ** y",
        traits=Trait.NUMBER_RIGHT | Trait.GROWS,
        exact=ExactForm(Arithmetic.DIGITS, _exact_power),
    ),
    unary(
        "relu",
        lambda x, a: np.maximum(x, 0),
        "Relu",
        "max(x, 0)",
        traits=Trait.UNROUNDED,
        exact=ORDERED,
    ),
    unary(
        "leakyrelu",
        lambda x, a: np.where(x >= 0, x, x * x.dtype.type(a["alpha"])),
        export_as("LeakyRelu", alpha="alpha"),
        "x if x >= 0, otherwise alpha * x",
        (Attr("alpha", "float", 0.01),),
        torch=lambda torch, xs, a: torch.nn.functional.leaky_relu(xs[0], a["alpha"]),
        exact=ExactForm(Arithmetic.RATIONAL, _exact_leakyrelu),
    ),
    unary(
        "sigmoid",
        lambda x, a: sigmoid(x),
        "Sigmoid",
        "1 / (1 + exp(-x))",
        cost=4,
        exact=in_digits(exact_sigmoid),
    ),
    unary(
        "tanh",
        lambda x, a: np.tanh(x),
        "Tanh",
        "the hyperbolic tangent",
        cost=4,
        exact=in_digits(lambda numbers, x: numbers.tanh(x)),
    ),
    unary(
        "erf",
        lambda x, a: erf(x),
        "Erf",
        "the error function",
        cost=4,
        exact=in_digits(lambda numbers, x: numbers.erf(x)),
    ),
    unary(
        "exp",
        lambda x, a: np.exp(x),
        "Exp",
        "e ** x",
        cost=4,
        traits=Trait.GROWS,
        exact=in_digits(lambda numbers, x: numbers.exp(x)),
    ),
    unary(
        "log",
        lambda x, a: np.log(x),
        "Log",
        "the natural logarithm",
        cost=4,
        exact=in_digits(lambda numbers, x: numbers.log(x)),
    ),
    unary(
        "cos",
        lambda x, a: np.cos(x),
        "Cos",
        "the cosine",
        cost=4,
        exact=in_digits(lambda numbers, x: numbers.cos(x)),
    ),
    unary(
        "sin",
        lambda x, a: np.sin(x),
        "Sin",
        "the sine",
        cost=4,
        exact=in_digits(lambda numbers, x: numbers.sin(x)),
    ),
    unary(
        "sqrt",
        lambda x, a: np.sqrt(x),
        "Sqrt",
        "the square root",
        cost=2,
        exact=in_digits(lambda numbers, x: numbers.root(x)),
    ),
    unary(
        "neg",
        lambda x, a: np.negative(x),
        "Neg",
        "-x",
        traits=Trait.UNROUNDED | Trait.LINEAR,
        exact=POLYNOMIAL,
    ),
    unary(
        "abs",
        lambda x, a: np.abs(x),
        "Abs",
        "the absolute value",
        traits=Trait.UNROUNDED,
        exact=ORDERED,
    ),
    unary(
        "reciprocal",
        lambda x, a: np.reciprocal(x),
        "Reciprocal",
        "1 / x",
        traits=Trait.GROWS,
        exact=_QUOTIENT,
    ),
    unary(
        "clip",
        lambda x, a: np.minimum(np.maximum(x, x.dtype.type(a["low"])), x.dtype.type(a["high"])),
        _export_clip,
        "x limited to low..high",
        (Attr("low", "float", -math.inf), Attr("high", "float", math.inf)),
        torch=lambda torch, xs, a: torch.clamp(xs[0], a["low"], a["high"]),
        exact=ExactForm(Arithmetic.RATIONAL, _exact_clip),
    ),
)


@imports("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Cos", "Sin", "Sqrt", "Neg", "Abs", "Reciprocal")
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
