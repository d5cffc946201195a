"""Shapes of ONNX operators whose extents are integers over symbols: what ONNX's own inference leaves open.

ONNX's inference passes names of extents on and computes with numbers only. Here are the rules of the operators
that compute extents: windows, slices, joins, reshapes. A rule raises :class:`AtRunTime` for what it cannot express.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onnx import NodeProto

from workbench.frontends.onnx.symbolic_integers import AtRunTime
from workbench.symbolic.integers import Int, at_least, num

if TYPE_CHECKING:
    from workbench.frontends.onnx.symbolic_values import SizedValues

Dims: TypeAlias = tuple[Int, ...]

#: From here on, the end of a slice is the end of its axis.
_FAR: Final = (1 << 31) - 1
_ONE: Final = num(1)
#: Scales are floats: they are exact for extents up to about this number.
_DENOMINATOR: Final = 1 << 8


Attrs: TypeAlias = Mapping[str, Any]
#: A rule: ``(what is known, the node, its attributes) -> the extents of its results``.
Rule: TypeAlias = "Callable[[SizedValues, NodeProto, Attrs], Sequence[Dims]]"

_RULES: Final[dict[str, Rule]] = {}


def shapes_of(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    """Return the extents of a node's results if a rule gives them; nothing otherwise."""
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    try:
        return () if rule is None else rule(known, node, attrs)
    except AtRunTime:
        return ()


def _rule(*op_types: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(op_types, function))
        return function

    return register


def _given(node: NodeProto, i: int) -> bool:
    return len(node.input) > i and bool(node.input[i])


def _dims(known: SizedValues, node: NodeProto, i: int = 0) -> Dims:
    """Return the extents of an operand."""
    dims = known.dims(node.input[i])
    if dims is None:
        raise AtRunTime
    return dims


def _ints(known: SizedValues, node: NodeProto, i: int) -> list[Int]:
    """Return the integers of an operand."""
    found = known.ints(node.input[i]) if _given(node, i) else None
    if found is None:
        raise AtRunTime
    return found


def _numbers(found: Sequence[Int]) -> list[int]:
    values = [x.value for x in found if x.value is not None]
    if len(values) < len(found):
        raise AtRunTime
    return values


def _product(dims: Sequence[Int]) -> Int:
    return math.prod(dims, start=_ONE)


