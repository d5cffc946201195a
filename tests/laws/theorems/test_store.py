"""Stored proofs are checked again, and what the solver showed is written."""

import json
from dataclasses import replace

import pytest

from workbench.laws.theorems import entailment, store
from workbench.laws.theorems.entailment import solver
from workbench.laws.theorems.store import check_library, every_rule, obligations, unmatched
from workbench.rules.ruleset import rule_set
from workbench.rules.verdicts import proof_files


@pytest.mark.skipif(solver() is None, reason="no z3")
def test_some_stored_proofs_are_checked_and_their_obligations_are_unsatisfiable():
    import z3

    seen = []
    found = check_library(list(rule_set("default"))[::40], seen.append)
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
