"""Matches counted in portions: a rule that matches too often is noticed, and no decision changes."""

import pytest

from tests.saturation.test_engine import engine_of, shared_matmuls
from workbench.rules import rule_set
from workbench.saturation import engine as engine_module
from workbench.saturation.engine import Plan
from workbench.saturation.portions import divided, exceeds, pivots

from . import laws


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


@pytest.mark.parametrize("limit", [60, 200, 2000])
def test_the_e_graph_is_the_same_as_with_whole_counts(monkeypatch, limit):
    monkeypatch.setattr(engine_module, "COUNT_ABOVE", 0)
    found = []
    for large in (0, 10**9):
        monkeypatch.setattr(engine_module, "LARGE", large)
        engine = engine_of(shared_matmuls(6), laws.MERGE_PAIR)
        outcomes = [engine.iterate(Plan(step, True, limit)) for step in (1, 2)]
        found.append([(o.e_nodes, o.e_classes, o.changed, bool(o.cut)) for o in outcomes])
    assert found[0] == found[1]
