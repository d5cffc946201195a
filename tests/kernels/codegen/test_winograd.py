"""Kernels of convolutions by fewer products: their values at all sizes, and when they are chosen."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import workbench
from tests.kernels.codegen.needs import compiler, run_under_sanitisers, skip_if_not_for_here
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import to_onnx
from workbench.frontends.runtime import session
from workbench.graph import GraphBuilder
from workbench.kernels.codegen import winograd
from workbench.kernels.codegen.clusters import readers_of
from workbench.kernels.codegen.compiler import Build
from workbench.kernels.codegen.custom_ops import Operator, library_of, payload, source_of
from workbench.kernels.codegen.deployment import deploy, with_kernels
from workbench.kernels.codegen.fusion import Beside, egraph_of
from workbench.kernels.codegen.winograd import (
    CHOICES,
    Winograd,
    blocked,
    candidates,
    channels_first,
    convolution,
    convolution_of,
    convolutions,
)
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
    ((2, 24, 6, 18), 48, (1, 1, 1, 1)),
)


def layer(size, *, outs, pads, bias, residual, relu, pool=False):
    """Return the graph of a convolution with what follows it; a pool needs two places in each direction."""
    b = GraphBuilder("layer", seed=sum(size))
    x = b.input("x", size)
    weights = [b.weight((outs, size[1], 3, 3)), *([b.weight((1, outs, 1, 1))] if bias else [])]
    y = b.op("conv2d", x, *weights, pads=pads)
    if residual:
        z = b.input("z", b.type(y).shape)
        y = b.op("add", z, y) if relu else b.op("add", y, z)
    y = b.op("relu", y) if relu else y
    if pool and min(b.type(y).shape[2:]) > 1:
        y = b.op("maxpool", y, kernel=(2, 2), strides=(2, 2))
    return b.graph({"y": y})


def kernels(graph):
    return list(convolutions(readers_of(egraph_of(graph), {})))


def turned(cluster, read, write, add=False):
    """Return a convolution that reads, adds or writes the inner layout, if its channels fill blocks."""
    cluster = channels_first(cluster)
    kinds = dict(zip(cluster.inputs, cluster.read, strict=True))
    kinds |= {m.place: m.type for m in cluster.members}
    own = {m.place for m in cluster.members}
    added = [j for m in cluster.members if m.op == "add" for j in m.operands if j not in own]
    wanted = [cluster.inputs[0]] * read + [cluster.result] * write + added * add
    inner = {j: 1000 + j for j in wanted if blocked(kinds[j])}
    kinds |= {place: blocked(kinds[j]) for j, place in inner.items()}
    return convolution(cluster.members, kinds, inner)


def test_a_convolution_without_its_changes_of_layout_is_the_plain_one():
    for graph in every_layer():
        (cluster,) = kernels(graph)
        assert channels_first(turned(cluster, read=True, write=True)) == cluster == channels_first(cluster)


def every_layer():
    for k, (size, outs, pads) in enumerate(SIZES):
        more = {"bias": k % 2 == 0, "residual": k % 3 != 1, "relu": k % 4 < 2, "pool": k > 6}
        yield layer(size, outs=outs, pads=pads, **more)


@pytest.mark.slow
@pytest.mark.parametrize("march", ["native", "x86-64-v3", ""])
@pytest.mark.parametrize("name", CHOICES)
def test_kernels_compute_convolutions_of_all_sizes(name, march):
    build, how = Build(march=march), Winograd(name)
    graphs = list(every_layer())
    ops = [
        Operator(turned(kernels(g)[0], inner, inner, inner != (how.by.outputs == 2)), how, parts, build)
        for parts, g in zip((1, 2, 3, 1, 2, 3, 1, 2), graphs, strict=True)
        for inner in (False, True)
    ]
    graphs = [g for g in graphs for _ in range(2)]
    try:
        library = library_of(ops, build)
        session(to_onnx(graphs[0]), threads=1, spin=False, operators=library)
    except Exception as error:
        skip_if_not_for_here(error)
        raise
    for graph, op in zip(graphs, ops, strict=True):
        b, random = GraphBuilder("kernel"), np.random.default_rng(0)
        values = {
            i: graph.weights[graph.nodes[i].attr("name")].value()
            if t.rank < 5 and graph.nodes[i].op == "weight"
            else random.standard_normal(t.shape).astype(np.float32)
            for i, t in zip(op.cluster.inputs, op.cluster.read, strict=True)
        }
        names, inputs = {}, []
        for i, value in values.items():
            if i < 1000 and graph.nodes[i].op == "weight":
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


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_the_composite_of_a_layer_is_what_its_operators_compute(read, write, add):
    for graph in every_layer():
        (cluster,) = kernels(graph)
        cluster = turned(cluster, read, write, add)
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
    text = Winograd("2_3").written("layer", cluster).text
    lines = [line for line in text.splitlines() if "d[" not in line and ("o[" in line or "even" in line)]
    transforms = [line for line in lines if "weight" not in line and " = " in line]
    assert not any("(1.0f)" in line or "(0.0f)" in line for line in transforms)
    assert source_of(Operator(cluster, Winograd("4_3"))).text.count("97.0f") >= 2


def test_far_blocks_are_measured_if_weights_leave_the_second_level(monkeypatch):
    monkeypatch.setattr(winograd, "second_level", lambda: 1 << 19)
    monkeypatch.setattr(winograd, "last_level", lambda: 1 << 25)
    rows = {}
    for size, outs in (((1, 128, 56, 56), 256), ((1, 16, 8, 8), 16)):
        (cluster,) = kernels(layer(size, outs=outs, pads=(1, 1, 1, 1), bias=True, residual=False, relu=True))
        rows[size] = [(how.far, how.written("layer", cluster).pieces) for how in candidates(cluster, ["4_3"])]
    (_, many), (_, few) = rows[1, 128, 56, 56]
    assert [far for far, _ in rows[1, 128, 56, 56]] == [False, True]
    assert few < many
    assert [far for far, _ in rows[1, 16, 8, 8]] == [False]


def drawn(random):
    """Return the graph of a random convolution, with what follows it."""
    groups = int(random.choice([1, 1, 1, 1, 2]))
    channels, outs = (int(n) * groups for n in random.integers(16, 70 // groups, 2))
    if random.random() < 0.5:
        channels, outs = channels // 16 * 16, outs // 16 * 16
    pads = tuple(map(int, random.integers(0, 3, 4)))
    height, width = (max(int(n), 3 - pads[k] - pads[k + 2]) for k, n in enumerate(random.integers(1, 41, 2)))
    b = GraphBuilder("drawn", seed=int(random.integers(1 << 30)))
    x = b.input("x", (int(random.choice([1, 1, 2, 3])), channels, height, width))
    weights = [b.weight((outs, channels // groups, 3, 3))]
    weights += [b.weight((1, outs, 1, 1))] if random.random() < 0.5 else []
    y = b.op(
        "conv2d", x, *weights, pads=pads, groups=groups, act=str(random.choice(["none", "none", "relu"]))
    )
    if random.random() < 0.4:
        y = b.op("add", *random.permutation([y, b.input("z", b.type(y).shape)]).tolist())
    return b.graph({"y": b.op("relu", y) if random.random() < 0.5 else y})


def draws(count, seed):
    random = np.random.default_rng(seed)
    return [drawn(random) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "count",
    [
        6,
        pytest.param(60, marks=pytest.mark.slow),
        pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.nightly]),
    ],
)
def test_random_convolutions_are_those_of_float64(count):
    build, random = Build(opt=1), np.random.default_rng(count)
    for start in range(0, count, 100):
        graphs = draws(min(100, count - start), seed=start)
        b, feeds, wanted, made = GraphBuilder("all"), {}, {}, []
        for k, graph in enumerate(graphs):
            found = kernels(graph)
            grouped = any(n.op == "conv2d" and n.attr("groups") > 1 for n in graph.nodes)
            assert len(found) == (not grouped)
            if grouped:
                continue
            how, cluster = (
                Winograd(CHOICES[k % 2], k % 4 > 1),
                turned(found[0], *random.integers(0, 2, 3).tolist()),
            )
            made.append(Operator(cluster, how, int(random.integers(1, 5)), build))
            values, inputs = [], []
            for i, kind in zip(cluster.inputs, cluster.read, strict=True):
                if i < 1000 and graph.nodes[i].op == "weight":
                    values.append(graph.weights[graph.nodes[i].attr("name")].value())
                    inputs.append(b.weight(data=values[-1]))
                else:
                    values.append(random.standard_normal(kind.shape).astype(np.float32))
                    inputs.append(b.input(f"x{k}_{i}", kind.shape))
                    feeds[f"x{k}_{i}"] = values[-1]
            wanted[f"y{k}"] = evaluate(cluster.composite, [v.astype(np.float64) for v in values])
            wanted[f"y{k}"] = wanted[f"y{k}"], b.opaque(payload(made[-1]), inputs)[0]
        graph = b.graph({name: place for name, (_, place) in wanted.items()})
        program = session(to_onnx(graph), threads=2, spin=False, operators=library_of(made, build))
        for (name, (exact, _)), found in zip(wanted.items(), program.run(list(wanted), feeds), strict=True):
            assert np.abs(found - exact).max() < 2e-5 * max(np.abs(exact).max(), 1e-6), name


@pytest.mark.slow
@pytest.mark.nightly
def test_kernels_touch_no_memory_but_their_own(tmp_path):
    for k, graph in enumerate([*every_layer(), *draws(40, seed=5)]):
        for found in kernels(graph):
            cluster = turned(found, k % 4 > 1, k % 3 > 0, k % 5 > 1)
            made = Winograd(CHOICES[k % 2], k % 4 > 1).written("layer", cluster)
            run_under_sanitisers(made, cluster, tmp_path)


SCARCE = """
import resource, sys
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
options.register_custom_ops_library(sys.argv[2])
loaded = ort.InferenceSession(sys.argv[1], options)
feeds = {"x": np.ones((1, 256, 3, 3), np.float32)}
pages = int(open("/proc/self/statm").read().split()[0])
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (3 << 20), limits[1]))
try:
    loaded.run(None, feeds)
