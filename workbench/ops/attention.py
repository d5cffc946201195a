"""Attention of several heads, and heads turned by their positions (arXiv 2104.09864), each as one operator.

ONNX Runtime has a kernel for either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from workbench.ops.exact import Arithmetic, ExactForm, each
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, imports, only_result
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Names, OpSpec, Tensor, Types, per_element
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing

#: The ONNX operator of ONNX Runtime's own domain.
ATTENTION = "com.microsoft::MultiHeadAttention"


def _attention_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    queries, keys, values = xs
    t.require_float(queries)
    t.require(attrs["heads"] >= 1, "there must be at least one head")
    for x in (queries, keys, values):
        t.require_same_dtype(queries, x)
        t.require(t.rank(x) == 3, "queries, keys and values must be [B, S, W]")
        t.require(t.dim(x, -1) % attrs["heads"] == 0, "the width must be a multiple of the heads")
        t.require(t.dim(x, -3) == t.dim(queries, -3), "the batches must agree")
    t.require(t.dim(queries, -1) == t.dim(keys, -1), "queries and keys must have the same width")
    t.require(t.dim(keys, -2) == t.dim(values, -2), "there must be as many keys as values")
    return t.with_dim(queries, -1, t.dim(values, -1))


def _split(x: np.ndarray, heads: int) -> np.ndarray:
    batch, count, width = x.shape
    return x.reshape(batch, count, heads, width // heads).transpose(0, 2, 1, 3)


def _attention(
    xs: Sequence[np.ndarray], attrs: Attrs, exponential: Callable[[np.ndarray], np.ndarray], scale: Any
) -> np.ndarray:
    q, k, v = (_split(x, attrs["heads"]) for x in xs)
    shares = exponential(q @ k.swapaxes(-1, -2) * scale)
    mixed = shares / shares.sum(axis=-1, keepdims=True) @ v
    batch, heads, count, size = mixed.shape
    return mixed.transpose(0, 2, 1, 3).reshape(batch, count, heads * size)


def _evaluate(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    scale = xs[0].dtype.type(attrs["scale"])
    mixed = _attention(xs, attrs, lambda s: np.exp(s - s.max(axis=-1, keepdims=True)), scale)
    return mixed.astype(xs[0].dtype)


def _attention_torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    q, k, v = (x.unflatten(-1, (attrs["heads"], -1)).transpose(1, 2) for x in xs)
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=attrs["scale"])
    return mixed.transpose(1, 2).flatten(2)


def _attention_flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    (batch, queries, width), (_, keys, _) = inputs[0].shape, inputs[1].shape
    scores = batch * queries * keys
    return 2.0 * scores * (width + out.shape[-1]) + 7.0 * scores * attrs["heads"]


register(
    OpSpec(
        "attention",
        3,
        _attention_type,
        _evaluate,
        (Attr("heads", "int"), Attr("scale", "float")),
        _attention_flops,
        exact=ExactForm(
            Arithmetic.DIGITS,
            lambda numbers, xs, a: _attention(xs, a, partial(each, numbers.exp), numbers.number(a["scale"])),
        ),
        # A scale of 0 stands for the usual one; so small a scale makes all scores equal.
        export=lambda e, xs, a, *_: e.node(ATTENTION, xs, num_heads=a["heads"], scale=a["scale"] or 1e-30),
        torch=_attention_torch,
        doc="of every head, values weighted by softmax(scale * queries * keys)",
    )
)


@imports(ATTENTION)
def _import_attention(n: OnnxNode) -> int:
    only_result(n)
    if any(n.has(k) for k in range(3, 10)) or not all(n.has(k) and n.type(k).rank == 3 for k in range(3)):
        raise NotModelled("attention with biases, masks or a past, or with packed keys")
    if n.attr("unidirectional", 0):
        raise NotModelled("attention to earlier positions only")
    heads = n.attr("num_heads")
    scale = n.attr("scale", 0.0) or (n.type(0).shape[-1] // heads) ** -0.5
    return n.op("attention", *(n.operand(k) for k in range(3)), heads=heads, scale=scale)


# -- rotary embedding ---------------------------------------------------------------------------------
#: The ONNX operator of ONNX Runtime's own domain.
ROTARY = "com.microsoft::RotaryEmbedding"


def _rotary_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    heads, *tables = xs
    t.require_float(heads)
    t.require(t.rank(heads) == 4, "heads must be [B, H, S, D]")
    for table in tables:
        t.require_same_dtype(heads, table)
        t.require(t.rank(table) >= 2, "cosines and sines must be [S, D / 2]")
        t.require(t.rank(table) <= 4, "cosines and sines must be [S, D / 2]")
        for axis in (-3, -4):
            t.require(t.dim(table, axis) == 1, "all heads must read one table")
        t.require(t.dim(table, -2) == t.dim(heads, -2), "every position must have its row of a table")
        t.require(t.dim(table, -1) * 2 == t.dim(heads, -1), "the tables must be half as wide as a head")
    return heads


def _rotary(xs: Sequence[Any], join: Callable[[list[Any], int], Any]) -> Any:
    """Return arrays or tensors turned, joined along an axis as the module does."""
    heads, cosines, sines = xs
    half = heads.shape[-1] // 2
    x, y = heads[..., :half], heads[..., half:]
    return join([x * cosines - y * sines, y * cosines + x * sines], -1)


def _export_rotary(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
    # The position of the first row; the others follow it.
    first = e.constant(np.zeros(1, np.int64))
    tables = [e.reshape(x, t.shape[-2:]) if t.rank > 2 else x for x, t in zip(xs[1:], types[1:], strict=True)]
    return e.node(ROTARY, [xs[0], first, *tables])


register(
    OpSpec(
        "rotary",
        3,
        _rotary_type,
        lambda xs, a: _rotary(xs, np.concatenate),
        flops=per_element(3.0),
        traits=Trait.FOUR_AXES,
        exact=ExactForm(
            Arithmetic.POLYNOMIAL,
            degree=lambda degrees: degrees[0] + max(degrees[1:]),
            bound=lambda bounds, shapes, attrs: bounds[0] * (bounds[1] + bounds[2]),
        ),
        export=_export_rotary,
        torch=lambda torch, xs, a: _rotary(xs, torch.cat),
        weights_from=1,
        doc="x * cos - y * sin beside y * cos + x * sin, where x and y are the halves of every head",
    )
)


@imports(ROTARY)
def _import_rotary(n: OnnxNode) -> int:
    kind = only_result(n)
    first = n.known(1)
    if kind.rank != 4 or first is None or first.shape != (1,) or first[0] < 0:
        raise NotModelled("positions that are computed at run time, or heads that are not split")
    others = ("interleaved", "rotary_embedding_dim", "is_packed_batching")
    if any(n.attr(name, 0) for name in others) or n.attr("scale", 1.0) != 1.0:
        raise NotModelled("numbers turned in neighbouring pairs, in part or packed")
    start, rows = int(first[0]), kind.shape[-2]
    tables = []
    for k in (2, 3):
        table = n.operand(k)
        if start or n.type(k).shape[0] != rows:
            table = n.op("slice", table, axis=-2, start=start, stop=start + rows)
        tables.append(table)
    return n.op("rotary", n.operand(0), *tables)
