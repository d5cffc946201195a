"""The chain of rules between two terms of one e-class, and targets over the names of a graph."""

import pytest

from workbench.graph import GraphBuilder
from workbench.laws.explain.api import TargetError, graph_of, listed, names_of
from workbench.rules import parse_rules, rule_set
from workbench.rules.language import parse_term
from workbench.saturation import Saturation

from .test_why_not import ASSOCIATE, COMMUTE, REGROUP, pair, product, total


def test_a_chain_names_its_rules_and_ends_at_the_second_term():
    with Saturation(total(3), parse_rules(f"{COMMUTE}\n{REGROUP}")) as run:
        run.run()
        found = run.explain("add(add(x0, x1), x2)", "add(x2, add(x1, x0))")
    assert found.complete
    assert {m.rule for m in found.moves} == {"commute"}
    assert all(m.held for m in found.moves)
    assert found.moves[0].before == "add(add(x0, x1), x2)"


def test_a_chain_may_lead_over_the_start_graph_backward():
    rules = f"{ASSOCIATE}\nfuse: relu(matmul[act=none](x, y)) => matmul[act=relu](x, y)"
    with Saturation(product(), parse_rules(rules)) as run:
        run.run()
        found = run.explain("matmul[act=relu](matmul(x, w), v)", "relu(matmul(x, matmul(w, v)))")
    assert [(m.rule, m.forward) for m in found.moves] == [("fuse", False), ("associate", True)]


def test_a_merge_is_explained():
    with Saturation(pair(), rule_set("merge")) as run:
        run.run()
        found = run.explain("p", "slice[axis=-1, start=0, stop=8](matmul(x, concat[axis=-1](w, v)))")
    assert not found.complete or "merge-matmuls" in {m.rule for m in found.moves}


def test_terms_of_different_classes_are_refused():
    with Saturation(product(), parse_rules(ASSOCIATE)) as run:
        run.run()
        with pytest.raises(TargetError, match="in one e-class"):
            run.explain("matmul(x, w)", "y")
        with pytest.raises(TargetError, match="got the rule associate"):
            run.explain(parse_rules(ASSOCIATE)[0], "y")


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
