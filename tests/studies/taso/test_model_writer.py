"""Graphs become TASO text with the same values; an operator without a form is an error that names it."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import workbench
from tests.random_graphs import random_graph
from tests.studies.taso.models import operators, read_back, same_values
from workbench.frontends import ModelError
from workbench.graph import GraphBuilder
from workbench.studies.benchmarks import benchmark, benchmarks
from workbench.studies.taso.model_reader import load_taso_model, parse_records
from workbench.studies.taso.model_writer import save_taso_model, to_taso_model
from workbench.support.files import UnwritableOutput


@pytest.fixture
def b():
    return GraphBuilder("net")


def kinds(graph):
    """Return the operators of a graph's text, without leaves."""
    records = parse_records(to_taso_model(graph), "text")
    return [r.kind for r in records if r.kind not in ("input", "weight")]


# -- round trips ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(set(benchmarks()) - {"transformer"}))
def test_a_published_network_comes_back(name, tmp_path):
    graph = benchmark(name)
    copy = read_back(graph, tmp_path)
    assert list(copy.output_types.values()) == list(graph.output_types.values())
    assert copy.operators() | {"identity": 0} == graph.operators() | {"identity": 0}
    # Further round trips change nothing, including the names of weights.
    assert read_back(copy, tmp_path).structural_hash() == copy.structural_hash()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("bert", {"layers": 2, "sequence": 8, "hidden": 32, "heads": 4}),
        ("nasrnn", {"hidden": 16, "length": 2}),
        ("resnext50", {"image": 32, "blocks": (1, 1, 1, 1), "width": 32}),
        ("nasneta", {"image": 32, "channels": 8, "stages": 2, "cells": 2}),
        ("inceptionv3", {"image": 79, "width": 0.1}),
        ("mobilenetv2", {"image": 32}),
    ],
)
def test_a_published_network_computes_the_same(name, parameters, tmp_path):
    graph = benchmark(name, **parameters)
    if name == "mobilenetv2":
        graph = with_epsilon(graph)
    assert same_values(graph, read_back(graph, tmp_path))


def with_epsilon(graph):
    """Return a graph whose batch normalisation has the only epsilon that the format supports."""
    b = GraphBuilder(graph.name)
    b.weights = dict(graph.weights)
    place = {}
    for i, node in enumerate(graph.nodes):
        operands = [place[j] for j in node.inputs]
        if node.op == "input":
            place[i] = b.input(node.attr("name"), node.type.shape)
        elif node.op == "batchnorm":
            place[i] = b.op("batchnorm", *operands, eps=1e-5)
        else:
            place[i] = b.apply(node.op, operands, node.attrs)
    return b.graph([(name, place[i]) for name, i in graph.outputs])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4, 8]))
@example(13721, 1)  # two outputs become one node, because the format drops a dilation without effect
def test_a_random_graph_comes_back_or_its_node_is_named(tmp_path_factory, seed, size):
    graph = random_graph(seed, size)
    refused, text = "", ""
    try:
        text = to_taso_model(graph)
    except ModelError as error:
        refused = str(error)
    if refused:
        found = re.match(r"TASO's text format has no form for (%\d+ = \w+.* : \S+\[[\d, ]*\]): ", refused)
        assert found
        assert found[1] in graph.text()
        return
    folder = tmp_path_factory.mktemp("taso")
    copy = read_back(graph, folder)
    assert list(copy.input_types.values()) == list(graph.input_types.values())
    assert list(copy.output_types.values()) == list(graph.output_types.values())
    again = read_back(copy, folder)
    assert list(again.output_types.values()) == list(copy.output_types.values())
    if len(set(copy.output_ids)) < len(copy.outputs):
        # A node that is several outputs now has dropouts after it.
        copy, again = again, read_back(again, folder)
    assert again.structural_hash() == copy.structural_hash()
    if not folded(graph, text):
        assert same_values(graph, copy)


def folded(graph, text):
    """Return whether values that depend on weights alone were replaced by weights."""
    records = parse_records(text, "text")
    shape_only = {r.operands[1][0] for r in records if r.kind in ("maxpool", "avgpool", "enlarge")}
    written = sum(r.kind == "weight" and r.id not in shape_only for r in records)
    live = graph.reachable()
    return written != sum(n.op == "weight" and live[i] for i, n in enumerate(graph.nodes))


@pytest.mark.parametrize("name", ["squeezenet", "nasrnn", "bert"])
def test_what_the_optimiser_makes_of_a_network_can_be_written(name, tmp_path):
    result = workbench.optimize(benchmark(name), certify=False, seconds=20)
    assert result.cost_after < result.cost_before
    result.save(tmp_path / "out.model")
    copy = load_taso_model(tmp_path / "out.model")
    assert list(copy.output_types.values()) == list(result.graph.output_types.values())
    cost = workbench.cost_model("analytic")
    from workbench.costs import graph_cost

    assert graph_cost(copy, cost) == pytest.approx(result.cost_after)


