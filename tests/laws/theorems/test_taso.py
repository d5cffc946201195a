"""TASO's rules: sound ones are theorems, wrong ones in the region that their refutation gives."""

import pytest

from workbench.laws.theorems.entailment import solver
from workbench.laws.theorems.prove import attempt
from workbench.laws.verification.verify import Verification
from workbench.rules import parse_rules
from workbench.rules.ruleset import read_rules
from workbench.rules.verdicts import law_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(solver() is None, reason="no z3"),
]

#: The rules that are wrong under TASO's own matcher.
WRONG = (98, 99, 100, 105, 125, 126, 127, 128, 129, 130, 131)
#: The rules that hold if operands of an addition have one shape, as TASO demands: those operands.
ALIKE = {59: ("i10", "i11"), 60: ("i7", "i8"), 61: ("i10", "i11"), 62: ("i7", "i8")}


@pytest.fixture(scope="module")
def rules(shared_data):
    return read_rules(shared_data / "taso" / "graph_subst.pb").rules


def under(rule, *conditions):
    (found,) = parse_rules(f"{rule.name}: {law_of(rule)}, {', '.join(conditions)}")
    return found


@pytest.mark.nightly
def test_sound_rules_are_theorems_and_wrong_ones_are_not(rules):
    found = [attempt(r, seconds=6) for r in rules]
    assert len(found) == 133
    assert {i for i, a in enumerate(found) if a.proof is None} == {*WRONG, *ALIKE}


@pytest.mark.parametrize("index", ALIKE)
def test_sums_of_one_shape_are_theorems(rules, index):
    x, y = ALIKE[index]
    alike = [f"dim({x}, {axis}) = dim({y}, {axis})" for axis in (-4, -3, -2, -1)]
    assert attempt(under(rules[index], *alike), seconds=20).proof is not None


def test_a_wrong_rule_is_a_theorem_in_the_region_that_its_refutation_gives(rules):
    wrong = [rules[i] for i in WRONG[::4]]
    verification = Verification(wrong)
    verification.run()
    assert {v.verdict for v in verification.verdicts} == {"refuted"}
    for rule, verdict in zip(wrong, verification.verdicts, strict=True):
        region = verdict.evidence["region"]["condition"]
        assert attempt(under(rule, region), seconds=20).proof is not None, (rule.name, region)
