"""Operators: one :class:`OpSpec` per operator, grouped by family."""

from workbench.ops import (  # noqa: F401  (importing a family registers its operators)
    activations,
    attention,
    constants,
    convolution,
    elementwise,
    inputs_and_opaque,
    layout,
    linear,
    normalisation,
    pooling,
    quantised,
    resampling,
)
from workbench.ops.registry import operators, spec_of, with_trait
from workbench.ops.spec import ACTIVATIONS, TASO_ACTIVATIONS, Attr, AttrValue, OpSpec
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType, TupleType, TypeMismatch, ValueType

__all__ = [
    "ACTIVATIONS",
    "TASO_ACTIVATIONS",
    "Attr",
    "AttrValue",
    "OpSpec",
    "TensorType",
    "Trait",
    "TupleType",
    "TypeMismatch",
    "ValueType",
    "operators",
    "spec_of",
    "with_trait",
]
