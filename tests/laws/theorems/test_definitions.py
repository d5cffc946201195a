"""Every definition gives what the operator's reference semantics give, on random operands."""

import math

import numpy as np
import pytest

from tests.laws.theorems.evaluate import elements
from workbench.laws.theorems.goals import DEFINITIONS
from workbench.ops import Trait, spec_of
from workbench.ops.registry import known
from workbench.ops.resampling import taps
from workbench.ops.spec import ACTIVATIONS

X4, W4 = (2, 4, 5, 6), (6, 2, 3, 2)
CONV = {"strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 2), "groups": 2, "act": "none"}
POOL = {"kernel": (2, 3), "strides": (2, 1), "pads": (1, 0, 1, 2)}
BN = [X4, (4,), (4,), (4,), (4,)]

#: Instances of every operator: shapes of operands, and attributes.
INSTANCES = {
    **{op: [([(2, 3), (3,)], {}), ([(2, 1, 2), (3, 1)], {})] for op in ("add", "sub", "mul", "div", "max", "min")},
    "pow": [([(2, 3), ()], {})],
    **{op: [([(2, 3)], {})] for op in ("relu", "neg", "identity", "reciprocal", "sigmoid", "tanh", "erf", "exp")},
    **{op: [([(2, 3)], {})] for op in ("log", "cos", "sin", "sqrt", "abs", "hardswish")},
    "select": [([(2, 3), (3,), ()], {}), ([(1, 3), (2, 1), (2, 3)], {})],
    "is_nan": [([(2, 3)], {})],
    "attention": [([(2, 3, 6), (2, 4, 6), (2, 4, 4)], {"heads": 2, "scale": 0.5})],
    "rotary": [([(2, 3, 5, 4), (5, 2), (5, 2)], {})],
    "clip": [([(2, 3)], {"low": 0.7, "high": 1.2}), ([(3,)], {"high": 1.0}), ([(3,)], {"low": 1.0})],
    "leakyrelu": [([(2, 3)], {"alpha": 0.1})],
    "gelu": [([(3,)], {"tanh": 0}), ([(3,)], {"tanh": 1})],
    "swish": [([(3,)], {"alpha": 1.5})],
    "cast": [([(3,)], {"to": "float64"})],
    "quantize": [([(2, 3), (3,), ()], {"to": "int8"})],
    "dequantize": [([(2, 3), (3,), ()], {"to": "float64"})],
    "concat": [([(2, 3), (1, 3), (4, 3)], {"axis": -2}), ([(2, 3)], {"axis": -1})],
    "slice": [([(2, 9)], {"axis": -1, "start": 2, "stop": 8, "step": 3})],
    "reshape": [([(2, 3, 4)], {"shape": (4, 6)}), ([(6, 4)], {"shape": (2, 3, 4)}), ([(1, 6)], {"shape": (3, 1, 2)})],
    "transpose": [([(2, 3, 4)], {"perm": (2, 0, 1)}), ([(2, 3, 4, 5)], {"perm": (0, 3, 1, 2)})],
    "expand": [([(3, 1)], {"shape": (2, 3, 4)})],
    "gather": [([(5, 3), (4,)], {"axis": -2}), ([(5, 3), (2, 4)], {"axis": -2})],
    "repeat": [([(2, 3)], {"axis": -1, "times": 2})],
    "pad": [([(2, 3, 4)], {"pads": (1, 0, 2, 1), "value": 2.5}), ([(3, 4)], {"pads": (0, 2, 0, 0)})],
    "matmul": [([(2, 3), (3, 4)], {}), *(([(2, 1, 3, 2), (3, 2, 4)], {"act": act}) for act in ACTIVATIONS)],
    "conv2d": [([X4, W4], CONV), ([X4, W4, (1, 6, 1, 1)], CONV | {"act": "tanh"}), ([X4, (2, 4, 1, 1)], {})],
    "conv_transpose": [
        ([X4, (4, 3, 2, 3)], {"strides": (2, 1), "pads": (1, 0, 0, 1), "groups": 2, "extra": (1, 0)}),
        ([(1, 2, 3, 2), (2, 2, 2, 2), (1, 2, 1, 1)], {"dilations": (2, 1)}),
    ],
    "enlarge": [([(2, 2, 2, 1)], {"pads": (1, 0, 2, 1)})],
    "merge_gconv": [([(8, 2, 1, 2)], {"count": 2, "groups": 4}), ([(6, 1, 2, 1)], {"count": 3, "groups": 3})],
    "maxpool": [([X4], POOL | {"dilations": (1, 2)}), ([X4], {"kernel": (2, 2)})],
    "avgpool": [([X4], POOL | {"include_pad": n}) for n in (0, 1)],
    **{f"reduce_{n}": [([(2, 3, 4)], {"axes": (-1, -3)}), ([(2, 3, 2)], {"axes": (-2,), "keepdims": 0})] for n in ("sum", "mean", "max")},  # noqa: E501
    "batchnorm": [(BN, {"eps": 0.01})],
    "bn_scale": [([(4,), (4,)], {"eps": 0.01})],
    "bn_shift": [([(4,)] * 4, {"eps": 0.01})],
    "layernorm": [([(2, 3, 4), (4,)], {"axis": -1}), ([(2, 3, 2), (3, 2), (2,)], {"axis": -2, "eps": 0.1})],
    "rmsnorm": [([(2, 3, 4), (4,)], {"axis": -1, "eps": 0.1}), ([(2, 3, 2), (3, 2)], {"axis": -2})],
    "softmax": [([(2, 3, 4)], {"axis": -1}), ([(2, 3, 4)], {"axis": -2})],
    "resize": [
        ([(1, 2, 3, 4)], {"size": (6, 8), "mode": "nearest", "coords": "asymmetric", "rounding": "floor"}),
        ([(1, 2, 3, 4)], {"size": (2, 5), "mode": "nearest", "coords": "asymmetric", "rounding": "floor"}),
        ([(1, 2, 3, 4)], {"size": (3, 4), "mode": "linear", "coords": "half_pixel"}),
        ([(1, 2, 3, 4)], {"size": (6, 3), "mode": "linear", "coords": "asymmetric"}),
        ([(1, 2, 3, 4)], {"size": (2, 5), "mode": "cubic", "coords": "half_pixel"}),
    ],
    "interpolation": [
        ([], {"extent": 3, "size": 5, "mode": "cubic", "coords": "align_corners", "cubic": -0.5}),
        ([], {"extent": 3, "size": 3}),
    ],
    "depth_to_space": [([(1, 12, 2, 3)], {"block": 2, "order": o}) for o in ("DCR", "CRD")],
    "ones": [([], {"shape": (2, 3)})],
    "eye": [([], {"size": 3})],
    "scalar": [([], {"value": 2.5})],
    "pi": [([], {})],
    "mean_kernel": [([], {"channels": 2, "kernel": (2, 3)})],
    "identity_kernel": [([], {"channels": 4, "groups": 2, "kernel": (3, 1)})],
}  # fmt: skip


def test_every_definition_has_instances():
    # The equations of declared operators define them, also of one that a test has declared and forgotten.
    declared = {op for op in DEFINITIONS if (spec := known(op)) is None or Trait.CARRIED in spec.traits}
    assert set(INSTANCES) == set(DEFINITIONS) - declared


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "number"), [(op, n) for op, given in INSTANCES.items() for n in range(len(given))]
)
def test_a_definition_is_what_the_operator_computes(op, number):
    shapes, given = INSTANCES[op][number]
    spec, random = spec_of(op), np.random.default_rng(number)
    attrs = spec.unpack(spec.pack({"dtype": "float64", **given} if "dtype" in spec.attr_names else given))
    operands = [random.uniform(0.5, 2.0, s) for s in shapes]
    if op == "select":
        operands[0] = operands[0] > 1.2
    if op == "quantize":
        operands[2] = np.int8(3)
    if op == "dequantize":
        operands[0], operands[2] = random.integers(-9, 9, shapes[0]).astype(np.int8), np.int8(3)
    if spec.places is not None:
        operands[spec.places] = random.integers(0, shapes[0][attrs["axis"]], shapes[spec.places])
    operands = [np.asarray(x) for x in operands]
    open_functions = {
        "leakyrelu": lambda x, a: x if x >= 0 else a * x,
        "quantize to int8": lambda x, z: min(max(np.rint(x) + z, -128), 127),
    }
    wanted = np.asarray(spec.evaluate(operands, attrs), dtype=float)
    if "coords" in attrs:
        open_functions |= {share_name(attrs): lambda i, k, extent, size: share(attrs, i, k, extent, size)}
    every = list(np.ndindex(wanted.shape))
    places = [every[k] for k in random.choice(len(every), size=min(4, len(every)), replace=False)]
    shape, found = elements(spec, operands, attrs, places, open_functions)
    assert shape == wanted.shape
    np.testing.assert_allclose(found, [wanted[p] for p in places], rtol=1e-9, atol=1e-12)


def share_name(attrs):
    """Return the name of the weights of an interpolation in its definition."""
    return " ".join(["share", *(str(attrs[n]) for n in ("mode", "coords", "cubic"))])


def share(attrs, i, k, extent, size):
    """Return the weight of place ``k`` of an axis in place ``i`` of the resized one."""
    read = taps(extent, size, attrs)
    return float(sum(weights[i] for at, weights in read if at[i] == k))


def test_interpolation_is_between_two_places_whose_shares_sum_to_one():
    spec = spec_of("resize")
    attrs = spec.unpack(spec.pack({"size": (6, 4), "mode": "linear", "coords": "asymmetric"}))
    x = np.random.default_rng(0).uniform(size=(1, 1, 3, 4))
    wanted = spec.evaluate([x], attrs)
    # Row i lies between i // 2 and the next one, half way if i is odd; columns keep their places.
    for i in range(6):
        near, far, share = i // 2, min(i // 2 + 1, 2), (i % 2) / 2
        np.testing.assert_allclose(wanted[0, 0, i], (1 - share) * x[0, 0, near] + share * x[0, 0, far])
    assert math.isclose(wanted[0, 0, 1, 0], (x[0, 0, 0, 0] + x[0, 0, 1, 0]) / 2)