# -- equivalent forms -----------------------------------------------------------------------------
def test_a_bias_is_added_after_the_convolution(b, tmp_path):
    x = b.input("x", (1, 3, 5, 5))
    y = b.op("conv2d", x, b.weight((4, 3, 3, 3)), b.weight((1, 4, 1, 1)), pads=(1, 1, 1, 1), act="sigmoid")
    graph = b.graph({"y": y})
    copy = read_back(graph, tmp_path)
    assert operators(copy) == ["conv2d", "add", "sigmoid"]
    assert same_values(graph, copy)


def test_slices_that_cut_an_axis_up_are_a_split(b, tmp_path):
    x = b.input("x", (2, 7))
    first, second, third = b.split(x, 1, (2, 4, 1))
    graph = b.graph({"y": b.op("concat", third, b.op("relu", first), b.op("tanh", second), axis=-1)})
    assert kinds(graph).count("split") == 1
    copy = read_back(graph, tmp_path)
    assert copy.operators() == graph.operators()
    assert same_values(graph, copy)


def test_slices_with_gaps_and_overlaps_are_parts_of_splits(b, tmp_path):
    x = b.input("x", (2, 9))
    bounds = [(1, 3), (2, 5), (3, 4), (7, 8), (0, 9), (1, 3)]
    cut = [b.op("slice", x, axis=-1, start=start, stop=stop) for start, stop in bounds]
    graph = b.graph({f"y{k}": b.op("tanh" if k % 2 else "relu", s) for k, s in enumerate(cut)})
    records = [r for r in parse_records(to_taso_model(graph), "text") if r.kind == "split"]
    assert sorted(r.params for r in records) == [(1, 1, 2, 1, 3, 1, 1), (1, 2, 3, 4), (1, 9)]
    copy = read_back(graph, tmp_path)
    assert list(copy.output_types.values()) == list(graph.output_types.values())
    assert same_values(graph, copy)


@pytest.mark.parametrize(("op", "keepdims"), [("reduce_mean", 1), ("reduce_mean", 0), ("reduce_max", 1)])
def test_global_pooling_is_a_pool_as_large_as_its_input(b, tmp_path, op, keepdims):
    x = b.input("x", (2, 3, 5, 4))
    graph = b.graph({"y": b.op(op, x, axes=(-1, -2), keepdims=keepdims)})
    copy = read_back(graph, tmp_path)
    assert operators(copy)[0] == ("avgpool" if op == "reduce_mean" else "maxpool")
    assert copy.output_types["output"].shape == ((2, 3, 1, 1) if keepdims else (2, 3))
    assert same_values(graph, copy)


def test_a_batch_of_matrices_times_one_matrix(b, tmp_path):
    x = b.input("x", (2, 3, 4))
    graph = b.graph({"y": b.op("matmul", x, b.weight((4, 5)), act="relu")})
    assert kinds(graph) == ["reshape", "matmul", "reshape"]
    assert same_values(graph, read_back(graph, tmp_path))


def test_outputs_keep_their_order_whatever_reads_them(b, tmp_path):
    x, w = b.input("x", (2, 6)), b.weight((2, 6))
    relu = b.op("relu", x)
    total = b.op("add", relu, w)
    left, right = b.split(total, 1, (1, 5))
    outputs = {"last": right, "read": relu, "in": x, "again": relu, "first": left, "weight": w}
    graph = b.graph(outputs)
    copy = read_back(graph, tmp_path)
    assert list(copy.output_types.values()) == list(graph.output_types.values())
    assert same_values(graph, copy)


def test_an_unused_input_stays(b, tmp_path):
    b.input("idle", (3,))
    graph = b.graph({"y": b.op("relu", b.input("x", (2, 2)))})
    assert list(read_back(graph, tmp_path).input_types.values()) == list(graph.input_types.values())


def test_merged_groups_and_grown_kernels_come_back(b, tmp_path):
    x = b.input("x", (1, 8, 6, 6))
    merged = b.op("merge_gconv", b.weight((8, 1, 3, 3)), count=2, groups=8)
    twice = b.op("merge_gconv", merged, count=2, groups=4)
    grouped = b.op("conv2d", x, twice, pads=(1, 1, 1, 1), groups=2)
    grown = b.op("enlarge", b.weight((2, 8, 1, 1)), pads=(1, 1, 1, 1))
    graph = b.graph({"y": grouped, "z": b.op("conv2d", x, grown, pads=(1, 1, 1, 1))})
    copy = read_back(graph, tmp_path)
    assert copy.operators() == graph.operators()
    assert same_values(graph, copy)


