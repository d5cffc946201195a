"""Kernels: their numbers under every schedule, the arrays that they take, the text, and what has none."""

from fractions import Fraction

import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler
from workbench.kernels.codegen.c_printer import NoKernel
from workbench.kernels.codegen.compiler import Build, CompilerMissing
from workbench.kernels.codegen.kernel import emitted, kernel
from workbench.kernels.codegen.schedule import Schedule, space
from workbench.kernels.composites import parse
from workbench.ops.types import TensorType, TypeMismatch

GEMM = parse("gemm", "A{T}[M K], B{T}[K N] -> C{T}[M N]", "C[i j] = sum(k) A[i k] * B[k j]")
LINEAR = parse(
    "linear",
    "x{T}[~ M K], w{T}[K N], b{T}[N] -> y{T}[~ M N]",
    "y[~ i j] = max(b[j] + sum(k) x[~ i k] * w[k j], 0)",
)
SOFTMAX = parse(
    "softmax",
    "x{T}[~ D] -> y{T}[~ D]",
    "y[~ d] = exp(x[~ d] - max(e) x[~ e]) / sum(f) exp(x[~ f] - max(e) x[~ e])",
)
NORMED = parse(
    "normed",
    "x{T}[~ D], r{T}[~ D], s{T}[D] -> y{T}[~ D]",
    """t[~ d] = x[~ d] + r[~ d]
    m[~] = mean(e) t[~ e]
    v[~] = mean(f) (t[~ f] - m[~])^2
    n[~ d] = (t[~ d] - m[~]) / sqrt(v[~] + eps) * s[d]
    y[~ d] = n[~ d] / (1 + exp(-n[~ d]))""",
    eps=1e-5,
)


def draw(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def types(*arrays):
    return [TensorType.of(a) for a in arrays]


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normed(x, r, s):
    t = x.astype(np.float64) + r
    n = (t - t.mean(-1, keepdims=True)) / np.sqrt(t.var(-1, keepdims=True) + 1e-5) * s
    return n / (1 + np.exp(-n))


@compiler
@pytest.mark.parametrize("extents", [(1, 1, 1), (7, 5, 3), (12, 32, 9), (31, 97, 64), (6, 33, 101)])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_schedule_of_a_product_is_right(extents, threads):
    m, n, k = extents
    a, b = draw(m, k), draw(k, n, seed=1)
    exact = a.astype(np.float64) @ b
    for schedule in space(kernel(GEMM, types(a, b)).program):
        (c,) = kernel(GEMM, types(a, b), schedule=schedule)(a, b, threads=threads)
        assert np.linalg.norm(c - exact) <= 1e-6 * np.linalg.norm(exact), schedule


@compiler
def test_the_product_of_the_document_is_within_a_millionth():
    a, b = draw(100, 100), draw(100, 100, seed=1)
    exact = a.astype(np.float64) @ b
    (c,) = kernel(GEMM, types(a, b))(a, b)
    assert np.abs(c - exact).max() <= 1e-6 * np.abs(exact).max()


@compiler
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_the_rest_of_an_expression_is_computed_on_the_tile(leading):
    x, w, b = draw(*leading, 13, 11), draw(11, 35, seed=1), draw(35, seed=2)
    (y,) = kernel(LINEAR, types(x, w, b))(x, w, b, threads=2)
    np.testing.assert_allclose(y, np.maximum(x.astype(np.float64) @ w + b, 0), atol=1e-5)


@compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1,), (17,), (4, 1000), (2, 3, 33)])
@pytest.mark.parametrize("kept", [False, True])
def test_rows_are_reduced_once(dtype, shape, kept):
    x, near = draw(*shape, dtype=dtype), 1e-6 if dtype == np.float32 else 1e-15
    (y,) = kernel(SOFTMAX, types(x), schedule=Schedule(kept=kept))(x, threads=2)
    np.testing.assert_allclose(y, softmax(x), atol=near)
    r, s = draw(*shape, dtype=dtype, seed=1), draw(shape[-1], dtype=dtype, seed=2)
    (y,) = kernel(NORMED, types(x, r, s))(x, r, s, threads=2)
    np.testing.assert_allclose(y, normed(x, r, s), atol=20 * near)


@compiler
def test_a_stage_does_not_overwrite_a_value_that_is_read_again():
    twice = parse("twice", "x{T}[~] -> y{T}[~]", "y = tanh(exp(x)) * exp(x)")
    x = draw(4, 1000)
    built = kernel(twice, types(x))
    assert built.schedule.staged
    np.testing.assert_allclose(built(x)[0], np.tanh(np.exp(x)) * np.exp(x), rtol=1e-5)


@compiler
@pytest.mark.parametrize(
    ("one", "two"),
    [((), ()), ((5,), (5,)), ((2, 3, 5), (5,)), ((2, 3, 5), (3, 1)), ((4, 1, 3), (2, 1)), ((1, 7), (7, 1))],
)
def test_leading_axes_broadcast(one, two):
    gate = parse("gate", "x{T}[~], b{T}[~] -> y{T}[~]", "t[~] = x + b; y = t / (1 + exp(-t))")
    x, b = draw(*one), draw(*two, seed=1)
    (y,) = kernel(gate, types(x, b))(x, b)
    total = x.astype(np.float64) + b
    np.testing.assert_allclose(y, total / (1 + np.exp(-total)), atol=1e-6)


