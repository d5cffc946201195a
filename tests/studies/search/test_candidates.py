import random

import pytest

from tests.random_graphs import random_graph
from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder
from workbench.rules import parse_rules, rule_set
from workbench.studies.benchmarks import benchmark
from workbench.studies.search.candidates import Candidates
from workbench.studies.search.states import NodeTable, State


def edits(graph, rules, *, exclusive=False, ordered=False):
    table = NodeTable(AnalyticCost())
    state = State.of(graph, table)
    return list(Candidates(list(rules), table, exclusive=exclusive, ordered=ordered).edits(state))


def signature(edit):
    return (edit.rule, edit.roots, tuple((m.kind.head, m.inputs) for m in edit.made))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_taken_over_from_the_graph_before_is_what_is_there(seed):
    graph = random_graph(seed) if seed else benchmark("squeezenet", image=64)
    table = NodeTable(AnalyticCost())
    rules = list(rule_set("all"))
    kept = Candidates(rules, table, exclusive=False, ordered=True)
    state, chance = State.of(graph, table), random.Random(seed)
    for _ in range(6):
        found = list(kept.edits(state))
        fresh = Candidates(rules, table, exclusive=False, ordered=True)
        assert [signature(p) for p in found] == [signature(p) for p in fresh.edits(state)]
        ways = [p for p in found if state.change(p) is not None]
        if not ways:
            break
        state = state.edited(chance.choice(ways))


def test_rules_come_in_their_order():
    b = GraphBuilder("order")
    graph = b.graph({"y": b.op("relu", b.op("relu", b.op("relu", b.input("x", (4,)))))})
    rules = parse_rules("b: relu(x) => tanh(x)\na: relu(relu(x)) => relu(x)")
    assert [p.rule for p in edits(graph, rules)] == ["b", "b", "b", "a", "a"]


def three_products():
    b = GraphBuilder("three")
    x = b.input("x", (4, 8))
    return b.graph({f"y{i}": b.op("matmul", x, b.weight((8, 8))) for i in range(3)})


def test_symmetric_pairs_count_once_or_in_both_orders():
    rules = rule_set("pairs").select("pair-matmuls")
    assert len(edits(three_products(), rules)) == 3
    assert len(edits(three_products(), rules, ordered=True)) == 6


def test_a_context_is_not_a_symmetry():
    b = GraphBuilder("kernels")
    x = b.input("x", (1, 4, 8, 8))
    small = b.op("conv2d", x, b.weight((4, 4, 1, 1)))
    large = b.op("conv2d", x, b.weight((4, 4, 3, 3)), pads=(1, 1, 1, 1))
    graph = b.graph({"a": small, "b": large})
    (edit,) = edits(graph, rule_set("convolution").select("enlarge-1x1-beside-3x3"))
    # Only the small kernel is replaced; the large one is context.
    assert len(edit.roots) == 1


def test_exclusive_matches_have_no_reader_outside():
    b = GraphBuilder("shared")
    x = b.input("x", (1, 4, 8, 8))
    conv = b.op("conv2d", x, b.weight((4, 4, 3, 3)))
    alone, read = {"y": b.op("relu", conv)}, {"y": b.op("relu", conv), "z": b.op("tanh", conv)}
    rules = rule_set("fusion").select("conv-takes-relu")
    assert len(edits(b.graph(alone), rules, exclusive=True)) == 1
    assert len(edits(b.graph(read), rules, exclusive=True)) == 0
    assert len(edits(b.graph(alone | {"conv": conv}), rules, exclusive=True)) == 0
    assert len(edits(b.graph(read), rules)) == 1


def test_members_that_feed_each_other_are_merged_apart():
    b = GraphBuilder("tied")
    x, w = b.input("x", (4, 8)), b.weight((8, 8))
    first = b.op("matmul", x, w)
    second = b.op("matmul", b.op("relu", first), w)
    third = b.op("matmul", b.input("y", (6, 8)), w)
    graph = b.graph({"a": second, "b": third})
    found = edits(graph, rule_set("merge").select("merge-matmuls-rows"))
    # The second reads the first: it can share a product with neither of two that hold the first.
    assert [len(p.roots) for p in found] == [2]
    table = NodeTable(AnalyticCost())
    state = State.of(graph, table)
    (edit,) = Candidates(
        list(rule_set("merge").select("merge-matmuls-rows")), table, exclusive=False, ordered=False
    ).edits(state)
    assert state.change(edit) is not None


def test_three_sources_join_on_what_they_share():
    rules = parse_rules(
        "three: relu(x) ; tanh(x) ; sigmoid(y) => relu(abs(x)) ; tanh(abs(x)) ; sigmoid(abs(y))"
    )
    b = GraphBuilder("three")
    x, y = b.input("x", (4,)), b.input("y", (4,))
    graph = b.graph({
        "a": b.op("relu", x), "b": b.op("tanh", x), "c": b.op("sigmoid", y), "d": b.op("tanh", y),
    })  # fmt: skip
    (edit,) = edits(graph, rules)
    assert len(edit.roots) == 3


def test_no_rules_and_no_matches():
    assert edits(three_products(), []) == []
    assert edits(three_products(), rule_set("fusion")) == []
