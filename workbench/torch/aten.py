"""What torch's operators are: each aten operator that is modelled, as operators of a graph.

The operators are those of torch's graph before dispatch: ``linear``, ``conv2d`` and ``upsample_bilinear2d`` are
whole there, and nothing is decomposed yet. An operator that is not in the table is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch import fx

from workbench.graph import Builder
from workbench.ops import TensorType
from workbench.torch.sizes import Sizes, is_number

aten: Final = torch.ops.aten

#: The value of a torch node: a value of the graph, or several for a tuple of tensors.
Value: TypeAlias = "int | tuple[int, ...]"


class NotModelled(ValueError):
    """Raised when an application of an operator has no equal in the graph."""


@dataclass(frozen=True, slots=True)
class Call:
    """An application of a torch operator, with its arguments by name.

    ``kinds`` are the types of the results; ``training`` tells whether gradients will be asked for; an extent of
    ``sizes`` stands for a symbolic one.
    """

    builder: Builder
    arguments: Mapping[str, Any]
    values: Mapping[fx.Node, Value]
    kinds: tuple[TensorType, ...]
    training: bool
    sizes: Sizes

    def __getitem__(self, name: str) -> Any:
        return _numbered(self.arguments[name], self.sizes)

    def op(self, op: str, *inputs: int, **attrs: Any) -> int:
        """Apply an operator of the graph."""
        return self.builder.op(op, *inputs, **attrs)

    def value(self, argument: object) -> int:
        """Return the graph's value of a tensor argument, or a constant for a number."""
        if isinstance(argument, fx.Node) and is_number(size := argument.meta.get("val")):
            # A number that is known at each call: an input, of which no law knows the value.
            name = f"number_{argument.name}:{self.kinds[0].dtype}"
            known = (i for i in self.builder.inputs if self.builder.nodes[i].attr("name") == name)
            self.need(isinstance(size, torch.SymInt), "a number that depends on data")
            place = next(known, None)
            return self.builder.input(name, (), self.kinds[0].dtype) if place is None else place
        if isinstance(argument, fx.Node):
            found = self.values.get(argument)
            if not isinstance(found, int):
                raise NotModelled("an operand is not a tensor")
            return found
        if isinstance(argument, bool) or not isinstance(argument, int | float):
            raise NotModelled(f"an operand of type {type(argument).__name__}")
        return self.op("scalar", value=float(argument), dtype=self.kinds[0].dtype)

    def operand(self, name: str) -> int:
        """Return the value of the argument of this name."""
        return self.value(self.arguments[name])

    def type(self, value: int) -> TensorType:
        """Return the type of a value."""
        return self.builder.type(value)

    def axis(self, name: str, rank: int) -> int:
        """Return an axis, counted from the last."""
        axis = self[name]
        return axis if axis < 0 else axis - rank

    def along(self) -> tuple[int, int]:
        """Return the value of ``self``, and its axis ``dim``, counted from the last."""
        x = self.operand("self")
        return x, self.axis("dim", self.type(x).rank)

    def need(self, fits: bool, reason: str) -> None:
        """Raise :class:`NotModelled` unless the condition is met."""
        if not fits:
            raise NotModelled(reason)

    def differentiable(self, everywhere: bool, points: str = "single points") -> None:
        """Raise :class:`NotModelled` if gradients will be asked for and are a convention at some points."""
        self.need(everywhere or not self.training, f"its gradient at {points} is a convention")

    def fixed(self, *numbers: int) -> None:
        """Raise :class:`NotModelled` if a number depends on a symbolic size."""
        self.need(not self.sizes.depends(*numbers), "it depends on a symbolic size")

    def reshaped(self, value: int, shape: Sequence[int] | None = None) -> int:
        """Return the value in another shape; by default in that of the result."""
        wanted = tuple(self.kinds[0].shape if shape is None else shape)
        return value if self.type(value).shape == wanted else self.op("reshape", value, shape=wanted)


def _numbered(argument: Any, sizes: Sizes) -> Any:
    """Return an argument with the extents that stand for symbolic sizes."""
    if isinstance(argument, list | tuple):
        return type(argument)(_numbered(a, sizes) for a in argument)
    value = argument.meta.get("val") if isinstance(argument, fx.Node) else None
    return sizes.number(value) if isinstance(value, torch.SymInt) else argument


Reads = Callable[[Call], Value]

#: The meaning of each operator that is modelled.
TABLE: Final[dict[Any, Reads]] = {}

