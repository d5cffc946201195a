"""Sizes of dimensions by their names: those of prices and of checks."""

import pytest

from workbench.symbolic.sizes import checked_sizes, kind_of, pricing_size


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("batch", "batch"),
        ("batch_size", "batch"),
        ("N", "batch"),
        ("seq_len", "sequence"),
        ("sequence", "sequence"),
        ("sequence_length", "sequence"),
        ("past_sequence_length", "past"),
        ("height", "space"),
        ("H", "space"),
        ("imageWidth", "space"),
        ("4*qheight", "space"),
        ("s0", "other"),
    ],
)
def test_a_name_says_what_a_dimension_is(name, kind):
    assert kind_of(name) == kind


def test_the_place_tells_where_the_name_does_not():
    assert kind_of("x[0]", 0, 4) == "batch"
    assert kind_of("dim_2", 2, 4) == "space"
    assert kind_of("s77", 1, 2) == "sequence"
    assert pricing_size(kind_of("h")) == 224


def test_checks_are_at_three_bindings_that_differ_in_every_symbol():
    kinds = {"batch": "batch", "a": "sequence", "b": "sequence"}
    found = checked_sizes(kinds)
    assert len(found) == 3
    for name in kinds:
        assert len({sizes[name] for sizes in found}) == 3
    assert all(sizes["a"] != sizes["b"] for sizes in found)
