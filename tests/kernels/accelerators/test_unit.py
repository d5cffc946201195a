"""What a unit refuses, and how many products its accumulator holds."""

from dataclasses import replace

import pytest

from workbench.kernels.accelerators import AccumulatorOverflow, unit


def test_an_accumulator_that_overflows_says_so_with_the_numbers():
    amx = unit("amx_int8")
    assert amx.longest == (2**31 - 1) // (128 * 128)
    amx.check_sums(amx.longest)
    with pytest.raises(AccumulatorOverflow, match=r"131072 products of elements up to 128 and 128"):
        amx.check_sums(amx.longest + 1)


def test_the_range_of_the_operands_decides():
    narrow = replace(unit("amx_int8"), accumulator="int16", streamed_range=(0, 1), stationary_range=(-3, 3))
    assert narrow.longest == 32767 // 3
    full = replace(narrow, streamed_range=None, stationary_range=None)
    assert full.longest == 1
    with pytest.raises(AccumulatorOverflow, match="int16 accumulator"):
        full.check_sums(2)


def test_halves_overflow_if_their_range_is_known():
    halves = replace(unit("wmma16"), accumulator="float16")
    assert halves.longest is None
    bounded = replace(halves, streamed_range=(-16, 16), stationary_range=(-16, 16))
    assert bounded.longest == 65504 // 256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inner": 0}, "inner must be at least 1, got 0"),
        ({"accumulator": "int32"}, "all be floating-point or all whole"),
        ({"streamed": "float31"}, "streamed must be an element type: .* did you mean float32"),
        ({"activations": ("gelu",)}, "activations must be among"),
        ({"padded_rows": True}, "padded_rows needs a number of rows"),
        ({"clock": 0.0}, "clock must be positive"),
    ],
)
def test_a_unit_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(unit("systolic64"), **change)
