"""The random graphs that other tests draw: every operator occurs, and every graph can be evaluated."""

from collections import Counter

import numpy as np
import pytest

from tests.random_graphs import random_graph
from workbench.certification.inputs import random_inputs
from workbench.graph import evaluate


@pytest.mark.slow
def test_three_hundred_graphs_cover_what_they_promise():
    seen = Counter()
    for seed in range(300):
        graph = random_graph(seed)
        results = evaluate(graph, random_inputs(graph, seed, 0), precise=True)
        assert all(np.isfinite(r).all() for r in results.values()), seed
        users = graph.readers
        for i, node in enumerate(graph.nodes):
            seen[node.op] += 1
            if node.op == "conv2d":
                groups, channels = node.attr("groups"), graph.nodes[node.inputs[0]].type.shape[1]
                seen["grouped"] += 1 < groups < channels
                seen["depthwise"] += 1 < groups == channels
                seen["uneven pads"] += len(set(node.attr("pads"))) > 1
                seen["odd image"] += graph.nodes[node.inputs[0]].type.shape[2] % 2
                seen["even image"] += 1 - graph.nodes[node.inputs[0]].type.shape[2] % 2
            if node.op in ("add", "mul"):
                kinds = {graph.nodes[j].type.shape for j in node.inputs}
                seen["broadcasting"] += len(kinds) > 1
            if node.op == "weight":
                seen["shared weight"] += len(users[i]) > 1
        seen["several outputs"] += len(graph.outputs) > 1
        seen["output read by others"] += any(users[i] for i in graph.output_ids)
        seen["constant part"] += any(
            c and n.op != "weight" for c, n in zip(graph.constant(), graph.nodes, strict=True)
        )
    wanted = [
        "grouped", "depthwise", "uneven pads", "odd image", "even image", "broadcasting", "shared weight",
        "several outputs", "output read by others", "constant part", "batchnorm", "softmax", "layernorm",
        "avgpool", "maxpool", "reduce_mean", "slice", "concat", "transpose", "reshape", "matmul",
    ]  # fmt: skip
    assert {w: seen[w] for w in wanted if seen[w] < 10} == {}


def test_same_seed_same_graph():
    assert random_graph(7).structural_hash() == random_graph(7).structural_hash()
    assert random_graph(7).structural_hash() != random_graph(8).structural_hash()
