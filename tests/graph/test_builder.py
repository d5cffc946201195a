"""Errors of a builder, which name the argument: an extent of 2.5, or data that is not an array."""

import numpy as np
import pytest

from workbench.graph import GraphBuilder
from workbench.ops import TypeMismatch


def test_extents_are_whole_numbers_and_data_is_an_array():
    b = GraphBuilder("wrong")
    assert b.type(b.input("fine", (np.int64(2), 3))).shape == (2, 3)
    for shape in ((2.5, 3), "ab", (None, 3)):
        with pytest.raises(TypeMismatch, match="a shape must consist of whole numbers"):
            b.input("x", shape)
        with pytest.raises(TypeMismatch, match="a shape must consist of whole numbers"):
            b.weight(shape)
    with pytest.raises(TypeMismatch, match="must be an array, got 'float64' \\(try dtype='float64'\\)"):
        b.weight((2, 3), "float64")
