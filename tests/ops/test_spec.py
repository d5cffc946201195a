"""Attributes of operators: values of another kind are refused, and never rounded."""

import numpy as np
import pytest

from workbench.ops import TypeMismatch, spec_of


@pytest.mark.parametrize("axis", [1.5, "1", (1, 2), float("inf"), float("nan")])
def test_a_whole_attribute_is_not_rounded(axis):
    with pytest.raises(TypeMismatch, match="concat: axis must be a whole number, got"):
        spec_of("concat").pack({"axis": axis})


@pytest.mark.parametrize("axis", [1, 1.0, True, np.int64(1), np.float32(1)])
def test_whole_numbers_of_any_class_are_the_same(axis):
    (packed,) = spec_of("concat").pack({"axis": axis})
    assert (packed, type(packed)) == (1, int)


def test_a_number_is_not_text():
    with pytest.raises(TypeMismatch, match="rmsnorm: eps must be a number, got 'small'"):
        spec_of("rmsnorm").pack({"axis": -1, "eps": "small"})
