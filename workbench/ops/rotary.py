"""Heads turned by their positions as one operator, for which ONNX Runtime has a kernel (arXiv 2104.09864)."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from workbench.ops.exact import Arithmetic, ExactAttrs, ExactForm
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, imports, only_result
from workbench.ops.registry import register
from workbench.ops.spec import OpSpec
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing

if TYPE_CHECKING:
    from torch import Tensor

#: The ONNX operator of ONNX Runtime's own domain.
FORM = "com.microsoft::RotaryEmbedding"


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
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


def _rotary(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    heads, cosines, sines = xs
    half = cosines.shape[-1]
    x, y = heads[..., :half], heads[..., half:]
    return np.concatenate([x * cosines - y * sines, y * cosines + x * sines], axis=-1)


def _bound(bounds: Sequence[int], shapes: Sequence[tuple[int, ...]], attrs: ExactAttrs) -> int:
    return bounds[0] * (bounds[1] + bounds[2])


def _torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    heads, cosines, sines = xs
    x, y = heads.chunk(2, -1)
    turned: Tensor = torch.cat([x * cosines - y * sines, y * cosines + x * sines], -1)
    return turned


def _flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    return 3.0 * out.elements


def _export(e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType) -> str:
    # The position of the first row; the others follow it.
    first = e.constant(np.zeros(1, np.int64))
    tables = [e.reshape(x, t.shape[-2:]) if t.rank > 2 else x for x, t in zip(xs[1:], types[1:], strict=True)]
    return e.node(FORM, [xs[0], first, *tables])


register(
    OpSpec(
        "rotary",
        3,
        3,
        _type,
        _rotary,
        flops=_flops,
        traits=Trait.FOUR_AXES,
        exact=ExactForm(Arithmetic.POLYNOMIAL, degree=lambda d: d[0] + max(d[1:]), bound=_bound),
        export=_export,
        torch=_torch,
        weights_from=1,
        doc="x * cos - y * sin beside y * cos + x * sin, where x and y are the halves of every head",
    )
)


@imports(FORM)
def _import(n: OnnxNode) -> int:
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
