"""Terms of rules, interpreted: one fold over patterns and expressions, which runs on any algebra.

An algebra gives the meaning: numbers and nodes of a graph, unknowns of a linear system, or expressions of a
program. This module knows the language: which expression gives an attribute, how arithmetic and comparisons
go entry by entry through tuples, which attributes a left-hand side binds and a right-hand side reads.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from workbench.ops import Attr, AttrValue, TensorType, Trait, TypeMismatch, spec_of, with_trait
from workbench.ops.types import contains
from workbench.ops.typing import Attrs
from workbench.rules.pattern import (
    App,
    Arith,
    AttrExpr,
    AttrVar,
    Compare,
    DimOf,
    DtypeOf,
    Inverse,
    Literal,
    RankOf,
    Term,
    Var,
    Vector,
    format_term,
    subterms,
    tensor_variables,
)

T = TypeVar("T")

#: The operators of the language on numbers; ``compose`` and ``axis`` take permutations.
ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": max,
    "min": min,
}
RELATIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def related(relation: str, left: float | str, right: float | str) -> bool:
    """Return whether a relation holds between two numbers, or between the names of two element types.

    One element type is at most another if every number of it is one of the other.
    """
    if isinstance(left, str) and isinstance(right, str) and relation not in ("=", "!="):
        small, large = (left, right) if relation[0] == "<" else (right, left)
        return contains(large, small) and (relation in ("<=", ">=") or left != right)
    return bool(RELATIONS[relation](left, right))


class NotBinding(ValueError):
    """Raised when an attribute on a left-hand side is neither a value nor a variable."""


@dataclass(frozen=True, slots=True)
class RowAttr:
    """An attribute that a term takes from a row variable."""

    row: str
    name: str


class Values(Protocol):
    """An algebra of attribute values: numbers, or representations of numbers."""

    def attribute(self, name: str) -> Any:
        """Return the value of an attribute variable."""

    def of_row(self, row: str, name: str) -> Any:
        """Return the value of a row's attribute, or None if the row has no such attribute."""

    def literal(self, value: Any, attr: Attr | None) -> Any:
        """Return a fixed value; it is that of an attribute, or a number of an expression."""

    def given(self, value: Any, attr: Attr) -> Any:
        """Return the value of an expression as the attribute that it is given to takes it."""

    def dim(self, var: str, axis: Any) -> Any:
        """Return the extent of a tensor variable's axis, 1 for an axis before the first."""

    def rank(self, var: str) -> Any:
        """Return the rank of a tensor variable."""

    def dtype(self, var: str) -> Any:
        """Return the element type of a tensor variable."""

    def arith(self, sign: str, left: Any, right: Any) -> Any:
        """Return the value of an operation of :data:`ARITHMETIC` on two numbers."""

    def compose(self, left: Any, right: Any) -> Any:
        """Return the permutation that first applies ``left`` and then ``right``."""

    def inverse(self, perm: Any) -> Any:
        """Return the permutation that undoes another."""

    def axis(self, perm: Any, axis: Any) -> Any:
        """Return the operand's axis that a transposition brings to ``axis``, both counted from the last."""


class Algebra(Values, Protocol[T]):
    """An algebra of attribute values and tensors."""

    def variable(self, name: str) -> T:
        """Return the tensor that a variable represents."""

    def starred(self, name: str) -> list[T]:
        """Return the tensors that a starred variable represents, one per member."""

    def apply(self, term: App, operands: list[T], attrs: dict[str, Any]) -> T:
        """Return the result of a term's operator."""


class Binder(Algebra[T], Protocol[T]):
    """An algebra that gives values to the attribute variables of a left-hand side."""

    @property
    def attrs(self) -> MutableMapping[str, Any]:
        """Return the values of attribute variables, to be filled."""

    @property
    def rows(self) -> MutableMapping[str, dict[str, Any]]:
        """Return the values of rows' attributes, to be filled."""

    def fresh(self, attr: Attr, name: str | RowAttr, place: int) -> Any:
        """Return the value of a variable that appears for the first time, ``place`` its place in a vector."""