#: Operators whose derivative at single points is a convention: they are modelled if no gradient is asked for.
KINKED: Final = frozenset({"abs", "max", "min", "clip"})


def reads(*overloads: torch._ops.OpOverload) -> Callable[[Reads], Reads]:
    """Register a function as the meaning of operators."""

    def registered(function: Reads) -> Reads:
        TABLE.update(dict.fromkeys(overloads, function))
        return function

    return registered


_UNARY: Final = (
    "relu", "sigmoid", "tanh", "erf", "exp", "log", "cos", "sin", "sqrt", "neg", "reciprocal", "abs", "hardswish",
)  # fmt: skip
_BINARY: Final = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "maximum": "max", "minimum": "min"}


def _unary(op: str) -> Reads:
    def read(c: Call) -> int:
        c.differentiable(op not in KINKED)
        return c.op(op, c.operand("self"))

    return read


def _binary(op: str) -> Reads:
    def read(c: Call) -> int:
        c.differentiable(op not in KINKED)
        c.need(c.kinds[0].dtype != "bool", "arithmetic on truth values")
        x, y = c.operand("self"), c.operand("other")
        if (alpha := c.arguments.get("alpha", 1)) != 1:
            y = c.op("mul", y, c.value(alpha))
        return c.op(op, x, y)

    return read


TABLE.update({getattr(aten, name).default: _unary(name) for name in _UNARY})
for _name, _op in _BINARY.items():
    for _overload in ("Tensor", "Scalar") if _name == _op else ("default",):
        if _overload in getattr(aten, _name).overloads():
            TABLE[getattr(getattr(aten, _name), _overload)] = _binary(_op)


def _reduced(op: str) -> Reads:
    def read(c: Call) -> int:
        c.differentiable(op != "reduce_max", "equal elements")
        x = c.operand("self")
        rank = c.type(x).rank
        axes = c["dim"] if c["dim"] not in (None, []) else range(rank)
        axes = (axes,) if isinstance(axes, int) else axes
        return c.op(op, x, axes=tuple(sorted(a % rank - rank for a in axes)), keepdims=int(c["keepdim"]))

    return read


TABLE.update(
    {
        aten.square.default: lambda c: c.op("mul", c.operand("self"), c.operand("self")),
        aten.rsqrt.default: lambda c: c.op("reciprocal", c.op("sqrt", c.operand("self"))),
        aten.gelu.default: lambda c: c.op("gelu", c.operand("self"), tanh=int(c["approximate"] == "tanh")),
        aten.silu.default: lambda c: c.op("swish", c.operand("self"), alpha=1.0),
        aten.leaky_relu.default: lambda c: c.op(
            "leakyrelu", c.operand("self"), alpha=float(c["negative_slope"])
        ),
        aten.softmax.int: lambda c: c.op("softmax", c.operand("self"), axis=c.axis("dim", c.kinds[0].rank)),
        aten.expand.default: lambda c: c.op("expand", c.operand("self"), shape=c.kinds[0].shape),
        aten.permute.default: lambda c: c.op(
            "transpose", c.operand("self"), perm=tuple(d % len(c["dims"]) for d in c["dims"])
        ),
        aten.cat.default: lambda c: c.op(
            "concat", *map(c.value, c["tensors"]), axis=c.axis("dim", c.kinds[0].rank)
        ),
        aten.select.int: lambda c: c.reshaped(_entries(c, c["index"], 1)),
        aten.narrow.default: lambda c: _entries(c, c["start"], c["length"]),
        aten.mean.dim: _reduced("reduce_mean"),
        aten.sum.dim_IntList: _reduced("reduce_sum"),
        aten.amax.default: _reduced("reduce_max"),
    }
)
reads(aten.contiguous.default, aten.clone.default, aten.alias.default)(lambda c: c.operand("self"))
reads(aten.mm.default, aten.bmm.default)(lambda c: c.op("matmul", c.operand("self"), c.operand("mat2")))
_SHAPES: Final = (aten.view, aten.reshape, aten._unsafe_view, aten.unsqueeze, aten.squeeze)
_OTHER_SHAPES: Final = (aten.flatten.using_ints, aten.unflatten.int, aten.squeeze.dim, aten.squeeze.dims)
reads(*(shape.default for shape in _SHAPES), *_OTHER_SHAPES)(lambda c: c.reshaped(c.operand("self")))


@reads(aten.dropout.default, aten.feature_dropout.default)
def _dropout(c: Call) -> int:
    c.need(not c["train"] or c["p"] == 0, "it is random")
    return c.operand("input")


