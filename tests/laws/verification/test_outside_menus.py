"""Laws that fail only beyond the numbers that a verifier usually tries: none is a theorem or tested."""

from pathlib import Path

import pytest

from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.verify import Verification
from workbench.rules import load_rules, parse_rules

RULES = load_rules(Path(__file__).parent / "outside_menus.rules")

#: Laws that need more instances than others, and why.
RARE = {
    "sigmoid-of-maxpool": "a window of padding alone is rare",
    "dilation-of-conv-at-most-three": "a kernel of two rows and the strides that hide a dilation are rare",
    "reshape-of-turned-before-the-last-four": "a rank of 6 without a product of two unknowns is rare",
    "transpose-of-scaled-up-to-four-axes": "a rank of 5 is one unusual number among many",
}

#: Right laws that need unusual numbers to have any instance: four or eight groups.
MANY_GROUPS = """
merge-of-four-groups: conv2d[c, groups=g](x, w) => \\
    conv2d[c, groups=2](x, merge_gconv[count=2, groups=g](w)) \\
    where g % 2 = 0, g // 2 = 2
"""


@pytest.mark.parametrize("rule", [r for r in RULES if r.name not in RARE], ids=lambda r: r.name)
def test_a_short_search_refutes(rule):
    assert search(rule, 24).counterexample is not None


@pytest.mark.slow
@pytest.mark.nightly
def test_none_is_proved_or_tested():
    verification = Verification(list(RULES), effort=Effort(chain=0, seconds=1200.0))
    verification.run()
    assert {v.name: v.verdict for v in verification.verdicts} == {r.name: "refuted" for r in RULES}
    assert all(v.evidence["replays"] for v in verification.verdicts)


@pytest.mark.slow
def test_what_menus_do_not_hold_is_not_rejected():
    verification = Verification(parse_rules(MANY_GROUPS), effort=Effort(draws=40, chain=0))
    verification.run()
    (verdict,) = verification.verdicts
    assert verdict.verdict in ("unknown", "tested", "theorem"), verdict
