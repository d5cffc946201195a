"""Parts of a result: along which axes a part of each operand suffices for them.

A part of a tensor is known by the axes along which not everything is read, counted from the last one. A rule
states what a part of the result needs of an operand: the fewer axes it returns, the more is needed, and none
means the whole. An operator without a rule may need any part of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs

#: The axes along which a tensor is read in part only.
Axes: TypeAlias = frozenset[int]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a node: its position among the operands' types, the result's type and the attributes."""

    position: int
    inputs: Sequence[TensorType]
    out: TensorType
    attrs: Attrs

    @property
    def type(self) -> TensorType:
        """Return the operand's type."""
        return self.inputs[self.position]


#: ``(the result's axes, the operand) -> the operand's axes``.
PartRule: TypeAlias = Callable[[Axes, Operand], Axes]


def elementwise(axes: Axes, operand: Operand) -> Axes:
    """Return the axes along which an operand is not repeated: an element needs the one at its place."""
    kind = operand.type
    return frozenset(a for a in axes if -a <= kind.rank and kind.shape[a] == operand.out.shape[a])


def product(axes: Axes, operand: Operand) -> Axes:
    """Return the axes of a factor: a row of a matrix product needs one row on the left, all on the right."""
    inner = -1 if operand.position == 0 else -2
    return elementwise(axes, operand) - {inner} | (axes & {-3 - inner})


def along_axis(axes: Axes, operand: Operand) -> Axes:
    """Return the axes but the one that an element needs whole."""
    return axes - {operand.attrs["axis"]}


def from_axis(axes: Axes, operand: Operand) -> Axes:
    """Return the axes before the first that an element needs whole; of scales it needs its own."""
    found = elementwise(axes, operand)
    return found if operand.position else frozenset(a for a in found if a < operand.attrs["axis"])


def cut(axes: Axes, operand: Operand) -> Axes:
    """Return the axes of a tensor of which a part is taken along one axis."""
    axis = operand.attrs["axis"]
    return axes | {axis} if operand.type.shape[axis] > operand.out.shape[axis] else axes


def permuted(axes: Axes, operand: Operand) -> Axes:
    """Return the axes that a permutation brings to those of the result."""
    return frozenset(operand.attrs["perm"][a] - operand.out.rank for a in axes)


def reshaped(axes: Axes, operand: Operand) -> Axes:
    """Return the axes from which those of the result are joined or cut."""
    kind, out = operand.type, operand.out
    found: set[int] = set()
    for before, after in _groups(kind.shape, out.shape):
        if axes.intersection(a - out.rank for a in after):
            found.update(a - kind.rank for a in before if kind.shape[a] > 1)
    return frozenset(found)


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the smallest groups of neighbouring axes that have the same elements in two shapes."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        left, right = [i][: len(before) - i], [j][: len(after) - j]
        sizes = [before[i] if left else 1, after[j] if right else 1]
        i, j = i + len(left), j + len(right)
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                left.append(i)
                sizes[0] *= before[i]
                i += 1
            else:
                right.append(j)
                sizes[1] *= after[j]
                j += 1
        groups.append((left, right))
    return groups
