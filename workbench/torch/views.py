"""One form for chains of reshapes, transposes and slices: the elements that they read of the first value.

Torch modules cut heads, turn them and join them again, and what is left is often a slice or nothing. A chain is an
array's view, as numpy and torch have them: an offset and a stride for each axis. Equal views are one value here, made
by slices, a reshape, a transpose and a reshape, each of them only if it does something.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from workbench.graph import Builder

#: The operators of a view.
VIEWS: Final = frozenset({"reshape", "transpose", "slice"})

#: Operators that act on the last axis alone if their second operand has this rank: the other axes are joined later.
ROWWISE: Final = {"matmul": 2, "add": 1}


@dataclass(frozen=True, slots=True)
class Axis:
    """Entries of an axis of a value, as the value is reshaped: ``count`` of ``extent`` from ``start``, and its unit.

    The unit is the number of elements between neighbours; ``place`` is the axis of the view, None if there is one
    entry alone.
    """

    extent: int
    unit: int
    start: int
    count: int
    place: int | None


class ViewBuilder(Builder):
    """A builder in which a chain of views has one form."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        #: The beginning of the chain of each view, and the view, of an array that is never filled.
        self._views: dict[int, tuple[int, np.ndarray]] = {}

    def op(self, op: str, *inputs: int, **attrs: Any) -> int:
        """Apply an operator; raise :class:`TypeMismatch` when the operands do not fit."""
        if op in ROWWISE and len(inputs) == 2 and self.type(inputs[1]).rank == ROWWISE[op]:
            inside = self._unjoined(inputs[0])
            if self.type(inside).shape[-1:] == self.type(inputs[0]).shape[-1:] and inside != inputs[0]:
                made = self.op(op, inside, inputs[1], **attrs)
                rows = self.type(inputs[0]).shape[:-1]
                return self.op("reshape", made, shape=(*rows, self.type(made).shape[-1]))
        plain = super().op(op, *inputs, **attrs)
        if op not in VIEWS or attrs.get("step", 1) != 1:
            return plain
        (x,) = inputs
        base, before = self._views.get(x) or (x, np.empty(self.type(x).shape, np.int8))
        after = _viewed(op, before, attrs)
        if after is None:  # a reshape that reads its operand in another order: a chain begins there
            base, after = self._unjoined(x), np.empty(attrs["shape"], np.int8)
        axes = axes_of(after)
        if axes is None:
            return plain
        made = self._made(base, axes, after.shape)
        if made != base:
            self._views[made] = base, after
        return made

    def _unjoined(self, value: int) -> int:
        """Return the value that a reshape at the end of a chain reads."""
        node = self.nodes[value]
        return node.inputs[0] if node.op == "reshape" else value

    def _made(self, value: int, axes: Sequence[Axis], shape: tuple[int, ...]) -> int:
        for a in axes:
            if a.count != a.extent:
                value = self._cut(value, a)
        inner = [a for a in axes if a.place is not None]
        joined = _joined(inner)
        order = tuple(sorted(range(len(joined)), key=lambda i: joined[i][0].place or 0))
        if len(order) > 1:  # then neighbours change places
            extents = tuple(math.prod(a.count for a in part) for part in joined)
            value = self._plain("transpose", self._plain("reshape", value, shape=extents), perm=order)
        return self._plain("reshape", value, shape=shape)

    def _cut(self, value: int, a: Axis) -> int:
        """Take the entries of an axis, of the axis of the value that contains it if all inside of it is taken."""
        shape, unit = list(self.type(value).shape), math.prod(self.type(value).shape)
        for axis, extent in enumerate(shape):
            unit //= extent
            inside = a.unit // unit if unit <= a.unit else 0
            if inside and extent == inside * a.extent:
                places = {"start": a.start * inside, "stop": (a.start + a.count) * inside, "step": 1}
                return self._plain("slice", value, axis=axis - len(shape), **places)
        outer = math.prod(shape) // (a.unit * a.extent)
        return self._cut(self._plain("reshape", value, shape=(outer, a.extent, a.unit)), a)

    def _plain(self, op: str, value: int, **attrs: Any) -> int:
        return value if attrs.get("shape") == self.type(value).shape else super().op(op, value, **attrs)


def _viewed(op: str, x: np.ndarray, attrs: dict[str, Any]) -> np.ndarray | None:
    """Return a view of a view, or None if no offset and strides give it."""
    if op == "transpose":
        return x.transpose(attrs["perm"])
    if op == "slice":
        entries = [slice(None)] * x.ndim
        entries[attrs["axis"]] = slice(attrs["start"], attrs["stop"], attrs.get("step", 1))
        return x[tuple(entries)]
    try:
        return x.reshape(attrs["shape"], copy=False)
    except ValueError:
        return None


def axes_of(view: np.ndarray) -> list[Axis] | None:
    """Return the axes, from the outermost, by which a view of bytes reads its whole array, or None if none do.

    >>> [(a.extent, a.start, a.count, a.place) for a in axes_of(np.empty((4, 6), np.int8).T[1:4])]
    [(4, 0, 4, 1), (6, 1, 3, 0)]
    """
    whole = view if view.base is None else view.base
    offset = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    places = [i for i, n in enumerate(view.shape) if n > 1]
    places.sort(key=lambda i: view.strides[i])
    axes: list[Axis] = []
    unit, inner = 1, None  # the axis whose extent the next stride tells
    for place in [*places, None]:
        stride = whole.size if place is None else view.strides[place]
        count = 1 if inner is None else view.shape[inner]
        if stride <= 0 or stride % unit or (extent := stride // unit) < count:
            return None
        start = offset // unit % extent
        if start + count > extent:
            return None
        if inner is not None and not extent % count and not start % count:  # one of several equal parts
            axes.append(Axis(count, unit, 0, count, inner))
            extent, unit, start, count, inner = extent // count, unit * count, start // count, 1, None
        if extent > 1:
            axes.append(Axis(extent, unit, start, count, inner))
        unit, inner = stride, place
    return axes[::-1]


def _joined(axes: Sequence[Axis]) -> list[list[Axis]]:
    """Return the axes in groups of neighbours that stay neighbours, in the same order."""
    rank = {place: i for i, place in enumerate(sorted(a.place or 0 for a in axes))}
    groups: list[list[Axis]] = []
    for a in axes:
        if groups and rank[a.place or 0] == rank[groups[-1][-1].place or 0] + 1:
            groups[-1].append(a)
        else:
            groups.append([a])
    return groups
