"""Operators: one :class:`OpSpec` each, grouped by family."""

from workbench.ops import (  # noqa: F401  (importing a family registers its operators)
    constants,
    convolution,
    elementwise,
    layout,
    linear,
    normalisation,
    opaque,
    pooling,
)
from workbench.ops.registry import operators, spec_of
from workbench.ops.spec import ACTIVATIONS, Attr, AttrValue, OpSpec
from workbench.ops.types import TensorType, TupleType, TypeMismatch, ValueType

__all__ = [
    "ACTIVATIONS",
    "Attr",
    "AttrValue",
    "OpSpec",
    "TensorType",
    "TupleType",
    "TypeMismatch",
    "ValueType",
    "operators",
    "spec_of",
]
