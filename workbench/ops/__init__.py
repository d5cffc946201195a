"""Operators: one :class:`OpSpec` per operator, grouped by family."""

from workbench.ops import (  # noqa: F401  (importing a family registers its operators)
    attention,
    blocked,
    choice,
    constants,
    convolution,
    einsum,
    elementwise,
    gates,
    layout,
    leaves,
    linear,
    normalisation,
    pooling,
    quantised,
    repeat,
    resampling,
    rotary,
    transposed,
    unfold,
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
