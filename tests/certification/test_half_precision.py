"""16-bit floats: whether a rewritten region stays in their range and keeps its digits."""

import numpy as np
import pytest

from workbench.certification.half_precision import range_fault, rounded, short_dtype
from workbench.graph import GraphBuilder


def test_rounding_is_that_of_the_type():
    values = np.array([1 + 2.0**-11, 1 + 2.0**-8, 65519.0, 65520.0, 1e-8])
    assert rounded(values, "float16").tolist() == [1.0, 1 + 2.0**-8, 65504.0, np.inf, 0.0]
    assert rounded(values, "bfloat16")[:3].tolist() == [1.0, 1.0, 65536.0]


def attention(scaled_first, dtype="float16", number=0.125):
    b = GraphBuilder("attention")
    q, k = b.input("q", (1, 4, 64), dtype), b.input("k", (1, 64, 4), dtype)
    s = b.weight(data=np.full((1, 1, 1), number).astype(np.float32 if dtype == "float32" else np.float16))
    if scaled_first:
        return b.graph({"y": b.op("matmul", b.op("mul", q, s), k)})
    return b.graph({"y": b.op("mul", b.op("matmul", q, k), s)})


def boundary(deviation):
    rng = np.random.default_rng(0)
    return [
        {"q": rng.standard_normal((1, 4, 64)) * deviation, "k": rng.standard_normal((1, 64, 4)) * deviation}
    ]


def test_a_region_that_undoes_a_scale_is_refused_where_it_overflows_only():
    fault = range_fault(attention(True), attention(False), boundary(150.0))
    assert fault is not None
    assert (fault.kind, fault.dtype) == ("overflows", "float16")
    assert "matmul" in fault.where
    assert range_fault(attention(True), attention(False), boundary(1.0)) is None
    assert range_fault(attention(False), attention(True), boundary(1.0)) is None
    # Where the original overflows itself nothing is asked of the other.
    assert range_fault(attention(False), attention(True), boundary(150.0)) is None


def test_a_region_that_loses_digits_is_refused():
    def graph(numbers):
        b = GraphBuilder("products")
        y = b.input("x", (64,), "float16")
        for number in numbers:
            y = b.op("mul", y, b.weight(data=np.full((1,), number, np.float16)))
        return b.graph({"y": y})

    drawn = [{"x": np.random.default_rng(0).standard_normal(64)}]
    fault = range_fault(graph([1000.0, 1e-6]), graph([1e-6, 1000.0]), drawn)
    assert fault is not None
    assert fault.kind == "loses"
    assert fault.error > 8 * fault.own
    assert range_fault(graph([1e-6, 1000.0]), graph([1000.0, 1e-6]), drawn) is None


def test_other_types_are_not_asked():
    assert short_dtype(attention(True, "float32")) is None
    assert short_dtype(attention(True)) == "float16"
    assert range_fault(attention(True, "float32"), attention(False, "float32"), boundary(150.0)) is None


def times(*numbers):
    """Return x times some numbers, one after the other: 16-bit numbers, or functions that make one in a builder."""
    b = GraphBuilder("products")
    y = b.input("x", (3,), "float16")
    for number in numbers:
        y = b.op("mul", y, number(b) if callable(number) else weight(b, number))
    return b.graph({"y": y})


def weight(b, number, dtype=np.float16):
    return b.weight(data=np.full((1,), number, dtype))


def near_one(b):
    """Return 2^-12: rounded to float16, 1 + 2^-12 would be 1, and the difference from 1 would vanish."""
    difference = b.op("sub", weight(b, 1 + 2.0**-12, np.float32), weight(b, 1, np.float32))
    return b.op("cast", difference, to="float16")


def large(b):
    """Return 300 * 300 / 1024: in float16, the product would be infinite."""
    return b.op("mul", b.op("mul", weight(b, 300), weight(b, 300)), weight(b, 2.0**-10))


@pytest.mark.parametrize(("number", "made"), [(2.0**-12, near_one), (87.890625, large)])
def test_values_of_weights_alone_are_computed_exactly_and_rounded_once(number, made):
    drawn = [{"x": np.array([0.0, 1.0, 256.0])}]
    assert range_fault(times(number), times(made), drawn) is None
    twice = range_fault(times(number), times(made, 2), drawn)
    assert (twice.kind, twice.error) == ("loses", pytest.approx(1.0, rel=1e-3))


@pytest.mark.parametrize(("largest", "kind"), [(65504.0, "overflows"), (65520.0, None)])
def test_an_input_beyond_the_type_is_no_fault_of_the_rewritten_side(largest, kind):
    """65504 is finite in float16 until it is doubled; 65520 is infinite, in both graphs."""
    fault = range_fault(times(0.25, 2), times(2, 0.25), [{"x": np.array([0.0, 1.0, largest])}])
    assert (fault and fault.kind) == kind