class Bound:
    """The part of an algebra that reads bound attributes from ``attrs`` and ``rows``."""

    __slots__ = ()
    attrs: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]

    def attribute(self, name: str) -> Any:
        return self.attrs[name]

    def of_row(self, row: str, name: str) -> Any:
        return self.rows.get(row, {}).get(name)

    def given(self, value: Any, attr: Attr) -> Any:
        return spread(value, attr)


# -- attributes ------------------------------------------------------------------------------------
def attributes(term: App) -> Iterator[tuple[Attr, AttrExpr | RowAttr | None]]:
    """Yield a term's attributes in declared order, each with the expression that gives it.

    That is the expression named in the term, else the attribute of its row, else the default as a literal, or
    None if the attribute has no default.
    """
    given = dict(term.attrs)
    for attr in spec_of(term.op).attrs:
        expr: AttrExpr | RowAttr | None = given.get(attr.name)
        if expr is None and term.row is not None:
            expr = RowAttr(term.row, attr.name)
        elif expr is None and attr.default is not None:
            expr = Literal(attr.default)
        yield attr, expr


def spread(value: Any, attr: Attr) -> Any:
    """Return a value as an attribute takes it: one number for several integers stands for each of them."""
    if attr.kind == "ints" and not isinstance(value, tuple):
        return (value,) * attr.length
    return value


def bound_attributes(term: App, algebra: Binder[Any]) -> dict[str, Any]:
    """Return the attributes of a term of a left-hand side; variables get a value where they appear first."""
    return {attr.name: _bound(expr, attr, algebra) for attr, expr in attributes(term)}


def _bound(expr: AttrExpr | RowAttr | None, attr: Attr, algebra: Binder[Any], place: int = 0) -> Any:
    if isinstance(expr, RowAttr):
        row = algebra.rows.setdefault(expr.row, {})
        if expr.name not in row:
            row[expr.name] = algebra.fresh(attr, expr, place)
        return row[expr.name]
    if isinstance(expr, AttrVar):
        if expr.name not in algebra.attrs:
            algebra.attrs[expr.name] = algebra.fresh(attr, expr.name, place)
        return algebra.attrs[expr.name]
    if isinstance(expr, Vector):
        kind = "extent" if attr.kind == "shape" else "int"
        one = Attr("axis" if attr.kind == "axes" else attr.name, kind)
        return tuple(_bound(item, one, algebra, i) for i, item in enumerate(expr.items))
    if expr is None or isinstance(expr, Literal):
        return algebra.literal(None if expr is None else expr.value, attr)
    raise NotBinding(f"{attr.name} on the left-hand side must be a value or a variable")


def read_attributes(term: App, algebra: Values) -> dict[str, Any]:
    """Return the attributes of a term all of whose variables have values."""
    values: dict[str, Any] = {}
    for attr, expr in attributes(term):
        found = algebra.of_row(expr.row, expr.name) if isinstance(expr, RowAttr) else None
        if found is not None:
            values[attr.name] = found
        elif expr is None or isinstance(expr, RowAttr):
            values[attr.name] = algebra.literal(attr.default, attr)
        else:
            values[attr.name] = algebra.given(value(expr, algebra, attr), attr)
    return values


