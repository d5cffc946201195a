import random

import pytest

from tests.random_graphs import random_graph
from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder
from workbench.laws.matching import Matcher
from workbench.rules import parse_rule, parse_rules, rule_set
from workbench.rules.pattern import App, Arith, AttrVar, Literal, Rule, Var, joined_axes
from workbench.studies.benchmarks import benchmark
from workbench.studies.search.candidates import Candidates, Match, group_key, merge_edit, rule_edit
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


def bound(source, state):
    """Return the matches of a left-hand side."""
    found = [(n, source.bind(n, state.table.kinds, state.inputs)) for n in state.inputs]
    return [Match(n, *binds) for n, binds in found if binds is not None]


def edits_of(text, graph):
    """Return the edits of a rule of one source, one for each match."""
    (rule,) = parse_rule(text)
    state = State.of(graph, NodeTable(AnalyticCost()))
    source = Matcher(rule, rule.sources[0])
    return [rule_edit(rule, (m,), state.table) for m in bound(source, state)]


def sums(left, right):
    b = GraphBuilder("sums")
    return b.graph({"y": b.op("add", b.input("x", left), b.input("y", right))})


def test_a_rule_applies_only_where_the_type_stays():
    text = "first: add(x, y) => x"
    assert edits_of(text, sums((2, 3), (3,)))[0] is not None
    assert edits_of(text, sums((3,), (2, 3))) == [None]


def test_a_rule_applies_only_where_its_result_has_a_type():
    text = "mm: add(x, y) => matmul(x, y)"
    assert edits_of(text, sums((3, 3), (3, 3)))[0] is not None
    assert edits_of(text, sums((3,), (3,))) == [None]


def test_conditions_hold_and_numbers_that_do_not_fit_apply_nowhere():
    text = "c: add(x, y) => add(y, x) where dim(x, -1) % {} = 0"
    assert edits_of(text.format(3), sums((2, 3), (3,)))[0] is not None
    assert edits_of(text.format(2), sums((2, 3), (3,))) == [None]
    assert edits_of(text.format(0), sums((2, 3), (3,))) == [None]


def test_equal_parts_of_results_are_made_once():
    (edit,) = edits_of("d: add(x, y) => add(mul(x, y), mul(x, y))", sums((2,), (2,)))
    assert [m.kind.op for m in edit.made] == ["mul", "add"]
    assert edit.made[1].inputs == (~0, ~0)
    assert edit.roots == ((2, ~1),)
    assert edit.leaves == (frozenset({0, 1}),)


def products(sizes=(4, 6), depth=8):
    b = GraphBuilder("products")
    x = b.input("x", (2, depth))
    return b.graph({f"y{n}": b.op("matmul", x, b.weight((depth, n))) for n in sizes})


def merged(rule, graph):
    state = State.of(graph, NodeTable(AnalyticCost()))
    source = Matcher(rule, rule.sources[0])
    matches = bound(source, state)
    return merge_edit(rule, matches, state.table), state, matches


def test_a_group_of_any_size_is_merged_at_once():
    rule = rule_set("merge")["merge-matmuls"]
    graph = products((4, 6, 10))
    edit, state, matches = merged(rule, graph)
    after = state.edited(edit).graph(graph)
    assert after.operators() == {"concat": 1, "matmul": 1, "slice": 3}
    cuts = [(n.attr("start"), n.attr("stop")) for n in after.nodes if n.op == "slice"]
    assert sorted(cuts) == [(0, 4), (4, 10), (10, 20)]
    keys = {group_key(m, joined_axes(rule), state.table) for m in matches}
    assert len(keys) == 1


def test_members_of_one_group_share_what_is_not_starred():
    rule = rule_set("merge")["merge-matmuls-rows"]
    _, state, matches = merged(rule, products((4, 6)))
    # One operand, two weights: by rows it is the weight that is shared.
    assert len({group_key(m, joined_axes(rule), state.table) for m in matches}) == 2


