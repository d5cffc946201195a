"""Rules whose e-nodes would exceed the limit: held back, or left out of a repeated iteration."""

import pytest

from tests.saturation.test_engine import engine_of, shared_matmuls, sum_of
from workbench import GraphBuilder, optimize
from workbench.egraph import EGraph
from workbench.rules import rule_set
from workbench.saturation import engine as engine_module
from workbench.saturation import node_budget
from workbench.saturation.engine import Plan
from workbench.saturation.node_budget import _exceeds, born, bursting, divided, fitting, pivots

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
    engine.base.run(f"(run {engine.rules[0].ruleset} 1)")
    return engine, engine.sizes()[0] - before


def test_the_e_nodes_that_a_rule_has_made_are_counted():
    engine, made = after_one_rule()
    assert made > 1
    (add,) = engine.rules[0].makes
    assert [born(engine.state, add, rule.number) for rule in engine.rules] == [made, 0]


def test_a_rule_bursts_if_it_alone_has_made_more_e_nodes_than_there_is_room_for():
    for less, found in ((1, 1), (0, 0)):
        engine, made = after_one_rule()
        expected = frozenset(rule.number for rule in engine.rules[:found])
        assert bursting(engine.state, engine.rules, made - less) == expected


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
        return (
            notes,
            [(o.e_nodes, o.e_classes, o.changed) for o in outcomes],
            sorted(EGraph(**engine.columns()).ops),
        )

    known, *found = grown()
    monkeypatch.setattr(engine_module, "bursting", lambda *given: frozenset())
    tried, *same = grown()
    assert found == same
    assert not any("more than" in note for note in tried)
    assert [bool(n) for n in known] == [bool(n) for n in tried]
    if limit == 40:
        assert any("more than" in note for note in known)


def test_a_portion_exceeds_what_the_whole_exceeds_and_nothing_else_and_leaves_no_trace():
    engine = engine_of(shared_matmuls(16), laws.MERGE_PAIR)
    (rule,) = engine.rules
    before = engine.sizes()
    handles = pivots(engine.state)
    assert _exceeds(engine.state, rule, rule.counting, 20 * rule.growth, handles)
    assert not _exceeds(engine.state, rule, rule.counting, 16 * 15 * rule.growth, handles)
    assert engine.sizes() == before
    (output,) = engine.base.run(f"(print-size count_{rule.ruleset})")
    assert output.size == 0


def test_matches_are_divided_by_an_operand_of_one_root():
    assert divided(laws.MERGE_PAIR) == "w_"
    for rule in rule_set("pairs").multi:
        if not rule.each:
            assert divided(rule)


def sum_of_parts(order, width=16):
    """Return a sum of products of the parts of one input, in the given order."""
    b = GraphBuilder()
    z = b.input("z", (32, width * len(order)))
    parts = [b.op("slice", z, axis=-1, start=width * i, stop=width * (i + 1)) for i in order]
    total, *others = [b.op("matmul", part, b.weight((width, 64))) for part in parts]
    for product in others:
        total = b.op("add", total, product)
    return b.graph({"y": total})


def sum_of_products(count):
    b = GraphBuilder()
    products = [b.op("matmul", b.input(f"x{i}", (32, 64)), b.weight((64, 64))) for i in range(count)]
    total = products[0]
    for product in products[1:]:
        total = b.op("add", total, product)
    return b.graph({"y": total})


def optimised(graph, limit):
    return optimize(graph, cost="analytic", e_nodes=limit, certify=False, extractor="dag")


def test_a_sum_of_products_is_not_joined_in_every_order():
    # In every order the products are joined in 3 (2^14 - 2) e-nodes.
    result = optimised(sum_of_products(14), 5000)
    assert result.stop_reason.value == "saturated"
    assert result.e_nodes < 3000
    assert result.cost_after < result.cost_before / 4


def test_joins_that_wait_are_still_extracted():
    many, few = (optimised(sum_of_products(7), limit) for limit in (50_000, 1000))
    assert few.e_nodes < many.e_nodes
    assert few.cost_after == many.cost_after


@pytest.mark.parametrize("order", [(*range(10),), (*range(9, -1, -1),), (5, 4, 6, 3, 7, 2, 8, 1, 9, 0)])
def test_a_join_that_turns_out_to_be_a_value_no_longer_waits(order):
    result = optimised(sum_of_parts(order), 4000)
    assert result.stop_reason.value == "saturated"
    assert [n.op for n in result.graph.nodes if n.op in ("matmul", "add", "slice", "concat")].count(
        "matmul"
    ) == 1
    assert not any(n.op in ("add", "slice") for n in result.graph.nodes)
