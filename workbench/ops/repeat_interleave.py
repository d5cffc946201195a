"""Entries of an axis repeated in place, as grouped attention repeats its keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from workbench.ops.exact import POLYNOMIAL
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, imports, known_ints, only_result
from workbench.ops.registry import register
from workbench.ops.spec import Attr, OpSpec, no_flops
from workbench.ops.traits import Trait
from workbench.ops.types import FLOAT_DTYPES, TensorType
from workbench.ops.typing import Attrs, N, T, Typing


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (x,) = xs
    axis, times = attrs["axis"], attrs["times"]
    t.require_axis(x, axis)
    t.require(times >= 1, "every entry is repeated at least once")
    return t.with_dim(x, axis, t.dim(x, axis) * times)


def _export(e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType) -> str:
    shape, after = types[0].shape, types[0].rank + attrs["axis"] + 1
    if attrs["times"] == 1:
        return e.node("Identity", xs)
    apart = e.reshape(xs[0], (*shape[:after], 1, *shape[after:]))
    wide = np.asarray((*shape[:after], attrs["times"], *shape[after:]), dtype=np.int64)
    return e.reshape(e.node("Expand", [apart, e.constant(wide)]), out.shape)


#: A tensor that is repeated as a whole is a concatenation of at most this many copies.
COPIES: Final = 4

_TRAITS: Final = Trait.SELECTS | Trait.MOVES | Trait.UNROUNDED | Trait.LINEAR

register(
    OpSpec(
        "repeat",
        1,
        1,
        _type,
        lambda xs, a: np.repeat(xs[0], a["times"], a["axis"]),
        (Attr("axis", "int"), Attr("times", "int")),
        no_flops,
        _TRAITS,
        exact=POLYNOMIAL,
        export=_export,
        torch=lambda torch, xs, a: torch.repeat_interleave(xs[0], a["times"], a["axis"]),
        doc="every entry of an axis several times in a row",
    )
)


def repeated(n: OnnxNode, value: int, shape: Sequence[int]) -> int | None:
    """Return a reshaped expansion as a repetition, or None if it is not one.

    Exporters insert a new axis after an axis, expand it or join copies along it, and join the two axes: that
    repeats every entry. As one operator it needs no tensor of one more axis. An image of floating-point
    numbers whose rows and columns are repeated is resized.

    Args:
        n: The node that reshapes.
        value: The operand of the reshape.
        shape: The shape of the result.
    """
    made, operands = n.made(value)
    if made not in ("expand", "concat") or len(set(operands)) != 1:
        return None
    wide, narrow = n.type_of(value).shape, n.type_of(operands[0]).shape
    narrow = (1,) * (len(wide) - len(narrow)) + narrow
    grown = [i for i, (a, b) in enumerate(zip(narrow, wide, strict=True)) if a != b]
    if len(grown) not in (1, 2) or grown[0] == 0 or any(narrow[at] != 1 for at in grown):
        return None
    before = tuple(extent for i, extent in enumerate(narrow) if i not in grown)
    last = grown[-1]
    image = len(before) == 4 and grown == [3, 5] and n.type_of(value).dtype in FLOAT_DTYPES
    if len(grown) == 2 and not image:
        return None
    source = operands[0]
    while n.type_of(source).shape != before and n.made(source)[0] == "reshape":
        source = n.made(source)[1][0]
    if n.type_of(source).shape != before:
        source = n.op("reshape", operands[0], shape=before)
    if len(grown) == 2:
        size = (before[2] * wide[3], before[3] * wide[5])
        found = n.op("resize", source, size=size, mode="nearest", coords="asymmetric", rounding="floor")
    else:
        found = n.op("repeat", source, axis=last - 1 - len(before), times=wide[last])
    return found if n.type_of(found).shape == tuple(shape) else n.op("reshape", found, shape=shape)


def as_cut(n: OnnxNode, value: int, axis: int, places: np.ndarray) -> int | None:
    """Return the entries at fixed places of an axis as a slice or a repetition, or None if they are neither.

    Args:
        n: The node that looks them up.
        value: The operand.
        axis: The axis, counted from the last.
        places: The places, at most one axis of them.
    """
    extent = n.type_of(value).shape[axis]
    found = places.astype(np.int64).reshape(-1) % extent
    if places.ndim != 1 or not found.size:
        return None
    start = int(found[0])
    step = int(found[1]) - start if found.size > 1 else 1
    if step > 0 and np.array_equal(found, start + step * np.arange(found.size)):
        return n.op("slice", value, axis=axis, start=start, stop=int(found[-1]) + 1, step=step)
    times = found.size // extent
    if found.size == times * extent and np.array_equal(found, np.repeat(np.arange(extent), times)):
        return n.op("repeat", value, axis=axis, times=times)
    return None


@imports("Tile")
def _import_tile(n: OnnxNode) -> int:
    times = known_ints(n, 1, "repeats", "repeats")
    shape = n.type(0).shape
    both = enumerate(zip(times or (), shape, strict=False))
    copied = [axis for axis, (count, extent) in both if count != 1 and extent != 1]
    if times is None or len(copied) > 1 or any(times[axis] > COPIES for axis in copied):
        raise NotModelled("a tensor repeated as a whole along an axis of several entries")
    value = n.operand(0)
    for axis in copied:
        value = n.op("concat", *[value] * times[axis], axis=axis - len(shape))
    wanted = only_result(n).shape
    return value if n.type_of(value).shape == wanted else n.op("expand", value, shape=wanted)
