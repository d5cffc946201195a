"""The builder of graphs for people, whose values have numpy's operators."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from workbench.graph.graph import Builder, GraphError
from workbench.ops import TensorType, TypeMismatch

#: One entry of ``x[…]``.
Index = int | slice | EllipsisType | None

#: Operators by numpy's names of the same functions.
_FUNCTIONS: Final = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow", "float_power": "pow",
    "matmul": "matmul", "maximum": "max", "minimum": "min", "negative": "neg", "absolute": "abs", "fabs": "abs",
    "exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "sin": "sin", "cos": "cos",
    "reciprocal": "reciprocal", "isnan": "is_nan",
}  # fmt: skip


class Value(NDArrayOperatorsMixin, int):  # type: ignore[misc]  # the operators are numpy's, not those of numbers
    """The position of a node in the builder that made it; numpy's operators and functions build further nodes.

    Numbers and arrays become weights of the value's element type. An expression without a meaning for a graph, such as
    ``x % y``, ``x < y`` or ``if x``, raises TypeError.

    >>> b = GraphBuilder()
    >>> x, w = b.input("x", (2, 8)), b.weight((8, 4))
    >>> np.tanh(x @ w)[..., :2]
    Value 4: slice, float32[2, 2]
    """

    #: The builder that made the value.
    builder: GraphBuilder

    @classmethod
    def of(cls, builder: GraphBuilder, position: int) -> Value:
        """Return the value of a builder's node."""
        value = cls(position)
        value.builder = builder
        return value

    __eq__, __ne__, __hash__ = int.__eq__, int.__ne__, int.__hash__
    __iter__ = None  # else Python would cut by 0, 1, … and leave the slices in the builder

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)

    def __bool__(self) -> bool:
        raise TypeError("a value of a graph is neither true nor false: its elements are not known yet")

    def __float__(self) -> float:
        raise TypeError("a value of a graph is not a number: its elements are not known yet")

    def __array_ufunc__(self, function: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        name = _FUNCTIONS.get(function.__name__)
        if name is None or method != "__call__" or options:
            raise TypeError(f"a value of a graph has no {function.__name__}: its elements are not known yet")
        return self.builder.op(name, *map(self._operand, given))

    def _operand(self, given: object) -> Value:
        """Return an operand as a value."""
        if isinstance(given, Value):
            return given
        if not isinstance(given, bool | int | float | np.generic | np.ndarray):
            raise TypeError(f"an operand must be a value, a number or an array, got {given!r}")
        data, dtype = np.asarray(given), self.type.numpy_dtype()
        if data.dtype.kind == "f" and dtype.kind in "iu":
            raise TypeMismatch(
                f"an operand of {self.type} must be whole, got {given!r} (try the operator cast)"
            )
        return self.builder.weight(data=data.astype(dtype))

    @property
    def type(self) -> TensorType:
        """Return the type of the value."""
        return self.builder.type(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents of the value."""
        return self.type.shape

    @property
    def T(self) -> Value:
        """Return the value with its axes in reverse order."""
        return self.builder.op("transpose", self, perm=tuple(reversed(range(self.type.rank))))

    def reshape(self, *shape: int | tuple[int, ...]) -> Value:
        """Return the elements in another shape; one extent may be -1."""
        extents = [*(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape)]
        if extents.count(-1) == 1:
            rest = -int(np.prod(extents))
            extents = [self.type.elements // rest if n == -1 and rest else n for n in extents]
        return self.builder.op("reshape", self, shape=tuple(extents))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Value:
        entries = index if isinstance(index, tuple) else (index,)
        rank = self.type.rank
        named = sum(entry is not None and entry is not Ellipsis for entry in entries)
        dots = sum(entry is Ellipsis for entry in entries)
        if dots > 1 or named > rank:
            raise TypeMismatch(f"at most {rank} axes and one ellipsis can be indexed, got {index!r}")
        every = (slice(None),) * (rank - named)
        at = [entry is Ellipsis for entry in entries].index(True) if dots else len(entries)
        result, shape, axis = self, list[int](), 0
        for entry in (*entries[:at], *every, *entries[at + 1 :]):
            if entry is None:
                shape.append(1)
                continue
            start, stop, step = self._range(axis, entry)
            count = len(range(start, stop, step))
            if count < self.shape[axis]:
                cut = {"axis": axis - rank, "start": start, "stop": stop, "step": step}
                result = self.builder.op("slice", result, **cut)
            shape += [count] if isinstance(entry, slice) else []
            axis += 1
        return result if tuple(shape) == result.shape else result.reshape(tuple(shape))

    def _range(self, axis: int, entry: object) -> tuple[int, int, int]:
        """Return start, stop and step of an index of an axis; raise TypeMismatch if it has none that can be cut."""
        extent = self.shape[axis]
        if type(entry) is int and -extent <= entry < extent:
            return entry % extent, entry % extent + 1, 1
        if isinstance(entry, slice):
            start, stop, step = entry.indices(extent)
            if step > 0 and start < stop:
                return start, stop, step
        raise TypeMismatch(
            f"axis {axis} of {extent} must be indexed by a number in it, by a slice that goes forward and holds an "
            f"element, or by None, got {entry!r} (try the operator gather)"
        )

    def __repr__(self) -> str:
        node = self.builder.nodes[int(self)]
        return f"Value {int(self)}: {node.op}, {node.type}"


class GraphBuilder(Builder):
    """A collection of nodes from which a :class:`~workbench.graph.Graph` is made.

    Its values are of class :class:`Value`. Equal applications share a node unless ``share=False``.

    >>> b = GraphBuilder()
    >>> x = b.input("x", (1, 8))
    >>> y = b.op("relu", x @ b.weight((8, 4)))
    >>> b.graph({"y": y}).operators()
    {'matmul': 1, 'relu': 1}
    """

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Value:
        """Declare a graph input."""
        return Value.of(self, super().input(name, shape, dtype))

    def weight(
        self,
        shape: Sequence[int] | None = None,
        data: np.ndarray | None = None,
        name: str | None = None,
        dtype: str = "float32",
    ) -> Value:
        """Declare a weight; the arguments and errors are those of :meth:`~workbench.graph.graph.Builder.weight`."""
        return Value.of(self, super().weight(shape, data, name, dtype))

    def op(self, op: str, *inputs: int, **attrs: Any) -> Value:
        """Apply a modelled operator; raise :class:`TypeMismatch` when the operands do not fit."""
        return Value.of(self, super().op(op, *self._places(inputs, f"{op}: operands"), **attrs))

    def split(self, x: int, axis: int, sizes: Sequence[int]) -> list[Value]:  # type: ignore[override]
        """Cut an axis into parts of the given sizes."""
        (place,) = self._places([x], "split: operands")
        return [Value.of(self, part) for part in super().split(place, axis, sizes)]

    def _places(self, values: Sequence[int], what: str) -> tuple[int, ...]:
        """Return the positions of values; raise GraphError for one that is not this builder's."""
        if any(isinstance(i, Value) and i.builder is not self for i in values):
            raise GraphError(f"{what} must be values of this builder, got one of another")
        try:
            return tuple(map(operator.index, values))
        except TypeError:
            raise GraphError(f"{what} must be values, got {list(values)}") from None
