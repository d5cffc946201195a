"""Gates: a value times the share that passes, which is a smooth or a clipped step of the value itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from workbench.ops.elementwise import erf, exact_sigmoid, export_bounded, sigmoid, unary
from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm, Number, Numbers, each
from workbench.ops.onnx_form import Emitter, OnnxNode, export_scalar, imports
from workbench.ops.registry import register
from workbench.ops.spec import Attr
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs


def _gelu(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    if attrs["tanh"]:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return (0.5 * x * (1 + np.tanh(inner))).astype(x.dtype)
    return (0.5 * x * (1 + erf(x / math.sqrt(2)))).astype(x.dtype)


def _swish(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    return x * sigmoid(x * x.dtype.type(attrs["alpha"]))


def _hardswish(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    return np.asarray(x * np.minimum(np.maximum(x + 3, 0), 6) / 6)


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
    def gated(x: Number) -> Number:
        return x * min(max(x + 3, numbers.number(0)), numbers.number(6)) / 6

    return each(gated, xs[0])


# -- export -------------------------------------------------------------------------------------------
def _export_gelu(
    e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType
) -> str:
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


def _export_swish(
    e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType
) -> str:
    (x,) = xs
    # ONNX Runtime fuses the product with the sigmoid.
    inner = x if attrs["alpha"] == 1 else e.node("Mul", [x, export_scalar(e, out, attrs["alpha"])])
    return e.node("Mul", [x, e.node("Sigmoid", [inner])])


def _export_hardswish(
    e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType
) -> str:
    (x,) = xs
    if e.opset >= 14 and out.dtype == "float32":  # ONNX Runtime has no other kernel of its parts
        return e.node("HardSwish", [x])
    moved = e.node("Add", [x, export_scalar(e, out, 3.0)])
    gate = export_bounded(e, moved, 0.0, 6.0, out)
    return e.node("Div", [e.node("Mul", [x, gate]), export_scalar(e, out, 6.0)])


register(
    unary(
        "gelu",
        _gelu,
        _export_gelu,
        "x * Phi(x); with tanh=1 its tanh approximation",
        (Attr("tanh", "int", 0),),
        cost=8,
        torch=lambda torch, xs, a: torch.nn.functional.gelu(
            xs[0], approximate="tanh" if a["tanh"] else "none"
        ),
        exact=ExactForm(Arithmetic.DIGITS, _exact_gelu),
    ),
    unary(
        "swish",
        _swish,
        _export_swish,
        "x * sigmoid(alpha * x): SiLU, and with alpha=1.702 an approximation of gelu",
        (Attr("alpha", "float", 1.0),),
        cost=5,
        torch=lambda torch, xs, a: (
            torch.nn.functional.silu(xs[0]) if a["alpha"] == 1 else xs[0] * torch.sigmoid(a["alpha"] * xs[0])
        ),
        exact=ExactForm(Arithmetic.DIGITS, _exact_swish),
    ),
    unary(
        "hardswish",
        _hardswish,
        _export_hardswish,
        "x * clip(x + 3, 0, 6) / 6",
        cost=4,
        torch=lambda torch, xs, a: torch.nn.functional.hardswish(xs[0]),
        exact=ExactForm(Arithmetic.RATIONAL, _exact_hardswish),
    ),
)


@imports("Gelu")
def _import_gelu(n: OnnxNode) -> int:
    return n.op("gelu", n.operand(0), tanh=int(n.attr("approximate", "none") == "tanh"))


@imports("HardSwish")
def _import_hardswish(n: OnnxNode) -> int:
    return n.op("hardswish", n.operand(0))


@imports("Swish")
def _import_swish(n: OnnxNode) -> int:
    return n.op("swish", n.operand(0), alpha=n.attr("alpha", 1.0))
