"""Formulas of whole numbers, as the file of a hardware unit states its cycles: ``rows + columns``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, Final

_SIGNS: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "max": max,
    "min": min,
    "ceil": lambda x: -int(-x // 1),
}


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
        _check(_parsed(self.text), self.names)

    def __call__(self, **values: float) -> float:
        """Return the value; raise FormulaError if it is negative or a division by zero."""
        try:
            found = float(eval(_compiled(self.text), {"__builtins__": {}, **_FUNCTIONS}, values))
        except ZeroDivisionError:
            raise FormulaError(f"{self.text!r} must not divide by zero at {values}") from None
        if not found >= 0:
            raise FormulaError(f"{self.text!r} must be at least 0, got {found:g} at {values}")
        return found


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise FormulaError(f"the formula must be an arithmetic expression, got {text!r}") from None


@lru_cache(maxsize=256)
def _compiled(text: str) -> CodeType:
    """Return the code of a checked formula: it has numbers, names, signs and three functions alone."""
    return compile(ast.Expression(_parsed(text)), "<formula>", "eval")


def _check(node: ast.expr, names: Collection[str]) -> None:
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise FormulaError(f"names must be among {', '.join(names)}, got {node.id}")
        return
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return
    if isinstance(node, ast.BinOp) and isinstance(node.op, _SIGNS):
        _check(node.left, names)
        _check(node.right, names)
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        one = node.func.id == "ceil"
        if node.func.id in _FUNCTIONS and node.args and (len(node.args) == 1) == one:
            for arg in node.args:
                _check(arg, names)
            return
    raise FormulaError(
        f"a formula has numbers, names, + - * / // %, max, min and ceil, got {ast.unparse(node)!r}"
    )
