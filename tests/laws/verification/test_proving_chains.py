"""Chains of terms that explain a proof."""

from dataclasses import replace

import pytest

from workbench.laws.verification.proving import axioms, find_chain, generic_cases, replay
from workbench.rules import parse_rule, rule_set
from workbench.rules.pattern import App, Literal, subterms

AXIOMS = list(axioms())
LAWS = [*rule_set("fusion"), *rule_set("merge")]


def activations(rule):
    """Return the activations that a law names as attributes of products."""
    terms = (t for root in (*rule.sources, *rule.targets) for t in subterms(root) if isinstance(t, App))
    given = (dict(t.attrs).get("act") for t in terms)
    return {expr.value for expr in given if isinstance(expr, Literal)}


#: The activations that axioms define; the laws of the others are tested on instances, and have no chain.
DEFINED = set().union(*map(activations, AXIOMS))


def chains(text):
    (rule,) = parse_rule(text)
    instance = generic_cases(rule, broadcast=False).instances[0]
    return instance, find_chain(instance, AXIOMS)


def test_a_chain_reads_from_left_to_right():
    _, (chain,) = chains("r: relu(conv2d[c, act=none](x, add(w, v))) => relu(add(conv2d[c, act=none](x, v), "
                         "conv2d[c, act=none](x, w))) where dim(w, -4) = dim(v, -4), "
                         "dim(w, -2) = dim(v, -2), dim(w, -1) = dim(v, -1)")  # fmt: skip
    assert chain.axioms == ("add-is-commutative", "conv-is-linear-in-weight") or chain.axioms == (
        "conv-is-linear-in-weight",
        "add-is-commutative",
    )
    first, *_, last = str(chain).split("\n  ")
    assert first.startswith("relu(conv2d")
    assert last.startswith("= relu(add(conv2d")
    assert str(chain).count("\n") == len(chain.steps)


def test_two_outputs_have_a_chain_each():
    instance, found = chains(
        "pair: matmul(x, w) ; matmul(x, v) => "
        "slice[axis=-1, start=0, stop=dim(w, -1)](matmul(x, concat[axis=-1](w, v))) ; "
        "slice[axis=-1, start=dim(w, -1), stop=dim(w, -1) + dim(v, -1)](matmul(x, concat[axis=-1](w, v)))"
    )
    assert len(found) == 2
    assert replay(instance, found, AXIOMS)


def test_what_is_wrong_has_no_chain():
    _, found = chains("wrong: matmul(x, y) => matmul(y, x)")
    assert found is None


@pytest.mark.slow
def test_an_activation_that_no_axiom_defines_has_no_chain():
    assert {"none", "relu", "sigmoid", "tanh"} == DEFINED
    left = [rule for rule in LAWS if not activations(rule) <= DEFINED]
    assert set().union(*map(activations, left)) - DEFINED == {"relu6", "silu", "gelu", "hardswish"}
    for rule in left:
        assert find_chain(generic_cases(rule, broadcast=False).instances[0], AXIOMS) is None


@pytest.mark.parametrize("rule", [r for r in LAWS if activations(r) <= DEFINED], ids=lambda r: r.name)
def test_chains_replay(rule):
    cases = generic_cases(rule, broadcast=False)
    found = find_chain(cases.instances[0], AXIOMS)
    assert found is not None
    assert replay(cases.instances[0], found, AXIOMS)


def test_a_forged_chain_does_not_replay():
    instance, (chain,) = chains("r: add(x, add(y, z)) => add(add(x, y), z)")
    assert replay(instance, [chain], AXIOMS)
    first, *others = chain.steps
    for forged in (
        (replace(first, law="mul-is-commutative"), *others),
        (replace(first, law="no-such-axiom"), *others),
        (replace(first, forwards=not first.forwards), *others),
        (replace(first, place=(5,)), *others),
        (replace(first, after=first.before), *others),
        chain.steps[:-1],
    ):
        assert not replay(instance, [replace(chain, steps=forged)], AXIOMS)