def matches(text, graph):
    (rule,) = parse_rule(text)
    source = Matcher(rule, rule.sources[0])
    state = State.of(graph, NodeTable(AnalyticCost()))
    return bound(source, state), state


@pytest.fixture
def graph():
    b = GraphBuilder("patterns")
    x, w = b.input("x", (1, 4, 8, 8)), b.weight((4, 4, 3, 3))
    same = b.op("conv2d", x, w, strides=(1, 1), pads=(1, 1, 1, 1))
    long = b.op("conv2d", x, w, strides=(2, 2), pads=(1, 0, 1, 0), act="relu")
    return b.graph({"a": b.op("add", same, same), "b": b.op("relu", b.op("relu", long))})


def test_attributes_bind_and_hold(graph):
    found, _ = matches("r: conv2d[c, act=none](x, w) => conv2d[c, act=none](x, w)", graph)
    (match,) = found
    assert match.bindings["#c.strides"] == (1, 1)
    assert match.bindings["#c.groups"] == 1
    assert "#c.act" not in match.bindings
    found, _ = matches(
        "r: conv2d[strides=s, pads=(t, l, t, l), act=a](x, w) => conv2d[strides=s](x, w)", graph
    )
    assert [(m.bindings["@s"], m.bindings["@t"], m.bindings["@l"], m.bindings["@a"]) for m in found] == [
        ((1, 1), 1, 1, "none"),
        ((2, 2), 1, 0, "relu"),
    ]
    assert matches("r: conv2d[pads=(t, t, t, t), strides=s](x, w) => conv2d[strides=s](x, w)", graph)[0]
    assert not matches("r: conv2d[pads=(2, l, t, l), strides=s](x, w) => conv2d[strides=s](x, w)", graph)[0]


def test_attributes_not_named_have_their_defaults(graph):
    assert not matches("r: conv2d(x, w) => conv2d(x, w)", graph)[0]
    found, _ = matches("r: conv2d[pads=p](x, w) => conv2d[pads=p](x, w)", graph)
    assert [m.bindings["@p"] for m in found] == [(1, 1, 1, 1)]


def test_a_variable_that_repeats_is_one_node(graph):
    assert len(matches("r: add(x, x) => x", graph)[0]) == 1
    assert len(matches("r: add(x, y) => x", graph)[0]) == 1
    assert not matches("r: conv2d[c](x, x) => conv2d[c](x, x)", graph)[0]


def test_inner_nodes_and_depth(graph):
    (match,), state = matches("r: relu(relu(x)) => relu(x)", graph)
    kinds = state.table.kinds
    assert [kinds[n].op for n in (match.root, *match.inner)] == ["relu", "relu"]
    assert kinds[match.bindings["x"]].op == "conv2d"
    (rule,) = parse_rule("r: relu(add(relu(x), y)) => relu(x)")
    assert Matcher(rule, rule.sources[0]).depth == 3


def test_operands_count():
    b = GraphBuilder("concats")
    xs = [b.input(f"x{i}", (2, 2)) for i in range(3)]
    graph = b.graph({"two": b.op("concat", *xs[:2], axis=-1), "three": b.op("concat", *xs, axis=-1)})
    assert len(matches("r: concat[axis=a](x, y) => concat[axis=a](x, y)", graph)[0]) == 1


def test_a_pattern_that_computes_on_its_left_is_refused():
    half = Arith("//", AttrVar("n"), Literal(2))
    source = App("slice", (Var("x"),), (("axis", Literal(-1)), ("start", half), ("stop", AttrVar("n"))))
    with pytest.raises(ValueError, match="an attribute must be a value or a variable, got start=n // 2"):
        Matcher(Rule("odd", (source,), (Var("x"),)), source)
    bare = App("slice", (Var("x"),))
    with pytest.raises(ValueError, match="slice needs axis"):
        Matcher(Rule("bare", (bare,), (Var("x"),)), bare)