@compiler
def test_places_are_computed_and_guarded():
    shifted = parse("shifted", "x{T}[N] -> y{T}[N]", "y[i] = where(i >= 2, x[i - 2], 0)")
    x = draw(9)
    (y,) = kernel(shifted, types(x))(x)
    np.testing.assert_array_equal(y, np.concatenate([[0, 0], x[:-2]]))
    taken = parse("taken", "x{T}[N D], p{int64}[M] -> y{T}[M D]", "y[i d] = x[p[i] d]")
    rows = np.array([3, 0, 3, 1])
    x = draw(4, 5)
    (y,) = kernel(taken, types(x, rows))(x, rows)
    np.testing.assert_array_equal(y, x[rows])


@compiler
def test_a_maximum_passes_on_what_is_not_a_number():
    x = draw(3, 40)
    x[1, 35] = np.nan
    largest = parse("largest", "x{T}[~ D] -> y{T}[~]", "y[~] = max(e) x[~ e]")
    (y,) = kernel(largest, types(x))(x)
    np.testing.assert_array_equal(y, x.max(-1))


@compiler
def test_operands_are_read_where_they_are():
    a, b, c = draw(4, 6), draw(6, 5, seed=1), np.empty((4, 5), np.float32)
    run = kernel(GEMM, types(a, b)).bound([a, b], [c])
    run()
    a[:] = 0
    run()
    assert not c.any()
    turned = np.asfortranarray(draw(4, 6))  # not dense: copied
    np.testing.assert_allclose(kernel(GEMM, types(a, b))(turned, b)[0], turned @ b, atol=1e-5)
    with pytest.raises(ValueError, match=r"A must be float32\[4, 6\], got float32\[6, 4\]"):
        kernel(GEMM, types(a, b))(a.T, b)


@compiler
def test_operands_must_be_arrays_and_as_many_as_declared():
    a, b = draw(4, 6), draw(6, 5, seed=1)
    gemm = kernel(GEMM, types(a, b))
    with pytest.raises(ValueError, match="gemm must have 2 operands, got 1"):
        gemm(a)
    with pytest.raises(TypeError, match="A must be an array of numpy, got list"):
        gemm(a.tolist(), b)


@compiler
def test_threads_are_in_the_text_and_extents_are_arguments():
    a, b = draw(8, 8), draw(8, 8, seed=1)
    text = emitted(GEMM, types(a, b))
    assert "#pragma omp parallel num_threads(threads)" in text
    assert "#pragma omp simd" in text
    assert "int64_t M, int64_t K, int64_t N" in text
    other = draw(3, 5), draw(5, 2, seed=1)
    assert kernel(GEMM, types(a, b)).text == kernel(GEMM, types(*other)).text == text
    (c,) = kernel(GEMM, types(a, b), build=Build(omp=False))(a, b, threads=2)
    np.testing.assert_allclose(c, a @ b, atol=1e-5)


def test_what_has_no_kernel_is_refused():
    with pytest.raises(NoKernel, match="got uint32"):
        emitted(parse("same", "x{uint32}[N] -> y{uint32}[N]", "y[i] = x[i]"), [TensorType("uint32", (3,))])
    with pytest.raises(TypeMismatch, match="gemm"):
        emitted(GEMM, [TensorType("float32", (2, 3)), TensorType("float32", (4, 5))])
    with pytest.raises(CompilerMissing):
        kernel(GEMM, types(draw(2, 2), draw(2, 2)), build=Build(cc="no-such-compiler"))


@compiler
def test_a_reduction_is_computed_outside_of_the_loops_that_it_ignores():
    made = parse(
        "centred",
        "x{T}[~ D], g{T}[D] -> y{T}[~ D]",
        "c[~ d] = x[~ d] - mean(e) x[~ e]\ny[~ d] = c[~ d] * g[d]",
        composites=None,
    )
    x, g = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((3, 7), (7,)))
    compiled = kernel(made, [TensorType.of(x), TensorType.of(g)])
    loops = [line.split()[2] for line in compiled.text.splitlines() if line.strip().startswith("for (int64")]
    assert loops == ["l0", "e", "d"]
    assert compiled.text.index("sum1_ +=") < compiled.text.index("d = 0")
    (y,) = compiled(x, g)
    np.testing.assert_allclose(y, (x - x.mean(1, keepdims=True)) * g, rtol=1e-5, atol=1e-6)


@compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_only_fma_rounds_once_without_contraction(dtype):
    signature = f"x{{{dtype}}}[~] -> y{{{dtype}}}[~]"
    plain = parse("plain", signature, "y = x * x + -1", composites=None)
    joined = parse("joined", signature, "y = fma(x, x, -1)", composites=None)
    x = (1 + np.arange(1, 9) * np.finfo("f4" if dtype == "float32" else "f8").eps).astype(dtype)
    strict = Build(contract=False)
    (rounded,) = kernel(plain, types(x), build=strict)(x)
    np.testing.assert_array_equal(rounded, x * x - np.ones((), dtype))
    (once,) = kernel(joined, types(x), build=strict)(x)
    exact = [int(v) ** 2 - 1 if dtype == "int32" else float(Fraction(float(v)) ** 2 - 1) for v in x]
    np.testing.assert_array_equal(once, np.array(exact).astype(dtype))
    assert (dtype == "int32") == bool(np.array_equal(once, rounded))
