"""Attribute expressions of rules on concrete numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.ops import Attr, AttrValue, TensorType, TypeMismatch
from workbench.rules.interpret import ARITHMETIC, compared, related, spread, value
from workbench.rules.pattern import AttrExpr, Compare


def inverted(perm: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes another.

    >>> inverted((1, 2, 0))
    (2, 0, 1)
    """
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


class Numbers(ABC):
    """The algebra of concrete attributes; a subclass gives the types of tensors and the bound attributes.

    It raises TypeMismatch if permutations do not compose, and on a division by 0.
    """

    __slots__ = ()

    @abstractmethod
    def attribute(self, name: str) -> AttrValue:
        """Return the value of an attribute variable."""

    @abstractmethod
    def of_row(self, row: str, name: str) -> AttrValue | None:
        """Return the value of a row's attribute, or None if the row has no such attribute."""

    @abstractmethod
    def kind(self, name: str) -> TensorType:
        """Return the type of a tensor variable."""

    def holds(self, condition: Compare) -> bool:
        """Return whether a condition holds; between tuples it must hold for each entry."""
        return all(related(condition.relation, a, b) for a, b in compared(condition, self))

    def literal(self, value: AttrValue, attr: Attr | None) -> AttrValue:
        """Return the value."""
        return value

    def given(self, value: AttrValue, attr: Attr) -> AttrValue:
        """Return the value as the attribute takes it."""
        return spread(value, attr)

    def dim(self, var: str, axis: int) -> int:
        """Return the extent of a tensor variable's axis, 1 for an axis before the first."""
        shape = self.kind(var).shape
        return shape[axis] if -axis <= len(shape) else 1

    def rank(self, var: str) -> int:
        """Return the rank of a tensor variable."""
        return self.kind(var).rank

    def dtype(self, var: str) -> str:
        """Return the element type of a tensor variable."""
        return self.kind(var).dtype

    def arith(self, sign: str, left: float, right: float) -> float:
        """Return the result of an arithmetic operation; a rule does not apply if it divides by 0."""
        if sign in ("//", "%") and right == 0:
            raise TypeMismatch(f"{left} {sign} 0")
        return ARITHMETIC[sign](left, right)

    def compose(self, left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
        """Return the permutation that first applies ``left`` and then ``right``."""
        if len(left) != len(right):
            raise TypeMismatch("permutations of different ranks do not compose")
        return tuple(left[i] for i in right)

    def inverse(self, perm: Sequence[int]) -> tuple[int, ...]:
        """Return the permutation that undoes another."""
        return inverted(perm)

    def axis(self, perm: Sequence[int], axis: int) -> int:
        """Return the operand's axis that a transposition brings to ``axis``, both counted from the last."""
        if not -len(perm) <= axis < 0:
            raise TypeMismatch(f"axis {axis} of a permutation of {len(perm)} axes")
        return int(perm[axis]) - len(perm)


@dataclass(frozen=True, slots=True)
class Lookup(Numbers):
    """The algebra of two functions: one gives attribute variables, one the types of tensors."""

    attributes: Callable[[str], Any]
    types: Callable[[str], TensorType]

    def attribute(self, name: str) -> AttrValue:
        """Return the value of an attribute variable."""
        return self.attributes(name)

    def kind(self, name: str) -> TensorType:
        """Return the type of a tensor variable."""
        return self.types(name)

    def of_row(self, row: str, name: str) -> AttrValue | None:
        """Return None: expressions name no rows."""
        return None


def evaluate(expr: AttrExpr, attr: Callable[[str], Any], kind: Callable[[str], TensorType]) -> AttrValue:
    """Return the value of an expression: ``attr`` maps names to attributes, ``kind`` to tensor types.

    Arithmetic on a tuple applies to each entry. Raise TypeMismatch if permutations do not compose.
    """
    return value(expr, Lookup(attr, kind))


def holds(condition: Compare, attr: Callable[[str], Any], kind: Callable[[str], TensorType]) -> bool:
    """Return whether a condition holds; between tuples it must hold for each entry."""
    return Lookup(attr, kind).holds(condition)
