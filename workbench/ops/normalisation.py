"""Normalisation: batch (inference), layer, softmax, and the affine form of batch normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from workbench.ops import onnx_form
from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm, Numbers, each
from workbench.ops.locality import along_axis, from_axis
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, imports, only_result
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Names, OpSpec, Tensor, Types, per_element
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing

#: The root of a variance and ``eps``, and the mean along the axes of an operator.
_Root = Callable[[np.ndarray], np.ndarray]
_Mean = Callable[[np.ndarray, Attrs], np.ndarray]


def _batchnorm_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    x, *vectors = xs
    t.require_float(x)
    t.require(t.rank(x) == 4, "the input must have four axes [N, C, H, W]")
    for v in vectors:
        t.require_same(v, t.tensor(x, t.dim(x, -3)), "scale, bias, mean and variance must be [C]")
    return x


def _factor(xs: Sequence[Any], root: Callable[[Any], Any]) -> Any:
    """Return the factor of a batch normalisation, from arrays, tensors or exact numbers."""
    scale, variance = xs
    return scale.reshape(1, -1, 1, 1) / root(variance.reshape(1, -1, 1, 1))


def _affine(xs: Sequence[Any], root: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the factor and the summand of a batch normalisation."""
    scale, bias, mean, variance = xs
    a = _factor((scale, variance), root)
    return a, bias.reshape(1, -1, 1, 1) - a * mean.reshape(1, -1, 1, 1)


def _deviation(attrs: Attrs) -> _Root:
    return lambda variance: np.sqrt(variance + variance.dtype.type(attrs["eps"]))


def _deviation_torch(torch: ModuleType, attrs: Attrs) -> Callable[[Tensor], Tensor]:
    return lambda variance: torch.sqrt(variance + attrs["eps"])


def _normal(xs: Sequence[np.ndarray], root: Callable[[Any], Any]) -> np.ndarray:
    a, b = _affine(xs[1:], root)
    return np.asarray(xs[0] * a + b)


def _bn_vector_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    first = xs[0]
    t.require_float(first)
    t.require(t.rank(first) == 1, "the operands must be vectors [C]")
    for v in xs[1:]:
        t.require_same(first, v, "the vectors must have the same type")
    return t.tensor(first, 1, t.dim(first, -1), 1, 1)


def _layernorm_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    x = xs[0]
    t.require_float(x)
    t.require_axis(x, attrs["axis"])
    for v in xs[1:]:
        t.require_same_dtype(x, v)
        t.require_same(t.broadcast(x, v), x, "scale and bias must broadcast to the input")
    return x


