"""Constants that rewrite rules make: operators without operands, known from their attributes alone.

They are folded like weights. What one holds is exact in every element type that it may have; only the
mean is rounded, and evaluation that computes in float64 makes it in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from workbench.ops.onnx_form import Emitter
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Attrs, Evaluate, OnnxExport, OpSpec, TypeRule, Typing, no_flops
from workbench.ops.types import TensorType

#: A constant that is stored element by element has at most this many (1 GiB of float32): folding is free
#: in every cost model, so that nothing else would keep a rule from asking for an identity of any size.
LARGEST: Final = 1 << 28

_DTYPE: Final = Attr("dtype", "dtype", "float32")


def _stored(t: Typing, out: Any) -> Any:
    t.require(t.elements(out) <= LARGEST, f"a constant has at most {LARGEST} elements")
    return out


def _eye_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    out = _stored(t, t.constant(attrs["dtype"], attrs["size"], attrs["size"]))
    t.require_number(out)
    return out


def _ones_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    out = t.constant_of_shape(attrs["dtype"], attrs["shape"])
    t.require_number(out)
    return out


def _identity_kernel_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    channels, groups, (height, width) = attrs["channels"], attrs["groups"], attrs["kernel"]
    t.require(groups >= 1, "the groups are positive")
    t.require(channels % groups == 0, "the channels do not divide into the groups")
    for extent in (height, width):
        t.require(extent % 2 == 1, "the extents of an identity kernel are odd")
    out = _stored(t, t.constant(attrs["dtype"], channels, channels // groups, height, width))
    t.require_number(out)
    return out


def _mean_kernel_type(t: Typing, xs: Sequence[Any], attrs: Attrs) -> Any:
    out = _stored(t, t.constant(attrs["dtype"], attrs["channels"], 1, *attrs["kernel"]))
    t.require_float(out)
    return out


def _numpy(attrs: Attrs) -> np.dtype:
    return TensorType(attrs["dtype"], ()).numpy_dtype()


def _ones(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    # One element, repeated without being stored.
    return np.broadcast_to(np.ones((), _numpy(attrs)), attrs["shape"])


def _identity_kernel(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    channels, groups, (height, width) = attrs["channels"], attrs["groups"], attrs["kernel"]
    weight = np.zeros((channels, channels // groups, height, width), _numpy(attrs))
    outputs = np.arange(channels)
    weight[outputs, outputs % (channels // groups), height // 2, width // 2] = 1
    return weight


def _mean_kernel(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    height, width = attrs["kernel"]
    return np.full((attrs["channels"], 1, height, width), 1 / (height * width), _numpy(attrs))


def _constant(name: str, infer: TypeRule, evaluate: Evaluate, *attrs: Attr, doc: str) -> OpSpec:
    return OpSpec(name, 0, 0, infer, evaluate, (*attrs, _DTYPE), no_flops, export=_export(evaluate), doc=doc)


def _export(evaluate: Evaluate) -> OnnxExport:
    def export(
        e: Emitter, xs: Sequence[str], attrs: Attrs, types: Sequence[TensorType], out: TensorType
    ) -> str:
        return e.constant(evaluate([], attrs))

    return export


register(
    _constant(
        "eye",
        _eye_type,
        lambda xs, a: np.eye(a["size"], dtype=_numpy(a)),
        Attr("size", "int"),
        doc="the identity matrix",
    ),
    _constant("ones", _ones_type, _ones, Attr("shape", "shape"), doc="a tensor of ones"),
    _constant(
        "identity_kernel",
        _identity_kernel_type,
        _identity_kernel,
        Attr("channels", "int"),
        Attr("groups", "int", 1),
        Attr("kernel", "ints", (1, 1), 2),
        doc="the weight of a convolution that returns its input (stride 1, pads of half the odd kernel)",
    ),
    _constant(
        "mean_kernel",
        _mean_kernel_type,
        _mean_kernel,
        Attr("channels", "int"),
        Attr("kernel", "ints", None, 2),
        doc="the weight of a depthwise convolution that averages its windows",
    ),
)
