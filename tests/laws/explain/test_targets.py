"""Targets over the names of a graph."""

import pytest

from workbench.graph import GraphBuilder
from workbench.laws.explain.targets import TargetError, graph_of, listed, names_of
from workbench.rules.language import parse_term

from .test_why_not import product


def test_nodes_are_named_by_leaves_outputs_and_positions():
    b = GraphBuilder()
    x = b.input("layer.0/x", (2, 2))
    graph = b.graph({"out.y": b.op("relu", x)})
    names = names_of(graph)
    assert names["layer.0/x"] == names["layer_0_x"] == names["n0"] == 0
    assert names["out_y"] == names["n1"] == 1


def test_a_term_becomes_a_graph_with_what_it_reads():
    graph = graph_of(parse_term("tanh(n3)"), product())
    assert graph.operators() == {"matmul": 1, "tanh": 1}
    assert graph_of(parse_term("y"), product()).operators() == {"matmul": 2, "relu": 1}


def test_extents_may_be_read_from_tensors():
    graph = graph_of(parse_term("slice[axis=-1, start=0, stop=dim(x, -2)](x)"), product())
    assert graph.output_types["target"].shape == (4, 4)


def test_an_unknown_name_is_reported_with_the_nearest():
    with pytest.raises(TargetError, match="got 'xx'"):
        graph_of(parse_term("relu(xx)"), product())


def test_names_that_resemble_nothing_are_listed():
    with pytest.raises(TargetError, match=r"got 'quite_other'\. There are: .*, n0 … n\d"):
        graph_of(parse_term("relu(quite_other)"), product())
    b = GraphBuilder()
    inputs = [b.input(f"in_{i}", (2,)) for i in range(20)]
    total = inputs[0]
    for x in inputs[1:]:
        total = b.op("add", total, x)
    assert listed(b.graph({"y": total})).endswith("in_11, 9 more, n0 … n38")