except Exception as error:
    print("refused:", error)
resource.setrlimit(resource.RLIMIT_AS, limits)
print(loaded.run(None, feeds)[0].shape)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_without_memory_for_weights_a_call_fails_and_the_next_one_may_not(tmp_path):
    b = GraphBuilder("scarce")
    graph = b.graph({"y": b.op("conv2d", b.input("x", (1, 256, 3, 3)), b.weight((256, 256, 3, 3)))})
    (cluster,) = kernels(graph)
    op = Operator(cluster, Winograd("4_3"), 1)
    b = GraphBuilder("scarce")
    y = b.opaque(payload(op), [b.input("x", (1, 256, 3, 3)), b.weight((256, 256, 3, 3))])[0]
    workbench.save_onnx(b.graph({"y": y}), tmp_path / "scarce.onnx")
    command = [sys.executable, "-c", SCARCE, tmp_path / "scarce.onnx", library_of([op], Build())]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "memory for the transformed weights" in done.stdout
    assert done.stdout.strip().endswith("(1, 256, 1, 1)")


def network(channels=16):
    b = GraphBuilder("network", seed=3)
    x = y = b.input("x", (1, channels, 12, 10))
    for k in range(2):
        one, two = (b.weight((channels, channels, 3, 3)) for _ in range(2))
        bias = b.weight((1, channels, 1, 1))
        inner = b.op("relu", b.op("conv2d", y, one, bias, pads=(1, 1, 1, 1)))
        y = b.op("relu", b.op("add", b.op("conv2d", inner, two, pads=(1, 1, 1, 1)), y)) if k else inner
    return b.graph({"y": y, "x again": b.op("neg", x)})


