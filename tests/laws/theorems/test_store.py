"""Stored proofs are checked again, and what the solver showed is written."""

import json
from dataclasses import replace

import pytest

import workbench
from tests.sampled import turn
from workbench.laws.theorems import entailment, store
from workbench.laws.theorems.entailment import solver
from workbench.laws.theorems.store import (
    LONGEST_DETAIL,
    REASONS,
    check_library,
    every_rule,
    obligations,
    reason_of,
    unmatched,
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.skipif(solver() is None, reason="no z3")
def test_some_stored_proofs_are_checked_and_their_obligations_are_unsatisfiable():
    import z3

    seen = []
    # Which ones rotates with the commit; the nightly run checks all by `workbench verify --check`.
    found = check_library(every_rule()[turn() % 16 :: 16], seen.append)
    assert seen == found
    assert len(found) >= 5
    assert all(r.checked is not None for r in found), [r.reason for r in found]
    texts = [text for r in found for _, text in obligations(r.checked)][:5]
    for text in texts:
        solving = z3.Solver()
        solving.from_string(text)
        assert solving.check() == z3.unsat


@pytest.mark.skipif(solver() is None, reason="no z3")
def test_rules_share_the_solver_s_answers_and_each_keeps_its_obligations(monkeypatch):
    asked = []
    plain = entailment.follows

    def counted(*args, **options):
        asked.append(args)
        return plain(*args, **options)

    monkeypatch.setattr(entailment, "follows", counted)
    rules = [r for r in rule_set("default") if r.name == "conv-of-point"]
    check_library(rules)
    alone = len(asked)
    asked.clear()
    first, second = check_library(rules * 2)
    assert len(asked) == alone > 0
    assert first.checked == second.checked
    assert second.checked.obligations


@pytest.mark.slow
def test_every_rule_has_one_record_and_every_record_its_rule(monkeypatch):
    rules = every_rule()
    assert unmatched(rules) == []
    assert unmatched([*rules, replace(rules[0], name="new")]) == ["new has no record of its law"]
    assert unmatched(rules[1:]) == [f"a record of {rules[0].name} is of no law of the library"]
    swapped = [replace(rules[0], name=rules[1].name), replace(rules[1], name=rules[0].name), *rules[2:]]
    assert len(unmatched(swapped)) == 4
    monkeypatch.setattr(store, "proof_files", lambda: proof_files()[1:])
    assert len(unmatched(rules)) == sum(1 for r in json.loads(proof_files()[0].read_text()))


@pytest.mark.slow
@pytest.mark.skipif(solver() is None, reason="no z3")
def test_two_processes_find_what_one_finds_in_the_order_of_the_rules():
    rules = list(rule_set("fusion"))[::3]
    one, two = check_library(rules), check_library(rules, jobs=2)
    assert len(one) > 5
    assert [(r.rule, r.checked, r.reason) for r in two] == [(r.rule, r.checked, r.reason) for r in one]
    assert [r.rule for r in one] == [r.name for r in rules]