# -- expressions -----------------------------------------------------------------------------------
def value(expr: AttrExpr, algebra: Values, attr: Attr | None = None) -> Any:
    """Return the value of an expression, ``attr`` being the attribute that takes it, if one does."""
    if isinstance(expr, Literal):
        return algebra.literal(expr.value, attr)
    if isinstance(expr, AttrVar):
        return algebra.attribute(expr.name)
    if isinstance(expr, Vector):
        return tuple(value(item, algebra) for item in expr.items)
    if isinstance(expr, DimOf):
        axis = expr.axis if isinstance(expr.axis, int) else algebra.attribute(expr.axis)
        return algebra.dim(expr.var, axis)
    if isinstance(expr, RankOf):
        return algebra.rank(expr.var)
    if isinstance(expr, DtypeOf):
        return algebra.dtype(expr.var)
    if isinstance(expr, Inverse):
        return algebra.inverse(value(expr.perm, algebra, attr))
    assert isinstance(expr, Arith), expr
    left, right = value(expr.left, algebra, attr), value(expr.right, algebra, attr)
    if expr.operator == "compose":
        return algebra.compose(left, right)
    if expr.operator == "axis":
        return algebra.axis(left, right)
    results = tuple(algebra.arith(expr.operator, a, b) for a, b in entries(left, right))
    return results if isinstance(left, tuple) or isinstance(right, tuple) else results[0]


def entries(left: Any, right: Any) -> list[tuple[Any, Any]]:
    """Return two values entry by entry; a number is paired with every entry of a tuple."""
    sizes = [len(side) for side in (left, right) if isinstance(side, tuple)]
    if not sizes:
        return [(left, right)]
    lefts, rights = (x if isinstance(x, tuple) else (x,) * sizes[0] for x in (left, right))
    return list(zip(lefts, rights, strict=True))


def compared(condition: Compare, algebra: Values) -> list[tuple[Any, Any]]:
    """Return the pairs of numbers between which a condition's relation must hold."""
    return entries(value(condition.left, algebra), value(condition.right, algebra))


# -- terms -----------------------------------------------------------------------------------------
def bound_term(
    term: Term, algebra: Binder[T], *, member: int | None = None, made: dict[Term, T] | None = None
) -> T:
    """Return the meaning of a term of a left-hand side, whose attributes are bound on the way.

    Args:
        term: The term.
        algebra: The meaning of variables, attributes and operators.
        member: The number of the member whose starred variables the term has, if it is of one member; its
            tensor of the variable ``x`` is called ``x_0``, ``x_1``, ….
        made: The meanings of terms met so far, to which new ones are added; without it equal terms are
            interpreted each for itself.
    """
    return _fold(term, algebra, lambda app: bound_attributes(app, algebra), member, made)


def read_term(
    term: Term, algebra: Algebra[T], *, member: int | None = None, made: dict[Term, T] | None = None
) -> T:
    """Return the meaning of a term with bound variables; the arguments are those of :func:`bound_term`."""
    return _fold(term, algebra, lambda app: read_attributes(app, algebra), member, made)


def _fold(
    term: Term,
    algebra: Algebra[T],
    attrs: Callable[[App], dict[str, Any]],
    member: int | None,
    made: dict[Term, T] | None,
) -> T:
    if isinstance(term, Var):
        of_member = term.starred and member is not None
        return algebra.variable(f"{term.name}_{member}" if of_member else term.name)
    if made is not None and term in made:
        return made[term]
    operands = arguments(term, algebra, lambda arg: _fold(arg, algebra, attrs, member, made), member)
    result = algebra.apply(term, operands, attrs(term))
    return result if made is None else made.setdefault(term, result)


def arguments(
    term: App, algebra: Algebra[T], fold: Callable[[Term], T], member: int | None = None
) -> list[T]:
    """Return a term's operands.

    Args:
        term: The term.
        algebra: The meaning of variables, attributes and operators.
        fold: The function that interprets an operand.
        member: The number of a member; without it a starred variable stands for the tensors of all members.
    """
    operands: list[T] = []
    for arg in term.args:
        if isinstance(arg, Var) and arg.starred and member is None:
            operands += algebra.starred(arg.name)
        else:
            operands.append(fold(arg))
    return operands


