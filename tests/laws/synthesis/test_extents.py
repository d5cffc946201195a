"""The extents of terms: those of variables that agree on every random instance."""

import pytest

from workbench.laws.synthesis.extents import equal_to_extent
from workbench.rules.language import parse_term


@pytest.mark.parametrize(
    ("texts", "place", "axis", "found"),
    [
        (["matmul(x, y)"], 0, -2, {("x", -2)}),
        (["matmul(x, y)", "matmul(x, z)"], 1, -1, {("z", -1)}),
        (["relu(x)", "relu(y)"], 0, -1, {("x", -1)}),
        (["conv2d[pads=(1, 1, 1, 1)](x, w)"], 0, -3, {("w", -4)}),
        (["transpose[perm=(1, 0)](x)"], 0, -1, {("x", -2)}),
        (["concat[axis=-1](x, y)"], 0, -1, set()),
    ],
)
def test_an_extent_is_named_by_the_variables_that_have_it(texts, place, axis, found):
    terms = [parse_term(t) for t in texts]
    assert {(d.var, d.axis) for d in equal_to_extent(terms, place, axis)} == found


def test_terms_that_do_not_fit_have_no_extents():
    wrong = parse_term("transpose[perm=(1, 0)](conv2d(x, w))")
    assert equal_to_extent([wrong], 0, -1) == []
