"""Matrix multiplication, batched and broadcast, with an optional fused activation."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from workbench.ops.activations import (
    activate,
    activate_torch,
    activation_needs,
    exactly_activated,
    export_activation,
)
from workbench.ops.exact import ExactAttrs, ExactForm
from workbench.ops.locality import product
from workbench.ops.onnx_form import Emitter, NotModelled, OnnxNode, imports
from workbench.ops.registry import register
from workbench.ops.spec import Attr, OpSpec
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, Typing

if TYPE_CHECKING:
    from torch import Tensor


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    a, b = xs
    t.require_float(a)
    t.require_same_dtype(a, b)
    t.require(t.rank(a) >= 2, "the left operand must have two axes or more")
    t.require(t.rank(b) >= 2, "the right operand must have two axes or more")
    t.require(t.dim(a, -1) == t.dim(b, -2), f"inner extents differ in {a} @ {b}")
    return t.with_dim(t.broadcast(a, b, keep=2), -1, t.dim(b, -1))


def _evaluate(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    # numpy multiplies bfloat16 in float32, so the result is converted back.
    product = np.matmul(xs[0], xs[1]).astype(xs[0].dtype, copy=False)
    return activate(product, attrs["act"])


def _flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    return 2.0 * out.elements * inputs[0].shape[-1]


def _torch(torch: ModuleType, xs: Sequence[Tensor], attrs: Attrs) -> Tensor:
    return activate_torch(torch, torch.matmul(xs[0], xs[1]), attrs["act"])


def _export(e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType) -> str:
    return export_activation(e, e.node("MatMul", xs), attrs["act"], out)


def _bound(bounds: Sequence[int], shapes: Sequence[tuple[int, ...]], attrs: ExactAttrs) -> int:
    return bounds[0] * bounds[1] * shapes[0][-1]


register(
    OpSpec(
        "matmul",
        2,
        2,
        _type,
        _evaluate,
        (Attr("act", "act", "none"),),
        _flops,
        Trait.PRODUCT | Trait.BROADCASTS | Trait.LINEAR,
        exact=ExactForm(activation_needs, exactly_activated(_evaluate), sum, _bound),
        export=_export,
        torch=_torch,
        parts=product,
        doc="act(a @ b), batch axes broadcast",
    )
)


@imports("MatMul")
def _import_matmul(n: OnnxNode) -> int:
    # A vector is a row on the left side and a column on the right; its axis is dropped from the result.
    left, right = n.operand(0), n.operand(1)
    a, b = n.type(0).shape, n.type(1).shape
    if len(a) >= 2 and len(b) >= 2:
        return n.op("matmul", left, right)
    if not a or not b:
        raise NotModelled("a product with a scalar")
    if len(a) == 1:
        left = n.op("reshape", left, shape=(1, *a))
    if len(b) == 1:
        right = n.op("reshape", right, shape=(*b, 1))
    product = n.op("matmul", left, right)
    shape = n.type_of(product).shape
    rows = shape[-2:-1] if len(a) > 1 else ()
    columns = shape[-1:] if len(b) > 1 else ()
    return n.op("reshape", product, shape=(*shape[:-2], *rows, *columns))


def _scaled(n: OnnxNode, value: int, factor: float) -> int:
    if factor == 1:
        return value
    scalar = np.asarray(factor, dtype=n.type_of(value).numpy_dtype())
    return n.op("mul", value, n.constant(scalar))


@imports("Gemm")
def _import_gemm(n: OnnxNode) -> int:
    """Import ``alpha * A @ B + beta * C`` as transposes, a product and a sum."""
    if n.attr("broadcast") is not None:
        raise NotModelled("broadcasting of operator sets before 7")
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    sides = [
        n.op("transpose", n.operand(i), perm=(1, 0)) if n.attr(flag, 0) else n.operand(i)
        for i, flag in ((0, "transA"), (1, "transB"))
    ]
    # A factor on a constant side is folded; on the product it would be computed in every run.
    constant_side = next((i for i in (1, 0) if n.is_constant(i)), None)
    if constant_side is not None:
        sides[constant_side] = _scaled(n, sides[constant_side], alpha)
    product = n.op("matmul", *sides)
    if constant_side is None:
        product = _scaled(n, product, alpha)
    if not n.has(2) or beta == 0:
        return product
    return n.op("add", product, _scaled(n, n.operand(2), beta))
