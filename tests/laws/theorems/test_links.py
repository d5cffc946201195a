"""A link applies a theorem at one place; its conditions and types follow from the facts of the rule."""

import pytest

import workbench
from workbench.laws.theorems.entailment import Facts, solver
from workbench.laws.theorems.goals import statements
from workbench.laws.theorems.links import Chain, NoLink

pytestmark = pytest.mark.skipif(solver() is None, reason="no z3")

LAWS = {
    r.name: r
    for r in workbench.parse_rules("""
of-groups: conv2d[c, groups=g](x, w) => conv2d[c, groups=1](x, merge_gconv[count=g, groups=g](w)) where g != 1
swapped: add(x, y) => add(y, x)
twice: transpose[perm=q](transpose[perm=p](x)) => transpose[perm=compose(p, q)](x)
same-twice: transpose[perm=p](transpose[perm=p](x)) => transpose[perm=compose(p, p)](x)
shifted: softmax[axis=-1](add(x, t)) => softmax[axis=-1](x) where dim(t, -1) = 1
divided: mul(x, y) => div(x, reciprocal(y))
halves: slice[axis=a, start=i, stop=j](relu(x)) => relu(slice[axis=a, start=i, stop=j](x))
equal-only: add(x, x) => mul(x, 2.0)
wider: relu(cast[to=d](x)) => cast[to=d](relu(x)) where dtype(x) <= d
flat: relu(x) => reshape[shape=(dim(x, -2), dim(x, -1))](relu(x))
""")
}


def linked(law, name, place=(), *, backwards=False, root=0):
    """Return a law's left-hand side after one link, as text."""
    (rule,) = workbench.parse_rules(f"r: {law}")
    (statement,) = statements(rule)
    case = Chain.of(rule, statement, Facts(statement.facts))
    found = case.linked(case.pairs[root][0], LAWS[name], backwards, place)
    assert case.alike(found, case.pairs[root][1]) == (found.text == case.pairs[root][1].text)
    return found.text


def test_a_theorem_is_applied_at_its_place():
    law = "relu(add(x, add(y, z))) => relu(add(x, add(y, z)))"
    assert linked(law, "swapped", (0,)) == "relu[](add[](add[](y, z), x))"
    assert linked(law, "swapped", (0, 1)) == "relu[](add[](x, add[](z, y)))"
    with pytest.raises(NoLink, match="does not match"):
        linked(law, "swapped")
    with pytest.raises(NoLink, match="no such place"):
        linked(law, "swapped", (0, 2))


def test_a_condition_of_the_theorem_follows_from_the_rule_or_the_link_fails():
    law = "relu(conv2d[groups=g, act=none, c](x, w)) => relu(conv2d[groups=g, act=none, c](x, w))"
    assert "merge_gconv" in linked(f"{law} where 1 < g", "of-groups", (0,))
    with pytest.raises(NoLink, match="may not hold"):
        linked(law, "of-groups", (0,))
    shifted = "relu(softmax[axis=-1](add(x, t))) => relu(softmax[axis=-1](add(x, t)))"
    assert linked(f"{shifted} where dim(t, -1) = 1, rank(x) = 2, rank(t) = 1", "shifted", (0,)).endswith(
        "(x))"
    )
    with pytest.raises(NoLink):
        linked(f"{shifted} where dim(t, -1) = 2, rank(x) = 2, rank(t) = 1", "shifted", (0,))


def test_the_type_after_a_link_follows_from_the_rule_or_the_link_fails():
    # Without the shorter operand the result may have another type: that operand may be the longer one.
    shifted = "relu(softmax[axis=-1](add(x, t))) => relu(softmax[axis=-1](add(x, t))) where dim(t, -1) = 1"
    with pytest.raises(NoLink, match="may not hold"):
        linked(shifted, "shifted", (0,))
    with pytest.raises(NoLink):
        linked("tanh(relu(x)) => tanh(relu(x)) where rank(x) = 3", "flat", (0,))
    assert "reshape" in linked(
        "tanh(relu(x)) => tanh(relu(x)) where rank(x) = 2, dim(x, -1) = 4", "flat", (0,)
    )


def test_attributes_and_permutations_are_those_of_the_rule():
    law = "relu(transpose[perm=q](transpose[perm=p](x))) => relu(transpose[perm=compose(p, q)](x))"
    assert linked(law, "twice", (0,)) == "relu[](transpose[perm=p.q](x))"
    with pytest.raises(NoLink, match="does not match"):
        linked(law, "same-twice", (0,))
    cut = "slice[axis=b, start=k, stop=l](relu(x)) => relu(slice[axis=b, start=k, stop=l](x))"
    (rule,) = workbench.parse_rules(f"r: {cut}")
    for statement in statements(rule):
        case = Chain.of(rule, statement, Facts(statement.facts))
        left, right = case.pairs[0]
        assert case.alike(case.linked(left, LAWS["halves"], False, ()), right)
        assert case.alike(case.linked(right, LAWS["halves"], True, ()), left)
        assert not case.alike(left, right)


def test_what_a_theorem_asks_of_element_types_is_a_condition_of_the_rule():
    law = "tanh(relu(cast[to=d](x))) => tanh(cast[to=d](relu(x)))"
    assert "cast" in linked(f"{law} where dtype(x) <= d", "wider", (0,))
    for wrong in (law, f"{law} where d <= dtype(x)"):
        with pytest.raises(NoLink):
            linked(wrong, "wider", (0,))


def test_a_variable_that_the_term_does_not_give_is_not_a_link():
    law = "softmax[axis=-1](x) => softmax[axis=-1](x) where rank(x) = 2"
    with pytest.raises(NoLink, match="nothing is known of t"):
        linked(law, "shifted", backwards=True)
    assert "mul" in linked("relu(add(x, x)) => relu(add(x, x))", "equal-only", (0,))
    with pytest.raises(NoLink, match="does not match"):
        linked("relu(add(x, y)) => relu(add(x, y))", "equal-only", (0,))


def test_no_link_brings_in_an_operator_without_a_value_for_some_numbers():
    law = "relu(mul(x, y)) => relu(mul(x, y))"
    with pytest.raises(NoLink, match="may have no value"):
        linked(law, "divided", (0,))
    there = "add(mul(x, y), div(x, reciprocal(y)))"
    found = linked(f"{there} => {there}", "divided", (0,))
    assert found == "add[](div[](x, reciprocal[](y)), div[](x, reciprocal[](y)))"
