"""An original and its optimised form are cut into regions between values that both contain."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import workbench
from workbench.certification import certify
from workbench.certification.regions import Correspondence, Merged, beside
from workbench.graph import GraphBuilder, evaluate


def chain(layers, *, fused=(), weight=1.0):
    """Return layers of conv + relu, those in ``fused`` as one operator, and the numbers of their values."""
    b = GraphBuilder()
    value, numbers = b.input("x", (1, 4, 8, 8)), {}
    for k in range(layers):
        w = b.weight(data=np.full((4, 4, 1, 1), weight + k, np.float32), name=f"w{k}")
        together = k in fused
        value = b.op("conv2d", value, w, act="relu" if together else "none")
        value = value if together else b.op("relu", value)
        numbers[value] = k
    graph = b.graph({"y": value})
    assert len(graph) == len(b.nodes)
    return graph, tuple(numbers.get(i, -1) for i in range(len(graph)))


def known(before, after):
    return Correspondence(before[1], after[1])


def test_what_both_have_is_not_a_region():
    before, after = chain(3), chain(3)
    assert Merged(before[0], after[0], known(before, after)).tasks() == []
    assert Merged(before[0], after[0]).tasks() == []


def test_each_rewritten_layer_is_a_region_of_its_own():
    before, after = chain(4), chain(4, fused={1, 3})
    merged = Merged(before[0], after[0], known(before, after))
    tasks = merged.tasks()
    assert len(tasks) == 2
    assert len({t.key for t in tasks}) == 1  # they differ only in the data of their weights
    region = merged.region(tasks[0])
    assert region.before.operators() == {"conv2d": 1, "relu": 1}
    assert region.after.operators() == {"conv2d": 1}
    assert [merged.builder.nodes[i].op for i in region.leaves] == ["relu"]
    x = {"v0": np.random.default_rng(0).standard_normal((1, 4, 8, 8))}
    sides = [evaluate(g, x, precise=True) for g in (region.before, region.after)]
    np.testing.assert_allclose(sides[0]["r0"], sides[1]["r0"])


def test_regions_of_other_attributes_are_distinct():
    before, after = chain(2), chain(2, fused={0, 1})
    merged = Merged(before[0], after[0], known(before, after))
    first, second = merged.tasks()
    assert first.key == second.key
    b = GraphBuilder()
    x = b.input("x", (1, 4, 8, 8))
    w = b.weight((4, 4, 3, 3), name="w")
    plain = b.graph({"y": b.op("relu", b.op("conv2d", x, w, pads=1))})
    fused = b.graph({"y": b.op("conv2d", x, w, pads=1, act="relu")})
    assert Merged(plain, fused).tasks()[0].key != first.key


def test_without_correspondence_the_whole_is_one_region_from_the_inputs():
    before, after = chain(3), chain(3, fused={0, 2})
    merged = Merged(before[0], after[0])
    (task,) = merged.tasks()
    assert [merged.builder.nodes[i].op for i in task.leaves] == ["input"]
    assert merged.region(task).before.operators() == {"conv2d": 3, "relu": 3}


def test_what_reads_the_same_values_is_one_region():
    def heads(joined):
        b = GraphBuilder()
        x = b.input("x", (4, 8))
        w = [b.weight((8, 8), name=f"w{k}") for k in range(3)]
        if joined:
            wide = b.op("matmul", x, b.op("concat", *w, axis=-1))
            parts = [b.op("slice", wide, axis=-1, start=8 * k, stop=8 * k + 8) for k in range(3)]
        else:
            parts = [b.op("matmul", x, v) for v in w]
        graph = b.graph({f"y{k}": p for k, p in enumerate(parts)})
        places = {i: k for k, (_, i) in enumerate(graph.outputs)}
        return graph, tuple(places.get(i, -1) for i in range(len(graph)))

    before, after = heads(False), heads(True)
    merged = Merged(before[0], after[0], known(before, after))
    (task,) = merged.tasks()
    assert [o.label for o in task.obligations] == ["output 'y0'", "output 'y1'", "output 'y2'"]
    region = merged.region(task)
    assert region.before.operators() == {"matmul": 3}
    assert region.after.operators() == {"concat": 1, "matmul": 1, "slice": 3}


def test_a_law_that_needs_what_its_operands_have_in_common_gets_wider_regions():
    b = GraphBuilder()
    x = b.input("x", (8,))
    e = b.op("exp", x)
    before = b.graph({"y": b.op("relu", e), "z": e})
    b = GraphBuilder()
    e = b.op("exp", b.input("x", (8,)))
    after = b.graph({"y": e, "z": e})
    merged = Merged(before, after)
    (task,) = merged.tasks()
    widest = [merged.region(t).before.operators() for t in (task, *merged.wider(task))][-1]
    assert widest == {"exp": 1, "relu": 1}


def test_values_of_other_types_cannot_be_equal():
    b = GraphBuilder()
    before = b.graph({"y": b.op("relu", b.input("x", (4, 2)))})
    b = GraphBuilder()
    after = b.graph({"y": b.op("reshape", b.input("x", (4, 2)), shape=(2, 4))})
    assert "output 'y' has the type" in Merged(before, after).mismatch


@pytest.mark.parametrize("same", [True, False])
def test_weights_of_one_name_are_distinguished_by_their_data(same):
    def graph(value):
        b = GraphBuilder()
        w = b.weight(data=np.full((2,), value, np.float32), name="w")
        return b.graph({"y": b.op("add", b.input("x", (2,)), w)})

    merged = Merged(graph(1.0), graph(1.0 if same else 2.0))
    assert bool(merged.tasks()) != same


def test_an_opaque_operator_that_reads_one_value_for_two_is_computed_on_both_sides():
    kinds = [helper.make_tensor_value_info(n, k, [4, 2]) for n, k in (("x", 1), ("y", 9))]
    nodes = [helper.make_node("Expand", ["x", "s"], ["e"]), helper.make_node("Greater", ["x", "e"], ["y"])]
    shape = numpy_helper.from_array(np.int64([4, 2]), "s")
    graph = helper.make_graph(nodes, "g", kinds[:1], kinds[1:], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = workbench.optimize(model, cost="analytic", time=False)
    assert result.graph.operators() == {"opaque": 1}
    assert result.certificate.passed, result.certificate.reason


@pytest.mark.parametrize("same", [True, False])
def test_a_rewrite_may_lead_back_to_an_input(same):
    b = GraphBuilder()
    before = b.graph({"y": b.input("x", (4, 4))})
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    turned = b.op("transpose", x, perm=(1, 0))
    after = b.graph({"y": b.op("transpose", turned, perm=(1, 0)) if same else turned})
    merged = Merged(before, after)
    (task,) = merged.tasks()
    assert [merged.builder.nodes[i].op for i in task.leaves] == ["input"]
    assert certify(before, after).passed == same


def test_graphs_beside_one_another_keep_inputs_weights_and_outputs_of_their_own():
    graphs = [chain(1)[0], chain(2, fused={0})[0], chain(1)[0]]
    both = beside(graphs)
    assert list(both.input_types) == ["x 0", "x 1", "x 2"]
    rng = np.random.default_rng(0)
    drawn = {name: rng.standard_normal((1, 4, 8, 8)).astype(np.float32) for name in both.input_types}
    found = evaluate(both, drawn)
    assert list(found) == ["y 0", "y 1", "y 2"]
    for k, graph in enumerate(graphs):
        assert np.array_equal(found[f"y {k}"], evaluate(graph, {"x": drawn[f"x {k}"]})["y"])
