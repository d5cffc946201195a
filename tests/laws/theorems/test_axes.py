"""Keys of axes: an image under a permutation may be any axis, and is never taken for another one silently."""

import pytest

from workbench.laws.theorems.axes import NotCovered, Perm, among, key_text, met, place_of
from workbench.symbolic.integers import FALSE, TRUE, num, sym


def test_keys_without_a_permutation_are_one_axis_only_if_they_are_equal():
    assert met(-1, -1) == met("a", "a") == TRUE
    assert met(-1, -2) == met(-1, "a") == met("a", "*") == FALSE


def test_images_are_the_same_axis_under_one_condition():
    assert met(("p", -1), ("p", -1)) == TRUE
    assert met(("p", -1), ("p", -2)) == FALSE
    assert met(("p-", ("p", "a")), "a") == TRUE
    unknown = met(("p", -1), -1)
    assert unknown not in (TRUE, FALSE)
    assert unknown == met(-1, ("p", -1))
    assert met(("p-", "*"), "a") == met("*", ("p", "a"))


def test_an_entry_for_an_axis_is_chosen_by_condition():
    table = {-1: num(7)}
    assert among(-1, table, lambda _: num(0)) == num(7)
    assert among("a", table, lambda _: num(0)) == num(0)
    chosen = among(("p", -1), table, lambda _: num(0))
    assert chosen.value is None
    assert "at p" in chosen.text


def test_a_permutation_and_its_inverse_undo_each_other():
    p = Perm(("p",), {("p", -1): -1, ("p-", -1): -1})
    for key in (-1, -2, "a", "*"):
        assert p.back(p.forth(key)) == p.inverse().forth(p.forth(key)) == key
    assert p.forth(-1) == -1
    assert Perm(("p", "q")).inverse().names == ("q-", "p-")


@pytest.mark.parametrize("key", [None, 1.5, num(1)])
def test_what_is_not_a_key_is_refused(key):
    for f in (place_of, key_text):
        with pytest.raises(NotCovered, match="axis"):
            f(key)
    assert place_of("a") == sym("place a")
