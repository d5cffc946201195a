"""The writer of sizes that depend on symbolic dimensions: they are computed at run time, by nodes of the model."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from workbench.frontends.model import Source
from workbench.ops.types import TensorType
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.integers import Atom, Cond, Int, Mono

#: The end of a slice that reaches the end of its axis.
TO_THE_END: Final = (1 << 63) - 1
#: Shapes and other vectors of sizes have at most this many entries.
_LONGEST: Final = 64


class Destination(Protocol):
    """A destination for nodes and constants; values are names."""

    def node(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Write a node with one output and return its name."""

    def plain(self, array: np.ndarray) -> str:
        """Return the name of an initializer with the data ``array``, unchanged."""


class ShapeWriter:
    """A writer of expressions as nodes; each size, product and vector is written once.

    ``sources`` maps every symbol to an input and axis that give it.
    """

    def __init__(self, writer: Destination, generic: Generic, sources: Mapping[str, Source]) -> None:
        self.generic = generic
        self._writer = writer
        self._sources = sources
        self._written: dict[Any, str] = {}

    def depends(self, array: np.ndarray) -> bool:
        """Return whether an array is a vector of sizes of which at least one depends on a symbol."""
        if array.dtype != np.int64 or array.ndim != 1 or array.size > _LONGEST:
            return False
        return any(self.generic.depends(n) for n in array.tolist())

    def check(self, op_type: str, attrs: Mapping[str, Any]) -> None:
        """Raise :class:`Undecodable` if an attribute depends on a symbol: attributes cannot be computed."""
        for name, value in attrs.items():
            numbers = value if isinstance(value, (tuple, list)) else (value,)
            if any(isinstance(n, int) and self.generic.depends(n) for n in numbers):
                raise Undecodable(f"{name}={value} of {op_type} depends on a symbolic dimension")

    def slice_attrs(self, op: str, attrs: Mapping[str, Any], types: Sequence[TensorType]) -> dict[str, Any]:
        """Return an operator's attributes; the stop of a slice to the end of a symbolic axis is left open."""
        found = dict(attrs)
        whole = op == "slice" and attrs["stop"] == types[0].shape[attrs["axis"]]
        if whole and self.generic.depends(attrs["stop"]):
            found["stop"] = TO_THE_END
        return found

    def vector(self, numbers: Sequence[int]) -> str:
        """Return the name of an int64 vector with these numbers, computed if they depend on symbols."""
        return self.integers([self.generic.expression(int(n)) for n in numbers])

    def integers(self, values: Sequence[Int]) -> str:
        """Return the name of an int64 vector with these integers."""
        return self._once(("vector", *values), lambda: self._vector(values))

    def shape(self, before: TensorType | None, after: Sequence[int]) -> str:
        """Return the name of a shape for reshaping a tensor of type ``before``.

        An extent that stays is written as 0, one that follows from the others as -1; others are computed.
        """
        wanted = [int(n) for n in after]
        kept = before.shape if before is not None else ()
        open_ = [i for i, n in enumerate(wanted) if self.generic.depends(n)]
        moved = open_ if len(open_) == 1 else [i for i in open_ if i >= len(kept) or kept[i] != wanted[i]]
        if len(moved) > 1:
            return self.vector(wanted)
        for i in open_:
            wanted[i] = -1 if i in moved else 0
        return self._writer.plain(np.asarray(wanted, dtype=np.int64))

    def _once(self, key: Any, write: Callable[[], str]) -> str:
        if key not in self._written:
            self._written[key] = write()
        return self._written[key]

    def _number(self, value: int) -> str:
        return self._writer.plain(np.asarray([value], dtype=np.int64))

    def _vector(self, values: Sequence[Int]) -> str:
        pieces: list[str] = []
        for fixed, run in itertools.groupby(values, key=lambda x: x.value is not None):
            if fixed:
                pieces.append(self._writer.plain(np.asarray([x.value for x in run], dtype=np.int64)))
            else:
                pieces += map(self._expression, run)
        return pieces[0] if len(pieces) == 1 else self._writer.node("Concat", pieces, axis=0)

    def _expression(self, x: Int) -> str:
        return self._once(x, lambda: self._sum(x))

    def _sum(self, x: Int) -> str:
        total = ""
        for m, number in sorted(x.terms, key=lambda t: t[1] < 0):
            term = self._product(m) if m else self._number(abs(number))
            if m and abs(number) != 1:
                term = self._writer.node("Mul", [term, self._number(abs(number))])
            if not total:
                total = term if number > 0 else self._writer.node("Neg", [term])
            else:
                total = self._writer.node("Add" if number > 0 else "Sub", [total, term])
        return total or self._number(0)

    def _product(self, factors: Mono) -> str:
        if len(factors) == 1:
            return self._once(("product", factors), lambda: self._atom(factors[0]))
        return self._once(
            ("product", factors),
            lambda: self._writer.node("Mul", [self._product(factors[:-1]), self._product(factors[-1:])]),
        )

    def _atom(self, a: Atom) -> str:
        node = self._writer.node
        if a.head == "sym":
            source = self._sources[a.args[0]]
            shape = self._once(("shape", source.name), lambda: node("Shape", [source.name]))
            size = node("Gather", [shape, self._number(source.axis)], axis=0)
            if source.addend:
                size = node("Sub", [size, self._number(source.addend)])
            return size if source.factor == 1 else node("Div", [size, self._number(source.factor)])
        if a.head == "ite":
            yes, no = self._expression(a.args[1]), self._expression(a.args[2])
            return node("Where", [self._condition(a.args[0]), yes, no])
        given = [self._expression(x) for x in a.args]
        if a.head == "div":
            top, by = given
            if not self.generic.facts.nonnegative(a.args[0]):  # ONNX rounds towards zero
                top = node("Sub", [top, node("Mod", [top, by])])
            return node("Div", [top, by])
        if a.head != "max":
            raise Undecodable(f"{a.text} cannot be computed")
        found = given[0]
        for other in given[1:]:  # Max of integers needs operator set 12
            found = node("Where", [node("Less", [found, other]), other, found])
        return found

    def _condition(self, c: Cond) -> str:
        node = self._writer.node
        if c.head in ("ge", "eq"):
            value, zero = self._expression(c.args[0]), self._number(0)
            if c.head == "eq":
                return node("Equal", [value, zero])
            return node("Not", [node("Less", [value, zero])])
        parts = [self._condition(d) for d in c.args]
        if c.head == "not":
            return node("Not", parts)
        return functools.reduce(lambda x, y: node("And" if c.head == "and" else "Or", [x, y]), parts)
