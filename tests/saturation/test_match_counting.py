"""Matches counted in portions: a rule that matches too often is noticed, and no decision changes."""

from tests.saturation.test_engine import engine_of, shared_matmuls
from workbench.rules import rule_set
from workbench.saturation.match_counting import divided, exceeds, pivots

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