@pytest.mark.slow
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


def convolutions_pay(cluster):
    return Beside(9.0, 1.0 if convolution_of(cluster) else 99.0, 1000)


def inner_layouts_pay(cluster):
    turns = sum(m.op == "transpose" for m in cluster.members)
    return Beside(9.0, 4.0 - turns if convolution_of(cluster) else 99.0)


@pytest.mark.slow
def test_neighbouring_kernels_share_the_inner_layout(tmp_path):
    done = deploy(network(), AnalyticCost(), measure=inner_layouts_pay, time=False)
    read = [[t.rank for t in c.read] for c in done.plan.clusters]
    assert read == [[4, 4, 4], [5, 4, 4], [5, 4, 5]]
    assert [c.type.rank for c in done.plan.clusters] == [5, 5, 4]
    assert done.certificate.passed, done.certificate.reason
    done.save(tmp_path / "network.onnx")
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 16, 12, 10)).astype(np.float32)}
    found = workbench.kernels.load_program(tmp_path / "network.onnx")(feeds)
    plain = onnxruntime.InferenceSession(tmp_path / "network.onnx").run(["y"], feeds)[0]
    np.testing.assert_allclose(found["y"], plain, rtol=1e-4, atol=1e-5)


def test_a_layout_that_does_not_pay_is_in_no_kernel():
    def measure(cluster):
        inner = any(m.op == "transpose" for m in cluster.members)
        return Beside(1.0, 1.0) if inner else convolutions_pay(cluster)

    done = deploy(network(), AnalyticCost(), measure=measure, time=False)
    assert all(t.rank == 4 for c in done.plan.clusters for t in (*c.read, c.type))


