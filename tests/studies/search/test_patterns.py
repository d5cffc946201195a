import pytest

from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder
from workbench.rules import parse_rule
from workbench.rules.pattern import App, Arith, AttrVar, Literal, Rule, Var
from workbench.studies.search.nodes import NodeTable
from workbench.studies.search.patterns import Source
from workbench.studies.search.program import Program


def matches(text, graph):
    (rule,) = parse_rule(text)
    source = Source(rule, rule.sources[0])
    program = Program.of(graph, NodeTable(AnalyticCost()))
    found = (source.match(n, program.table.kinds, program.inputs) for n in program.inputs)
    return [m for m in found if m is not None], program


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
    (match,), program = matches("r: relu(relu(x)) => relu(x)", graph)
    kinds = program.table.kinds
    assert [kinds[n].op for n in (match.root, *match.inner)] == ["relu", "relu"]
    assert kinds[match.bindings["x"]].op == "conv2d"
    (rule,) = parse_rule("r: relu(add(relu(x), y)) => relu(x)")
    assert Source(rule, rule.sources[0]).depth == 3


def test_operands_count():
    b = GraphBuilder("concats")
    xs = [b.input(f"x{i}", (2, 2)) for i in range(3)]
    graph = b.graph({"two": b.op("concat", *xs[:2], axis=-1), "three": b.op("concat", *xs, axis=-1)})
    assert len(matches("r: concat[axis=a](x, y) => concat[axis=a](x, y)", graph)[0]) == 1


def test_a_pattern_that_computes_on_its_left_is_refused():
    half = Arith("//", AttrVar("n"), Literal(2))
    source = App("slice", (Var("x"),), (("axis", Literal(-1)), ("start", half), ("stop", AttrVar("n"))))
    with pytest.raises(ValueError, match="an attribute must be a value or a variable, got start=n // 2"):
        Source(Rule("odd", (source,), (Var("x"),)), source)
    bare = App("slice", (Var("x"),))
    with pytest.raises(ValueError, match="slice needs axis"):
        Source(Rule("bare", (bare,), (Var("x"),)), bare)