# -- concrete numbers --------------------------------------------------------------------------------
def inverted(perm: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes another.

    >>> inverted((1, 2, 0))
    (2, 0, 1)
    """
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


class Permutations:
    """The part of an algebra that computes with permutations of numbers."""

    __slots__ = ()

    def compose(self, left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
        if len(left) != len(right):
            raise TypeMismatch("permutations of different ranks do not compose")
        return tuple(left[i] for i in right)

    def inverse(self, perm: Sequence[int]) -> tuple[int, ...]:
        return inverted(perm)

    def axis(self, perm: Sequence[int], axis: int) -> int:
        if not -len(perm) <= axis < 0:
            raise TypeMismatch(f"axis {axis} of a permutation of {len(perm)} axes")
        return int(perm[axis]) - len(perm)


class Numbers(Permutations, Values, ABC):
    """The algebra of concrete attributes; a subclass gives the types of tensors and the bound attributes.

    It raises TypeMismatch if permutations do not compose, and on a division by 0: such a rule does not apply.
    """

    __slots__ = ()

    @abstractmethod
    def kind(self, name: str) -> TensorType:
        """Return the type of a tensor variable."""

    def holds(self, condition: Compare) -> bool:
        """Return whether a condition holds; between tuples it must hold for each entry."""
        return all(related(condition.relation, a, b) for a, b in compared(condition, self))

    def literal(self, value: AttrValue, attr: Attr | None) -> AttrValue:
        return value

    def given(self, value: AttrValue, attr: Attr) -> AttrValue:
        return spread(value, attr)

    def dim(self, var: str, axis: int) -> int:
        shape = self.kind(var).shape
        return shape[axis] if -axis <= len(shape) else 1

    def rank(self, var: str) -> int:
        return self.kind(var).rank

    def dtype(self, var: str) -> str:
        return self.kind(var).dtype

    def arith(self, sign: str, left: float, right: float) -> float:
        if sign in ("//", "%") and right == 0:
            raise TypeMismatch(f"{left} {sign} 0")
        return ARITHMETIC[sign](left, right)


@dataclass(frozen=True, slots=True)
class Lookup(Numbers):
    """The algebra of two functions: one gives attribute variables, one the types of tensors."""

    attributes: Callable[[str], Any]
    types: Callable[[str], TensorType]

    def attribute(self, name: str) -> AttrValue:
        return self.attributes(name)

    def kind(self, name: str) -> TensorType:
        return self.types(name)

    def of_row(self, row: str, name: str) -> AttrValue | None:
        return None


def evaluate(expr: AttrExpr, attr: Callable[[str], Any], kind: Callable[[str], TensorType]) -> AttrValue:
    """Return the value of an expression: ``attr`` maps names to attributes, ``kind`` to tensor types.

    Arithmetic on a tuple applies to each entry. Raise TypeMismatch if permutations do not compose.
    """
    return value(expr, Lookup(attr, kind))


def holds(condition: Compare, attr: Callable[[str], Any], kind: Callable[[str], TensorType]) -> bool:
    """Return whether a condition holds; between tuples it must hold for each entry."""
    return Lookup(attr, kind).holds(condition)


# -- numbers in rules ------------------------------------------------------------------------------
# A number is a term: the constant operator that it stands for, as in mul(x, 0.5), or a term of numbers alone, as in
# div(x, sqrt(2)). On a left-hand side it matches any tensor all of whose elements are that number, if broadcasting
# the tensor does not change the other operand's type. On a right-hand side it makes a number of the element type
# that the operands next to it have.
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


def number_key(term: App) -> str:
    """Return the name under which a match keeps what it knows of a number of the left-hand side."""
    return f"={format_term(term)}"


def number_of(term: App, bindings: Mapping[str, Any]) -> float:
    """Return the number that a term of a left-hand side is; ``@a`` is bound to the value of the attribute ``a``."""
    operands = [Number(number_of(arg, bindings), True) for arg in term.args if isinstance(arg, App)]
    given = dict(term.attrs).get("value")
    attrs = {"value": bindings[f"@{given.name}"]} if isinstance(given, AttrVar) else {}
    return float(combined(term, attrs, operands).value)


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
