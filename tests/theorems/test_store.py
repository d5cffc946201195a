"""Stored proofs belong to the rules as they are."""

from dataclasses import replace

import pytest

import workbench
from workbench.rules.library import rule_set
from workbench.theorems.decide import solver
from workbench.theorems.store import (
    check_library,
    folder,
    is_theorem,
    obligations,
    read_proofs,
    record_of,
    short,
    why_no_theorem,
)

#: The least number of default rules that are theorems.
LEAST = 405


@pytest.fixture(scope="module")
def rules():
    return list(rule_set("default"))


def test_most_default_rules_have_a_stored_proof_and_the_others_a_reason(rules):
    assert sum(is_theorem(r) for r in rules) >= LEAST
    assert all(why_no_theorem(r) for r in rules if not is_theorem(r))


def test_proofs_are_one_line_each_and_small(rules):
    files = list(folder().glob("*.json"))
    assert sum(f.stat().st_size for f in files) < 2_000_000
    lines = sum(len(f.read_text().splitlines()) - 2 for f in files)
    assert lines == len(read_proofs())


def test_a_proof_counts_only_for_the_law_that_it_proves(rules):
    (rule,) = (r for r in rules if r.name == "relu-twice")
    (other,) = workbench.parse_rules("relu-twice: tanh(tanh(x)) => tanh(x)")
    assert is_theorem(rule)
    assert not is_theorem(other)
    assert record_of(other) is None
    assert why_no_theorem(replace(rule, name="new")) == "no proof was sought"


@pytest.mark.skipif(solver() is None, reason="no z3")
def test_some_stored_proofs_are_checked_and_their_obligations_are_unsatisfiable(rules):
    import z3

    seen = []
    found = check_library(rules[::40], seen.append)
    assert seen == found
    assert len(found) >= 5
    assert all(r.checked is not None for r in found), [r.reason for r in found]
    texts = [text for r in found for _, text in obligations(r.checked)][:5]
    for text in texts:
        solving = z3.Solver()
        solving.from_string(text)
        assert solving.check() == z3.unsat


def test_long_reasons_are_cut():
    assert short("x" * 500).endswith("…")
    assert short("why") == "why"
