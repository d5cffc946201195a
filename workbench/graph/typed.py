"""Types of operator applications, each inferred once: networks repeat few applications many times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from workbench.ops import AttrValue, TensorType, ValueType, spec_of
from workbench.ops.registry import replacements

#: The number of applications that are remembered.
_REMEMBERED: Final = 1 << 14


def result_type(op: str, inputs: Sequence[ValueType], attrs: Sequence[AttrValue]) -> TensorType:
    """Return the type of an operator's result.

    Raise :class:`~workbench.ops.TypeMismatch` if the operands or attributes do not fit the operator.
    """
    try:
        return _remembered(op, tuple(inputs), tuple(attrs), replacements())
    except TypeError:  # an attribute of a type that has no hash
        return _inferred(op, inputs, attrs)


def _inferred(op: str, inputs: Sequence[ValueType], attrs: Sequence[AttrValue]) -> TensorType:
    return spec_of(op).result_type(inputs, attrs)  # type: ignore[arg-type]


@lru_cache(maxsize=_REMEMBERED)
def _remembered(
    op: str,
    inputs: tuple[ValueType, ...],
    attrs: tuple[AttrValue, ...],
    replaced: int,  # types inferred before an operator was replaced may be stale
) -> TensorType:
    return _inferred(op, inputs, attrs)
