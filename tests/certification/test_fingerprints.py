"""Values of two graphs that look equal bound the regions of their comparison."""

import numpy as np

from workbench.certification import certify
from workbench.certification.inputs import random_inputs
from workbench.certification.regions import matched
from workbench.graph import GraphBuilder


def layers(*, fused, weight=0.5):
    b = GraphBuilder()
    value = b.input("x", (4, 8))
    for k in range(3):
        w = b.weight(data=np.random.default_rng(k).standard_normal((8, 8)).astype(np.float32), name=f"w{k}")
        scale = b.weight(data=np.float32(weight), name=f"s{k}")
        scaled = b.op("mul", w, scale) if fused else w
        value = b.op(
            "tanh", b.op("matmul", value, scaled) if fused else b.op("mul", b.op("matmul", value, w), scale)
        )
    return b.graph({"y": value})


def test_equal_values_have_equal_numbers():
    before, after = layers(fused=False), layers(fused=True)
    found = matched(before, after, random_inputs(before, 0, 0))
    shared = (set(found.original) & set(found.optimised)) - {-1}
    assert {before.nodes[found.original.index(n)].op for n in shared} == {"input", "mul", "tanh"}


def test_a_multiple_is_another_value():
    before, after = layers(fused=False), layers(fused=False, weight=1.5)
    found = matched(before, after, random_inputs(before, 0, 0))
    tanh = [
        [n for n, node in zip(numbers, g.nodes, strict=True) if node.op == "tanh"]
        for numbers, g in ((found.original, before), (found.optimised, after))
    ]
    assert not set(tanh[0]) & set(tanh[1])


def test_graphs_that_nothing_relates_are_compared_layer_by_layer():
    certificate = certify(layers(fused=False), layers(fused=True))
    assert certificate.passed
    assert (certificate.regions, certificate.distinct) == (3, 1)
    wrong = certify(layers(fused=False), layers(fused=True, weight=0.501))
    assert not wrong.passed
    assert wrong.evidence.region


def test_a_repeated_element_says_nothing():
    b = GraphBuilder()
    x = b.input("x", (4,))
    zero = b.graph({"y": b.op("sub", x, x)})
    found = matched(zero, zero, random_inputs(zero, 0, 0))
    assert found.original[zero.outputs[0][1]] == -1
