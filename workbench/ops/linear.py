"""Matrix multiplication, batched and broadcast, with an optional fused activation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.ops.elementwise import ACTIVATE
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Attrs, OpSpec, Typing
from workbench.ops.types import TensorType


def _type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    a, b = xs
    t.require_float(a)
    t.require_same_dtype(a, b)
    t.require(t.rank(a) >= 2, "the left operand needs two axes or more")
    t.require(t.rank(b) >= 2, "the right operand needs two axes or more")
    t.require(t.dim(a, -1) == t.dim(b, -2), f"inner extents differ in {a} @ {b}")
    return t.with_dim(t.broadcast(a, b, keep=2), -1, t.dim(b, -1))


def _evaluate(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return ACTIVATE[attrs["act"]](np.matmul(xs[0], xs[1]))


def _flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    return 2.0 * out.elements * inputs[0].shape[-1]


register(
    OpSpec(
        "matmul",
        2,
        2,
        _type,
        _evaluate,
        (Attr("act", "act", "none"),),
        _flops,
        doc="act(a @ b), batch axes broadcast",
    )
)
