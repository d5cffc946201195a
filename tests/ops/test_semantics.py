"""What has no counterpart in ONNX, against loops written out; and the errors of type rules."""

import numpy as np
import pytest

from workbench.ops import TensorType, TypeMismatch, operators, spec_of

RNG = np.random.default_rng(0)


def run(op, *arrays, **attrs):
    spec = spec_of(op)
    packed = spec.pack(attrs)
    kind = spec.result_type([TensorType(str(a.dtype), a.shape) for a in arrays], packed)
    result = spec.evaluate(list(arrays), spec.unpack(packed))
    assert result.shape == kind.shape
    return result


@pytest.mark.parametrize(("groups", "count"), [(4, 2), (4, 4), (6, 3), (2, 1)])
def test_merging_neighbouring_groups_keeps_the_convolution(groups, count):
    x = RNG.standard_normal((2, groups * 2, 5, 6))
    w = RNG.standard_normal((groups * 3, 2, 3, 3))
    merged = run("merge_gconv", w, count=count, groups=groups)
    assert merged.shape == (groups * 3, 2 * count, 3, 3)
    before = run("conv2d", x, w, pads=(1, 1, 1, 1), groups=groups)
    after = run("conv2d", x, merged, pads=(1, 1, 1, 1), groups=groups // count)
    np.testing.assert_allclose(after, before, atol=1e-12)


def test_an_enlarged_kernel_with_larger_pads_is_the_same_convolution():
    x = RNG.standard_normal((1, 3, 7, 6))
    w = RNG.standard_normal((4, 3, 1, 2))
    large = run("enlarge", w, pads=(1, 0, 2, 1))
    assert large.shape == (4, 3, 4, 3)
    before = run("conv2d", x, w, strides=(2, 1))
    after = run("conv2d", x, large, strides=(2, 1), pads=(1, 0, 2, 1))
    np.testing.assert_allclose(after, before, atol=1e-12)


def test_convolution_against_loops():
    x, w = RNG.standard_normal((2, 4, 7, 8)), RNG.standard_normal((6, 2, 3, 2))
    b = RNG.standard_normal((1, 6, 1, 1))
    (sh, sw), (t, le, bo, r), (dh, dw) = (2, 1), (1, 0, 2, 1), (1, 2)
    found = run(
        "conv2d", x, w, b, strides=(sh, sw), pads=(t, le, bo, r), dilations=(dh, dw), groups=2, act="relu"
    )
    padded = np.pad(x, ((0, 0), (0, 0), (t, bo), (le, r)))
    for n, o, i, j in np.ndindex(*found.shape):
        g = o // 3
        total = b[0, o, 0, 0] + sum(
            padded[n, g * 2 + c, i * sh + u * dh, j * sw + v * dw] * w[o, c, u, v]
            for c in range(2)
            for u in range(3)
            for v in range(2)
        )
        assert found[n, o, i, j] == pytest.approx(max(total, 0), abs=1e-12)


def test_batch_normalisation_is_its_affine_form():
    x = RNG.standard_normal((2, 3, 4, 4))
    s, b, m = (RNG.standard_normal(3) for _ in range(3))
    v = RNG.uniform(0.1, 2, 3)
    scale = run("bn_scale", s, v, eps=1e-2)
    shift = run("bn_shift", s, b, m, v, eps=1e-2)
    np.testing.assert_allclose(run("batchnorm", x, s, b, m, v, eps=1e-2), x * scale + shift, atol=1e-12)


def test_activations_fused_into_products():
    a, b = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((4, 5))
    plain = run("matmul", a, b)
    np.testing.assert_allclose(run("matmul", a, b, act="relu"), np.maximum(plain, 0))
    np.testing.assert_allclose(run("matmul", a, b, act="tanh"), np.tanh(plain))
    np.testing.assert_allclose(run("matmul", a, b, act="sigmoid"), 1 / (1 + np.exp(-plain)))


def test_sigmoid_does_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        found = run("sigmoid", np.array([-800.0, 0.0, 800.0]))
    np.testing.assert_allclose(found, [0, 0.5, 1], atol=1e-300)


F = TensorType("float32", (1, 4, 8, 8))
W = TensorType("float32", (6, 4, 3, 3))


@pytest.mark.parametrize(
    ("op", "kinds", "attrs", "message"),
    [
        ("conv2d", [F, TensorType("float32", (6, 3, 3, 3))], {}, "channels"),
        ("conv2d", [F, TensorType("float32", (5, 2, 3, 3))], {"groups": 2}, "output channels"),
        ("conv2d", [F, TensorType("float64", (6, 4, 3, 3))], {}, "element types"),
        ("conv2d", [F, W, TensorType("float32", (6,))], {}, "bias"),
        ("conv2d", [F, W], {"strides": (0, 1)}, "positive"),
        ("conv2d", [F, W], {"pads": (-1, 0, 0, 0)}, "must not be negative"),
        ("conv2d", [F, TensorType("float32", (6, 4, 9, 9))], {}, "exceeds"),
        ("conv2d", [TensorType("float32", (4, 8, 8)), W], {}, "four axes"),
        ("conv2d", [F, W], {"act": "elu"}, "act must be one of"),
        ("conv2d", [F, W], {"strides": (1, 1, 1)}, "must be 2 integers"),
        ("maxpool", [F], {"kernel": (2, 2), "pads": (2, 0, 0, 0)}, "must be smaller than the window"),
        ("maxpool", [F], {}, "must have the attribute kernel"),
        ("add", [F, TensorType("float32", (3,))], {}, "broadcast"),
        ("add", [TensorType("int64", (2,)), TensorType("int64", (2,))], {}, "floating-point"),
        ("concat", [F, TensorType("float32", (1, 4, 7, 8))], {"axis": -3}, "off the axis"),
        ("concat", [F, F], {"axis": 1}, "must be from -1 to -4 .counted from the last axis., got 1"),
        ("slice", [F], {"axis": -1, "start": 3, "stop": 3}, "must not be empty"),
        ("slice", [F], {"axis": -1, "start": 0, "stop": 9}, "inside its axis"),
        ("reshape", [F], {"shape": (3, 3)}, "does not reshape"),
        ("transpose", [F], {"perm": (0, 1)}, "does not fit rank 4"),
        ("transpose", [F], {"perm": (0, 0, 1, 2)}, "must be a permutation"),
        ("gather", [F, F], {"axis": -1}, "int32 or int64"),
        ("expand", [F], {"shape": (2, 4, 8, 9)}, "broadcast"),
        ("merge_gconv", [W], {"count": 2, "groups": 3}, "blocks of count"),
        ("softmax", [F], {"axis": -5}, "must be from -1 to -4 .*, got -5"),
        ("reduce_sum", [F], {"axes": (-1, -1)}, "must be distinct"),
        ("batchnorm", [F] + [TensorType("float32", (3,))] * 4, {}, r"\[C\]"),
        ("relu", [TensorType("float32", (0, 3))], {}, "must not be empty"),
    ],
)
def test_type_errors_say_what_was_expected(op, kinds, attrs, message):
    spec = spec_of(op)
    with pytest.raises(TypeMismatch, match=message):
        spec.result_type(kinds, spec.pack(attrs))


def test_every_operator_is_described():
    for spec in operators():
        assert spec.doc
        assert spec.leaf == (spec.evaluate is None)
