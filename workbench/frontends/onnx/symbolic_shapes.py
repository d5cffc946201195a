"""Shapes of ONNX operators whose extents are integers over symbols: what ONNX's own inference leaves open.

ONNX's inference passes names of extents on and computes with numbers only. Here are the rules of the operators
that compute extents: windows, slices, joins, reshapes. A rule returns None for what it cannot express.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onnx import NodeProto

from workbench.symbolic.integers import Int, at_least, num

if TYPE_CHECKING:
    from workbench.frontends.onnx.symbolic_values import SizedValues

#: The extents of a result; None for a result that no rule gives.
Shape = tuple[Int, ...] | None

#: From here on, the end of a slice is the end of its axis.
_FAR: Final = (1 << 31) - 1
_ONE: Final = num(1)
#: Scales are floats: they are exact for extents up to about this number.
_DENOMINATOR: Final = 1 << 8


Dims: TypeAlias = tuple[Int, ...]
Attrs: TypeAlias = Mapping[str, Any]
#: A rule: ``(what is known, the node, its attributes) -> the extents of its results``.
Rule: TypeAlias = "Callable[[SizedValues, NodeProto, Attrs], Sequence[Shape]]"
#: A rule that needs the extents of the first operand as well.
OfDims: TypeAlias = "Callable[[SizedValues, NodeProto, Attrs, Dims], Sequence[Shape]]"

_RULES: Final[dict[str, Rule]] = {}


def shapes_of(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Shape]:
    """Return the extents of a node's results as far as a rule gives them."""
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    return () if rule is None else rule(known, node, attrs)


def _rule(*op_types: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(op_types, function))
        return function

    return register


def _rule_of_dims(*op_types: str) -> Callable[[OfDims], OfDims]:
    """Register a rule that gives nothing if the extents of the first operand are unknown."""

    def register(function: OfDims) -> OfDims:
        def rule(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Shape]:
            dims = known.dims(node.input[0])
            return () if dims is None else function(known, node, attrs, dims)

        _RULES.update(dict.fromkeys(op_types, rule))
        return function

    return register


def _operand(known: SizedValues, node: NodeProto, i: int) -> list[Int] | None:
    return known.ints(node.input[i]) if len(node.input) > i and node.input[i] else None


def _numbers(found: Sequence[Int] | None) -> list[int] | None:
    if found is None or any(x.value is None for x in found):
        return None
    return [x.value or 0 for x in found]


def _product(dims: Sequence[Int]) -> Int:
    return math.prod(dims, start=_ONE)


