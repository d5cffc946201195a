"""Equal blocks of a deep model, saturated once."""

import math
from functools import cache

import numpy as np
import pytest

import workbench
from tests.frontends.models import model, node, normal, value
from workbench.egraph import rebuild
from workbench.egraph.egraph import validate
from workbench.extraction.extract import extract
from workbench.graph import GraphBuilder, evaluate
from workbench.rules import parse_rules
from workbench.run.trace import StopReason
from workbench.studies.benchmarks import benchmark
from workbench.studies.guided import blocks
from workbench.studies.guided.blocks import blocks_of


@pytest.fixture(autouse=True)
def small_graphs_count(monkeypatch):
    monkeypatch.setattr(blocks, "LEAST_NODES", 0)
    monkeypatch.setattr(blocks, "SHARE", math.inf)


def network(layers=6, odd=None, width=16):
    """Return layers of a norm, two products of one input, a scale and a sum; ``odd`` changes the third."""
    b = GraphBuilder("layers")
    mask = b.input("mask", (8, width))
    x = b.op("relu", b.input("x", (8, width)))
    small = b.weight(data=np.array(1e-5, np.float32))
    rng = np.random.default_rng(0)

    def vector(kind):
        one = {"zeros": np.zeros, "ones": np.ones}.get(kind)
        return b.weight(
            data=rng.normal(size=width).astype(np.float32) if one is None else one(width, np.float32)
        )

    for k in range(layers):
        own = odd if k == 2 else None
        mean = b.op("reduce_mean", x, axes=(-1,))
        centred = b.op("sub", x, mean)
        spread = b.op("reduce_mean", b.op("mul", centred, centred), axes=(-1,))
        epsilon = b.weight(data=np.array(1e-3, np.float32)) if own == "epsilon" else small
        normed = b.op("div", centred, b.op("sqrt", b.op("add", spread, epsilon)))
        normed = b.op("add", b.op("mul", normed, vector(own)), vector(own))
        gate = b.op("sigmoid", b.op("add", b.op("matmul", normed, b.weight((width, width))), vector(None)))
        kept = b.op("add", b.op("matmul", normed, b.weight((width, width))), vector(None))
        x = b.op("add", x, b.op("mul", b.op("mul", gate, kept), mask))
    return b.graph({"y": b.op("tanh", x)})


def both_ways(graph, **settings):
    return (workbench.optimize(graph, blocks=on, **settings) for on in (True, False))


def test_the_distinct_windows_are_few_and_cover_all_pieces():
    found = blocks_of(network(12))
    assert [len(places) for _, places in found.windows] == [1, 11, 1]
    assert [len(places) for _, places in found.trial.windows] == [1, 1]
    assert found.outputs
    covered = {i for _, places in found.windows for place in places for i in place}
    live = found.whole.reachable()
    assert covered == {i for i in range(len(found.whole)) if live[i]}
    assert len(blocks_of(network(36)).graph) == len(found.graph)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [4, 6])
def test_the_union_of_windows_is_as_good_as_the_whole(layers):
    by_blocks, whole = both_ways(network(layers))
    assert by_blocks.blocks.startswith("equal blocks once: ")
    assert not whole.blocks
    assert by_blocks.certificate.passed
    assert by_blocks.cost_after == pytest.approx(whole.cost_after, rel=1e-9)
    assert by_blocks.cost_after < by_blocks.cost_before
    assert {"merge-matmuls", "layernorm-by-parts"} <= set(by_blocks.rules)
    assert by_blocks.stop_reason is StopReason.SATURATED
    assert by_blocks.e_nodes == len(by_blocks.egraph)


