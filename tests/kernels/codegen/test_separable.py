"""Kernels of convolutions channel by channel with the layers around them: their values, and when there are some."""

import numpy as np
import onnxruntime
import pytest

import workbench
from tests.kernels.codegen.needs import compiler, run_under_sanitisers, skip_if_not_for_here
from workbench.costs.analytic import AnalyticCost
from workbench.frontends import to_onnx
from workbench.frontends.runtime import session
from workbench.graph import GraphBuilder
from workbench.kernels.codegen.clusters import readers_of
from workbench.kernels.codegen.compiler import Build
from workbench.kernels.codegen.custom_ops import Operator, library_of, payload
from workbench.kernels.codegen.deployment import deploy
from workbench.kernels.codegen.fusion import Beside, egraph_of, numbers_of
from workbench.kernels.codegen.separable import (
    Separable,
    candidates,
    is_separable,
    layers,
    layers_of,
)
from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.evaluate import evaluate
from workbench.ops import spec_of

pytestmark = compiler

ACTIVATIONS = {
    "none": lambda b, y: y,
    "relu": lambda b, y: b.op("relu", y),
    "clip": lambda b, y: b.op("clip", y, low=-0.5, high=1.5),
    "silu": lambda b, y: b.op("mul", b.op("sigmoid", y), y),
    "hardswish": lambda b, y: b.op("hardswish", y),
    "gelu": lambda b, y: b.op("gelu", y),
}


