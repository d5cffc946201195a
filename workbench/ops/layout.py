"""Operators that move, select, repeat or reinterpret data without arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from workbench.ops import onnx_form
from workbench.ops.convolution import export_pad, export_slice, padded, padded_torch, padded_type
from workbench.ops.exact import Arithmetic, ExactForm
from workbench.ops.locality import cut, elementwise, permuted, reshaped
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, imports, only_result
from workbench.ops.registry import register
from workbench.ops.spec import MANY, Attr, Names, OnnxExport, OpSpec, Types, moving, no_flops
from workbench.ops.traits import Trait
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES, FLOAT_DTYPES, TensorType
from workbench.ops.typing import Attrs, N, T, Typing


def _concat_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    axis = attrs["axis"]
    first = xs[0]
    t.require_axis(first, axis)
    total = t.dim(first, axis)
    for x in xs[1:]:
        t.require(t.rank(first) == t.rank(x), "the operands must have the same rank")
        t.require_same(t.with_dim(first, axis, 1), t.with_dim(x, axis, 1), "extents differ off the axis")
        total = total + t.dim(x, axis)
    return t.with_dim(first, axis, total)


def _slice_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (x,) = xs
    axis, start, stop, step = attrs["axis"], attrs["start"], attrs["stop"], attrs["step"]
    t.require_axis(x, axis)
    t.require(start >= 0, "a slice must start at 0 or later")
    t.require(stop > start, "a slice must not be empty")
    t.require(stop <= t.dim(x, axis), "a slice must end inside its axis")
    t.require(step >= 1, "the step of a slice must be positive")
    return t.with_dim(x, axis, (stop - start + step - 1) // step)


def _slice(x: Any, attrs: Attrs) -> Any:
    """Return a part of an array or a tensor."""
    index: list[slice] = [slice(None)] * x.ndim
    index[attrs["axis"]] = slice(attrs["start"], attrs["stop"], attrs["step"])
    return x[tuple(index)]


def _reshape_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    out = t.with_shape(xs[0], attrs["shape"])
    t.require(t.elements(xs[0]) == t.elements(out), f"{xs[0]} does not reshape to {out}")
    return out


def _pad_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    t.require_float(xs[0])
    t.require(t.rank(xs[0]) >= 2, "the operand must have two axes or more")
    return padded_type(t, xs[0], attrs["pads"])


def _expand_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    out = t.with_shape(xs[0], attrs["shape"])
    t.require_same(t.broadcast(out, xs[0]), out, "the operand does not broadcast to the shape")
    return out


def _gather_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    x, places = xs
    t.require_index(places)
    return t.picked(x, attrs["axis"], places)


def _gather(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x, places = xs
    # In exact arithmetic the numbers of places are elements like others, so not integers of the machine.
    places = places if places.dtype.kind in "iu" else places.astype(np.int64)
    return np.take(x, places, axis=attrs["axis"])


def _export_along(op_type: str) -> OnnxExport:
    def export(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
        return e.node(op_type, xs, axis=types[0].rank + attrs["axis"])

    return export


_SELECTS = Trait.SELECTS | Trait.MOVES | Trait.UNROUNDED

register(
    moving(
        "concat",
        (1, MANY),
        _concat_type,
        lambda xs, a: np.concatenate(xs, axis=a["axis"]),
        (Attr("axis", "int"),),
        traits=_SELECTS | Trait.LINEAR,
        export=_export_along("Concat"),
        torch=lambda torch, xs, a: torch.cat(tuple(xs), a["axis"]),
        doc="operands joined along an axis",
    ),
    moving(
        "slice",
        1,
        _slice_type,
        lambda xs, a: _slice(xs[0], a),
        (Attr("axis", "int"), Attr("start", "int"), Attr("stop", "int"), Attr("step", "int", 1)),
        traits=_SELECTS | Trait.LINEAR | Trait.VIEW | Trait.CUTS,
        export=lambda e, xs, a, types, out: export_slice(
            e, xs[0], (out.rank + a["axis"], a["start"], a["stop"], a["step"])
        ),
        torch=lambda torch, xs, a: _slice(xs[0], a),
        parts=cut,
        doc="start..stop of an axis, every step-th; a split is a set of slices",
    ),
    moving(
        "reshape",
        1,
        _reshape_type,
        lambda xs, a: np.reshape(xs[0], a["shape"]),
        (Attr("shape", "shape"),),
        traits=_SELECTS | Trait.LINEAR | Trait.VIEW | Trait.ALIAS | Trait.REARRANGES,
        export=lambda e, xs, a, types, out: e.reshape(xs[0], out.shape),
        torch=lambda torch, xs, a: xs[0].reshape(a["shape"]),
        parts=reshaped,
        doc="the same elements in another shape (also squeeze, unsqueeze, flatten)",
    ),
    moving(
        "transpose",
        1,
        lambda t, xs, a: t.permute(xs[0], a["perm"]),
        lambda xs, a: np.transpose(xs[0], a["perm"]),
        (Attr("perm", "perm"),),
        traits=_SELECTS | Trait.LINEAR | Trait.VIEW | Trait.REARRANGES,
        # If there is nothing to permute, ONNX has no empty list of axes.
        export=lambda e, xs, a, ins, out: xs[0] if out.rank < 2 else e.node("Transpose", xs, perm=a["perm"]),
        torch=lambda torch, xs, a: xs[0].permute(a["perm"]),
        parts=permuted,
        doc="axes permuted: result axis i is operand axis perm[i]",
    ),
    OpSpec(
        "pad",
        1,
        _pad_type,
        lambda xs, a: padded(xs[0], a["pads"], a["value"]),
        (Attr("pads", "ints", (0, 0, 0, 0), 4), Attr("value", "float", 0.0)),
        no_flops,
        Trait.MOVES | Trait.UNROUNDED,
        exact=ExactForm(
            lambda a: Arithmetic.POLYNOMIAL if a["value"] == int(a["value"]) else Arithmetic.RATIONAL,
            lambda numbers, xs, a: padded(xs[0], a["pads"], numbers.number(a["value"])),
            bound=lambda bounds, shapes, a: max(bounds[0], int(abs(a["value"]))),
        ),
        export=lambda e, xs, a, types, out: export_pad(e, xs[0], a["pads"], out, a["value"]),
        torch=lambda torch, xs, a: padded_torch(torch, xs[0], a["pads"], a["value"]),
        doc="a constant border around the last two axes (top, left, bottom, right)",
    ),
    moving(
        "expand",
        1,
        _expand_type,
        lambda xs, a: np.broadcast_to(xs[0], a["shape"]),
        (Attr("shape", "shape"),),
        traits=_SELECTS | Trait.LINEAR | Trait.VIEW,
        export=lambda e, xs, a, types, out: e.node("Expand", [*xs, onnx_form.export_ints(e, out.shape)]),
        torch=lambda torch, xs, a: xs[0].expand(a["shape"]),
        doc="the operand repeated to a shape to which it broadcasts",
    ),
    moving(
        "gather",
        2,
        _gather_type,
        _gather,
        (Attr("axis", "int"),),
        traits=_SELECTS,
        export=_export_along("Gather"),
        # Like numpy, indexing counts negative indices from the end; index_select rejects them.
        torch=lambda torch, xs, a: xs[0][(*(slice(None),) * (xs[0].dim() + a["axis"]), xs[1])],
        places=1,
        doc="entries of an axis picked by an index tensor",
    ),
    OpSpec(
        "cast",
        1,
        lambda t, xs, a: t.with_dtype(xs[0], a["to"]),
        lambda xs, a: xs[0].astype(TensorType(a["to"], ()).numpy_dtype()),
        (Attr("to", "dtype"),),
        traits=Trait.CONVERTS,
        export=lambda e, xs, a, types, out: e.node("Cast", xs, to=DTYPE_CODES[a["to"]]),
        torch=lambda torch, xs, a: xs[0].to(TensorType(a["to"], ()).torch_dtype(torch)),
        parts=elementwise,
        doc="elements converted to another dtype",
    ),
    moving(
        "identity",
        1,
        lambda t, xs, a: xs[0],
        lambda xs, a: xs[0],
        traits=_SELECTS | Trait.FREE | Trait.VIEW | Trait.ALIAS | Trait.REARRANGES,
        export=lambda e, xs, a, types, out: xs[0],
        torch=lambda torch, xs, a: xs[0],
        parts=elementwise,
        doc="the operand itself (also dropout at inference)",
    ),
)


@imports("Identity", "Dropout")
def _import_identity(n: OnnxNode) -> int:
    if n.op_type == "Dropout":
        only_result(n)
        if n.opset >= 12 and onnx_form.known_number(n, 2, "a flag"):
            raise NotModelled("dropout in training mode")
    return n.op("identity", n.operand(0))


@imports("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _import_reshape(n: OnnxNode) -> int:
    shape = only_result(n).shape
    found = repeated(n, n.operand(0), shape)
    return n.op("reshape", n.operand(0), shape=shape) if found is None else found


imports("Expand")(lambda n: n.op("expand", n.operand(0), shape=only_result(n).shape))


imports("Transpose")(
    lambda n: n.op("transpose", n.operand(0), perm=n.attr("perm", tuple(range(n.type(0).rank))[::-1]))
)


@imports("Concat")
def _import_concat(n: OnnxNode) -> int:
    # Operator sets before 4 had a default axis; since then the checker requires the attribute.
    return n.op("concat", *n.operands(), axis=onnx_form.from_end(n.attr("axis", 1), n.type(0).rank))


@imports("Gather")
def _import_gather(n: OnnxNode) -> int:
    axis = onnx_form.from_end(n.attr("axis", 0), n.type(0).rank)
    indices, extent = n.known(1), n.type(0).shape[axis]
    if indices is not None and indices.size and not -extent <= indices.min() <= indices.max() < extent:
        raise NotModelled(f"indices outside an axis of extent {extent}")
    if indices is not None and not indices.shape:
        # One entry of an axis is a slice whose axis is dropped.
        start = int(indices) % extent
        row = n.op("slice", n.operand(0), axis=axis, start=start, stop=start + 1)
        return n.op("reshape", row, shape=only_result(n).shape)
    cut = None if indices is None else _as_cut(n, n.operand(0), axis, indices)
    return n.op("gather", n.operand(0), n.operand(1), axis=axis) if cut is None else cut


@imports("Split")
def _import_split(n: OnnxNode) -> list[int]:
    rank = n.type(0).rank
    axis = onnx_form.from_end(n.attr("axis", 0), rank)
    parts, start = [], 0
    for kind in n.results:
        if kind is None or kind.rank != rank:
            raise NotModelled("a part of the split has no name or another rank")
        stop = start + kind.shape[axis]
        parts.append(n.op("slice", n.operand(0), axis=axis, start=start, stop=stop))
        start = stop
    return parts


@imports("Slice")
def _import_slice(n: OnnxNode) -> int:
    kind = n.type(0)
    names = ("starts", "ends", "axes", "steps")
    starts, ends, axes, steps = (onnx_form.known_ints(n, i, name) for i, name in enumerate(names, 1))
    if starts is None or ends is None:
        raise NotModelled("a slice without starts or ends")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    value = n.operand(0)
    for start, end, any_axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = onnx_form.from_end(any_axis, kind.rank)
        if step < 0:
            raise NotModelled("a slice that steps backwards")
        # numpy and ONNX clamp positions outside the axis in the same way.
        first, last, _ = slice(start, end, step).indices(kind.shape[axis])
        if (first, last, step) != (0, kind.shape[axis], 1):
            value = n.op("slice", value, axis=axis, start=first, stop=last, step=step)
    return value


@imports("Pad")
def _import_pad(n: OnnxNode) -> int:
    mode = n.attr("mode", "constant")
    if mode != "constant":
        raise NotModelled(f"padding with mode={mode}")
    rank = n.type(0).rank
    pads, axes = onnx_form.known_ints(n, 1, "pads"), onnx_form.known_ints(n, 3, "axes")
    if pads is None:
        raise NotModelled("padding without amounts")
    value = onnx_form.known_number(n, 2, "the padding value")
    value = n.attr("value", 0.0) if value is None else value
    begins, ends = [0] * rank, [0] * rank
    for i, axis in enumerate(range(rank) if axes is None else axes):
        begins[axis], ends[axis] = pads[i], pads[i + len(pads) // 2]
    if any(begins[:-2]) or any(ends[:-2]):
        raise NotModelled("padding of other axes than the last two")
    if not any(begins) and not any(ends):
        return n.op("identity", n.operand(0))
    return n.op("pad", n.operand(0), pads=(*begins[-2:], *ends[-2:]), value=value)


#: Element types between which numpy converts in the same way as ONNX.
_CASTABLE = frozenset(
    {"float16", "float32", "float64", "bfloat16", "bool", "int8", "int16", "int32", "int64"}
    | {"uint8", "uint16", "uint32", "uint64"}
)


@imports("Cast", "CastLike")
def _import_cast(n: OnnxNode) -> int:
    to = DTYPE_NAMES.get(n.attr("to"), "") if n.op_type == "Cast" else n.type(1).dtype
    if not {to, n.type(0).dtype} <= _CASTABLE:
        raise NotModelled(f"a conversion from {n.type(0).dtype} to {to}")
    return n.op("cast", n.operand(0), to=to)


@imports("ConstantOfShape")
def _import_constant_of_shape(n: OnnxNode) -> int:
    # A single element, repeated without being stored: a generated weight takes no memory.
    value = n.attr("value")
    element = np.float32(0) if value is None else value.reshape(-1)[0]
    return n.constant(np.broadcast_to(element, only_result(n).shape))


# -- entries repeated in place, as grouped attention repeats its keys and values -------------------------
def _repeat_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    (x,) = xs
    axis, times = attrs["axis"], attrs["times"]
    t.require_axis(x, axis)
    t.require(times >= 1, "every entry is repeated at least once")
    return t.with_dim(x, axis, t.dim(x, axis) * times)


def _export_repeat(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    shape, after = types[0].shape, types[0].rank + attrs["axis"] + 1
    if attrs["times"] == 1:
        return e.node("Identity", xs)
    apart = e.reshape(xs[0], (*shape[:after], 1, *shape[after:]))
    wide = onnx_form.export_ints(e, (*shape[:after], attrs["times"], *shape[after:]))
    return e.reshape(e.node("Expand", [apart, wide]), out.shape)


#: A tensor that is repeated as a whole is a concatenation of at most this many copies.
COPIES: Final = 4


register(
    moving(
        "repeat",
        1,
        _repeat_type,
        lambda xs, a: np.repeat(xs[0], a["times"], a["axis"]),
        (Attr("axis", "int"), Attr("times", "int")),
        traits=_SELECTS | Trait.LINEAR,
        export=_export_repeat,
        torch=lambda torch, xs, a: torch.repeat_interleave(xs[0], a["times"], a["axis"]),
        doc="every entry of an axis several times in a row",
    )
)


def repeated(n: OnnxNode, value: int, shape: Sequence[int]) -> int | None:
    """Return a reshaped expansion as a repetition, or None if it is not one.

    Exporters insert a new axis after an axis, expand it or join copies along it, and join the two axes: that
    repeats every entry. As one operator it needs no tensor of one more axis. An image of floating-point
    numbers whose rows and columns are repeated is resized. ``value`` is the operand of the reshape to ``shape``.
    """
    made, operands = n.made(value)
    if made not in ("expand", "concat") or len(set(operands)) != 1:
        return None
    wide, narrow = n.type_of(value).shape, n.type_of(operands[0]).shape
    narrow = (1,) * (len(wide) - len(narrow)) + narrow
    grown = [i for i, (a, b) in enumerate(zip(narrow, wide, strict=True)) if a != b]
    before = tuple(extent for i, extent in enumerate(narrow) if i not in grown)
    image = len(before) == 4 and grown == [3, 5] and n.type_of(value).dtype in FLOAT_DTYPES
    if not (image or len(grown) == 1) or grown[0] == 0 or any(narrow[at] != 1 for at in grown):
        return None
    source = operands[0]
    while n.type_of(source).shape != before and n.made(source)[0] == "reshape":
        source = n.made(source)[1][0]
    if n.type_of(source).shape != before:
        source = n.op("reshape", operands[0], shape=before)
    if image:
        size = (before[2] * wide[3], before[3] * wide[5])
        found = n.op("resize", source, size=size, mode="nearest", coords="asymmetric", rounding="floor")
    else:
        found = n.op("repeat", source, axis=grown[0] - 1 - len(before), times=wide[grown[0]])
    return found if n.type_of(found).shape == tuple(shape) else n.op("reshape", found, shape=shape)


def _as_cut(n: OnnxNode, value: int, axis: int, places: np.ndarray) -> int | None:
    """Return the entries at fixed places of an axis as a slice or a repetition, or None if they are neither."""
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
    times = onnx_form.known_ints(n, 1, "repeats")
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
