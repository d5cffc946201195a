"""The published networks: their sizes in Tensat's e-graph, their outputs, and the benchmark table."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from workbench.certification.inputs import random_inputs
from workbench.graph import Graph, Node, evaluate
from workbench.ops import TASO_ACTIVATIONS
from workbench.studies.benchmarks import PUBLISHED, benchmark, benchmarks

TENSAT = {
    "bert": 192, "nasrnn": 403, "resnet50": 193, "resnext50": 198, "nasneta": 806,
    "inceptionv3": 334, "squeezenet": 127, "vgg19": 96, "mobilenetv2": 694,
}  # fmt: skip
OUTPUT = {
    "bert": (64, 1024), "nasrnn": (1, 512), "resnet50": (1, 2048, 7, 7), "resnext50": (1, 2048, 7, 7),
    "nasneta": (1, 5120, 7, 7), "inceptionv3": (1, 2048, 1, 1), "squeezenet": (1, 1000),
    "vgg19": (1, 1000), "mobilenetv2": (1, 1000), "transformer": (1, 64, 512),
}  # fmt: skip
SMALL = {
    "bert": {"layers": 2, "sequence": 8, "hidden": 32, "heads": 4},
    "nasrnn": {"hidden": 16, "length": 2},
    "resnet50": {"image": 8, "blocks": (1, 1, 1, 1), "width": 8},
    "resnext50": {"image": 32, "blocks": (1, 1, 1, 1), "width": 32},
    "nasneta": {"image": 32, "channels": 8, "stages": 2, "cells": 2},
    "inceptionv3": {"image": 79, "width": 0.1},
    "squeezenet": {"image": 67},
    "vgg19": {"image": 32, "width": 0.05},
    "mobilenetv2": {"image": 32},
    "transformer": {"layers": 1, "sequence": 6, "hidden": 16, "heads": 4, "batch": 2},
}


def tensat_size(graph: Graph) -> int:
    """Return the number of e-nodes of the start graph in Tensat's e-graph.

    Tensat's terms have numbers and names as separate leaves, and equal leaves are shared: the strides,
    padding and activation of a convolution, the axis and rank of a concat, the name of an input. Padding is
    SAME or VALID, and several outputs are chained by ``noop``. A batch normalisation's variance, which is a
    squared weight here, counts as one weight, as in Tensat's file.
    """
    numbers_of: dict[tuple[Any, ...], int] = {}  # the hash-cons
    children: list[list[int]] = []

    def add(op: str, *parts: Any, of: Sequence[int] = ()) -> int:
        key = (op, *parts, *of)
        if key not in numbers_of:
            numbers_of[key] = len(children)
            children.append(list(of))
        return numbers_of[key]

    terms: list[int] = []
    live = graph.reachable()
    for i, node in enumerate(graph.nodes):
        operands = [terms[j] for j in node.inputs]
        terms.append(_term(graph, i, node, operands, add) if live[i] else -1)
    root = terms[graph.output_ids[0]]
    for i in graph.output_ids[1:]:
        root = add("noop", of=[root, terms[i]])
    found = {root}
    stack = [root]
    while stack:
        new = [c for c in children[stack.pop()] if c not in found]
        found.update(new)
        stack += new
    return len(found)


def _term(graph: Graph, i: int, node: Node, operands: list[int], add: Callable[..., int]) -> int:
    def numbers(*values: int) -> list[int]:
        return [add("num", v) for v in values]

    if node.op in ("input", "weight"):
        return add(node.op, of=[add("var", node.op, node.attrs[0])])
    if _is_variance(graph, node):
        # Tensat's file stores the variance as one vector.
        return add("weight", of=[add("var", "variance", i)])
    named = node.named_attrs()
    if node.op == "conv2d":
        settings = numbers(*named["strides"], _padding(named["pads"], node, graph), _act(named["act"]))
        return add("conv2d", of=[*settings, *operands])
    if node.op in ("maxpool", "avgpool"):
        mode = _padding(named["pads"], node, graph)
        settings = numbers(*named["kernel"], *named["strides"], mode, 0)
        return add(node.op, of=[*operands, *settings])
    if node.op == "matmul":
        return add("matmul", of=[*numbers(_act(named["act"])), *operands])
    if node.op == "concat":
        rank = node.tensor.rank
        return add(f"concat{len(operands)}", of=[*numbers(named["axis"] + rank, rank), *operands])
    if node.op == "transpose":
        return add("transpose", of=[*operands, add("var", named["perm"]), *numbers(1)])
    if node.op == "reshape":
        return add("reshape", of=[*operands, add("var", named["shape"])])
    return add(node.op, of=operands)


def _is_variance(graph: Graph, node: Node) -> bool:
    return (
        node.op == "mul" and node.inputs[0] == node.inputs[1] and graph.nodes[node.inputs[0]].op == "weight"
    )


def _act(act: str) -> int:
    return TASO_ACTIVATIONS.index(act)


def _padding(pads: tuple[int, ...], node: Node, graph: Graph) -> int:
    """Return Tensat's number for a padding: 0 for SAME, 1 for VALID.

    Explicit pads mean SAME. Without pads, only a 1x1 window that keeps the size (up to strides) is SAME.
    """
    source = graph.nodes[node.inputs[0]].tensor.shape
    strides = node.attr("strides")
    same = all(node.tensor.shape[axis] == -(-source[axis] // strides[axis - 2]) for axis in (2, 3))
    kernel = graph.nodes[node.inputs[1]].tensor.shape[2:] if node.op == "conv2d" else node.attr("kernel")
    # In the published graphs all 1x1 windows are SAME, unless Inception's builder has VALID.
    return 0 if any(pads) or (same and tuple(kernel) == (1, 1)) else 1


@pytest.mark.parametrize("name", TENSAT)
def test_the_start_graph_has_the_size_tensat_reports(name):
    assert tensat_size(benchmark(name)) == TENSAT[name]


@pytest.mark.parametrize("name", benchmarks())
def test_shape_of_the_output(name):
    assert list(benchmark(name).output_types.values())[-1].shape == OUTPUT[name]


@pytest.mark.parametrize("name", benchmarks())
def test_small_versions_compute_finite_values(name):
    graph = benchmark(name, **SMALL[name])
    results = evaluate(graph, random_inputs(graph, 0, 0), precise=True)
    assert all(np.isfinite(r).all() for r in results.values())
    assert any(np.ptp(r) > 0 for r in results.values())


def test_building_twice_gives_the_same_network():
    for name in benchmarks():
        first, second = benchmark(name, **SMALL[name]), benchmark(name, **SMALL[name])
        assert first.structural_hash() == second.structural_hash()
        for weight in first.weights:
            np.testing.assert_array_equal(first.weights[weight].value(), second.weights[weight].value())


def test_bert_has_a_side_output_a_layer():
    assert len(benchmark("bert").outputs) == 9


def test_published_figures_cover_tensats_seven():
    assert list(PUBLISHED) == ["bert", "resnext50", "nasneta", "nasrnn", "inceptionv3", "squeezenet", "vgg19"]


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(LookupError, match="squeezenet"):
        benchmark("squeezenett")