def block(
    size,
    middle,
    outs,
    *,
    first=1,
    taps=(3, 3),
    strides=(1, 1),
    pads=1,
    act="clip",
    last="none",
    bias=True,
    seed=0,
):
    """Return a block of layers; ``first`` are the taps of the first one, or 0; ``outs`` are 0 without a last one."""
    b = GraphBuilder("block", seed=seed)
    x = y = b.input("x", size)
    channels = size[1]

    def conv(y, outs, taps, **attributes):
        weights = [b.weight((outs, b.type(y).shape[1] // attributes.get("groups", 1), *taps))]
        weights += [b.weight((1, outs, 1, 1))] if bias else []
        return b.op("conv2d", y, *weights, **attributes)

    if first:
        stride = 1 if first == 1 else 2
        y = conv(y, middle, (first, first), strides=(stride, stride), pads=(first // 2,) * 4)
        y, channels = ACTIVATIONS[act](b, y), middle
    if taps:
        pads = pads if isinstance(pads, tuple) else (pads,) * 4
        y = ACTIVATIONS[act](b, conv(y, channels, taps, strides=strides, pads=pads, groups=channels))
    if outs:
        y = conv(y, outs, (1, 1))
        if last == "sum":
            same = b.type(x).shape == b.type(y).shape
            y = b.op("add", *([x, y] if same else [y, b.input("z", b.type(y).shape)]))
        y = y if last in ("none", "sum") else ACTIVATIONS[last](b, y)
    return b.graph({"y": y})


def scaled(size, outs, last):
    """Return a product over channels of an image whose channels are scaled, beside a block that has kernels."""
    b = GraphBuilder("scaled", seed=1)
    x, s = b.input("x", size), b.input("s", (*size[:2], 1, 1))
    y = b.op("conv2d", b.op("mul", s, x), b.weight((outs, size[1], 1, 1)))
    y = b.op("add", b.input("z", b.type(y).shape), y) if last else y
    w, v = b.weight((outs, 1, 3, 3)), b.weight((16, outs, 1, 1))
    inner = b.op("conv2d", y, w, pads=(1, 1, 1, 1), groups=outs)
    return b.graph({"y": y, "more": b.op("conv2d", b.op("relu", inner), v)})


#: Blocks of all kinds: several images, odd channels, rows cut off, wide windows, strides, unequal pads.
BLOCKS = {
    "inverted residual": block((1, 24, 14, 14), 144, 24, last="sum"),
    "wide window": block((2, 16, 15, 9), 40, 33, taps=(5, 5), strides=(2, 2), pads=2, act="silu"),
    "no first": block((1, 32, 28, 28), 0, 16, first=0),
    "no last": block((1, 17, 13, 11), 50, 0, act="silu", bias=False),
    "sum of images": block((3, 20, 7, 7), 100, 20, last="sum", act="hardswish"),
    "another sum": block((2, 20, 9, 6), 33, 70, last="sum", act="relu", pads=(0, 2, 1, 0)),
    "an image of three channels": block((1, 3, 33, 29), 32, 16, first=3),
    "seven taps": block((2, 3, 21, 40), 40, 0, first=7, act="gelu", pads=(2, 2, 0, 1)),
    "last activation": block((1, 18, 6, 50), 36, 130, last="hardswish", act="none"),
    "strides beyond taps": block((1, 16, 17, 19), 48, 24, strides=(3, 4), taps=(2, 3), pads=(1, 0, 0, 2)),
    "one row": block((1, 40, 1, 70), 16, 17, taps=(1, 9), pads=(0, 4, 0, 4), act="relu"),
    "one channel": block((1, 16, 9, 9), 0, 1, first=0, act="relu", last="silu"),
    "scaled": scaled((2, 23, 5, 9), 40, last=True),
    "scaled alone": scaled((1, 96, 14, 14), 24, last=False),
}


def clusters(graph):
    return list(layers(readers_of(egraph_of(graph), numbers_of(graph))))


def values_of(cluster, graph, random):
    """Return the weights and random images that a cluster reads, with whether they are weights."""
    stored = {i for i, n in enumerate(graph.nodes) if n.op == "weight"}
    return [
        (graph.weights[graph.nodes[i].attr("name")].value(), True)
        if i in stored
        else (random.standard_normal(kind.shape).astype(np.float32), False)
        for i, kind in zip(cluster.inputs, cluster.read, strict=True)
    ]


def check(cases, build, threads=2):
    """Compare kernels with float64, all in one program: cases are clusters with their graph, rows and parts."""
    b, feeds, wanted, ops, random = GraphBuilder("all"), {}, {}, {}, np.random.default_rng(0)
    for k, (cluster, graph, rows, parts) in enumerate(cases):
        op = Operator(cluster, Separable(rows), parts, build)
        values, inputs = values_of(cluster, graph, random), []
        for i, (value, stored) in enumerate(values):
            if not stored:
                feeds[f"x{k}_{i}"] = value
            inputs.append(b.weight(data=value) if stored else b.input(f"x{k}_{i}", value.shape))
        exact = evaluate(cluster.composite, [v.astype(np.float64) for v, _ in values])
        if op.name in ops:
            continue
        ops[op.name] = op
        wanted[f"y{k}"] = exact, b.opaque(payload(op), inputs)[0], (graph.name, cluster.composite, rows)
    model = b.graph({name: place for name, (_, place, _) in wanted.items()})
    program = session(
        to_onnx(model), threads=threads, spin=False, operators=library_of(list(ops.values()), build)
    )
    feeds = {name: value for name, value in feeds.items() if name in model.input_types}
    for _ in range(2):  # the weights are packed once
        for (exact, _, about), found in zip(wanted.values(), program.run(list(wanted), feeds), strict=True):
            assert found.shape == exact.shape, about
            assert np.abs(found - exact).max() < 2e-6 * max(np.abs(exact).max(), 1e-6), about


@pytest.mark.slow
@pytest.mark.parametrize("march", ["native", "x86-64-v3", ""])
def test_kernels_compute_blocks_of_all_kinds(march):
    cases = [
        (c, graph, rows, parts)
        for k, graph in enumerate(BLOCKS.values())
        for c in clusters(graph)
        for parts, rows in ((1, 1), (3, c.type.shape[2]), (2 + k % 2, min(3, c.type.shape[2])))
    ]
    try:
        check(cases, Build(march=march, opt=1))
    except Exception as error:
        skip_if_not_for_here(error)
        raise


def test_the_composite_of_layers_is_what_their_operators_compute():
    for name, graph in BLOCKS.items():
        found = clusters(graph)
        assert found, name
        for cluster in found:
            random = np.random.default_rng(1)
            values = {
                i: v.astype(np.float64)
                for i, (v, _) in zip(cluster.inputs, values_of(cluster, graph, random), strict=True)
            }
            wanted = evaluate(cluster.composite, list(values.values()))
            values |= dict(cluster.known)
            for m in cluster.members:
                values[m.place] = spec_of(m.op).evaluate([values[j] for j in m.operands], m.named)
            np.testing.assert_allclose(wanted, values[cluster.result], rtol=1e-9, atol=1e-9, err_msg=name)
            assert bind(cluster.composite, cluster.types).outputs()[0].shape == cluster.type.shape


def test_what_is_in_a_kernel():
    def members(name):
        (cluster, *_) = clusters(BLOCKS[name])
        parts = layers_of(cluster)
        there = [
            x.conv.named["groups"] > 1
            for x in (parts.expand, parts.depthwise, parts.project)
            if x is not None
        ]
        return [m.op for m in cluster.members], there, parts.more, parts.scale

    whole = ["conv2d", "clip", "conv2d", "clip", "conv2d", "add"]
    assert members("inverted residual") == (whole, [False, True, False], 0, -1)
    assert members("no last") == (["conv2d", "sigmoid", "mul"] * 2, [False, True], -1, -1)
    assert members("no first") == (["conv2d", "clip", "conv2d"], [True, False], -1, -1)
    alone = [c for c in clusters(BLOCKS["scaled"]) if c.members[0].op == "mul"]
    assert [[m.op for m in c.members] for c in alone] == [["mul", "conv2d", "add"]]
    assert layers_of(alone[0]).scale == 1
    plain = GraphBuilder("plain")
    x = plain.input("x", (1, 32, 9, 9))
    graph = plain.graph({"y": plain.op("relu", plain.op("conv2d", x, plain.weight((16, 32, 1, 1))))})
    assert clusters(graph) == []


@pytest.mark.parametrize(("taps", "stems"), [(3, 1), (5, 0)])
def test_a_first_convolution_before_one_by_fewer_products_is_a_kernel(taps, stems):
    b = GraphBuilder("stem")
    y = b.op("relu", b.op("conv2d", b.input("x", (1, 3, 20, 20)), b.weight((16, 3, 3, 3)), pads=(1, 1, 1, 1)))
    found = clusters(b.graph({"y": b.op("conv2d", y, b.weight((16, 16, taps, taps)))}))
    assert [[m.op for m in c.members] for c in found] == [["conv2d", "relu"]] * stems


def test_a_value_that_is_read_elsewhere_is_in_no_kernel():
    b = GraphBuilder("shared")
    x = b.input("x", (1, 16, 8, 8))
    first = b.op("relu", b.op("conv2d", x, b.weight((32, 16, 1, 1))))
    inner = b.op("conv2d", first, b.weight((32, 1, 3, 3)), pads=(1, 1, 1, 1), groups=32)
    y = b.op("conv2d", inner, b.weight((16, 32, 1, 1)))
    found = clusters(b.graph({"y": y, "first": first}))
    assert [m.op for m in found[0].members] == ["conv2d", "conv2d"]
    assert [[m.op for m in c.members] for c in found[1:]] == [["conv2d", "relu"]]


def test_blocks_fill_a_part_of_the_second_level_cache():
    (cluster,) = clusters(block((1, 16, 112, 112), 96, 24, strides=(2, 2)))
    rows = [how.rows for how in candidates(cluster)]
    assert rows == sorted(rows, reverse=True)
    assert rows[0] < 56
    assert Separable(4).memory(cluster) == 4 * (16 * 96 + 9 * 96 + 96 * 32)
    assert Separable(4).written("b", cluster).pieces == 14


def drawn(random):
    """Return the graph of a random block."""
    first = int(random.choice([0, 1, 1, 1, 3, 5]))
    channels = int(random.integers(1, 5)) if first > 1 else int(random.integers(16, 50))
    taps = tuple(int(n) for n in random.integers(1, 6, 2))
    pads = tuple(map(int, random.integers(0, 4, 4)))
    height, width = (int(n) + 4 for n in random.integers(1, 37, 2))
    outs = int(random.integers(1, 70)) if random.random() < 0.7 or first == 0 else 0
    last = str(random.choice([*ACTIVATIONS, "sum", "sum", "sum"]))
    return block(
        (
            int(random.choice([1, 1, 2, 3])),
            channels,
            height * (2 if first > 1 else 1),
            width * (2 if first > 1 else 1),
        ),
        int(random.integers(16, 70)),
        outs,
        first=first,
        taps=taps,
        strides=tuple(int(n) for n in random.choice([1, 1, 1, 2, 2, 3], 2)),
        pads=pads,
        act=str(random.choice(list(ACTIVATIONS))),
        last=last,
        bias=bool(random.random() < 0.8),
        seed=int(random.integers(1 << 30)),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "count",
    [
        4,
        pytest.param(40, marks=pytest.mark.slow),
        pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.nightly]),
    ],
)
def test_random_blocks_are_those_of_float64(count):
    random, checked = np.random.default_rng(count), 0
    for start in range(0, count, 50):
        graphs = [drawn(random) for _ in range(min(50, count - start))]
        cases = [
            (c, graph, int(random.integers(1, c.type.shape[2] + 1)), int(random.integers(1, 5)))
            for graph in graphs
            for c in clusters(graph)
        ]
        checked += len(cases)
        check(cases, Build(opt=1))
    assert checked > count / 2


@pytest.mark.slow
@pytest.mark.nightly
def test_kernels_touch_no_memory_but_their_own(tmp_path):
    random = np.random.default_rng(5)
    for k, graph in enumerate([*BLOCKS.values(), *(drawn(random) for _ in range(40))]):
        for cluster in clusters(graph):
            made = Separable(1 + k % cluster.type.shape[2]).written("layer", cluster)
            run_under_sanitisers(made, cluster, tmp_path)


def test_a_network_gets_kernels_that_its_file_runs_with_and_without(tmp_path):
    graph = block((1, 3, 24, 20), 32, 16, first=3, act="silu")
    done = deploy(
        graph, AnalyticCost(), measure=lambda c: Beside(9.0, 1.0 if is_separable(c) else 99.0), time=False
    )
    assert [str(op.schedule) for op in done.plan.operators] == ["layers in blocks of 12 rows"]
    assert done.certificate.passed, done.certificate.reason
    done.save(tmp_path / "network.onnx")
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 3, 24, 20)).astype(np.float32)}
    found = workbench.kernels.load_program(tmp_path / "network.onnx")(feeds)
    plain = onnxruntime.InferenceSession(tmp_path / "network.onnx").run(["y"], feeds)[0]
    np.testing.assert_allclose(found["y"], plain, rtol=1e-4, atol=1e-5)


def test_equal_kernels_of_different_operators_have_different_names():
    names = []
    for order in (0, 1):
        b = GraphBuilder("sum")
        x, z = b.input("x", (1, 16, 8, 8)), b.input("z", (1, 16, 8, 8))
        inner = b.op("relu", b.op("conv2d", x, b.weight((16, 1, 3, 3)), pads=(1, 1, 1, 1), groups=16))
        y = b.op("conv2d", inner, b.weight((16, 16, 1, 1)))
        (cluster,) = clusters(b.graph({"y": b.op("add", *((y, z) if order else (z, y)))}))
        names.append(Operator(cluster, Separable(2)).name)
    assert len(set(names)) == 2


def test_a_number_that_is_a_bias_too_is_in_no_kernel():
    b = GraphBuilder("number")
    one = b.weight(data=np.full((1, 1, 1, 1), 0.5, np.float32))
    x = b.op("conv2d", b.input("x", (1, 16, 8, 8)), b.weight((16, 1, 3, 3)), pads=(1, 1, 1, 1), groups=16)
    y = b.op("mul", b.op("conv2d", x, b.weight((1, 16, 1, 1)), one), one)
    assert clusters(b.graph({"y": y})) == []
