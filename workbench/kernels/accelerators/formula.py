"""Formulas of numbers, as the file of a hardware unit states its cycles: ``rows + columns``.

A formula is only computed, on fractions too. Nothing is normalised or compared, as sizes are in
:mod:`workbench.symbolic.integers`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

_SIGNS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "max": max,
    "min": min,
    "ceil": lambda x: -int(-x // 1),
}
_Computation = Callable[[Mapping[str, float]], Any]


class FormulaError(ValueError):
    """Raised when a text is not a formula of the given names."""


@dataclass(frozen=True, slots=True)
class Formula:
    """An arithmetic expression over named numbers: ``+ - * / // %``, ``max``, ``min`` and ``ceil``.

    >>> Formula("rows + 2 * columns", ("rows", "columns"))(rows=3, columns=4)
    11.0
    >>> Formula("rows + colums", ("rows", "columns"))
    Traceback (most recent call last):
    ...
    workbench.kernels.accelerators.formula.FormulaError: names must be among rows, columns, got colums
    """

    text: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        _parsed(self.text, self.names)

    def __call__(self, **values: float) -> float:
        """Return the value; raise FormulaError if it is negative or a division by zero."""
        try:
            found = float(_parsed(self.text, self.names)(values))
        except ZeroDivisionError:
            raise FormulaError(f"{self.text!r} must not divide by zero at {values}") from None
        if not found >= 0:
            raise FormulaError(f"{self.text!r} must be at least 0, got {found:g} at {values}")
        return found


@lru_cache(maxsize=256)
def _parsed(text: str, names: tuple[str, ...]) -> _Computation:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise FormulaError(f"the formula must be an arithmetic expression, got {text!r}") from None
    return _computation(tree, names)


def _computation(node: ast.expr, names: tuple[str, ...]) -> _Computation:
    if isinstance(node, ast.Name):
        name = node.id
        if name not in names:
            raise FormulaError(f"names must be among {', '.join(names)}, got {name}")
        return lambda values: values[name]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        number: Any = node.value
        return lambda _: number
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        sign, left, right = _SIGNS[type(node.op)], *(_computation(n, names) for n in (node.left, node.right))
        return lambda values: sign(left(values), right(values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        one = node.func.id == "ceil"
        if node.func.id in _FUNCTIONS and node.args and (len(node.args) == 1) == one:
            function, args = _FUNCTIONS[node.func.id], [_computation(arg, names) for arg in node.args]
            return lambda values: function(*(arg(values) for arg in args))
    raise FormulaError(
        f"a formula has numbers, names, + - * / // %, max, min and ceil, got {ast.unparse(node)!r}"
    )
