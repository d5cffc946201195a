"""Kernels of 16-bit floats: conversions of all numbers, composites and models."""

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler, free
from tests.kernels.codegen.test_partitioned import Expensive
from tests.sampled import in_turn
from workbench.graph import GraphBuilder, evaluate
from workbench.kernels.codegen.kernel import emitted, kernel
from workbench.kernels.codegen.partitioned import Mixed, plan_of
from workbench.kernels.composites import parse
from workbench.kernels.composites.evaluate import evaluate as numpy_of
from workbench.kernels.composites.files import library
from workbench.ops import TensorType

HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


@compiler
@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_is_read_exactly(dtype):
    made = parse("up", f"x{{{dtype}}}[N] -> y{{float32}}[N]", "y[i] = x[i]")
    x = np.arange(1 << 16, dtype=np.uint16).view(HALVES[dtype])
    (y,) = kernel(made, [TensorType(dtype, x.shape)])(x)
    np.testing.assert_array_equal(y, x.astype(np.float32))


@compiler
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_are_rounded_to_the_nearest_half_and_ties_to_even(dtype):
    made = parse("down", f"x{{float32}}[N] -> y{{{dtype}}}[N]", "y[i] = x[i]")
    exact = np.arange(1 << 16, dtype=np.uint16).view(HALVES[dtype]).astype(np.float32)
    near = [np.nextafter(exact, np.float32(to)) for to in (np.inf, -np.inf)]
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint64)
    x = np.concatenate([exact, *near, (exact[:-1] + exact[1:]) / 2, bits.astype(np.uint32).view(np.float32)])
    (y,) = kernel(made, [TensorType("float32", x.shape)])(x)
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(HALVES[dtype]).astype(np.float32))
    assert np.array_equal(np.signbit(y[~np.isnan(x)]), np.signbit(x[~np.isnan(x)]))


def shapes(seed, count=50):
    random = np.random.default_rng(seed)
    for k in range(count):
        yield [int(random.choice([1, 2, 3, 7, 13, 16, 31, 64, 129])) for _ in range(3)], k


CASES = {
    "silu": lambda a, b, c: [(a, b, c)],
    "softmax": lambda a, b, c: [(a, b, c)],
    "rms": lambda a, b, c: [(a, b, c), (c,)],
    "layer_norm": lambda a, b, c: [(a, b, c), (c,), (c,)],
    "gemm": lambda a, b, c: [(a, b), (b, c)],
}


@compiler
@pytest.mark.parametrize("name", in_turn(CASES, 1, quick=3))
@pytest.mark.parametrize("dtype", HALVES)
def test_composites_of_halves_are_those_of_numpy(name, dtype):
    composite = library()[name]
    for (a, b, c), k in shapes(1):
        random = np.random.default_rng(k)
        given = [random.standard_normal(s).astype(HALVES[dtype]) for s in CASES[name](a, b, c)]
        types = [TensorType(dtype, x.shape) for x in given]
        (found,) = kernel(composite, types)(*given)
        exact = numpy_of(composite, [x.astype(np.float64) for x in given])
        near = EPS[dtype] / 2  # the result alone is rounded
        np.testing.assert_allclose(found.astype(np.float64), exact, rtol=1.01 * near, atol=1e-5)
        narrow = numpy_of(composite, [x.astype(np.float32) for x in given]).astype(HALVES[dtype])
        assert found.dtype == narrow.dtype == HALVES[dtype]
        np.testing.assert_allclose(found.astype(float), narrow.astype(float), rtol=2.02 * near, atol=1e-5)


def test_values_are_computed_in_float32_and_rounded_where_a_result_is_written():
    made = parse("two", "x{T}[~] -> y{T}[~]", "t[~] = exp(x)\ny[~] = t[~] * t[~] + 0.1", composites=None)
    text = emitted(made, [TensorType("float16", (4, 5))]).split("*/")[-1]
    assert "exp_f32(from_f16(x[" in text
    assert "float t[" in text
    assert text.count("to_f16(") == 1
    assert "0.1f" in text


@compiler
def test_clusters_of_halves_run_in_the_other_runtime():
    dtype = "float16"
    b = GraphBuilder()
    x = b.input("x", (16, 64), dtype)
    h = b.op("softmax", b.op("mul", b.op("tanh", x), b.op("scalar", value=2.0, dtype=dtype)), axis=-1)
    graph = b.graph({"y": h})
    feeds = {"x": np.random.default_rng(0).standard_normal((16, 64)).astype(HALVES[dtype])}
    plan = plan_of(graph, Expensive(), measure=free)
    assert [m.op for m in plan.clusters[0].members] == ["tanh", "mul", "softmax"]
    expected = evaluate(graph, feeds)["y"].astype(np.float64)
    found = Mixed(plan).run(feeds)["y"].astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=4 * EPS[dtype], atol=1e-3)
