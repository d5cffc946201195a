"""Rules whose e-nodes would exceed the limit: held back, or left out of a repeated iteration."""

import pytest

from tests.saturation.test_engine import engine_of, shared_matmuls, sum_of
from workbench.rules import rule_set
from workbench.saturation import engine as engine_module
from workbench.saturation import node_budget
from workbench.saturation.engine import Plan
from workbench.saturation.node_budget import born, bursting, divided, exceeds, fitting, pivots

from . import laws


def test_rules_share_the_room_and_the_one_that_does_not_fit_is_named():
    engine = engine_of(shared_matmuls(6), laws.MERGE_PAIR)
    (rule,) = engine.rules
    ready = {rule.number}
    assert fitting(engine.state, [rule], ready, 0, 10**6) == ([rule], [])
    counted = engine.state.record.applied[rule.ruleset]
    assert counted > 1
    engine.state.record.applied.clear()
    kept, notes = fitting(engine.state, [rule], ready, 0, rule.growth)
    assert kept == []
    assert notes == [
        f"{rule.rule.name} held back: {counted} matches could add {counted * rule.growth} e-nodes, "
        f"{rule.growth} fit"
    ]
    assert fitting(engine.state, [rule], set(), 0, 0) == ([rule], [])  # it cannot match


def after_one_rule():
    engine = engine_of(sum_of(6), laws.ADD_COMMUTES, laws.ADD_ASSOCIATES)
    before = engine.sizes()[0]
    engine.run(f"(run {engine.rules[0].ruleset} 1)")
    return engine, engine.sizes()[0] - before


def test_the_e_nodes_that_a_rule_has_made_are_counted():
    engine, made = after_one_rule()
    assert made > 1
    (add,) = engine.rules[0].makes
    assert [born(engine.state, add, rule.number) for rule in engine.rules] == [made, 0]


def test_a_rule_bursts_if_it_alone_has_made_more_e_nodes_than_there_is_room_for():
    for less, found in ((1, 1), (0, 0)):
        engine, made = after_one_rule()
        matches = {rule.number: 100.0 for rule in engine.rules}
        expected = frozenset(rule.number for rule in engine.rules[:found])
        assert bursting(engine.state, engine.rules, matches, made - less) == expected


@pytest.mark.parametrize("limit", [60, 200, 2000])
def test_the_e_graph_is_the_same_as_with_whole_counts(monkeypatch, limit):
    monkeypatch.setattr(engine_module, "COUNT_ABOVE", 0)
    found = []
    for large in (0, 10**9):
        monkeypatch.setattr(node_budget, "LARGE", large)
        engine = engine_of(shared_matmuls(6), laws.MERGE_PAIR)
        outcomes = [engine.iterate(Plan(step, True, limit)) for step in (1, 2)]
        found.append([(o.e_nodes, o.e_classes, o.changed, bool(o.cut)) for o in outcomes])
    assert found[0] == found[1]


@pytest.mark.parametrize("limit", [40, 60, 90, 150, 300])
def test_a_rule_that_is_known_to_make_too_much_is_left_out_without_a_trial(monkeypatch, limit):
    # Without that knowledge the rule is tried and undone, with the same e-graph in the end.
    def grown():
        engine = engine_of(sum_of(6), laws.ADD_COMMUTES, laws.ADD_ASSOCIATES)
        outcomes = [engine.iterate(Plan(step, False, limit)) for step in (1, 2, 3, 4)]
        notes = [o.cut for o in outcomes]
        return notes, [(o.e_nodes, o.e_classes, o.changed) for o in outcomes], sorted(engine.snapshot().ops)

    known, *found = grown()
    monkeypatch.setattr(engine_module, "bursting", lambda *given: frozenset())
    tried, *same = grown()
    assert found == same
    assert not any("more than" in note for note in tried)
    assert [bool(n) for n in known] == [bool(n) for n in tried]
    if limit == 40:
        assert any("more than" in note for note in known)


def counted(engine, rule):
    def growth():
        (output,) = engine.run(f"(print-size count_{rule.ruleset})")
        return int(output.size)

    return growth


def test_a_portion_exceeds_what_the_whole_exceeds_and_nothing_else_and_leaves_no_trace():
    engine = engine_of(shared_matmuls(16), laws.MERGE_PAIR)
    (rule,) = engine.rules
    before = engine.sizes()
    growth = counted(engine, rule)
    handles = pivots(engine.state)
    assert exceeds(engine.state, rule.rule, rule.counting, handles, growth, 20)
    assert not exceeds(engine.state, rule.rule, rule.counting, handles, growth, 16 * 15)
    assert engine.sizes() == before
    assert growth() == 0
    engine.run(f"(run count_rs_{rule.ruleset} 1)")
    assert growth() > 20


def test_matches_are_divided_by_an_operand_of_one_root():
    assert divided(laws.MERGE_PAIR) == "w_"
    for rule in rule_set("pairs").multi:
        if not rule.each:
            assert divided(rule)
