"""Families of laws, each a file: no counterexample to a law, and one to every tempting wrong version."""

from pathlib import Path

import pytest

from tests.sampled import sampled
from workbench.laws.verification.refuting.refute import search
from workbench.rules import load_rules, rule_set
from workbench.rules.verdicts import library, statuses

HERE = Path(__file__).parent
#: The files of wrong versions; each stands beside a family, but those of resizing are about movement.
FILES = sorted(HERE.glob("wrong_*.rules"))
FAMILIES = [path for f in FILES if (path := library() / f"{f.stem.removeprefix('wrong_')}.rules").exists()]
WRONG = [rule for file in FILES for rule in load_rules(file)]
LAWS = [rule for file in FAMILIES for rule in load_rules(file)]


def test_families_are_found():
    assert {"attention", "branches", "movement", "reductions", "transposes"} <= {
        path.stem for path in FAMILIES
    }
    assert len({rule.name for rule in WRONG}) == len(WRONG)


@pytest.mark.parametrize("rule", sampled(WRONG, 3, quick=2))
def test_a_tempting_version_is_refuted(rule):
    # The time is ample, so that a busy machine finds what an idle one does.
    found = search(rule, draws=400, seconds=240.0)
    assert found.counterexample is not None, f"{len(found.passed)} passed; {found.reason}"


@pytest.mark.slow
@pytest.mark.parametrize("rule", sampled(LAWS, 5))
def test_a_law_has_no_counterexample(rule):
    found = search(rule, draws=30, seed=11, seconds=240.0)
    assert found.counterexample is None, str(found.counterexample)
    # Some left sides are rare: most of their instances cannot be made.
    assert len(found.passed) >= 10, found.reason


def test_laws_say_where_they_are_from():
    assert [rule.name for rule in LAWS if not rule.provenance] == []


def test_default_laws_are_proved_or_tested():
    known, default = statuses(), {rule.name for rule in rule_set("default")}
    assert {known[rule.name]["status"] for rule in LAWS if rule.name in default} <= {"tested"}


@pytest.mark.parametrize(
    "family", ["attention", "conversions", "movement", "quantised", "reductions", "transposes"]
)
def test_a_family_is_in_the_default_set(family):
    default = {rule.name for rule in rule_set("default")}
    assert {rule.name for rule in load_rules(library() / f"{family}.rules")} <= default
