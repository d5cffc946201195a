"""Which right-hand sides have the type of the left whenever that has one; the engine guards the others."""

import pytest

import workbench
from workbench.laws.theorems.check import Rejected, check
from workbench.laws.theorems.entailment import Facts, solver
from workbench.laws.theorems.goals import why_guarded
from workbench.laws.theorems.store import is_typed
from workbench.rules.ruleset import rule_set
from workbench.rules.verdicts import is_theorem, proof_record

pytestmark = pytest.mark.skipif(solver() is None, reason="no z3")

TYPED = """
members: relu(concat[axis=a](x, y)) => concat[axis=a](relu(x), relu(y))
other-way: concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))
associates: matmul(matmul(x, y), z) => matmul(x, matmul(y, z)) where rank(x) = 2, rank(y) = 2, rank(z) = 2
turned: transpose[perm=q](transpose[perm=p](x)) => transpose[perm=compose(p, q)](x)
scaled: mul(conv2d[c, act=none](x, w), s) => conv2d[c, act=none](x, mul(w, s)) where rank(s) = 0
of-type: relu(cast[to=float32](x)) => relu(cast[to=float32](x))
"""

GUARDED = """
broadcast: softmax[axis=-1](add(x, t)) => softmax[axis=-1](x) where dim(t, -1) = 1
parts: concat[axis=a](reduce_sum[axes=(-1)](x), reduce_sum[axes=(-1)](y)) => reduce_sum[axes=(-1)](concat[axis=a](x, y))
longer: slice[axis=-1, start=i, stop=j](x) => slice[axis=-1, start=i, stop=j + 1](x)
other-type: sigmoid(cast[to=d](x)) => cast[to=d](sigmoid(x))
whole-numbers: cast[to=d](x) => x
turned-back: transpose[perm=p](add(x, y)) => add(transpose[perm=p](x), y)
members: each relu(w*) => slice[axis=-1](relu(concat[axis=-1](w*)))
"""


@pytest.mark.parametrize("rule", workbench.parse_rules(TYPED), ids=lambda r: r.name)
def test_right_hand_sides_that_always_have_a_type_are_typed(rule):
    known = Facts()
    assert why_guarded(rule, known) == ""
    assert known.known == ()


@pytest.mark.parametrize("rule", workbench.parse_rules(GUARDED), ids=lambda r: r.name)
def test_the_others_are_guarded_and_the_reason_is_given(rule):
    assert why_guarded(rule) != ""


@pytest.mark.slow
def test_the_records_say_it_of_every_theorem_and_the_checker_does_not_believe_them():
    rules = [r for r in rule_set("default") if is_theorem(r)]
    assert all(isinstance(proof_record(r)["typed"], bool) for r in rules)
    assert sum(map(is_typed, rules)) >= 250
    rule = next(r for r in rules if r.name == "softmax-of-shifted")
    assert not is_typed(rule)
    assert check(rule, proof_record(rule)).rule == rule.name
    with pytest.raises(Rejected, match="typed: softmax-of-shifted: "):
        check(rule, proof_record(rule) | {"typed": True})
