"""An application of an operator in a proof, and the table of definitions that families of operators fill.

A definition is the element of an operator's result at an index, as a comprehension over its operands. It reads
operands at integer expressions of the index, and no more: sums, largest elements, guards for borders and pointwise
functions make the rest. Types come from the operators' own type rules. ``tests/laws/theorems/test_definitions.py``
compares every definition with the operator's reference semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workbench.laws.theorems.axes import Key, among
from workbench.laws.theorems.symbolic_typing import Kind, Reading, whole
from workbench.laws.theorems.terms import Value, apply, factor, guarded, number, one
from workbench.ops.activations import operator_of
from workbench.symbolic.integers import Int, broadcast

Index = Callable[[Key], Int]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a proof: its type, and its element at an index."""

    kind: Kind
    at: Callable[[Index], Value]

    def dim(self, key: Key) -> Int:
        """Return an extent."""
        return self.kind.dim(key)

    def spread(self, i: Index, whole_kind: Kind) -> Value:
        """Return the element that broadcasting to a type puts at an index."""
        return self.at(lambda key: placed(self.kind.dim(key), i(key), whole_kind.dim(key)))


@dataclass(frozen=True, slots=True)
class Call:
    """An application of an operator: its operands, its attributes, the type of its result and the reading."""

    xs: Sequence[Tensor]
    attrs: Mapping[str, Any]
    kind: Kind
    types: Reading

    def numbers(self, name: str) -> list[Int]:
        """Return an attribute of several integers."""
        return [whole(v) for v in self.attrs[name]]

    def int(self, name: str) -> Int:
        """Return an attribute of one integer."""
        return whole(self.attrs[name])

    def real(self, name: str) -> Value:
        """Return an attribute that is a real number."""
        return real(self.attrs[name])


def placed(extent: Int, place: Int, whole_extent: Int) -> Int:
    """Return the place that an index of a result reads along an axis, its own if the extents agree."""
    return place if extent == whole_extent else broadcast(extent, place)


Definition = Callable[[Call, Index], Value]
DEFINITIONS: Final[dict[str, Definition]] = {}


def defines(*names: str) -> Callable[[Definition], Definition]:
    """Return a decorator that makes a function the definition of operators."""

    def entered(f: Definition) -> Definition:
        for name in names:
            DEFINITIONS[name] = f
        return f

    return entered


def put(i: Index, places: Mapping[Any, Int]) -> Index:
    """Return an index with other places along some axes."""
    return lambda key: among(key, places, i)


def real(value: object) -> Value:
    """Return a real number: one that is written, or one that a rule binds."""
    if isinstance(value, int | float):
        return number(value)
    return one(factor("param", str(value)))


def activated(c: Call, value: Value, i: Index) -> Value:
    """Return a value after a call's activation: an operator, or a function of which nothing is known."""
    act = c.attrs["act"]
    if act == "none":
        return value
    if act[0] == "?":
        return apply(act, value)
    spec, attrs = operator_of(act)
    return DEFINITIONS[spec.name](Call([Tensor(c.kind, lambda _: value)], attrs, c.kind, c.types), i)


def largest(*values: Value) -> Value:
    """Return the largest of values."""
    return apply("max", *values)


def inverse(value: Value) -> Value:
    """Return one divided by a value."""
    return apply("reciprocal", value)


def bordered(guards: Sequence[Any], value: Value) -> Value:
    """Return a value where all guards hold, and 0 elsewhere."""
    for g in guards:
        value = guarded(g, value)
    return value


#: The beginning of the name of a function of integers: the element of a tensor whose name follows.
ELEMENT: Final = "element of "
#: The ratio of a circle's circumference to its diameter; no number that a rule binds has a space in its name.
PI: Final = one(factor("param", "the number pi"))
