"""Evaluate the attribute expressions of rules on concrete numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from workbench.ops import TensorType, TypeMismatch
from workbench.rules.pattern import Arith, AttrVar, Compare, DimOf, DtypeOf, Literal, RankOf, Vector

_ARITH: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": max,
    "min": min,
}
_RELATIONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expr: Any, attr: Callable[[str], Any], kind: Callable[[str], TensorType]) -> Any:
    """Return the value of an expression: ``attr`` gives attributes, ``kind`` tensors' types by name.

    Arithmetic on a tuple goes entry by entry. Raise TypeMismatch where permutations do not compose.
    """
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, AttrVar):
        return attr(expr.name)
    if isinstance(expr, Vector):
        return tuple(evaluate(item, attr, kind) for item in expr.items)
    if isinstance(expr, DimOf):
        shape = kind(expr.var).shape
        return shape[expr.axis] if -expr.axis <= len(shape) else 1
    if isinstance(expr, RankOf):
        return kind(expr.var).rank
    if isinstance(expr, DtypeOf):
        return kind(expr.var).dtype
    assert isinstance(expr, Arith)
    left, right = evaluate(expr.left, attr, kind), evaluate(expr.right, attr, kind)
    if expr.operator == "compose":
        if len(left) != len(right):
            raise TypeMismatch("permutations of two ranks do not compose")
        return tuple(left[i] for i in right)
    if isinstance(left, tuple):
        rights = right if isinstance(right, tuple) else (right,) * len(left)
        return tuple(_ARITH[expr.operator](a, b) for a, b in zip(left, rights, strict=True))
    return _ARITH[expr.operator](left, right)


def holds(condition: Compare, attr: Callable[[str], Any], kind: Callable[[str], TensorType]) -> bool:
    """Say whether a condition holds; between tuples it holds entry by entry."""
    left, right = evaluate(condition.left, attr, kind), evaluate(condition.right, attr, kind)
    lefts = left if isinstance(left, tuple) else (left,)
    rights = right if isinstance(right, tuple) else (right,) * len(lefts)
    return all(_RELATIONS[condition.relation](a, b) for a, b in zip(lefts, rights, strict=True))