@reads(aten.matmul.default)
def _matmul(c: Call) -> int:
    x, y = c.operand("self"), c.operand("other")
    c.need(min(c.type(x).rank, c.type(y).rank) >= 2, "the product of a vector")
    return c.op("matmul", x, y)


@reads(aten.addmm.default)
def _addmm(c: Call) -> int:
    c.need(c["beta"] == 1 and c["alpha"] == 1, "scaled addends")
    return c.op("add", c.op("matmul", c.operand("mat1"), c.operand("mat2")), c.operand("self"))


@reads(aten.linear.default)
def _linear(c: Call) -> int:
    x, w = c.operand("input"), c.operand("weight")
    c.need(c.type(x).rank >= 2 and c.type(w).rank == 2, "the product of a vector")
    product = c.op("matmul", x, c.op("transpose", w, perm=(1, 0)))
    return product if c["bias"] is None else c.op("add", product, c.operand("bias"))


@reads(aten.scaled_dot_product_attention.default)
def _attention(c: Call) -> int:
    c.need(c["attn_mask"] is None and not c["is_causal"] and not c["dropout_p"], "a mask, or random")
    heads = [c.operand(name) for name in ("query", "key", "value")]
    c.need(all(c.type(x).rank == 4 for x in heads), "heads without a batch")
    batch, count, queries, width = c.type(heads[0]).shape
    c.need(all(c.type(x).shape[:2] == (batch, count) for x in heads), "heads that share keys")
    c.fixed(count, width, c.type(heads[2]).shape[-1])
    scale = width**-0.5 if c["scale"] is None else float(c["scale"])
    joined = [
        c.op("reshape", c.op("transpose", x, perm=(0, 2, 1, 3)), shape=(batch, rows, count * each))
        for x, (_, _, rows, each) in zip(heads, (c.type(x).shape for x in heads), strict=True)
    ]
    mixed = c.op("attention", *joined, heads=count, scale=scale)
    cut = c.op("reshape", mixed, shape=(batch, queries, count, c.type(heads[2]).shape[-1]))
    return c.op("transpose", cut, perm=(0, 2, 1, 3))


@reads(aten.conv2d.default)
def _conv2d(c: Call) -> int:
    x, w = c.operand("input"), c.operand("weight")
    c.need(c.type(x).rank == 4, "an image without a batch")
    operands = [x, w]
    if c["bias"] is not None:
        operands.append(c.op("reshape", c.operand("bias"), shape=(1, c.type(w).shape[0], 1, 1)))
    down, across = _two(c["padding"])
    return c.op(
        "conv2d",
        *operands,
        strides=_two(c["stride"]),
        pads=(down, across, down, across),
        dilations=_two(c["dilation"]),
        groups=c["groups"],
        act="none",
    )


def _two(given: Any) -> tuple[int, int]:
    """Return the two numbers of a list of one or two, or of one number."""
    both = (given,) if isinstance(given, int) else tuple(given)
    return both[0], both[-1]


@reads(aten.batch_norm.default)
def _batch_norm(c: Call) -> int:
    c.need(not c["training"], "it uses the statistics of the batch")
    names = ("input", "weight", "bias", "running_mean", "running_var")
    c.need(all(c[name] is not None for name in names), "it has no scale or no statistics")
    x, *vectors = map(c.operand, names)
    c.need(c.type(x).rank == 4, "an image with other axes")
    return c.op("batchnorm", x, *vectors, eps=float(c["eps"]))


@reads(aten.layer_norm.default)
def _layer_norm(c: Call) -> int:
    c.need(c["weight"] is not None, "it has no scale")
    affine = [c.operand(name) for name in ("weight", "bias") if c[name] is not None]
    axis = -len(c["normalized_shape"])
    return c.op("layernorm", c.operand("input"), *affine, axis=axis, eps=float(c["eps"]))


@reads(aten.transpose.int)
def _transpose(c: Call) -> int:
    x = c.operand("self")
    perm = list(range(c.type(x).rank))
    perm[c["dim0"]], perm[c["dim1"]] = perm[c["dim1"]], perm[c["dim0"]]
    return c.op("transpose", x, perm=tuple(perm))


@reads(aten.t.default)
def _t(c: Call) -> int:
    x = c.operand("self")
    return x if c.type(x).rank < 2 else c.op("transpose", x, perm=(1, 0))


