"""Records of proofs belong to the rules as they are."""

import json
from dataclasses import replace

import pytest

import workbench
from workbench.laws.theorems.records import (
    LONGEST_DETAIL,
    REASONS,
    reason_of,
    why_no_theorem,
    without_proof,
)
from workbench.rules.ruleset import rule_set
from workbench.rules.verdicts import is_theorem, proof_files, proof_record, proofs

#: The least number of default rules that are theorems.
LEAST = 445


@pytest.fixture(scope="module")
def rules():
    return list(rule_set("default"))


def test_nine_of_ten_default_rules_have_a_stored_proof_and_the_others_a_reason(rules):
    theorems = [r for r in rules if is_theorem(r)]
    assert len(theorems) >= max(LEAST, 0.9 * len(rules))
    assert all(reason_of(r)[0] in REASONS and why_no_theorem(r) for r in rules if r not in theorems)
    assert {reason_of(r) for r in theorems} == {("", "")}


def test_proofs_are_one_line_each_and_small():
    files = proof_files()
    assert sum(f.stat().st_size for f in files) < 2_000_000
    lines = sum(len(f.read_text().splitlines()) - 2 for f in files)
    assert lines == len(proofs())
    assert all(
        set(r) <= {"rule", "law", "cases", "chain", "typed", "why", "detail"} for r in proofs().values()
    )


def test_a_proof_counts_only_for_the_law_that_it_proves(rules):
    (rule,) = (r for r in rules if r.name == "relu-twice")
    (other,) = workbench.parse_rules("relu-twice: tanh(tanh(x)) => tanh(x)")
    assert is_theorem(rule)
    assert why_no_theorem(rule) == ""
    assert not is_theorem(other)
    assert proof_record(other) is None
    assert why_no_theorem(replace(rule, name="new")) == "no proof was sought"


def test_the_reason_is_a_name_with_a_detail_that_is_cut(rules):
    record = without_proof(rules[0], "open", "x" * 500)
    assert (record["rule"], record["why"], len(record["detail"])) == (rules[0].name, "open", LONGEST_DETAIL)
    assert record["detail"].endswith("…")
    assert json.loads(json.dumps(record)) == record
    assert "detail" not in without_proof(rules[0], "never", "")
    covered = next(r for r in rules if reason_of(r)[0] == "uncovered")
    assert why_no_theorem(covered) == f"the kernel does not cover {reason_of(covered)[1]}"
