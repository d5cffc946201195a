"""Python's operators on symbolic integers, in which type rules and the arithmetic of rules are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from workbench.symbolic.integers import Cond, Int, at_least, div, equal, largest, mod, negated, num, smallest

#: The operations of type rules and of the rule language on polynomials; a quotient is rounded down.
ARITHMETIC: Final[Mapping[str, Callable[[Int, Int], Int]]] = {
    "+": Int.__add__,
    "-": Int.__sub__,
    "*": Int.__mul__,
    "//": div,
    "%": mod,
    "max": largest,
    "min": smallest,
}
RELATIONS: Final[Mapping[str, Callable[[Int, Int], Cond]]] = {
    "=": equal,
    "!=": lambda x, y: negated(equal(x, y)),
    "<": lambda x, y: at_least(y - 1, x),
    "<=": lambda x, y: at_least(y, x),
    ">": lambda x, y: at_least(x, y + 1),
    ">=": at_least,
}


def _arithmetic(sign: str, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def operation(self: SymInt, other: Any) -> Any:
        return self.arith(sign, other, self) if swapped else self.arith(sign, self, other)

    return operation


def _relation(relation: str) -> Callable[[Any, Any], Any]:
    def comparison(self: SymInt, other: Any) -> Any:
        return self.related(relation, self, other)

    return comparison


class SymInt:
    """A symbolic integer in one reading of type rules: an operator computes, and a comparison is open.

    A reading is a subclass, which says what else is an integer (:meth:`whole`), which operations it has
    (:meth:`arith`) and what a comparison gives (:meth:`related`).

    >>> from workbench.symbolic.integers import sym
    >>> extent = SymInt(sym("+n"))
    >>> (2 * extent + 4) // 2, extent > 0, extent == 1
    (2+1*+n, true(), eq(1+-1*+n))
    """

    __slots__ = ("x",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, x: Int) -> None:
        self.x = x

    def whole(self, value: Any) -> Int:
        """Return an integer of the reading, or a number, as a polynomial."""
        return value.x if isinstance(value, SymInt) else num(value)

    def arith(self, sign: str, left: Any, right: Any) -> Any:
        """Return the result of an operation of :data:`ARITHMETIC`."""
        return type(self)(ARITHMETIC[sign](self.whole(left), self.whole(right)))

    def related(self, relation: str, left: Any, right: Any) -> Any:
        """Return the condition that a relation of :data:`RELATIONS` holds."""
        return RELATIONS[relation](self.whole(left), self.whole(right))

    __add__, __radd__ = _arithmetic("+"), _arithmetic("+", swapped=True)
    __sub__, __rsub__ = _arithmetic("-"), _arithmetic("-", swapped=True)
    __mul__, __rmul__ = _arithmetic("*"), _arithmetic("*", swapped=True)
    __floordiv__, __rfloordiv__ = _arithmetic("//"), _arithmetic("//", swapped=True)
    __mod__, __rmod__ = _arithmetic("%"), _arithmetic("%", swapped=True)
    __eq__, __ne__ = _relation("="), _relation("!=")
    __lt__, __le__ = _relation("<"), _relation("<=")
    __gt__, __ge__ = _relation(">"), _relation(">=")

    def __neg__(self) -> Any:
        return 0 - self

    def __repr__(self) -> str:
        return repr(self.x)
