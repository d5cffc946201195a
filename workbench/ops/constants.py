"""Constants that rewrite rules introduce: operators without operands, determined by their attributes alone.

They are folded like weights. Their values are exact in every element type that they may have, except that
the mean is rounded; evaluation in float64 computes the mean in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from workbench.ops.exact import POLYNOMIAL, Arithmetic, ExactForm
from workbench.ops.registry import register
from workbench.ops.spec import Attr, Evaluate, OpSpec, no_flops
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs, N, T, TypeRule, Typing

#: A constant that is stored element by element has at most this many (1 GiB of float32). Folding is free in
#: every cost model, so that otherwise nothing would prevent a rule from using an identity of any size.
LARGEST: Final = 1 << 28

#: Whole numbers below this are exact in float32.
WHOLE: Final = 1 << 24

_DTYPE: Final = Attr("dtype", "dtype", "float32")


def _made(t: Typing[T, N], attrs: Attrs, *dims: N | int, floating: bool = False) -> T:
    """Return the type of a constant; one with axes is stored element by element."""
    out = t.constant(attrs["dtype"], *dims)
    if dims:
        t.require(t.elements(out) <= LARGEST, f"a constant must have at most {LARGEST} elements")
    (t.require_float if floating else t.require_number)(out)
    return out


def _ones_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    out = t.constant_of_shape(attrs["dtype"], attrs["shape"])
    t.require_number(out)
    return out


def _identity_kernel_type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    channels, groups, (height, width) = attrs["channels"], attrs["groups"], attrs["kernel"]
    t.require(groups >= 1, "the number of groups must be positive")
    t.require(channels % groups == 0, "the channels must divide into the groups")
    for extent in (height, width):
        t.require(extent % 2 == 1, "the extents of an identity kernel must be odd")
    return _made(t, attrs, channels, channels // groups, height, width)


def _numpy(attrs: Attrs) -> np.dtype:
    return TensorType(attrs["dtype"], ()).numpy_dtype()


def _is_whole(value: float) -> bool:
    return float(value).is_integer() and abs(value) < WHOLE


def _identity_kernel(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    channels, groups, (height, width) = attrs["channels"], attrs["groups"], attrs["kernel"]
    weight = np.zeros((channels, channels // groups, height, width), _numpy(attrs))
    outputs = np.arange(channels)
    weight[outputs, outputs % (channels // groups), height // 2, width // 2] = 1
    return weight


def _mean_kernel(attrs: Attrs, one: Any, dtype: type | np.dtype) -> np.ndarray:
    height, width = attrs["kernel"]
    return np.full((attrs["channels"], 1, height, width), one / (height * width), dtype)


def _constant(
    name: str,
    infer: TypeRule,
    evaluate: Evaluate,
    *attrs: Attr,
    traits: Trait = Trait.MOVES | Trait.UNROUNDED,
    exact: ExactForm = POLYNOMIAL,
    doc: str,
) -> OpSpec:
    return OpSpec(
        name,
        0,
        infer,
        evaluate,
        (*attrs, _DTYPE),
        no_flops,
        traits | Trait.CONSTANT,
        export=lambda e, xs, a, types, out: e.constant(evaluate([], a)),
        exact=exact,
        doc=doc,
    )


register(
    _constant(
        "eye",
        lambda t, xs, a: _made(t, a, a["size"], a["size"]),
        lambda xs, a: np.eye(a["size"], dtype=_numpy(a)),
        Attr("size", "int"),
        doc="the identity matrix",
    ),
    _constant(
        "scalar",
        lambda t, xs, a: _made(t, a, floating=True),
        lambda xs, a: np.asarray(a["value"], dtype=_numpy(a)),
        Attr("value", "float"),
        traits=Trait.NUMBER,
        exact=ExactForm(
            lambda a: Arithmetic.POLYNOMIAL if _is_whole(a["value"]) else Arithmetic.RATIONAL,
            # A law means the decimal as it is written, not the binary number nearest to it.
            lambda numbers, xs, a: np.full((), numbers.number(float(a["value"])), dtype=object),
            bound=lambda bounds, shapes, attrs: abs(int(attrs["value"])),
        ),
        doc="a number",
    ),
    _constant(
        "pi",
        lambda t, xs, a: _made(t, a, floating=True),
        lambda xs, a: np.asarray(math.pi, dtype=_numpy(a)),
        traits=Trait.NUMBER,
        exact=ExactForm(Arithmetic.DIGITS, lambda numbers, xs, a: np.full((), numbers.pi(), dtype=object)),
        doc="the ratio of a circle's circumference to its diameter",
    ),
    _constant(
        "ones",
        _ones_type,
        # A single element, repeated without being stored.
        lambda xs, a: np.broadcast_to(np.ones((), _numpy(a)), a["shape"]),
        Attr("shape", "shape"),
        doc="a tensor of ones",
    ),
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
        lambda t, xs, a: _made(t, a, a["channels"], 1, *a["kernel"], floating=True),
        lambda xs, a: _mean_kernel(a, 1, _numpy(a)),
        Attr("channels", "int"),
        Attr("kernel", "ints", None, 2),
        traits=Trait.NONE,
        exact=ExactForm(Arithmetic.RATIONAL, lambda n, xs, a: _mean_kernel(a, n.number(1), object)),
        doc="the weight of a depthwise convolution that averages its windows",
    ),
)
