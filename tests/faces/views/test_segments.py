"""Repeated layers are found, whatever crosses between them."""

import pytest

import workbench
from workbench.faces.views.graphs import segments


def running(graph):
    return [i for i, n in enumerate(graph.nodes) if n.op not in ("input", "weight")]


def chain(*layers):
    b = workbench.GraphBuilder()
    x = b.input("x", (4, 4))
    for ops in layers:
        for op in ops.split():
            x = b.op(op, x, b.weight((4, 4))) if op == "matmul" else b.op(op, x)
    return b.graph({"y": x})


def summary(graph, marks=None):
    return [(len(s.nodes), s.repeat, s.repeats) for s in segments(graph, running(graph), marks)]


def test_a_run_of_layers_is_one_segment_each():
    graph = chain("tanh", *["matmul relu"] * 5, "sigmoid")
    assert summary(graph) == [(1, 0, 1), *((2, k, 5) for k in range(5)), (1, 0, 1)]


def test_every_node_is_in_one_segment_in_order():
    graph = chain("matmul relu", "matmul relu", "tanh exp", "matmul relu", "matmul relu")
    found = segments(graph, running(graph))
    assert [i for s in found for i in s.nodes] == running(graph)
    assert len({s.kind for s in found if s.repeats > 1}) == 1


def test_the_shortest_period_wins():
    assert {n for n, _, _ in summary(chain(*["matmul relu"] * 8))} == {2}


def test_types_and_marks_tell_layers_apart():
    graph = chain(*["matmul relu"] * 6)
    first = next(i for i, n in enumerate(graph.nodes) if n.op == "matmul")
    found = segments(graph, running(graph), {first: "removed"})
    assert [s.repeats for s in found if first in s.nodes] == [1]
    assert sum(s.repeats == 5 for s in found) == 5


def test_two_values_may_cross():
    b = workbench.GraphBuilder()
    before, x = b.input("a", (4, 4)), b.input("b", (4, 4))
    for _ in range(6):
        before, x = x, b.op("add", b.op("matmul", before, b.weight((4, 4))), b.op("relu", x))
    found = summary(b.graph({"y": x, "z": before}))
    assert max(n for _, _, n in found) >= 5


def test_a_graph_without_repetitions_is_as_it_is():
    assert summary(chain("matmul relu tanh sigmoid exp")) == [(1, 0, 1)] * 5


@pytest.mark.parametrize(("name", "repeats", "size"), [("bert", 8, 14), ("nasneta", 5, 20)])
def test_networks_have_their_layers(name, repeats, size):
    graph = workbench.benchmark(name)
    assert (size, repeats) in {(n, count) for n, _, count in summary(graph)}
