"""Sketches: whether an e-graph has an instance, and the cheapest one as a graph."""

import numpy as np
import pytest

from tests.saturation.test_engine import sum_of
from workbench.graph import GraphBuilder, evaluate
from workbench.rules import parse_rules
from workbench.saturation import Limits, Saturation
from workbench.studies.guided import ANY, Contains, Either, Op, sketch_of, staged
from workbench.studies.guided.sketch import Instances

AC = parse_rules("commute: add(x, y) => add(y, x)\nregroup: add(add(x, y), z) => add(x, add(y, z))")


def unit(egraph):
    return np.array([0.0 if op == "input" else 1.0 for op in egraph.ops])


def instances(graph, sketch, rules=AC, steps=0):
    with Saturation(graph, rules) as run:
        run.start_engine()
        for _ in range(steps):
            run.step()
        egraph = run.egraph()
        return Instances(egraph, sketch, unit(egraph)), egraph.roots[0]


def test_a_sketch_is_satisfied_only_after_the_rules_that_make_it():
    right = sketch_of("add(x, add(y, z))")
    assert right == Op("add", (ANY, Op("add", (ANY, ANY))))
    for steps, wanted in ((0, False), (1, True)):
        found, root = instances(sum_of(3), right, steps=steps)
        assert found.satisfied(root) is wanted


def test_what_is_contained_and_what_is_one_of_several():
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    graph = b.graph({"y": b.op("tanh", b.op("relu", b.op("softmax", x)))})
    for sketch, wanted in (
        (Contains(sketch_of("softmax(x)")), True),
        (sketch_of("softmax(x)"), False),
        (Either((sketch_of("exp(x)"), sketch_of("tanh(relu(x))"))), True),
        (Contains(sketch_of("exp(x)")), False),
    ):
        found, root = instances(graph, sketch)
        assert found.satisfied(root) is wanted


def test_named_attributes_count_and_others_do_not():
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    graph = b.graph({"y": b.op("slice", x, axis=-1, start=2, stop=4)})
    for text, wanted in (("slice[start=2](x)", True), ("slice[start=3](x)", False), ("slice(x)", True)):
        found, root = instances(graph, sketch_of(text))
        assert found.satisfied(root) is wanted


def test_the_cheapest_instance_is_a_graph_with_the_same_values():
    start = sum_of(4)
    found, _ = instances(start, sketch_of("add(add(a, b), add(c, d))"), steps=3)
    graph = found.graph(start)
    outputs = dict(graph.outputs)
    node = graph.nodes[outputs["y"]]
    assert all(graph.nodes[i].op == "add" for i in node.inputs)
    rng = np.random.default_rng(0)
    feeds = {f"x{i}": rng.standard_normal((2, 3)).astype(np.float32) for i in range(4)}
    assert np.allclose(evaluate(graph, feeds)["y"], evaluate(start, feeds)["y"], atol=1e-5)


@pytest.mark.slow
def test_stages_go_from_sketch_to_sketch():
    sketches = [sketch_of("add(add(a, b), add(c, d))"), sketch_of("add(a, add(b, add(c, d)))")]
    stages = list(staged(sum_of(4), AC, sketches, unit, Limits()))
    assert [s.satisfied for s in stages] == [True, True]
    assert stages[0].steps >= 1


@pytest.mark.slow
def test_a_sketch_that_is_not_reached_ends_the_stages():
    sketches = [sketch_of("relu(x)"), sketch_of("add(x, y)")]
    (stage,) = staged(sum_of(3), AC, sketches, unit)
    assert not stage.satisfied
    assert stage.graph.operators() == {"add": 2}
    with pytest.raises(ValueError, match="must contain an instance"):
        instances(sum_of(3), sketches[0])[0].graph(sum_of(3))