@pytest.mark.slow
def test_the_union_is_an_e_graph_whose_terms_are_the_graph():
    graph = network(5)
    result = workbench.optimize(graph, certify=False)
    egraph = result.egraph
    validate(egraph)
    keys = [(egraph.ops[i], egraph.attrs[i], tuple(egraph.operands(i).tolist())) for i in range(len(egraph))]
    assert len(set(keys)) == len(keys), "an e-node is there once"
    assert all(egraph.eclass[i] not in egraph.operands(i) for i in range(len(egraph)))
    assert (egraph.birth_step[:-1] <= egraph.birth_step[1:]).all()
    assert {egraph.rules[r] for r in egraph.birth_rule if r >= 0} >= set(result.rules)
    rng = np.random.default_rng(1)
    feeds = {name: rng.normal(size=kind.shape).astype(np.float32) for name, kind in graph.input_types.items()}
    expected = evaluate(graph, feeds)["y"]
    for seed in range(6):  # whatever is extracted computes the same
        costs = np.random.default_rng(seed).uniform(1, 2, len(egraph))
        term = rebuild(graph, egraph, extract(egraph, costs, "dag").choice)
        np.testing.assert_allclose(evaluate(term, feeds)["y"], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("odd", ["epsilon", "zeros", "ones"])
def test_a_layer_with_other_numbers_is_no_copy(odd):
    # The third layer has windows of its own, one with either neighbour.
    plain, changed = blocks_of(network(6)), blocks_of(network(6, odd))
    assert len(changed.windows) == len(plain.windows) + 2


@pytest.mark.slow
def test_a_layer_with_other_numbers_is_optimised_by_its_own():
    by_blocks, whole = both_ways(network(6, "epsilon"))
    assert by_blocks.blocks
    assert by_blocks.certificate.passed
    assert by_blocks.cost_after == pytest.approx(whole.cost_after, rel=1e-9)


@pytest.mark.slow
def test_what_only_three_blocks_together_save_brings_the_whole_graph_back():
    # Products of the weights of all layers: x·W1·W2·W3, and every layer reads x.
    graph = benchmark("bert", layers=6, sequence=16, hidden=64, heads=4)
    assert blocks_of(graph).trial
    by_blocks, whole = both_ways(graph, certify=False)
    assert not by_blocks.blocks
    assert by_blocks.cost_after == whole.cost_after
    assert len(by_blocks.trace) == len(whole.trace)


@pytest.mark.slow
def test_operators_of_all_layers_on_one_input_bring_the_whole_graph_back():
    # Each layer multiplies the same encoding: all of these products are one.
    b = GraphBuilder()
    x, encoding = b.input("x", (8, 32)), b.input("encoding", (8, 32))
    for _ in range(6):
        keys = b.op("tanh", b.op("matmul", encoding, b.weight((32, 32))))
        x = b.op("tanh", b.op("matmul", x, b.weight((32, 32))))
        x = b.op("relu", b.op("matmul", b.op("sigmoid", x), b.weight((32, 32))))
        x = b.op("exp", b.op("mul", b.op("sin", x), b.op("cos", keys)))
        x = b.op("div", x, b.op("reduce_sum", x, axes=(-1,)))
    graph = b.graph({"y": x})
    assert blocks_of(graph).trial
    by_blocks, whole = both_ways(graph, certify=False)
    assert not by_blocks.blocks
    assert by_blocks.cost_after == whole.cost_after < whole.cost_before


@pytest.mark.slow
def test_symbols_stay():
    nodes, tensors, last = [], [], "x"
    for k in range(6):
        tensors += [normal(f"a{k}", 32, 32), normal(f"b{k}", 32, 32), normal(f"c{k}", 32)]
        nodes += [
            node("MatMul", f"{last} a{k}", f"p{k}"),
            node("MatMul", f"{last} b{k}", f"q{k}"),
            node("Sigmoid", f"q{k}", f"s{k}"),
            node("Mul", f"p{k} s{k}", f"m{k}"),
            node("Add", f"m{k} c{k}", f"t{k}"),
            node("Softmax", f"t{k}", f"u{k}", axis=-1),
            node("Add", f"{last} u{k}", f"x{k}"),
        ]
        last = f"x{k}"
    shape = ["batch", "sequence", 32]
    nodes.append(node("Relu", last, "y"))
    given = model(nodes, [value("x", shape)], [value("y", shape)], tensors)
    by_blocks, whole = both_ways(given, cost="analytic", seconds=300.0)
    assert by_blocks.blocks
    assert set(by_blocks.dynamic.kept) == {"batch", "sequence"}
    assert not any(c.why for c in by_blocks.dynamic.checked)
    assert by_blocks.certificate.passed
    assert by_blocks.cost_after == pytest.approx(whole.cost_after, rel=1e-9)
    assert by_blocks.cost_after < by_blocks.cost_before


@cache
def without_a_limit():
    return workbench.optimize(network(4), certify=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [0.99, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.75, 0.5, 0.33))]
)
def test_a_union_keeps_the_limit_or_is_not_used(part):
    full = without_a_limit()
    limit = int(full.e_nodes * part)
    result = workbench.optimize(network(4), certify=False, e_nodes=limit)
    assert full.blocks
    assert result.e_nodes <= limit


def test_a_wrong_rule_is_blamed():
    wrong = parse_rules("forgets: relu(add(x, y)) => add(x, y)\nturns: add(x, y) => add(y, x)")
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    for _ in range(6):
        x = b.op("relu", b.op("add", b.op("matmul", x, b.weight((8, 8))), b.weight((8,))))
        x = b.op("tanh", b.op("mul", b.op("sigmoid", x), x))
        x = b.op("softmax", b.op("sin", x), axis=-1)
    result = workbench.optimize(b.graph({"y": x}), rules=wrong)
    assert result.blocks
    assert result.graph is result.original
    assert result.offending == ("forgets",)


@pytest.mark.parametrize(("stage", "times"), [("saturation", 3), ("extraction", 2)])
def test_ctrl_c_leaves_a_certified_graph(stage, times):
    seen = []

    def progress(name, detail=None):
        seen.append(name)
        if name == stage and seen.count(stage) == times:
            raise KeyboardInterrupt

    result = workbench.optimize(network(6), progress=progress)
    assert seen.count(stage) >= times
    assert result.stop_reason is StopReason.INTERRUPTED
    assert result.certificate.passed
    assert result.cost_after <= result.cost_before


@pytest.mark.slow
def test_the_result_says_so():
    result = workbench.optimize(network(6), certify=False)
    assert f"  blocks: {result.blocks}" in repr(result)
    assert result.summary()["blocks"] == result.blocks
    assert "rewrites that span more" in result.blocks
