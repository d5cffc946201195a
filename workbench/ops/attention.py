"""Attention of several heads as one operator, for which ONNX Runtime has a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm, Numbers, each
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, imports, only_result
from workbench.ops.registry import register
from workbench.ops.spec import Attr, OpSpec
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing

if TYPE_CHECKING:
    from torch import Tensor

#: The ONNX operator of ONNX Runtime's own domain.
FORM = "com.microsoft::MultiHeadAttention"


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    queries, keys, values = xs
    t.require_float(queries)
    for x in (queries, keys, values):
        t.require_same_dtype(queries, x)
        t.require(t.rank(x) == 3, "queries, keys and values must be [B, S, W]")
        t.require(t.dim(x, -1) % attrs["heads"] == 0, "the width must be a multiple of the heads")
        t.require(t.dim(x, -3) == t.dim(queries, -3), "the batches must agree")
    t.require(attrs["heads"] >= 1, "there must be at least one head")
    t.require(t.dim(queries, -1) == t.dim(keys, -1), "queries and keys must have the same width")
    t.require(t.dim(keys, -2) == t.dim(values, -2), "there must be as many keys as values")
    return t.with_dim(queries, -1, t.dim(values, -1))


def _split(x: np.ndarray, heads: int) -> np.ndarray:
    batch, count, width = x.shape
    return x.reshape(batch, count, heads, width // heads).transpose(0, 2, 1, 3)


def _joined(mixed: np.ndarray) -> np.ndarray:
    batch, heads, count, size = mixed.shape
    return mixed.transpose(0, 2, 1, 3).reshape(batch, count, heads * size)


def _attention(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    q, k, v = (_split(x, attrs["heads"]) for x in xs)
    scores = q @ k.swapaxes(-1, -2) * xs[0].dtype.type(attrs["scale"])
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return _joined(shares / shares.sum(axis=-1, keepdims=True) @ v).astype(xs[0].dtype)


def _exact(numbers: Numbers, xs: Sequence[np.ndarray], attrs: ExactAttrs) -> np.ndarray:
    q, k, v = (_split(x, attrs["heads"]) for x in xs)
    shares = each(numbers.exp, q @ k.swapaxes(-1, -2) * numbers.number(attrs["scale"]))
    return _joined(shares / shares.sum(axis=-1, keepdims=True) @ v)


def _torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    q, k, v = (x.unflatten(-1, (attrs["heads"], -1)).transpose(1, 2) for x in xs)
    mixed: Tensor = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=attrs["scale"])
    return mixed.transpose(1, 2).flatten(2)


def _flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    (batch, queries, width), (_, keys, _) = inputs[0].shape, inputs[1].shape
    scores = batch * queries * keys
    return 2.0 * scores * (width + out.shape[-1]) + 7.0 * scores * attrs["heads"]


def _export(e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType) -> str:
    # A scale of 0 stands for the usual one; so small a scale makes all scores equal.
    return e.node(FORM, xs, num_heads=attrs["heads"], scale=attrs["scale"] or 1e-30)


register(
    OpSpec(
        "attention",
        3,
        3,
        _type,
        _attention,
        (Attr("heads", "int"), Attr("scale", "float")),
        _flops,
        exact=ExactForm(Arithmetic.DIGITS, _exact),
        export=_export,
        torch=_torch,
        doc="of every head, values weighted by softmax(scale * queries * keys)",
    )
)


@imports(FORM)
def _import(n: OnnxNode) -> int:
    only_result(n)
    if any(n.has(k) for k in range(3, 10)) or not all(n.has(k) and n.type(k).rank == 3 for k in range(3)):
        raise NotModelled("attention with biases, masks or a past, or with packed keys")
    if n.attr("unidirectional", 0):
        raise NotModelled("attention to earlier positions only")
    heads = n.attr("num_heads")
    scale = n.attr("scale", 0.0) or (n.type(0).shape[-1] // heads) ** -0.5
    return n.op("attention", *(n.operand(k) for k in range(3)), heads=heads, scale=scale)
