"""The writer of sizes that depend on symbolic dimensions: they are computed at run time, by nodes of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from workbench.ops.types import TensorType
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.integers import Int, as_quotient

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

    ``sources`` maps every symbol to an input and axis that have its size.
    """

    def __init__(self, writer: Destination, generic: Generic, sources: Mapping[str, tuple[str, int]]) -> None:
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
        numbers = tuple(int(n) for n in numbers)
        return self._once(("vector", numbers), lambda: self._vector(numbers))

    def shape(self, before: TensorType | None, after: Sequence[int]) -> str:
        """Return the name of a shape for reshaping a tensor of type ``before``.

        An extent that stays is written as 0, one that follows from the others as -1; others are computed.
        """
        wanted = [int(n) for n in after]
        kept = before.shape if before is not None else ()
        open_ = [i for i, n in enumerate(wanted) if self.generic.depends(n)]
        if len(open_) == 1:
            wanted[open_[0]] = -1
            return self._writer.plain(np.asarray(wanted, dtype=np.int64))
        moved = [i for i in open_ if i >= len(kept) or kept[i] != wanted[i]]
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

    def _vector(self, numbers: tuple[int, ...]) -> str:
        pieces: list[str] = []
        run: list[int] = []
        for n in numbers:
            found = self.generic.expression(n)
            if found.value is not None:
                run.append(n)
                continue
            if run:
                pieces.append(self._writer.plain(np.asarray(run, dtype=np.int64)))
                run = []
            pieces.append(self._expression(found))
        if run:
            pieces.append(self._writer.plain(np.asarray(run, dtype=np.int64)))
        return pieces[0] if len(pieces) == 1 else self._writer.node("Concat", pieces, axis=0)

    def _expression(self, size: Int) -> str:
        return self._once(size, lambda: self._sum(size))

    def _sum(self, size: Int) -> str:
        terms, divisor = as_quotient(size)
        total = ""
        for factors, number in terms:
            term = self._product(factors) if factors else self._number(abs(number))
            if factors and abs(number) != 1:
                term = self._writer.node("Mul", [term, self._number(abs(number))])
            if not total:
                total = term if number > 0 else self._writer.node("Neg", [term])
            else:
                total = self._writer.node("Add" if number > 0 else "Sub", [total, term])
        return total if divisor == 1 else self._writer.node("Div", [total, self._number(divisor)])

    def _product(self, factors: tuple[str, ...]) -> str:
        def write() -> str:
            if len(factors) > 1:
                return self._writer.node("Mul", [self._product(factors[:-1]), self._product(factors[-1:])])
            source, axis = self._sources[factors[0]]
            shape = self._once(("shape", source), lambda: self._writer.node("Shape", [source]))
            return self._writer.node("Gather", [shape, self._number(axis)], axis=0)

        return self._once(("product", factors), write)
