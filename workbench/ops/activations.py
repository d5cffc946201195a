"""Activations that a product computes as well: each is an elementwise operator with fixed attributes.

An activation is one name without parameters, so that it is one number in the e-graph. An operator whose
attributes vary from model to model, such as a leaky relu, therefore stays an operator of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.ops.exact import Arithmetic, ExactAttrs, ExactCompute, ExactForm, Numbers
from workbench.ops.onnx_form import Emitter
from workbench.ops.registry import spec_of
from workbench.ops.spec import ACTIVATIONS, Evaluate, OpSpec
from workbench.ops.types import TensorType

if TYPE_CHECKING:
    from torch import Tensor

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


def activation_needs(attrs: ExactAttrs) -> Arithmetic:
    """Return the arithmetic that a product followed by an activation needs."""
    if attrs["act"] == "none":
        return Arithmetic.POLYNOMIAL
    spec, given = operator_of(attrs["act"])
    assert spec.exact is not None
    return spec.exact.arithmetic(given)


def exactly_activated(evaluate: Evaluate) -> ExactCompute:
    """Return the exact semantics of a product with a fused activation."""

    def compute(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
        product = np.asarray(evaluate(xs, {**attrs, "act": "none"}), dtype=object)
        if attrs["act"] == "none":
            return product
        spec, given = operator_of(attrs["act"])
        form: ExactForm | None = spec.exact
        assert form is not None
        if form.compute is not None:
            return form.compute(numbers, [product], given)
        assert spec.evaluate is not None
        return spec.evaluate([product], given)

    return compute
