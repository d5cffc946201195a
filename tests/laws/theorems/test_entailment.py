"""What follows from facts about integers, also about products and quotients."""

import pytest

from workbench.laws.theorems.entailment import Facts, follows, quotients, solver
from workbench.symbolic.integers import at_least, call, div, equal, mul, num, sub, sym

pytestmark = pytest.mark.skipif(solver() is None, reason="no z3")

G, Q, W, X, J = (sym(n) for n in ("+g", "+q", "+w", "i", "j"))


def below(x, y):
    return at_least(sub(y, num(1)), x)


def test_a_channel_of_a_group_is_a_channel():
    # i < g * q and j < w give j + w * (i div q) < g * w.
    facts = Facts((at_least(X, num(0)), below(X, mul(G, Q)), below(J, W), at_least(J, num(0))))
    place = sub(mul(W, div(X, Q)), mul(num(-1), J))
    assert facts.entail(below(place, mul(G, W)))
    assert follows(facts.known, below(place, mul(G, W)), 400_000, linear=True)
    assert not facts.entail(below(place, mul(W, sub(G, num(1)))))


def test_bounds_of_quotients():
    quotient = div(X, Q)
    found = quotients([below(X, mul(G, Q)), at_least(X, Q)], [quotient])
    assert {below(quotient, G), at_least(quotient, num(1))} <= set(found)
    assert quotients([below(X, G)], [quotient]) == []


def test_facts_that_contradict_each_other_prove_anything():
    facts = Facts((below(X, J), below(J, X)))
    assert facts.absurd()
    assert not Facts((below(X, J),)).absurd()
    assert not Facts((below(X, J),)).entail(equal(X, J))


def test_no_place_lies_inside_an_axis_that_may_be_empty():
    empty, some = call("first x", X, num(0)), call("first x", X, W)
    assert not Facts((at_least(empty, num(0)),)).absurd()
    assert not Facts((below(empty, num(0)),)).absurd()
    assert Facts().entail(below(some, W))
