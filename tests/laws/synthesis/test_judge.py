"""Verdicts on equations: the most general law that holds, with the conditions that it needs."""

import pytest

from workbench.laws.synthesis.anti_unification import variants_of
from workbench.laws.synthesis.enumeration import Equation
from workbench.laws.synthesis.judge import judge, recheck
from workbench.laws.verification.evidence import Effort
from workbench.rules import parse_rules
from workbench.rules.language import parse_term
from workbench.rules.pattern import format_rule

MATRICES = dict.fromkeys("xyz", ("n", "n"))


def judged(*equations):
    variants = [
        variants_of(Equation(parse_term(a), parse_term(b), 0), MATRICES, {"n": 3}) for a, b in equations
    ]
    return judge(variants, effort=Effort(chain=0, draws=60, seconds=60.0), seed=0, jobs=1)


@pytest.mark.slow
def test_the_general_law_is_kept_and_a_wrong_equation_is_not():
    right, wrong = judged(
        ("concat[axis=-1](relu(x), relu(y))", "relu(concat[axis=-1](x, y))"), ("matmul(x, y)", "matmul(y, x)")
    )
    assert right.verdict.by_axioms
    assert "axis=a" in format_rule(right.law)
    assert wrong.law is None
    assert wrong.decided


@pytest.mark.slow
def test_a_law_for_some_axes_only_is_not_generalised_to_all():
    (one,) = judged(("concat[axis=-2](matmul(x, y), matmul(z, y))", "matmul(concat[axis=-2](x, z), y)"))
    assert one.verdict.verdict == "tested"


@pytest.mark.slow
def test_a_halt_leaves_equations_undecided():
    variants = [
        variants_of(Equation(parse_term("relu(relu(x))"), parse_term("relu(x)"), 0), MATRICES, {"n": 3})
    ]
    (one,) = judge(variants, effort=Effort(chain=0), seed=0, jobs=1, halt=lambda: True)
    assert (one.law, one.decided) == (None, False)


LAWS = parse_rules(
    "over: add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))\n"
    "wrong: matmul(x, y) => matmul(y, x)\n"
    "pair: matmul(x, y) ; matmul(x, z)"
    " => slice[axis=-1, start=0, stop=dim(y, -1)](matmul(x, concat[axis=-1](y, z)))"
    " ; slice[axis=-1, start=dim(y, -1), stop=dim(y, -1) + dim(z, -1)](matmul(x, concat[axis=-1](y, z)))\n"
)


def test_right_laws_pass_every_instance_and_a_wrong_one_does_not():
    over, wrong, pair = recheck(LAWS, 60)
    assert (over.passed, over.refuted, over.complete) == (60, False, True)
    assert wrong.refuted
    assert (pair.passed, pair.refuted) == (60, False)


def test_a_limit_is_reported():
    (one,) = recheck(LAWS[:1], 5000, seconds=0.05)
    assert not one.complete
    assert one.passed < 5000


def test_the_number_of_instances_is_checked():
    with pytest.raises(ValueError, match="must be positive, got 0"):
        list(recheck(LAWS, 0))
