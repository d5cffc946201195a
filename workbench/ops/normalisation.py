"""Normalisation: batch (inference), layer, softmax, and the affine form of batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.ops.registry import register
from workbench.ops.spec import Attr, Attrs, OpSpec, Typing
from workbench.ops.types import TensorType


def _batchnorm_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    x, *vectors = xs
    t.require_float(x)
    t.require(t.rank(x) == 4, "the input needs four axes [N, C, H, W]")
    for v in vectors:
        t.require_same(v, t.tensor(x, t.dim(x, -3)), "scale, bias, mean and variance are [C]")
    return x


def _affine(xs: Sequence[np.ndarray], eps: float) -> tuple[np.ndarray, np.ndarray]:
    scale, bias, mean, var = (v.reshape(1, -1, 1, 1) for v in xs)
    a = scale / np.sqrt(var + var.dtype.type(eps))
    return a, bias - a * mean


def _batchnorm(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    a, b = _affine(xs[1:], attrs["eps"])
    return xs[0] * a + b


def _bn_vector_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    first = xs[0]
    t.require_float(first)
    t.require(t.rank(first) == 1, "vectors [C] are expected")
    for v in xs[1:]:
        t.require_same(first, v, "vectors of one type are expected")
    return t.tensor(first, 1, t.dim(first, -1), 1, 1)


def _bn_scale(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    scale, var = (v.reshape(1, -1, 1, 1) for v in xs)
    return scale / np.sqrt(var + var.dtype.type(attrs["eps"]))


def _layernorm_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    x = xs[0]
    t.require_float(x)
    t.require_axis(x, attrs["axis"])
    for v in xs[1:]:
        t.require_same_dtype(x, v)
        t.require_same(t.broadcast(x, v), x, "scale and bias broadcast to the input")
    return x


def _layernorm(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = xs[0]
    axes = tuple(range(attrs["axis"], 0))
    centred = x - x.mean(axis=axes, keepdims=True)
    var = (centred * centred).mean(axis=axes, keepdims=True)
    out = centred / np.sqrt(var + x.dtype.type(attrs["eps"]))
    for v, f in zip(xs[1:], (np.multiply, np.add), strict=False):
        out = f(out, v)
    return out


def _softmax_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    t.require_float(xs[0])
    t.require_axis(xs[0], attrs["axis"])
    return xs[0]


def _softmax(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    e = np.exp(xs[0] - xs[0].max(axis=attrs["axis"], keepdims=True))
    return e / e.sum(axis=attrs["axis"], keepdims=True)


def _times(n: float) -> Any:
    def flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
        return n * out.elements

    return flops


_EPS = Attr("eps", "float", 1e-5)

register(
    OpSpec(
        "batchnorm",
        5,
        5,
        _batchnorm_type,
        _batchnorm,
        (_EPS,),
        _times(2),
        doc="(x - mean) * scale / sqrt(var + eps) + bias per channel, with stored statistics",
    ),
    OpSpec(
        "bn_scale",
        2,
        2,
        _bn_vector_type,
        _bn_scale,
        (_EPS,),
        _times(3),
        doc="scale / sqrt(var + eps) as [1, C, 1, 1]: what batch normalisation multiplies by",
    ),
    OpSpec(
        "bn_shift",
        4,
        4,
        _bn_vector_type,
        lambda xs, a: _affine(xs, a["eps"])[1],
        (_EPS,),
        _times(5),
        doc="bias - mean * scale / sqrt(var + eps) as [1, C, 1, 1]: what it adds",
    ),
    OpSpec(
        "layernorm",
        2,
        3,
        _layernorm_type,
        _layernorm,
        (Attr("axis", "int", -1), _EPS),
        _times(8),
        doc="centred and scaled to unit variance over axis..-1, times scale, plus bias",
    ),
    OpSpec(
        "softmax",
        1,
        1,
        _softmax_type,
        _softmax,
        (Attr("axis", "int", -1),),
        _times(6),
        doc="exp(x) divided by its sum along the axis",
    ),
)