def test_what_depends_on_weights_alone_becomes_weights_where_it_has_no_form(b, tmp_path):
    x, w, v = b.input("x", (2, 4)), b.weight((4, 3)), b.weight((4, 3))
    plain = b.graph({"y": b.op("matmul", x, b.op("add", w, v))})
    assert kinds(plain) == ["add", "matmul"]
    graph = b.graph({"y": b.op("matmul", x, b.op("add", w, b.op("sub", w, v)))})
    assert kinds(graph) == ["matmul"]
    assert [w.type.shape for w in read_back(graph, tmp_path).weights.values()] == [(4, 3)]


# -- operators without a form ---------------------------------------------------------------------------
def refused(make):
    """Return the message of a graph's refusal."""
    b = GraphBuilder("net")
    graph = b.graph({"y": make(b)})
    with pytest.raises(ModelError, match=r"^TASO's text format has no form for %\d+ = ") as raised:
        to_taso_model(graph)
    return str(raised.value)


def image(b):
    return b.input("x", (1, 4, 6, 6))


def conv(b, **settings):
    return b.op("conv2d", image(b), b.weight((8, 4, 3, 3)), **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda b: b.op("softmax", image(b)),
            "%1 = softmax(%0) : float32[1, 4, 6, 6]: its operators must be among add, avg",
        ),
        (lambda b: b.op("sub", image(b), b.weight((6,))), ", got sub (ONNX has one)"),
        (
            lambda b: conv(b, pads=(0, 1, 1, 0)),
            "its pads must be (1, 1, 1, 1) (same) or (0, 0, 0, 0) (valid)",
        ),
        (lambda b: conv(b, dilations=(2, 1)), "its windows must not be dilated"),
        (lambda b: conv(b, act="silu"), "its activation must be one of none, sigmoid, relu, tanh, got silu"),
        (lambda b: b.op("maxpool", image(b), kernel=2, strides=2, dilations=2, pads=(0, 0, 0, 0)), "dilat"),
        (lambda b: b.op("maxpool", image(b), kernel=5, strides=3, ceil=1), "(ceil=0)"),
        (
            lambda b: b.op("avgpool", image(b), kernel=3, strides=1, pads=(1, 1, 1, 1), include_pad=1),
            "the mean of a window must exclude its padding",
        ),
        (lambda b: b.op("reduce_mean", image(b), axes=(-1,)), "its reductions are pools"),
        (
            lambda b: b.op("slice", image(b), axis=-3, start=0, stop=4, step=2),
            "stop=4, step=2](%0) : float32[1, 2, 6, 6]: the step of a slice must be 1, got 2",
        ),
        (
            lambda b: b.op("batchnorm", image(b), *(b.weight((4,)) for _ in range(4)), eps=1e-3),
            "its epsilon must be 1e-05, got 0.001",
        ),
        (
            lambda b: b.op("relu", b.input("x", (2, 2), "float16")),
            "its tensors must be float32, got float16[2, 2]",
        ),
        (
            lambda b: b.op("matmul", b.input("x", (2, 3, 4)), b.input("z", (1, 4, 5))),
            "batches must be equal, got (2,) and (1,)",
        ),
        (
            lambda b: b.op("enlarge", b.input("x", (2, 2, 1, 1)), pads=(1, 0, 0, 0)),
            "a kernel must grow equally on both sides",
        ),
        (
            lambda b: b.op("relu", b.op("merge_gconv", b.input("x", (4, 1, 3, 3)), count=2, groups=4)),
            "the number of groups must follow from",
        ),
    ],
)
def test_a_node_without_a_form_is_named_with_the_reason(make, message):
    assert message in refused(make)


def test_nothing_is_written_where_a_node_has_no_form_or_the_place_is_none(b, tmp_path):
    path = tmp_path / "net.model"
    graph = b.graph({"y": b.op("softmax", image(b))})
    with pytest.raises(ModelError, match="softmax"):
        save_taso_model(graph, path)
    assert not path.exists()
    fine = GraphBuilder()
    graph = fine.graph({"y": fine.op("relu", image(fine))})
    with pytest.raises(UnwritableOutput, match="does not exist"):
        save_taso_model(graph, tmp_path / "none" / "net.model")
    with pytest.raises(UnwritableOutput, match="is a folder"):
        save_taso_model(graph, tmp_path)
    save_taso_model(graph, path)
    assert path.read_text() == "100\n0\n10:0\n1,4,6,6\n101\n8\n100:0\n1,4,6,6\n"
    assert [p.name for p in tmp_path.iterdir()] == ["net.model"]
