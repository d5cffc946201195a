"""Activations: those that a product computes as well, and gates, a value times the share of it that passes.

A fused activation is one name without parameters, so that it is one number in the e-graph. An operator whose
attributes vary from model to model, such as a leaky relu, therefore stays an operator of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import ModuleType
from typing import Any, Final

import numpy as np

from workbench.ops.elementwise import by_element, erf, exact_sigmoid, export_bounded, sigmoid
from workbench.ops.exact import Arithmetic, Bound, Degree, ExactAttrs, ExactForm, Numbers, each
from workbench.ops.onnx_form import Emitter, export_scalar, imports
from workbench.ops.registry import register, spec_of
from workbench.ops.spec import ACTIVATIONS, Attr, Evaluate, Names, OpSpec, Tensor, Types, per_element
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs

#: The operator that each activation is, and its attributes.
_OPERATORS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "sigmoid": ("sigmoid", {}),
    "relu": ("relu", {}),
    "tanh": ("tanh", {}),
    "relu6": ("clip", {"low": 0.0, "high": 6.0}),
    "gelu": ("gelu", {}),
    "silu": ("swish", {}),
    "hardswish": ("hardswish", {}),
}
assert {"none", *_OPERATORS} == set(ACTIVATIONS)


def operator_of(act: str) -> tuple[OpSpec, dict[str, Any]]:
    """Return the operator that an activation is, and its attributes.

    >>> operator_of("silu")[0].name
    'swish'
    """
    name, given = _OPERATORS[act]
    spec = spec_of(name)
    return spec, spec.unpack(spec.pack(given))


def activate(x: np.ndarray, act: str) -> np.ndarray:
    """Apply an activation."""
    if act == "none":
        return x
    spec, attrs = operator_of(act)
    assert spec.evaluate is not None
    return spec.evaluate([x], attrs)


def activate_torch(torch: ModuleType, fresh: Tensor, act: str) -> Tensor:
    """Apply an activation in torch, in place if torch can: nothing else may read ``fresh``."""
    if act == "none":
        return fresh
    spec, attrs = operator_of(act)
    assert spec.torch is not None
    in_place = None if attrs else getattr(torch, f"{spec.name}_", None)
    return spec.torch(torch, [fresh], attrs) if in_place is None else in_place(fresh)


def export_activation(e: Emitter, name: str, act: str, kind: TensorType) -> str:
    """Write the activation that is fused into an operator as separate nodes; ``kind`` is its type.

    Args:
        e: The writer of the model.
        name: The name of the value that is activated.
        act: The activation, ``none`` for a value that stays as it is.
        kind: The type of the value.
    """
    if act == "none":
        return name
    spec, attrs = operator_of(act)
    assert spec.export is not None
    return spec.export(e, [name], attrs, [kind], kind)


def exact_product(evaluate: Evaluate, degree: Degree, bound: Bound) -> ExactForm:
    """Return the exact form of a product with a fused activation; degree and bound are those of the product."""

    def needs(attrs: ExactAttrs) -> Arithmetic:
        if attrs["act"] == "none":
            return Arithmetic.POLYNOMIAL
        spec, given = operator_of(attrs["act"])
        assert spec.exact is not None
        return spec.exact.arithmetic(given)

    def compute(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
        product = np.asarray(evaluate(xs, {**attrs, "act": "none"}), dtype=object)
        if attrs["act"] == "none":
            return product
        spec, given = operator_of(attrs["act"])
        assert spec.exact is not None
        if spec.exact.compute is not None:
            return spec.exact.compute(numbers, [product], given)
        assert spec.evaluate is not None
        return spec.evaluate([product], given)

    return ExactForm(needs, compute, degree, bound)


# -- gates: gelu, swish, hardswish ---------------------------------------------------------------------
def _gelu(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    (x,) = xs
    if attrs["tanh"]:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return (0.5 * x * (1 + np.tanh(inner))).astype(x.dtype)
    return (0.5 * x * (1 + erf(x / math.sqrt(2)))).astype(x.dtype)


# -- exact forms --------------------------------------------------------------------------------------
def _exact_gelu(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    if attrs["tanh"]:
        # The factor is part of the operator's definition, not an approximation of a number.
        cubic = numbers.number(Fraction("0.044715"))
        scale = numbers.root(2 / numbers.pi())
        return each(lambda x: x * (1 + numbers.tanh(scale * (x + cubic * x**3))) / 2, xs[0])
    root = numbers.root(numbers.number(2))
    return each(lambda x: x * (1 + numbers.erf(x / root)) / 2, xs[0])


def _exact_swish(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    alpha = numbers.number(Fraction(repr(float(attrs["alpha"]))))
    return each(lambda x: x * exact_sigmoid(numbers, alpha * x), xs[0])


def _exact_hardswish(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    zero, six = numbers.number(0), numbers.number(6)
    return each(lambda x: x * min(max(x + 3, zero), six) / 6, xs[0])


# -- export -------------------------------------------------------------------------------------------
def _export_gelu(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    (x,) = xs
    if e.opset >= 20 and out.dtype != "float64":  # ONNX Runtime has no Gelu kernel for float64
        return e.node("Gelu", [x], approximate="tanh" if attrs["tanh"] else "none")
    # ONNX Runtime fuses both in this order: with tanh (x * 0.5) * (1 + bent), otherwise x * (1 + bent) * 0.5.
    if attrs["tanh"]:
        cube = e.node("Pow", [x, export_scalar(e, out, 3.0)])
        inner = e.node("Add", [x, e.node("Mul", [cube, export_scalar(e, out, 0.044715)])])
        bent = e.node("Tanh", [e.node("Mul", [inner, export_scalar(e, out, math.sqrt(2 / math.pi))])])
        half = e.node("Mul", [x, export_scalar(e, out, 0.5)])
        return e.node("Mul", [half, e.node("Add", [bent, export_scalar(e, out, 1.0)])])
    bent = e.node("Erf", [e.node("Div", [x, export_scalar(e, out, math.sqrt(2))])])
    scaled = e.node("Mul", [x, e.node("Add", [bent, export_scalar(e, out, 1.0)])])
    return e.node("Mul", [scaled, export_scalar(e, out, 0.5)])


def _export_swish(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    (x,) = xs
    # ONNX Runtime fuses the product with the sigmoid.
    inner = x if attrs["alpha"] == 1 else e.node("Mul", [x, export_scalar(e, out, attrs["alpha"])])
    return e.node("Mul", [x, e.node("Sigmoid", [inner])])


def _export_hardswish(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    (x,) = xs
    if e.opset >= 14 and out.dtype == "float32":  # ONNX Runtime has no other kernel of its parts
        return e.node("HardSwish", [x])
    moved = e.node("Add", [x, export_scalar(e, out, 3.0)])
    gate = export_bounded(e, moved, 0.0, 6.0, out)
    return e.node("Div", [e.node("Mul", [x, gate]), export_scalar(e, out, 6.0)])


register(
    by_element(
        "gelu",
        1,
        evaluate=_gelu,
        attrs=(Attr("tanh", "int", 0),),
        flops=per_element(8),
        exact=ExactForm(Arithmetic.DIGITS, _exact_gelu),
        export=_export_gelu,
        torch=lambda torch, xs, a: torch.nn.functional.gelu(
            xs[0], approximate="tanh" if a["tanh"] else "none"
        ),
        doc="x * Phi(x); with tanh=1 its tanh approximation",
    ),
    by_element(
        "swish",
        1,
        evaluate=lambda xs, a: xs[0] * sigmoid(xs[0] * xs[0].dtype.type(a["alpha"])),
        attrs=(Attr("alpha", "float", 1.0),),
        flops=per_element(5),
        exact=ExactForm(Arithmetic.DIGITS, _exact_swish),
        export=_export_swish,
        torch=lambda torch, xs, a: (
            torch.nn.functional.silu(xs[0]) if a["alpha"] == 1 else xs[0] * torch.sigmoid(a["alpha"] * xs[0])
        ),
        doc="x * sigmoid(alpha * x): SiLU, and with alpha=1.702 an approximation of gelu",
    ),
    by_element(
        "hardswish",
        1,
        evaluate=lambda xs, a: np.asarray(xs[0] * np.minimum(np.maximum(xs[0] + 3, 0), 6) / 6),
        flops=per_element(4),
        exact=ExactForm(Arithmetic.RATIONAL, _exact_hardswish),
        export=_export_hardswish,
        torch=lambda torch, xs, a: torch.nn.functional.hardswish(xs[0]),
        doc="x * clip(x + 3, 0, 6) / 6",
    ),
)


imports("Gelu")(lambda n: n.op("gelu", n.operand(0), tanh=int(n.attr("approximate", "none") == "tanh")))
