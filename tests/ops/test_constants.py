"""Constants against what they are for: they leave a product, a convolution, a tensor as it is."""

import numpy as np
import pytest

from workbench.graph import GraphBuilder, evaluate
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.ops.constants import LARGEST
from workbench.ops.types import DTYPE_CODES, FLOAT_DTYPES, NUMBER_DTYPES

RNG = np.random.default_rng(0)
CONSTANTS = [
    ("eye", {"size": 3}),
    ("ones", {"shape": (2, 3)}),
    ("ones", {"shape": ()}),
    ("identity_kernel", {"channels": 6, "groups": 2, "kernel": (3, 1)}),
    ("mean_kernel", {"channels": 2, "kernel": (2, 2)}),
    ("scalar", {"value": 0.5}),
    ("pi", {}),
]


def make(op, **attrs):
    spec = spec_of(op)
    packed = spec.pack(attrs)
    kind = spec.result_type([], packed)
    array = spec.evaluate([], spec.unpack(packed))
    assert TensorType.of(np.asarray(array)) == kind
    return array


@pytest.mark.parametrize("dtype", sorted(NUMBER_DTYPES))
@pytest.mark.parametrize("case", CONSTANTS[:4], ids=str)
def test_zeros_and_ones_are_exact_in_every_element_type(case, dtype):
    op, attrs = case
    found = make(op, **attrs, dtype=dtype)
    wide = make(op, **attrs, dtype="float64")
    assert set(np.unique(wide)) <= {0.0, 1.0}
    assert wide.any()
    np.testing.assert_array_equal(found.astype(complex), wide)


@pytest.mark.parametrize("dtype", sorted(FLOAT_DTYPES))
def test_a_mean_is_rounded_once(dtype):
    found = make("mean_kernel", channels=3, kernel=(3, 5), dtype=dtype)
    assert found.shape == (3, 1, 3, 5)
    expected = np.full(found.shape, 1 / 15).astype(found.dtype)
    np.testing.assert_array_equal(found, expected)


def test_float32_is_the_default():
    assert all(str(make(op, **attrs).dtype) == "float32" for op, attrs in CONSTANTS)


def test_an_identity_keeps_a_product():
    x = RNG.standard_normal((2, 3, 4))
    np.testing.assert_array_equal(x @ make("eye", size=4, dtype="float64"), x)
    np.testing.assert_array_equal(make("eye", size=3, dtype="float64") @ x, x)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (1, 5), (7, 3)])
def test_an_identity_kernel_keeps_a_convolutions_input(groups, kernel):
    b = GraphBuilder()
    x = b.input("x", (2, 6, 4, 5))
    w = b.op("identity_kernel", channels=6, groups=groups, kernel=kernel)
    pads = ((kernel[0] - 1) // 2, (kernel[1] - 1) // 2) * 2
    graph = b.graph({"y": b.op("conv2d", x, w, pads=pads, groups=groups)})
    data = RNG.standard_normal((2, 6, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(graph, {"x": data})["y"], data)


def test_a_mean_kernel_is_average_pooling():
    b = GraphBuilder()
    x = b.input("x", (2, 3, 7, 8))
    window = {"strides": (2, 1), "pads": (1, 0, 1, 1)}
    w = b.op("mean_kernel", channels=3, kernel=(3, 2))
    y = b.op("conv2d", x, w, groups=3, **window)
    z = b.op("avgpool", x, kernel=(3, 2), include_pad=1, **window)
    graph = b.graph({"y": y, "z": z})
    # In float64 the mean is that of float64, whatever the declared element type.
    found = evaluate(graph, {"x": RNG.standard_normal((2, 3, 7, 8)).astype(np.float32)}, precise=True)
    np.testing.assert_allclose(found["y"], found["z"], rtol=1e-13, atol=1e-13)


def test_ones_are_not_stored():
    assert make("ones", shape=(1 << 20, 1 << 10)).strides == (0, 0)


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("eye", {"size": 0}, "positive"),
        ("eye", {"size": -2}, "positive"),
        ("eye", {"size": 1 << 15}, f"at most {LARGEST}"),
        ("eye", {}, "must have the attribute size"),
        ("eye", {"size": 2, "dtype": "string"}, "string does not hold 0 and 1"),
        ("eye", {"size": 2, "dtype": "float8e8m0"}, "float8e8m0 does not hold 0 and 1"),
        ("eye", {"size": 2, "dtype": "real"}, "dtype must be one of .*, got 'real'"),
        ("ones", {"shape": (2, 0)}, "positive"),
        ("ones", {"shape": (2,), "dtype": "string"}, "does not hold"),
        ("identity_kernel", {"channels": 4, "kernel": (3, 2)}, "odd"),
        ("identity_kernel", {"channels": 4, "kernel": (-1, 3)}, "positive"),
        ("identity_kernel", {"channels": 4, "groups": 3}, "must divide"),
        ("identity_kernel", {"channels": 4, "groups": 0}, "number of groups must be positive"),
        ("identity_kernel", {"channels": 1 << 15}, "at most"),
        ("mean_kernel", {"channels": 4}, "must have the attribute kernel"),
        ("mean_kernel", {"channels": 4, "kernel": (0, 1)}, "positive"),
        ("mean_kernel", {"channels": 4, "kernel": (2, 2), "dtype": "int64"}, "floating-point"),
    ],
)
def test_type_errors_say_what_was_expected(op, attrs, message):
    spec = spec_of(op)
    with pytest.raises(TypeMismatch, match=message):
        spec.result_type([], spec.pack(attrs))


def test_constants_take_no_operands():
    with pytest.raises(TypeMismatch, match="takes 0 operands"):
        spec_of("eye").result_type([TensorType("float32", (2,))], (2, "float32"))
    assert set(DTYPE_CODES) - NUMBER_DTYPES == {"string", "float8e8m0"}
