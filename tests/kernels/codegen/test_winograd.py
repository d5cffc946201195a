"""Kernels of convolutions by fewer products: what they compute, at all sizes, and where they are chosen."""

import numpy as np
import onnxruntime
import pytest

import workbench
from tests.kernels.codegen.needs import compiler
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import to_onnx
from workbench.frontends.runtime import session
from workbench.graph import GraphBuilder
from workbench.kernels.codegen.compiler import Build
from workbench.kernels.codegen.custom_ops import Operator, library_of, library_text, payload
from workbench.kernels.codegen.deployment import deploy
from workbench.kernels.codegen.fusion import Beside, convolutions, egraph_of
from workbench.kernels.codegen.winograd import CHOICES, Winograd, written
from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.evaluate import evaluate
from workbench.ops import spec_of

pytestmark = compiler

#: Images, output channels and pads: one tile and many, tiles cut off, odd channels, several images, a block of columns.
SIZES = (
    ((1, 16, 3, 3), 16, (0, 0, 0, 0)),
    ((2, 17, 5, 70), 33, (1, 1, 1, 1)),
    ((1, 40, 19, 6), 16, (0, 2, 1, 3)),
    ((3, 16, 1, 4), 50, (1, 0, 2, 1)),
    ((1, 65, 9, 9), 20, (2, 2, 2, 2)),
    ((1, 16, 8, 300), 16, (1, 1, 1, 1)),
    ((1, 130, 13, 11), 129, (1, 1, 1, 1)),
)


def layer(size, *, outs, pads, bias, residual, relu):
    """Return the graph of a convolution with what follows it."""
    b = GraphBuilder("layer", seed=sum(size))
    x = b.input("x", size)
    weights = [b.weight((outs, size[1], 3, 3)), *([b.weight((1, outs, 1, 1))] if bias else [])]
    y = b.op("conv2d", x, *weights, pads=pads)
    if residual:
        z = b.input("z", b.type(y).shape)
        y = b.op("add", z, y) if relu else b.op("add", y, z)
    return b.graph({"y": b.op("relu", y) if relu else y})


def kernels(graph):
    return convolutions(egraph_of(graph))


def every_layer():
    for k, (size, outs, pads) in enumerate(SIZES):
        yield layer(size, outs=outs, pads=pads, bias=k % 2 == 0, residual=k % 3 != 1, relu=k % 4 < 2)


@pytest.mark.parametrize("march", ["native", "x86-64-v3", ""])
@pytest.mark.parametrize("name", CHOICES)
def test_kernels_compute_convolutions_of_all_sizes(name, march):
    build, how = Build(march=march), Winograd(name)
    graphs = list(every_layer())
    ops = [
        Operator(kernels(g)[0], how, parts, build)
        for parts, g in zip((1, 2, 3, 1, 2, 3, 1), graphs, strict=True)
    ]
    try:
        library = library_of(ops, build)
        session(to_onnx(graphs[0]), threads=1, spin=False, operators=library)
    except Exception as error:
        if "another processor" in str(error) or (march and "march" in str(error)):
            pytest.skip(str(error))
        raise
    for graph, op in zip(graphs, ops, strict=True):
        b, random = GraphBuilder("kernel"), np.random.default_rng(0)
        values = {
            i: graph.weights[graph.nodes[i].attr("name")].value()
            if graph.nodes[i].op == "weight"
            else random.standard_normal(t.shape).astype(np.float32)
            for i, t in zip(op.cluster.inputs, op.cluster.read, strict=True)
        }
        names, inputs = {}, []
        for i, value in values.items():
            if graph.nodes[i].op == "weight":
                inputs.append(b.weight(data=value))
            else:
                names[i] = f"x{i}"
                inputs.append(b.input(names[i], value.shape))
        program = session(
            to_onnx(b.graph({"y": b.opaque(payload(op), inputs)[0]})),
            threads=2,
            spin=False,
            operators=library,
        )
        wanted = evaluate(op.cluster.composite, [v.astype(np.float64) for v in values.values()])
        scale = np.abs(wanted).max()
        for _ in range(2):  # the weights are transformed once
            found = program.run(None, {names[i]: values[i] for i in names})[0]
            assert found.shape == wanted.shape
            assert np.abs(found - wanted).max() < 2e-5 * scale