@pytest.mark.slow
def test_the_bound_on_the_error_chooses_the_algorithm():
    by_error = {}
    for error in (10.0, 2.0, 1e-6):
        done = deploy(network(64), AnalyticCost(), measure=convolutions_pay, time=False, error=error)
        found = done.certificate
        by_error[error] = set() if done.plan is None else {str(op.schedule) for op in done.plan.operators}
        if done.plan is not None:
            assert found.rounding <= error * max(found.own_rounding, 2.0**-23)
            assert f"{found.rounding:.1e}" in str(done)
    assert by_error[10.0] == {"Winograd F(4, 3)"}
    assert by_error[1e-6] == set()
    with pytest.raises(ValueError, match="the bound on error must be above 0, got 0"):
        deploy(network(), AnalyticCost(), error=0)


def test_the_bound_on_memory_leaves_kernels_out():
    def kept(memory):
        plan = deploy(network(), AnalyticCost(), measure=convolutions_pay, time=False, memory=memory).plan
        return 0 if plan is None else len(plan.operators)

    assert [kept(m) for m in (None, 3000, 2999, 1000, 999)] == [3, 3, 2, 1, 0]


@pytest.mark.slow
def test_one_build_serves_every_number_of_images(tmp_path):
    info = onnx.helper.make_tensor_value_info
    random = np.random.default_rng(0)
    weights = [random.standard_normal((16, 16, 3, 3)).astype(np.float32) for _ in range(2)]
    nodes = [
        onnx.helper.make_node("Conv", ["x", "a"], ["u"], pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Relu", ["u"], ["v"]),
        onnx.helper.make_node("Conv", ["v", "b"], ["w"], pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Add", ["w", "v"], ["s"]),
        onnx.helper.make_node("GlobalAveragePool", ["s"], ["p"]),
        onnx.helper.make_node("Flatten", ["p"], ["y"]),
    ]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            nodes,
            "images",
            [info("x", 1, ["n", 16, 10, 11])],
            [info("y", 1, ["n", 16])],
            [onnx.numpy_helper.from_array(w, name) for w, name in zip(weights, "ab", strict=True)],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    result = workbench.optimize(model, cost="analytic", time=False)
    done = with_kernels(result, cost="analytic", time=False, measure=convolutions_pay)
    assert len(done.plan.operators) == 2, str(done)
    done.save(tmp_path / "images.onnx")
    program = workbench.kernels.load_program(tmp_path / "images.onnx", threads=2)
    plain = onnxruntime.InferenceSession(model.SerializeToString())
    for count in (1, 2, 7):
        feeds = {"x": random.standard_normal((count, 16, 10, 11)).astype(np.float32)}
        np.testing.assert_allclose(program(feeds)["y"], plain.run(None, feeds)[0], rtol=1e-4, atol=1e-4)


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


@pytest.mark.parametrize(
    ("size", "attrs", "inside"),
    [
        ((1, 16, 8, 6), {}, True),
        ((1, 16, 8, 7), {}, False),
        ((1, 16, 8, 6), {"pads": (0, 0, 1, 1)}, False),
        ((1, 16, 8, 6), {"strides": (1, 1)}, False),
    ],
)
def test_a_pool_of_whole_squares_is_part_of_a_kernel(size, attrs, inside):
    b = GraphBuilder("pool")
    y = b.op("relu", b.op("conv2d", b.input("x", size), b.weight((16, 16, 3, 3)), pads=(1, 1, 1, 1)))
    pool = {"kernel": (2, 2), "strides": (2, 2)} | attrs
    graph = b.graph({"y": b.op("maxpool", y, **pool)})
    (cluster,) = kernels(graph)
    assert [m.op for m in cluster.members] == ["conv2d", "relu", *["maxpool"] * inside]
    shared = b.graph({"y": b.op("maxpool", y, **pool), "z": b.op("neg", y)})
    assert [m.op for m in kernels(shared)[0].members] == ["conv2d", "relu"]


def test_a_value_that_is_read_again_ends_a_kernel():
    b = GraphBuilder("shared")
    y = b.op("conv2d", b.input("x", (1, 16, 9, 9)), b.weight((16, 16, 3, 3)))
    (cluster,) = kernels(b.graph({"y": b.op("relu", y), "z": b.op("neg", y)}))
    assert [m.op for m in cluster.members] == ["conv2d"]
