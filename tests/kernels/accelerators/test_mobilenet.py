"""Glenside's issue 42: MobileNet-v1, 27 convolutions and the classifier, on a systolic array of 64 x 64."""

import numpy as np
import onnxruntime
import pytest

import workbench
from tests.kernels.accelerators.layers import convolved, whole_numbers
from workbench.graph import GraphBuilder, evaluate
from workbench.kernels.accelerators import AcceleratorCost, placement, simulate, unit, unit_rules, unroll
from workbench.studies.benchmarks.convolutional import mobilenetv1

SYSTOLIC = unit("systolic64")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("mobilenet") / "mobilenetv1.onnx"
    workbench.save_onnx(mobilenetv1(), place)
    return place


@pytest.mark.slow
def test_every_dense_product_is_on_the_unit_and_the_file_runs(model, tmp_path):
    done = workbench.optimize(model, accelerator="systolic64")
    assert done.certificate.passed
    assert done.solution.status.value == "optimal"
    assert done.e_nodes < 20_000
    found = done.placement
    assert len(found.layers) >= 15
    assert found.share > 0.9
    assert {left.what for left in found.left} <= {"depthwise conv2d"}
    done.save(tmp_path / "blocked.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "blocked.onnx"))
    x = {"x": np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)}
    expected = onnxruntime.InferenceSession(str(model)).run(None, x)[0]
    np.testing.assert_allclose(session.run(None, x)[0], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_there_are_fewer_tiles_where_the_cycles_are_fewer(model):
    done = workbench.optimize(
        model, rules=unit_rules(SYSTOLIC), cost=AcceleratorCost(SYSTOLIC), certify=False
    )
    assert done.solution.status.value == "optimal"
    dense = [layer for layer in done.placement.layers if layer.tiling.batches == 1]
    assert len(dense) == 15
    assert sum(layer.tiling.tiles for layer in dense) == 264
    assert sum(layer.tiling.cycles for layer in dense) < 309_888  # of the 1073 tiles


@pytest.mark.slow
def test_glensides_orientation_takes_1073_tiles_by_formula_and_by_doing_it(model):
    rules = unit_rules(SYSTOLIC, orientations=("streamed-left",))
    done = workbench.optimize(model, rules=rules, cost=AcceleratorCost(SYSTOLIC), certify=False)
    found = done.placement
    assert len(found.layers) == 15
    assert found.tiles == found.calls == 1073
    assert found.cycles == 309_888
    x = {"x": np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)}
    outputs, counts = simulate(done.graph, SYSTOLIC, x)
    np.testing.assert_allclose(outputs["y"], evaluate(done.original, x)["y"], rtol=1e-3, atol=1e-5)
    for layer in found.layers:
        did = counts[layer.node]
        assert (did.loads, did.calls, did.cycles) == (
            layer.tiling.tiles, layer.tiling.calls, layer.tiling.cycles,
        )  # fmt: skip


def layers():
    """Yield the products of the network: operator, shapes of x and w, attributes."""
    graph = mobilenetv1()
    for node in graph.nodes:
        if node.op in ("conv2d", "matmul"):
            yield node.op, *(graph.nodes[j].tensor.shape for j in node.inputs[:2]), node.named_attrs()


@pytest.mark.slow
def test_every_layer_written_out_is_exact_in_whole_numbers():
    b = GraphBuilder("layers")
    outputs, found = {}, list(layers())
    assert [op for op, *_ in found] == ["conv2d"] * 27 + ["matmul"]
    for i, (op, x, w, attrs) in enumerate(found):
        outputs[f"y{i}"] = b.op(op, b.input(f"x{i}", x), b.input(f"w{i}", w), **attrs)
    graph = b.graph(outputs)
    done = workbench.optimize(
        graph, rules=unit_rules(SYSTOLIC), cost=AcceleratorCost(SYSTOLIC), certify=False
    )
    placed = placement(done.graph, SYSTOLIC)
    assert {left.what for left in placed.left} <= {"depthwise conv2d"}
    literal = unroll(done.graph, SYSTOLIC)
    assert literal.operators()["systolic64"] == placed.calls
    feeds = whole_numbers(graph)
    values = evaluate(literal, feeds)
    for i, (op, _, _, attrs) in enumerate(found):
        x, w = feeds[f"x{i}"], feeds[f"w{i}"]
        known = {k: attrs[k] for k in ("strides", "pads", "groups") if k in attrs}
        expected = x @ w if op == "matmul" else convolved(x, w, **known)
        np.testing.assert_array_equal(values[f"y{i}"], expected, strict=True)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["systolic16", "systolic128"])
def test_other_units_take_other_numbers_only(model, name):
    done = workbench.optimize(model, accelerator=name, certify=False)
    assert done.solution.status.value == "optimal"
    assert len(done.placement.layers) >= 15
    assert {left.what for left in done.placement.left} <= {"depthwise conv2d"}


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("network", ["resnet50", "bert"])
def test_other_networks_leave_nothing_off_the_unit(network):
    done = workbench.optimize(workbench.benchmark(network), accelerator="systolic64", certify=False)
    assert done.placement.layers
    assert not done.placement.left
