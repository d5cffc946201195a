"""Composites at types: extents that follow, and calls that are refused with a reason."""

import numpy as np
import pytest

from workbench.kernels.composites import bind, parse
from workbench.kernels.composites.evaluate import operations
from workbench.kernels.composites.files import library
from workbench.ops.types import TensorType, TypeMismatch


def at(name, *shapes, dtype="float32", **attributes):
    composite = library()[name] if isinstance(name, str) else name
    return bind(composite, [TensorType(dtype, s) for s in shapes], attributes)


def test_what_is_not_a_composite_is_reported_where_it_is():
    class Operator:
        composite = library()["rms"]

    with pytest.raises(TypeError, match=r"must be what parse returns, got Operator \(try its \.composite\)"):
        bind(Operator(), [])
    with pytest.raises(TypeError, match=r"must be what parse returns, got str$"):
        bind("rms", [])


def test_extents_and_types_follow():
    b = at("attention", (2, 4, 5, 8), (4, 6, 8), (1, 6, 3))
    assert b.extents == {"M": 5, "D": 8, "N": 6, "E": 3}
    assert b.leading == (2, 4)
    assert b.outputs() == (TensorType("float32", (2, 4, 5, 3)),)
    assert b.types["s"].shape == (2, 4, 5, 6)


def test_extents_are_solved():
    assert at("rotary", (5, 8), (5, 4), (5, 4)).extents == {"L": 5, "H": 4}
    c = parse("c", "x{T}[2*N + 1] -> y{T}[N] where M = 3 * N", "y[i] = x[2*i + 1] + M")
    assert at(c, (7,)).extents == {"N": 3, "M": 9}


@pytest.mark.parametrize(
    ("name", "shapes", "reason"),
    [
        ("rms", [(2, 8), (7,)], "axis -1 of g{T}[D] is 7, but D = 8 (axis -1 of x{T}[~ D] is 8)"),
        ("rms", [(2, 8)], "there must be 2 operands, got 1"),
        ("relu", [], "there must be 1 operand, got 0"),
        ("rms", [(), (8,)], "x{T}[~ D] must have at least 1 axes"),
        ("rms", [(2, 8), (1, 8)], "g{T}[D] must have 1 axes"),
        ("gemm", [(2, 3, 4), (4, 5)], "A{T}[M K] must have 2 axes"),
        (
            "batched",
            [(2, 3, 4), (3, 4, 5)],
            "the leading axes '~' do not fit each other: [2] of a and [3] of b",
        ),
        ("rotary", [(5, 7), (5, 3), (5, 3)], "which must be a multiple of 2"),
        ("im2col", [(1, 1, 2, 8)], "the extent (H - U) // S + 1 of y must be positive, got 0"),
        ("diagonal", [(3, 4)], "but N = 3"),
    ],
)
def test_wrong_calls_are_refused(name, shapes, reason):
    with pytest.raises(TypeMismatch) as caught:
        at(name, *shapes)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"{name}(float32[" if shapes else f"{name}()")


@pytest.mark.parametrize("stride", [1.5, "2", None, np.float64(2.5), float("nan"), float("inf")])
def test_a_whole_attribute_is_not_rounded(stride):
    with pytest.raises(TypeMismatch, match="attribute S of strided must be a whole number, got"):
        at("strided", (4,), S=stride)


def test_attributes_may_be_numbers_of_numpy():
    assert at("strided", (4,), S=np.int64(2)).outputs()[0].shape == (2,)
    with pytest.raises(TypeMismatch, match="attribute eps of rms must be a number, got 'small'"):
        at("rms", (2, 4), (4,), eps="small")


def test_a_factor_of_zero_is_named():
    groups = parse("groups", "x{T}[G*S] -> y{T}[G*S]", "y[d] = x[d]", G=2)
    with pytest.raises(TypeMismatch, match="G must not be 0"):
        at(groups, (6,), G=0)


def test_element_types_must_fit():
    with pytest.raises(TypeMismatch, match="one element type T, got float32 and float64"):
        bind(library()["rms"], [TensorType("float32", (2, 8)), TensorType("float64", (8,))])
    with pytest.raises(TypeMismatch, match="must hold floating-point numbers"):
        at("relu", (3,), dtype="int8")
    with pytest.raises(TypeMismatch, match="must hold int64"):
        at("taken", (5, 4), (3,))


def test_reads_outside_are_refused_unless_where_guards_them():
    shifted = parse("c", "x{T}[N] -> y{T}[N]", "y[i] = x[i + 1]")
    with pytest.raises(TypeMismatch, match=r"read at i \+ 1 = 4, but the axis has the places 0 … 3"):
        at(shifted, (4,))
    guarded = parse("c", "x{T}[N] -> y{T}[N]", "y[i] = where(i + 1 < N, x[i + 1], 0)")
    assert at(guarded, (4,)).outputs()[0].shape == (4,)


def test_the_caret_is_under_the_read_and_not_under_the_end_of_another_name():
    composite = parse("c", "xx{T}[2 * N], x{T}[N] -> y{T}[2 * N]", "y[i] = xx[i] + x[i]")
    with pytest.raises(TypeMismatch) as caught:
        bind(composite, [TensorType("float32", (8,)), TensorType("float32", (4,))])
    line, carets = str(caught.value).splitlines()[1:]
    assert line[carets.index("^") :].startswith("x[i])")
    assert line[carets.index("^") - 1] == " "


def test_places_are_tried_when_bounds_do_not_decide():
    c = parse("c", "x{T}[M N] -> y{T}[M*N]", "y[i] = x[i // N i - (i // N) * N]")
    assert at(c, (3, 4)).outputs()[0].shape == (12,)


def test_places_from_a_tensor_are_checked_when_they_are_known():
    from workbench.kernels.composites.evaluate import evaluate

    with pytest.raises(IndexError, match="must be from 0 to 2, got 3"):
        evaluate(library()["taken"], [np.ones((3, 2)), np.array([3])])


def test_operations_are_counted_once_where_they_do_not_change():
    assert operations(at("gemm", (2, 3), (3, 4))) == 2 * 2 * 3 * 4
    # a maximum, and per element a difference, an exponential, a sum and a quotient; the last two lines twice
    assert operations(at("softmax", (5, 7))) == 5 * 7 * (1 + 3 + 3)