def _window(attrs: Attrs, kernel: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return for every axis of a window the extent, the stride, the dilation and the pads together."""
    ones, zeros = (1,) * len(kernel), (0,) * (2 * len(kernel))
    pads = attrs.get("pads", zeros) if attrs.get("auto_pad", "NOTSET") == "NOTSET" else zeros
    both = [a + b for a, b in zip(pads[: len(kernel)], pads[len(kernel) :], strict=True)]
    return [*zip(kernel, attrs.get("strides", ones), attrs.get("dilations", ones), both, strict=True)]


# -- windows -----------------------------------------------------------------------------------------
def _spatial(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims, kernel: Sequence[int]) -> Dims:
    if len(kernel) != len(dims) - 2:
        raise AtRunTime
    auto, facts = attrs.get("auto_pad", "NOTSET"), known.facts
    found: list[Int] = []
    for i, (n, (k, s, d, pads)) in enumerate(zip(dims[2:], _window(attrs, kernel), strict=True)):
        span = n + pads - d * (k - 1) - 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            found.append((n + (s - 1)) // s)
        elif auto == "NOTSET" and attrs.get("ceil_mode", 0):
            up = (span + (s - 1)) // s + 1
            last = (up - 1) * s - n - attrs.get("pads", (0,) * (2 * len(kernel)))[i]
            found.append(facts.choice(at_least(last, num(0)), up - 1, up))
        else:
            if node.op_type == "Conv":
                facts.add(span)
            # Pools of the runtime accept an input that is smaller than a window, and round towards zero.
            number = facts.quotient(span, num(s))
            assert number is not None
            found.append(number + 1)
    for number in found if node.op_type != "Conv" else ():
        facts.add(number)
    return tuple(found)


@_rule("Conv")
def _conv(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims, weight = _dims(known, node), _dims(known, node, 1)
    kernel = _numbers(weight[2:])
    known.equal(dims[1], weight[1] * attrs.get("group", 1))
    return [(dims[0], weight[0], *_spatial(known, node, attrs, dims, kernel))]


@_rule("MaxPool", "AveragePool", "LpPool")
def _pool(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims = _dims(known, node)
    space = _spatial(known, node, attrs, dims, attrs.get("kernel_shape", ()))
    return [(*dims[:2], *space)] * len(node.output)


@_rule("ConvTranspose")
def _transposed(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims, weight = _dims(known, node), _dims(known, node, 1)
    kernel = _numbers(weight[2:])
    if "output_shape" in attrs:
        return ()
    same = attrs.get("auto_pad", "NOTSET").startswith("SAME")
    extra = attrs.get("output_padding", (0,) * len(kernel))
    space = [
        n * s if same else (n - 1) * s + (e + d * (k - 1) + 1 - pads)
        for n, (k, s, d, pads), e in zip(dims[2:], _window(attrs, kernel), extra, strict=True)
    ]
    return [(dims[0], weight[1] * attrs.get("group", 1), *space)]


# -- parts and joins ---------------------------------------------------------------------------------
def slice_bounds(known: SizedValues, node: NodeProto, attrs: Attrs) -> list[tuple[int, Int, Int, int]]:
    """Return the axis, the start, the stop and the step of every slice of a node, inside their axes."""
    dims, facts, zero = _dims(known, node), known.facts, num(0)
    if known.opset < 10:
        starts, ends = [num(i) for i in attrs["starts"]], [num(i) for i in attrs["ends"]]
        axes, steps = list(attrs.get("axes", range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = _ints(known, node, 1), _ints(known, node, 2)
        axes = _numbers(_ints(known, node, 3)) if _given(node, 3) else list(range(len(starts)))
        steps = _numbers(_ints(known, node, 4)) if _given(node, 4) else [1] * len(starts)

    def inside(x: Int, n: Int) -> Int:
        if x.value is not None and x.value >= _FAR:
            return n
        fore, back = facts.smallest(x, n), facts.greatest(x + n, zero)
        return facts.choice(at_least(x, zero), fore, back)

    bounds = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = dims[axis]
        if step > 0:
            bounds.append((axis, inside(start, n), inside(end, n), step))
        elif start.value == -1 and end.value is not None and end.value < -_FAR + 1:
            bounds.append((axis, zero, n, step))
        else:
            raise AtRunTime
    return bounds


@_rule("Slice")
def _slice(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    found = list(_dims(known, node))
    for axis, start, stop, step in slice_bounds(known, node, attrs):
        length = known.facts.greatest(stop - start, num(0))
        found[axis] = (length + (abs(step) - 1)) // abs(step)
    return [tuple(found)]


@_rule("Split")
def _split(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims = _dims(known, node)
    axis, count = attrs.get("axis", 0) % len(dims), len(node.output)
    n = dims[axis]
    if not _given(node, 1) and "split" not in attrs and "num_outputs" in attrs:
        part = (n + (count - 1)) // count
        parts = [part] * (count - 1) + [n - part * (count - 1)]
    else:
        stated = _ints(known, node, 1) if _given(node, 1) else [num(i) for i in attrs.get("split", ())]
        parts = stated or [n // count] * count
        if len(parts) != count:
            return ()
        known.equal(sum(parts, num(0)), n)
    return [(*dims[:axis], p, *dims[axis + 1 :]) for p in parts]


@_rule("Concat")
def _concat(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    first, *rest = (_dims(known, node, i) for i in range(len(node.input)))
    if any(len(s) != len(first) for s in rest):
        return ()
    axis, found = attrs.get("axis", 1) % len(first), list(first)
    for s in rest:
        for i, extent in enumerate(s):
            if i == axis:
                found[i] = found[i] + extent
            else:
                known.equal(found[i], extent)
                found[i] = found[i] if extent.value is None else extent
    return [tuple(found)]


@_rule("Gather")
def _gather(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    n = _dims(known, node)[attrs.get("axis", 0)]
    for place in _ints(known, node, 1):  # the runtime refuses places outside the axis
        if known.facts.at_least(place, 0):
            known.facts.add(n - place - 1)
        elif known.facts.at_least(-1 - place, 0):
            known.facts.add(n + place)
    return ()


@_rule("Pad")
def _pad(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    found = list(_dims(known, node))
    pads = _ints(known, node, 1) if "pads" not in attrs else [num(i) for i in attrs["pads"]]
    axes = _numbers(_ints(known, node, 3)) if _given(node, 3) else range(len(found))
    for i, axis in enumerate(axes):
        found[axis] = found[axis] + pads[i] + pads[len(pads) // 2 + i]
    return [tuple(found)]


@_rule("Tile")
def _tile(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims, times = _dims(known, node), _ints(known, node, 1)
    return [tuple(n * k for n, k in zip(dims, times, strict=True))] if len(times) == len(dims) else ()


# -- shapes that are given ---------------------------------------------------------------------------
@_rule("Reshape")
def _reshape(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims = _dims(known, node)
    asked = _ints(known, node, 1) if len(node.input) > 1 else [num(i) for i in attrs.get("shape", ())]
    found: list[Int | None] = []
    for i, x in enumerate(asked):
        if x.value == -1:
            found.append(None)
        elif x.value == 0 and not attrs.get("allowzero", 0):
            if i >= len(dims):
                return ()
            found.append(dims[i])
        elif known.facts.at_least(x, 1) or (x.value == 0):
            found.append(x)
        else:
            return ()  # a computed extent that could be 0 or -1 would mean something else
    total, rest = _product(dims), _product([x for x in found if x is not None])
    if None in found:
        # A product that does not divide a polynomial is a quotient; the model requires it to be exact.
        free = known.facts.quotient(total, rest)
        if free is None:
            return ()
        found = [free if x is None else x for x in found]
        rest = rest * free
    known.equal(total, rest)
    return [tuple(x for x in found if x is not None)]


@_rule("Flatten")
def _flatten(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims, axis = _dims(known, node), attrs.get("axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    return [(_product(dims[:axis]), _product(dims[axis:]))]


_rule("Expand")(lambda known, n, a: [broadcast(known, [_dims(known, n), tuple(_ints(known, n, 1))])])


def broadcast(known: SizedValues, shapes: Sequence[Dims]) -> Dims:
    """Return the extents of operands that broadcast."""
    found: list[Int] = []
    for i in range(-max(map(len, shapes)), 0):
        extent = _ONE
        for s in (s for s in shapes if len(s) >= -i):
            if extent != s[i] and known.facts.must_equal(extent, s[i]):
                known.equal(extent, s[i])
            extent = known.facts.broadcast(extent, s[i])
        found.append(extent)
    return tuple(found)


_rule("ConstantOfShape")(lambda known, node, attrs: [tuple(_ints(known, node, 0))])


@_rule("Range")
def _range(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    start, limit, step = (_ints(known, node, i)[0] for i in range(3))
    if step.value is None or step.value < 1:
        return ()
    return [(known.facts.greatest((limit - start + (step.value - 1)) // step.value, num(0)),)]


@_rule("Resize", "Upsample")
def _resize(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims = _dims(known, node)
    if attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return ()
    axes = [a % len(dims) for a in attrs.get("axes", range(len(dims)))]
    found = list(dims)
    if _given(node, 3) and (asked := known.ints(node.input[3])):
        for axis, x in zip(axes, asked, strict=True):
            found[axis] = x
        return [tuple(found)]
    place = 2 if node.op_type == "Resize" and known.opset >= 11 else 1
    scales = attrs.get("scales") or (known.floats(node.input[place]) if _given(node, place) else None)
    for axis, scale in zip(axes, scales, strict=True) if scales else ():
        exact, n = Fraction(float(scale)), dims[axis]
        if exact.denominator <= _DENOMINATOR:
            found[axis] = n * exact.numerator // exact.denominator
        elif n.value is not None:
            found[axis] = num(n.value * exact.numerator // exact.denominator)
        else:
            return ()
    return [tuple(found)] if scales else ()


@_rule("DepthToSpace", "SpaceToDepth")
def _blocks(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims, b = _dims(known, node), attrs["blocksize"]
    if len(dims) != 4:
        return ()
    n, c, h, w = dims
    if node.op_type == "DepthToSpace":
        return [(n, c // (b * b), h * b, w * b)]
    for x in (h, w):
        known.equal(x // b * b, x)
    return [(n, c * (b * b), h // b, w // b)]


@_rule("TopK")
def _top(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    dims = _dims(known, node)
    k = _ints(known, node, 1)[0] if len(node.input) > 1 else num(attrs["k"])
    axis = attrs.get("axis", -1) % len(dims)
    known.facts.add(dims[axis] - k)
    return [(*dims[:axis], k, *dims[axis + 1 :])] * 2


@_rule("MatMul", "Gemm")
def _product_of(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Dims]:
    a, b = _dims(known, node), _dims(known, node, 1)
    if not a or not b:
        return ()
    if node.op_type == "Gemm":
        a = a[::-1] if attrs.get("transA", 0) else a
        b = b[::-1] if attrs.get("transB", 0) else b
        known.equal(a[1], b[0])
        return [(a[0], b[1])]
    known.equal(a[-1], b[-2] if len(b) > 1 else b[0])
    if len(a) < 2 or len(b) < 2:
        return ()
    batch = broadcast(known, [a[:-2] or (_ONE,), b[:-2] or (_ONE,)]) if max(len(a), len(b)) > 2 else ()
    return [(*batch, a[-2], b[-1])]


_ELEMENTWISE: Final = (
    "Add Sub Mul Div Pow Mod And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual Where Max Min Sum Mean "
    "PRelu BitwiseAnd BitwiseOr BitwiseXor BitShift"
)


_rule(*_ELEMENTWISE.split())(
    lambda known, node, attrs: [broadcast(known, [_dims(known, node, i) for i in range(len(node.input))])]
)
