"""Numbers in rules: ``mul(x, 0.5)`` and, of numbers alone, ``div(x, sqrt(2))``.

A number is a term: the constant operator that the number stands for. On a left-hand side it matches any
tensor all of whose elements are that number, if broadcasting the tensor does not change the other operand's
type. On a right-hand side it makes a number of the element type that the operands next to it have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from workbench.ops import Trait, spec_of, with_trait
from workbench.ops.typing import Attrs
from workbench.rules.interpret import NotBinding
from workbench.rules.pattern import App, DtypeOf, Literal, Term, format_term, subterms, tensor_variables

#: The operators without operands that stand for numbers.
_NUMBERS: Final = with_trait(Trait.NUMBER)
#: The operator among them whose attribute states the number: ``0.5`` in a rule is an application of it.
(NUMBER,) = (op for op in _NUMBERS if "value" in spec_of(op).attr_names)
#: The element type whose numbers a left-hand side names by their decimals.
SINGLE: Final = np.float32


def number(value: float) -> App:
    """Return the term of a number."""
    return App(NUMBER, (), (("value", Literal(float(value))),))


def is_number(term: Term) -> bool:
    """Return whether a term is made of numbers alone, as ``sqrt(2)`` is."""
    inner = (isinstance(t, App) and (t.args or t.op in _NUMBERS) for t in subterms(term))
    return isinstance(term, App) and all(inner)


@dataclass(frozen=True, slots=True)
class Number:
    """The number that a term of a left-hand side is.

    ``value`` is a float, or the representation of the attribute variable that is bound to the number.
    ``written`` says whether the rule spells out the decimal.
    """

    value: Any
    written: bool


def combined(term: App, attrs: Attrs, operands: Sequence[Number]) -> Number:
    """Return the number that a term is whose operands are numbers; raise NotBinding if it has none."""
    given = dict(term.attrs)
    if not term.args and "dtype" in given:
        raise NotBinding("a number has no dtype of its own on the left-hand side")
    if term.op == NUMBER:
        value = given.get("value")
        return Number(float(value.value) if isinstance(value, Literal) else attrs["value"], True)  # type: ignore[arg-type]
    if term.attrs or term.row or not all(isinstance(o.value, float) for o in operands):
        raise NotBinding(f"{format_term(term)} cannot be computed when the rule is read")
    spec = spec_of(term.op)
    assert spec.evaluate is not None
    precise = {"dtype": "float64"} if "dtype" in spec.attr_names else {}
    result = spec.evaluate([np.asarray(o.value) for o in operands], spec.unpack(spec.pack(precise)))
    return Number(float(result), False)


def nearest_decimal(value: float) -> float:
    """Return the shortest decimal of the single-precision number nearest to a value.

    >>> nearest_decimal(2**0.5), nearest_decimal(0.1)
    (1.4142135, 0.1)
    """
    return float(str(SINGLE(value)))


def _of_its_type(term: Term) -> list[str]:
    """Return the tensor variables of a term but those that decide a selection, whose element type is another."""
    if not isinstance(term, App):
        return tensor_variables(term)
    return [v for arg in (term.args[1:] if term.op == "select" else term.args) for v in _of_its_type(arg)]


def typed(term: Term, like: str) -> Term:
    """Return a term of a right-hand side whose numbers have the element type of the operands next to them.

    ``like`` is the tensor variable whose element type numbers have if there are only numbers next to them.
    """
    if not isinstance(term, App):
        return term
    if term.op in _NUMBERS and "dtype" not in dict(term.attrs):
        return replace(term, attrs=(*term.attrs, ("dtype", DtypeOf(like))))
    beside = _of_its_type(term)
    return replace(term, args=tuple(typed(arg, (beside or [like])[0]) for arg in term.args))
