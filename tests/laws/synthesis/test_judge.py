"""Verdicts on equations: the most general law that holds, with the conditions that it needs."""

import pytest

from workbench.laws.synthesis.anti_unification import variants_of
from workbench.laws.synthesis.enumeration import Equation
from workbench.laws.synthesis.judge import judge
from workbench.laws.verification.evidence import Effort
from workbench.rules.language import parse_term
from workbench.rules.pattern import format_rule

pytestmark = pytest.mark.slow

MATRICES = dict.fromkeys("xyz", ("n", "n"))


def judged(*equations):
    variants = [
        variants_of(Equation(parse_term(a), parse_term(b), 0), MATRICES, {"n": 3}) for a, b in equations
    ]
    return judge(variants, effort=Effort(chain=0, draws=60, seconds=60.0), seed=0, jobs=1)


def test_the_general_law_is_kept_and_a_wrong_equation_is_not():
    right, wrong = judged(
        ("concat[axis=-1](relu(x), relu(y))", "relu(concat[axis=-1](x, y))"), ("matmul(x, y)", "matmul(y, x)")
    )
    assert right.verdict.verdict == "proved"
    assert "axis=a" in format_rule(right.law)
    assert wrong.law is None
    assert wrong.decided


def test_a_law_for_some_axes_only_is_not_generalised_to_all():
    (one,) = judged(("concat[axis=-2](matmul(x, y), matmul(z, y))", "matmul(concat[axis=-2](x, z), y)"))
    assert one.verdict.verdict in ("proved", "tested")


def test_a_halt_leaves_equations_undecided():
    variants = [
        variants_of(Equation(parse_term("relu(relu(x))"), parse_term("relu(x)"), 0), MATRICES, {"n": 3})
    ]
    (one,) = judge(variants, effort=Effort(chain=0), seed=0, jobs=1, halt=lambda: True)
    assert (one.law, one.decided) == (None, False)