@reads(aten.slice.Tensor)
def _slice(c: Call) -> int:
    x, axis = c.along()
    extent, start, stop, step = c.type(x).shape[axis], c["start"] or 0, c["end"], c["step"]
    if c.sizes.depends(extent, start) or (stop is not None and c.sizes.depends(stop)):
        c.need(step == 1, "a step along a symbolic size")
        # Torch has decided what is inside, and guards it: the extent of the result says where the slice ends.
        start = c.sizes.sum(extent, start) if start < 0 else start
        return _cut(c, x, axis, start, c.sizes.sum(start, c.kinds[0].shape[axis]))
    start, stop, step = slice(start, stop, step).indices(extent)
    return _cut(c, x, axis, start, stop, step)


def _entries(c: Call, start: int, count: int) -> int:
    """Return entries of an axis from a place, which may be counted from the end."""
    x, axis = c.along()
    start = c.sizes.sum(c.type(x).shape[axis], start) if start < 0 else start
    return _cut(c, x, axis, start, c.sizes.sum(start, count))


def _cut(c: Call, x: int, axis: int, start: int, stop: int, step: int = 1) -> int:
    c.need(start < stop, "an empty slice")
    if (start, stop, step) == (0, c.type(x).shape[axis], 1):
        return x
    return c.op("slice", x, axis=axis, start=start, stop=stop, step=step)


@reads(aten.split.Tensor, aten.split_with_sizes.default, aten.split.sizes, aten.chunk.default)
def _split(c: Call) -> tuple[int, ...]:
    x, axis = c.along()
    sizes = [kind.shape[axis] for kind in c.kinds]
    c.fixed(*sizes)
    return tuple(c.builder.split(x, axis, sizes))


@reads(aten.unbind.int)
def _unbind(c: Call) -> tuple[int, ...]:
    x, axis = c.along()
    return tuple(c.reshaped(_cut(c, x, axis, i, i + 1), kind.shape) for i, kind in enumerate(c.kinds))


@reads(aten.stack.default)
def _stack(c: Call) -> int:
    axis = c.axis("dim", c.kinds[0].rank)
    shape = list(c.kinds[0].shape)
    shape[axis] = 1
    return c.op("concat", *(c.reshaped(c.value(part), shape) for part in c["tensors"]), axis=axis)


@reads(aten.adaptive_avg_pool2d.default)
def _global_pool(c: Call) -> int:
    c.need(tuple(c["output_size"]) == (1, 1), "windows of unequal extents")
    return c.op("reduce_mean", c.operand("self"), axes=(-2, -1), keepdims=1)


def _windows(c: Call, **attrs: Any) -> dict[str, Any]:
    """Return the attributes of a pool, with those that it alone has."""
    kernel, (down, across) = _two(c["kernel_size"]), _two(c["padding"])
    pads = (down, across, down, across)
    return {"kernel": kernel, "strides": _two(c["stride"] or kernel), "pads": pads, **attrs}


@reads(aten.max_pool2d.default)
def _max_pool(c: Call) -> int:
    c.differentiable(False, "equal elements")
    attrs = _windows(c, dilations=_two(c["dilation"]), ceil=int(c["ceil_mode"]))
    return c.op("maxpool", c.operand("self"), **attrs)


@reads(aten.avg_pool2d.default)
def _avg_pool(c: Call) -> int:
    c.need(c["divisor_override"] is None and not c["ceil_mode"], "another divisor")
    attrs = _windows(c, ceil=0, include_pad=int(c["count_include_pad"]))
    return c.op("avgpool", c.operand("self"), **attrs)


@reads(aten.upsample_bilinear2d.vec)
def _bilinear(c: Call) -> int:
    x, size = c.operand("input"), c.kinds[0].shape[-2:]
    if c["scale_factors"] is not None:
        c.fixed(*size)
        pairs = zip(c.type(x).shape[-2:], c["scale_factors"], size, strict=True)
        c.need(all(a * s == b for a, s, b in pairs), "scales that are not those of the sizes")
    coords = "align_corners" if c["align_corners"] else "half_pixel"
    return c.op("resize", x, size=size, mode="linear", coords=coords)


@reads(aten.upsample_nearest2d.vec)
def _nearest(c: Call) -> int:
    x, size = c.operand("input"), c.kinds[0].shape[-2:]
    before = c.type(x).shape[-2:]
    c.fixed(*size, *before)
    c.need(not any(a % b for a, b in zip(size, before, strict=True)), "scales that are not whole numbers")
    return c.op("resize", x, size=size, mode="nearest", coords="asymmetric", rounding="floor")