def _mean_of(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    return np.asarray(x.mean(axis=tuple(range(attrs["axis"], 0)), keepdims=True))


def _layernorm(xs: Sequence[np.ndarray], attrs: Attrs, root: _Root, mean: _Mean = _mean_of) -> np.ndarray:
    centred = xs[0] - mean(xs[0], attrs)
    return np.asarray(_affinely(centred / root(mean(centred * centred, attrs)), xs[1:]))


def _affinely(out: Any, affine: Sequence[Any]) -> Any:
    """Return an array or a tensor times a scale, plus a bias if there is one."""
    scaled = out * affine[0]
    return scaled + affine[1] if len(affine) > 1 else scaled


def _layernorm_torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    x, *affine = xs
    shape = x.shape[attrs["axis"] :]
    if all(v.shape == shape for v in affine):
        scale, bias = (*affine, None)[:2]
        return torch.nn.functional.layer_norm(x, shape, scale, bias, attrs["eps"])
    plain: Tensor = _affinely(torch.nn.functional.layer_norm(x, shape, eps=attrs["eps"]), affine)
    return plain


def _rmsnorm(xs: Sequence[np.ndarray], attrs: Attrs, root: _Root, mean: _Mean = _mean_of) -> np.ndarray:
    x, scale = xs
    return np.asarray(x / root(mean(x * x, attrs)) * scale)


def _root_mean_square_torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    x, scale = xs
    square = (x * x).mean(dim=tuple(range(attrs["axis"], 0)), keepdim=True)
    return x * torch.rsqrt(square + attrs["eps"]) * scale


def _softmax_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    t.require_float(xs[0])
    t.require_axis(xs[0], attrs["axis"])
    return xs[0]


def _softmax(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    e = np.exp(xs[0] - xs[0].max(axis=attrs["axis"], keepdims=True))
    return e / e.sum(axis=attrs["axis"], keepdims=True)


def _export_deviation(e: Emitter, variance: str, attrs: Attrs, out: TensorType) -> str:
    return e.node("Sqrt", [e.node("Add", [variance, onnx_form.export_scalar(e, out, attrs["eps"])])])


def _export_bn_scale(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    scale, var = xs
    return e.reshape(e.node("Div", [scale, _export_deviation(e, var, attrs, out)]), out.shape)


def _export_bn_shift(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    scale, bias, mean, var = xs
    moved = e.node("Mul", [mean, e.node("Div", [scale, _export_deviation(e, var, attrs, out)])])
    return e.reshape(e.node("Sub", [bias, moved]), out.shape)


def _mean(e: Emitter, x: str, rank: int, axis: int) -> str:
    axes = tuple(range(rank + axis, rank))
    if e.opset < 18:
        return e.node("ReduceMean", [x], axes=axes, keepdims=1)
    return e.node("ReduceMean", [x, onnx_form.export_ints(e, axes)], keepdims=1)


def _export_layernorm(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    x, *affine = xs
    rank, axis = out.rank, attrs["axis"]
    if e.opset >= 17:
        return e.node("LayerNormalization", xs, axis=rank + axis, epsilon=attrs["eps"])
    centred = e.node("Sub", [x, _mean(e, x, rank, axis)])
    variance = _mean(e, e.node("Pow", [centred, onnx_form.export_scalar(e, out, 2.0)]), rank, axis)
    y = e.node("Div", [centred, _export_deviation(e, variance, attrs, out)])
    for op_type, operand in zip(("Mul", "Add"), affine, strict=False):
        y = e.node(op_type, [y, operand])
    return y


def _export_rmsnorm(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    x, scale = xs
    # ONNX Runtime fuses these operators in every operator set; only operator sets from 23 on have their own.
    square = _mean(e, e.node("Pow", [x, onnx_form.export_scalar(e, out, 2.0)]), out.rank, attrs["axis"])
    return e.node("Mul", [e.node("Div", [x, _export_deviation(e, square, attrs, out)]), scale])


def _export_softmax(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    (x,) = xs
    rank, axis = out.rank, out.rank + attrs["axis"]
    # Before operator set 13 all axes from the given one on are normalised together.
    if e.opset >= 13 or all(d == 1 for d in out.shape[axis + 1 :]):
        return e.node("Softmax", [x], axis=axis)
    swap = [*range(axis), rank - 1, *range(axis + 1, rank - 1), axis]
    last = e.node("Softmax", [e.node("Transpose", [x], perm=swap)], axis=rank - 1)
    return e.node("Transpose", [last], perm=swap)


# -- exact forms --------------------------------------------------------------------------------------
def _exact_softmax(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    e = each(numbers.exp, xs[0])
    return np.asarray(e / e.sum(axis=attrs["axis"], keepdims=True))


def _exact_root(numbers: Numbers, attrs: ExactAttrs) -> _Root:
    eps = numbers.number(attrs["eps"])
    return lambda variance: each(lambda v: numbers.root(v + eps), variance)


def _exact_mean(x: np.ndarray, attrs: ExactAttrs) -> np.ndarray:
    axes = tuple(range(attrs["axis"], 0))
    return np.asarray(x.sum(axis=axes, keepdims=True) / math.prod(x.shape[a] for a in axes))


def _in_digits(norm: Callable[..., np.ndarray]) -> ExactForm:
    return ExactForm(Arithmetic.DIGITS, lambda n, xs, a: norm(xs, a, _exact_root(n, a), _exact_mean))


_EPS = Attr("eps", "float", 1e-5)

register(
    OpSpec(
        "batchnorm",
        5,
        _batchnorm_type,
        lambda xs, a: _normal(xs, _deviation(a)),
        (_EPS,),
        per_element(2),
        Trait.FOUR_AXES,
        exact=ExactForm(Arithmetic.RATIONAL, lambda n, xs, a: _normal(xs, _exact_root(n, a))),
        weights_from=1,
        variance=4,
        export=onnx_form.export_as("BatchNormalization", epsilon="eps"),
        torch=lambda torch, xs, a: torch.nn.functional.batch_norm(xs[0], *xs[3:], *xs[1:3], eps=a["eps"]),
        doc="(x - mean) * scale / sqrt(var + eps) + bias per channel, with stored statistics",
    ),
    OpSpec(
        "bn_scale",
        2,
        _bn_vector_type,
        lambda xs, a: _factor(xs, _deviation(a)),
        (_EPS,),
        per_element(3),
        exact=ExactForm(Arithmetic.RATIONAL, lambda n, xs, a: _factor(xs, _exact_root(n, a))),
        weights_from=0,
        variance=1,
        export=_export_bn_scale,
        torch=lambda torch, xs, a: _factor(xs, _deviation_torch(torch, a)),
        doc="scale / sqrt(var + eps) as [1, C, 1, 1]: the factor of a batch normalisation",
    ),
    OpSpec(
        "bn_shift",
        4,
        _bn_vector_type,
        lambda xs, a: _affine(xs, _deviation(a))[1],
        (_EPS,),
        per_element(5),
        exact=ExactForm(Arithmetic.RATIONAL, lambda n, xs, a: _affine(xs, _exact_root(n, a))[1]),
        weights_from=0,
        variance=3,
        export=_export_bn_shift,
        torch=lambda torch, xs, a: _affine(xs, _deviation_torch(torch, a))[1],
        doc="bias - mean * scale / sqrt(var + eps) as [1, C, 1, 1]: the summand of a batch normalisation",
    ),
    OpSpec(
        "layernorm",
        (2, 3),
        _layernorm_type,
        lambda xs, a: _layernorm(xs, a, _deviation(a)),
        (Attr("axis", "int", -1), _EPS),
        per_element(8),
        exact=_in_digits(_layernorm),
        export=_export_layernorm,
        torch=_layernorm_torch,
        parts=from_axis,
        doc="centred and scaled to unit variance over axis..-1, times scale, plus bias",
    ),
    OpSpec(
        "rmsnorm",
        2,
        _layernorm_type,
        lambda xs, a: _rmsnorm(xs, a, _deviation(a)),
        (Attr("axis", "int", -1), _EPS),
        per_element(5),
        exact=_in_digits(_rmsnorm),
        export=_export_rmsnorm,
        torch=_root_mean_square_torch,
        parts=from_axis,
        doc="divided by the root of the mean square over axis..-1, times scale",
    ),
    OpSpec(
        "softmax",
        1,
        _softmax_type,
        _softmax,
        (Attr("axis", "int", -1),),
        per_element(6),
        exact=ExactForm(Arithmetic.DIGITS, _exact_softmax),
        export=_export_softmax,
        torch=lambda torch, xs, a: torch.softmax(xs[0], a["axis"]),
        parts=along_axis,
        doc="exp(x) divided by its sum along the axis",
    ),
)


@imports("BatchNormalization")
def _import_batchnorm(n: OnnxNode) -> int:
    x = only_result(n)
    if n.attr("training_mode", 0) or not n.attr("spatial", 1):
        raise NotModelled("batch normalisation in training mode or per position")
    if x.rank < 2:
        raise NotModelled(f"batch normalisation of a rank-{x.rank} tensor, which has no channels")
    data, *statistics = n.operands()
    if x.rank != 4:  # any number of places in any order are those of an image of one row
        data = n.op("reshape", data, shape=(*x.shape[:2], 1, math.prod(x.shape[2:])))
    normal = n.op("batchnorm", data, *statistics, eps=n.attr("epsilon", 1e-5))
    return normal if x.rank == 4 else n.op("reshape", normal, shape=x.shape)


@imports("LayerNormalization", "RMSNormalization")
def _import_norm(n: OnnxNode) -> int:
    x = only_result(n)
    if n.attr("stash_type", 1) != 1:
        raise NotModelled("statistics kept in another dtype than float32")
    op = {"LayerNormalization": "layernorm", "RMSNormalization": "rmsnorm"}[n.op_type]
    axis = onnx_form.from_end(n.attr("axis", -1), x.rank)
    return n.op(op, *n.operands(), axis=axis, eps=n.attr("epsilon", 1e-5))


@imports("Softmax")
def _import_softmax(n: OnnxNode) -> int:
    x = n.type(0)
    axis = onnx_form.from_end(n.attr("axis", -1 if n.opset >= 13 else 1), x.rank)
    if n.opset >= 13 or all(d == 1 for d in x.shape[x.rank + axis + 1 :]):
        return n.op("softmax", n.operand(0), axis=axis)
    # Older operator sets flatten the tensor to rows at the axis and normalise each row.
    columns = math.prod(x.shape[axis:])
    rows = n.op("reshape", n.operand(0), shape=(x.elements // columns, columns))
    return n.op("reshape", n.op("softmax", rows, axis=-1), shape=x.shape)
