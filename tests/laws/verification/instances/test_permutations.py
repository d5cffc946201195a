from workbench.laws.verification.instances.permutations import allowed
from workbench.rules import parse_rule


def conditions(text):
    (rule,) = parse_rule(f"r: transpose[perm=p](x) => transpose[perm=p](x) where {text}")
    return rule.conditions


def test_conditions_on_a_permutation_alone_are_met():
    last = conditions("p[-1] = -1, p[-2] = -2, p[-3] = -3")
    assert allowed("p", 4, last) == ((0, 1, 2, 3),)
    assert allowed("p", 5, last) == ((0, 1, 2, 3, 4), (1, 0, 2, 3, 4))
    assert len(allowed("p", 6, last)) == 6


def test_other_conditions_are_left_out():
    assert len(allowed("p", 3, conditions("dim(x, -1) = 3"))) == 6
    assert len(allowed("q", 3, conditions("p[-1] = -1"))) == 6


def test_an_axis_that_a_permutation_lacks_allows_none():
    assert allowed("p", 2, conditions("p[-3] = -3")) == ()
