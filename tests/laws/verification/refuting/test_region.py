import pytest

from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.refuting.region import find_region
from workbench.rules import parse_rule

CONV = "conv2d[strides=(1, 1), pads=(p, q, p, q), dilations=(1, 1), groups={g}, act=none]({x}, {w})"


def region(text, broadcast=True):
    (rule,) = parse_rule(text)
    found = search(rule, 60, go_on=120, broadcast=broadcast)
    assert found.failed
    return find_region(rule, found, broadcast=broadcast)


def test_groups():
    one, two = CONV.format(g="g", x="x", w="w"), CONV.format(g="g", x="x", w="v")
    both = CONV.format(g="g", x="x", w="concat[axis=-4](w, v)")
    found = region(f"merge: concat[axis=-3]({one}, {two}) => {both}")
    assert str(found) == "g = 1"
    assert found.rule.conditions == found.conditions
    assert search(found.rule, 40).counterexample is None


def test_channels_in_a_group():
    one, two = CONV.format(g="g", x="x", w="w"), CONV.format(g="h", x="y", w="v")
    both = CONV.format(g="g + h", x="concat[axis=-3](x, y)", w="concat[axis=-4](w, v)")
    assert str(region(f"join: concat[axis=-3]({one}, {two}) => {both}")) == "dim(w, -4) * h = dim(v, -4) * g"


def test_shapes():
    sum_ = CONV.format(g="g", x="add(x, y)", w="w")
    parts = ", ".join(CONV.format(g="g", x=v, w="w") for v in "xy")
    found = region(f"sum: {sum_} => add({parts})")
    assert str(found).startswith("rank(x) = rank(y), dim(x, -1) = dim(y, -1)")


@pytest.mark.parametrize("text", ["r: relu(add(x, y)) => add(relu(x), relu(y))"])
def test_nowhere(text):
    assert region(text) is None