def test_the_composite_of_a_layer_is_what_its_operators_compute():
    for graph in every_layer():
        (cluster,) = kernels(graph)
        random = np.random.default_rng(1)
        values = {
            i: random.standard_normal(t.shape) for i, t in zip(cluster.inputs, cluster.read, strict=True)
        }
        wanted = evaluate(cluster.composite, list(values.values()))
        for m in cluster.members:
            values[m.place] = spec_of(m.op).evaluate([values[j] for j in m.operands], m.named)
        np.testing.assert_allclose(wanted, values[cluster.result], rtol=1e-9, atol=1e-9)
        assert bind(cluster.composite, cluster.types).outputs()[0].shape == cluster.type.shape


def test_transforms_have_no_zeros_and_no_ones():
    (cluster,) = kernels(next(every_layer()))
    text, _ = written("layer", cluster, Winograd("2_3"))
    lines = [line for line in text.splitlines() if "d[" not in line and ("o[" in line or "even" in line)]
    transforms = [line for line in lines if "weight" not in line and " = " in line]
    assert not any("(1.0f)" in line or "(0.0f)" in line for line in transforms)
    assert library_text([Operator(cluster, Winograd("4_3"))]).count("97.0f") >= 2


def network(channels=16):
    b = GraphBuilder("network", seed=3)
    x = y = b.input("x", (1, channels, 12, 10))
    for k in range(2):
        one, two = (b.weight((channels, channels, 3, 3)) for _ in range(2))
        bias = b.weight((1, channels, 1, 1))
        inner = b.op("relu", b.op("conv2d", y, one, bias, pads=(1, 1, 1, 1)))
        y = b.op("relu", b.op("add", b.op("conv2d", inner, two, pads=(1, 1, 1, 1)), y)) if k else inner
    return b.graph({"y": y, "x again": b.op("neg", x)})


def test_a_network_gets_kernels_that_its_file_runs_with_and_without(tmp_path):
    graph = network()
    done = deploy(
        graph,
        AnalyticCost(),
        measure=lambda c: Beside(9.0, 1.0 if c.members[0].op == "conv2d" else 99.0),
        time=False,
    )
    made = [op for op in done.plan.operators if isinstance(op.schedule, Winograd)]
    assert [[m.op for m in op.cluster.members] for op in made] == [["conv2d", "relu"]] * 2 + [
        ["conv2d", "add", "relu"]
    ]
    assert done.certificate.passed, done.certificate.reason
    done.save(tmp_path / "network.onnx")
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 16, 12, 10)).astype(np.float32)}
    found = workbench.kernels.load_program(tmp_path / "network.onnx")(feeds)
    plain = onnxruntime.InferenceSession(tmp_path / "network.onnx").run(["y"], feeds)[0]
    np.testing.assert_allclose(found["y"], plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "attrs",
    [{"strides": (2, 2)}, {"dilations": (2, 2)}, {"groups": 2}, {"act": "sigmoid"}],
    ids=lambda a: next(iter(a)),
)
def test_other_convolutions_stay(attrs):
    b = GraphBuilder("other")
    w = b.weight((16, 16 // attrs.get("groups", 1), 3, 3))
    assert kernels(b.graph({"y": b.op("conv2d", b.input("x", (1, 16, 9, 9)), w, **attrs)})) == []


def test_weights_that_are_inputs_stay():
    b = GraphBuilder("other")
    x, w = b.input("x", (1, 16, 9, 9)), b.input("w", (16, 16, 3, 3))
    assert kernels(b.graph({"y": b.op("conv2d", x, w)})) == []


def test_a_value_that_is_read_again_ends_a_kernel():
    b = GraphBuilder("shared")
    y = b.op("conv2d", b.input("x", (1, 16, 9, 9)), b.weight((16, 16, 3, 3)))
    (cluster,) = kernels(b.graph({"y": b.op("relu", y), "z": b.op("neg", y)}))
    assert [m.op for m in cluster.members] == ["conv2d"]
