import pytest

from workbench.laws.verification.proving.needed import axioms_needed
from workbench.laws.verification.proving.prove import Prover, axioms, generic_cases
from workbench.rules import parse_rule
from workbench.saturation import Limits

LIMITS = Limits(e_nodes=20_000, seconds=30, iterations=6, k_multi=0)


def case(text):
    (rule,) = parse_rule(text)
    return generic_cases(rule, broadcast=False).instances[0]


def proved(instance, names):
    prover = Prover([instance.rule], [a for a in axioms() if a.name in names], LIMITS, broadcast=False)
    if prover.begin():
        while not prover.pass_over:
            prover.step()
    prover.close()
    return (0, 0) in prover.rounds


@pytest.mark.slow
def test_the_axioms_prove_and_none_of_them_is_idle():
    # Only the first case is looked at: it is what the set is for.
    instance = case("turned: mul(add(x, y), z) => add(mul(z, y), mul(z, x))")
    names = axioms_needed(instance, list(axioms()), LIMITS)
    assert set(names) == {"mul-is-commutative", "mul-distributes-over-add", "add-is-commutative"}
    assert proved(instance, names)
    assert not any(proved(instance, [n for n in names if n != left_out]) for left_out in names)


def test_what_the_axioms_do_not_prove_needs_none():
    instance = case("wrong: relu(add(x, y)) => add(relu(x), relu(y))")
    assert axioms_needed(instance, list(axioms()), LIMITS) == ()