# -- windows -----------------------------------------------------------------------------------------
def _spatial(
    known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims, kernel: Sequence[int] | None
) -> Shape:
    if kernel is None or len(kernel) != len(dims) - 2:
        return None
    count = len(kernel)
    strides, dilations = attrs.get("strides", (1,) * count), attrs.get("dilations", (1,) * count)
    pads, auto = attrs.get("pads", (0,) * (2 * count)), attrs.get("auto_pad", "NOTSET")
    found: list[Int] = []
    for i, n in enumerate(dims[2:]):
        before, after, k, s, d = pads[i], pads[count + i], kernel[i], strides[i], dilations[i]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            found.append((n + (s - 1)) // s)
        elif auto == "NOTSET" and attrs.get("ceil_mode", 0):
            up = (n + (before + after - d * (k - 1) - 1 + s - 1)) // s + 1
            last = (up - 1) * s - n - before
            found.append(known.facts.choice(at_least(last, num(0)), up - 1, up))
        else:
            span = n + (before + after if auto == "NOTSET" else 0) - d * (k - 1) - 1
            if node.op_type == "Conv":
                known.facts.add(span)
            # Pools of the runtime accept an input that is smaller than a window, and round towards zero.
            number = known.facts.quotient(span, num(s))
            assert number is not None
            found.append(number + 1)
    for number in found if node.op_type != "Conv" else ():
        known.facts.add(number)
    return tuple(found)


@_rule_of_dims("Conv")
def _conv(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    weight = known.dims(node.input[1])
    if weight is None or (kernel := _numbers(weight[2:])) is None:
        return ()
    known.equal(dims[1], weight[1] * attrs.get("group", 1))
    space = _spatial(known, node, attrs, dims, kernel)
    return () if space is None else [(dims[0], weight[0], *space)]


@_rule_of_dims("MaxPool", "AveragePool", "LpPool")
def _pool(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    space = _spatial(known, node, attrs, dims, attrs.get("kernel_shape"))
    return () if space is None else [(*dims[:2], *space)] * len(node.output)


@_rule_of_dims("ConvTranspose")
def _transposed(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    weight = known.dims(node.input[1])
    if weight is None or (kernel := _numbers(weight[2:])) is None or "output_shape" in attrs:
        return ()
    count = len(kernel)
    strides, dilations = attrs.get("strides", (1,) * count), attrs.get("dilations", (1,) * count)
    pads, extra = attrs.get("pads", (0,) * (2 * count)), attrs.get("output_padding", (0,) * count)
    auto = attrs.get("auto_pad", "NOTSET")
    space = []
    for i, n in enumerate(dims[2:]):
        if auto.startswith("SAME"):
            space.append(n * strides[i])
            continue
        cut = pads[i] + pads[count + i] if auto == "NOTSET" else 0
        space.append((n - 1) * strides[i] + (extra[i] + dilations[i] * (kernel[i] - 1) + 1 - cut))
    return [(dims[0], weight[1] * attrs.get("group", 1), *space)]


# -- parts and joins ---------------------------------------------------------------------------------
def slice_bounds(known: SizedValues, node: NodeProto, attrs: Attrs) -> list[tuple[int, Int, Int, int]] | None:
    """Return the axis, the start, the stop and the step of every slice of a node, inside their axes."""
    dims = known.dims(node.input[0])
    if dims is None:
        return None
    if known.opset < 10:
        starts, ends = [num(i) for i in attrs["starts"]], [num(i) for i in attrs["ends"]]
        axes, steps = list(attrs.get("axes", range(len(starts)))), [1] * len(starts)
    else:
        first, last = _operand(known, node, 1), _operand(known, node, 2)
        if first is None or last is None:
            return None
        starts, ends = first, last
        found = [_numbers(_operand(known, node, i)) for i in (3, 4)]
        given = [len(node.input) > i and bool(node.input[i]) for i in (3, 4)]
        if any(g and f is None for g, f in zip(given, found, strict=True)):
            return None
        axes = list(range(len(starts))) if found[0] is None else found[0]
        steps = [1] * len(starts) if found[1] is None else found[1]
    facts, zero = known.facts, num(0)

    def inside(x: Int, n: Int) -> Int:
        if x.value is not None and x.value >= _FAR:
            return n
        fore, back = facts.smallest(x, n), facts.greatest(x + n, zero)
        return facts.choice(at_least(x, zero), fore, back)

    bounds = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = dims[axis]
        if step < 0:
            whole = start.value == -1 and end.value is not None and end.value < -_FAR + 1
            if not whole:
                return None
            bounds.append((axis, zero, n, step))
        else:
            bounds.append((axis, inside(start, n), inside(end, n), step))
    return bounds


@_rule_of_dims("Slice")
def _slice(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    bounds = slice_bounds(known, node, attrs)
    if bounds is None:
        return ()
    found = list(dims)
    for axis, start, stop, step in bounds:
        length = known.facts.greatest(stop - start, num(0))
        found[axis] = (length + (abs(step) - 1)) // abs(step)
    return [tuple(found)]


@_rule_of_dims("Split")
def _split(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    axis, count = attrs.get("axis", 0) % len(dims), len(node.output)
    parts: list[Int] | None
    if len(node.input) > 1 and node.input[1]:
        parts = _operand(known, node, 1)
        if parts is None or len(parts) != count:
            return ()
        known.equal(sum(parts, num(0)), dims[axis])
    elif "split" in attrs:
        parts = [num(i) for i in attrs["split"]]
        known.equal(sum(parts, num(0)), dims[axis])
    elif "num_outputs" in attrs:
        part = (dims[axis] + (count - 1)) // count
        parts = [part] * (count - 1) + [dims[axis] - part * (count - 1)]
    else:
        parts = [dims[axis] // count] * count
        known.equal(parts[0] * count, dims[axis])
    return [(*dims[:axis], p, *dims[axis + 1 :]) for p in parts]


@_rule("Concat")
def _concat(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Shape]:
    shapes = [known.dims(name) for name in node.input]
    if any(s is None or len(s) != len(shapes[0] or ()) for s in shapes):
        return ()
    given = [s for s in shapes if s is not None]
    rank = len(given[0])
    axis = attrs.get("axis", 1) % rank
    found = list(given[0])
    for s in given[1:]:
        for i in range(rank):
            if i == axis:
                found[i] = found[i] + s[i]
            else:
                known.equal(found[i], s[i])
                found[i] = found[i] if s[i].value is None else s[i]
    return [tuple(found)]


@_rule_of_dims("Gather")
def _gather(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    n = dims[attrs.get("axis", 0)]
    for place in _operand(known, node, 1) or ():  # the runtime refuses places outside the axis
        if known.facts.at_least(place, 0):
            known.facts.add(n - place - 1)
        elif known.facts.at_least(-1 - place, 0):
            known.facts.add(n + place)
    return ()


@_rule_of_dims("Pad")
def _pad(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    pads = _operand(known, node, 1) if "pads" not in attrs else [num(i) for i in attrs["pads"]]
    if pads is None:
        return ()
    axes: Sequence[int] = range(len(dims))
    if len(node.input) > 3 and node.input[3]:
        given = _numbers(_operand(known, node, 3))
        if given is None:
            return ()
        axes = given
    found, half = list(dims), len(pads) // 2
    for i, axis in enumerate(axes):
        found[axis] = found[axis] + pads[i] + pads[half + i]
    return [tuple(found)]


@_rule_of_dims("Tile")
def _tile(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    times = _operand(known, node, 1)
    if times is None or len(times) != len(dims):
        return ()
    return [tuple(n * k for n, k in zip(dims, times, strict=True))]


# -- shapes that are given ---------------------------------------------------------------------------
@_rule_of_dims("Reshape")
def _reshape(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    asked = _operand(known, node, 1) if len(node.input) > 1 else [num(i) for i in attrs.get("shape", ())]
    if asked is None:
        return ()
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


@_rule_of_dims("Flatten")
def _flatten(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    axis = attrs.get("axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    return [(_product(dims[:axis]), _product(dims[axis:]))]


@_rule_of_dims("Expand")
def _expand(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    asked = _operand(known, node, 1)
    return () if asked is None else [broadcast(known, [dims, tuple(asked)])]


def broadcast(known: SizedValues, shapes: Sequence[tuple[Int, ...]]) -> tuple[Int, ...]:
    """Return the extents of operands that broadcast."""
    rank = max(map(len, shapes))
    found: list[Int] = []
    for i in range(-rank, 0):
        extent = _ONE
        for s in (s for s in shapes if len(s) >= -i):
            if extent != s[i] and known.facts.must_equal(extent, s[i]):
                known.equal(extent, s[i])
            extent = known.facts.broadcast(extent, s[i])
        found.append(extent)
    return tuple(found)


@_rule("ConstantOfShape")
def _filled(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Shape]:
    asked = _operand(known, node, 0)
    return () if asked is None else [tuple(asked)]


@_rule("Range")
def _range(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Shape]:
    found = [known.ints(name) for name in node.input]
    if any(f is None for f in found):
        return ()
    start, limit, step = (f[0] for f in found if f is not None)
    if not known.facts.at_least(step, 1) or step.value is None:
        return ()
    return [(known.facts.greatest((limit - start + (step.value - 1)) // step.value, num(0)),)]


@_rule_of_dims("Resize", "Upsample")
def _resize(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    if attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return ()
    axes = [a % len(dims) for a in attrs.get("axes", range(len(dims)))]
    asked = _operand(known, node, 3)
    found = list(dims)
    if asked:
        for axis, x in zip(axes, asked, strict=True):
            found[axis] = x
        return [tuple(found)]
    place = 2 if node.op_type == "Resize" and known.opset >= 11 else 1
    scales = attrs.get("scales") or (
        known.floats(node.input[place]) if len(node.input) > place and node.input[place] else None
    )
    if not scales:
        return ()
    for axis, scale in zip(axes, scales, strict=True):
        exact = Fraction(float(scale))
        if exact.denominator > _DENOMINATOR:
            if dims[axis].value is None:
                return ()
            found[axis] = num(math.floor(dims[axis].value or 0) * exact.numerator // exact.denominator)
        else:
            found[axis] = dims[axis] * exact.numerator // exact.denominator
    return [tuple(found)]


@_rule_of_dims("DepthToSpace", "SpaceToDepth")
def _blocks(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    if len(dims) != 4:
        return ()
    b, (n, c, h, w) = attrs["blocksize"], dims
    if node.op_type == "DepthToSpace":
        return [(n, c // (b * b), h * b, w * b)]
    for x in (h, w):
        known.equal(x // b * b, x)
    return [(n, c * (b * b), h // b, w // b)]


@_rule_of_dims("TopK")
def _top(known: SizedValues, node: NodeProto, attrs: Attrs, dims: Dims) -> Sequence[Shape]:
    k = _operand(known, node, 1) if len(node.input) > 1 else [num(attrs["k"])]
    if k is None:
        return ()
    axis = attrs.get("axis", -1) % len(dims)
    known.facts.add(dims[axis] - k[0])
    return [(*dims[:axis], k[0], *dims[axis + 1 :])] * 2


@_rule_of_dims("MatMul", "Gemm")
def _product_of(known: SizedValues, node: NodeProto, attrs: Attrs, a: Dims) -> Sequence[Shape]:
    b = known.dims(node.input[1])
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


@_rule(*_ELEMENTWISE.split())
def _elementwise(known: SizedValues, node: NodeProto, attrs: Attrs) -> Sequence[Shape]:
    shapes = [known.dims(name) for name in node.input]
    if any(s is None for s in shapes):
        return ()
    return [broadcast(known, [s for s in shapes if s is not None])]
