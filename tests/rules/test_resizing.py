"""The laws of resizing: what they say, and the tempting wrong versions of them."""

import pytest

from workbench.laws.verification.refuting.refute import search
from workbench.ops.resampling import COORDINATES
from workbench.rules import load_rules, parse_rule, rule_set
from workbench.rules.verdicts import library, statuses
from workbench.saturation.compile import compile_rule
from workbench.saturation.encoding import Encoding

RULES = [r for r in load_rules(library() / "movement.rules") if "resize[" in str(r) or "tokens" in r.name]


@pytest.mark.parametrize("coords", COORDINATES)
def test_a_bias_passes_at_all_coordinates(coords):
    # The weights of an interpolation sum to 1, also at the border and between corners.
    (rule,) = parse_rule(
        f"shifted: add(resize[mode=linear, coords={coords}, r](x), a) => "
        f"resize[mode=linear, coords={coords}, r](add(x, a)) "
        "where rank(a) = 4, dim(a, -4) = 1, dim(a, -2) = 1, dim(a, -1) = 1, dim(a, -3) = dim(x, -3)"
    )
    found = search(rule, draws=40)
    assert found.counterexample is None
    assert set(found.arithmetics) == {"rational"}


def test_each_is_judged_and_in_the_default_set():
    known = statuses()
    assert {known[r.name]["status"] for r in RULES} <= {"tested"}
    assert {r.name for r in RULES} <= {r.name for r in rule_set("default")}
    assert all(rule.provenance for rule in RULES)
    assert all(compile_rule(rule, 1, Encoding(4)) for rule in RULES)
