"""Tensat's own rules from Tensat's start graphs give Tensat's own e-graphs, at k_multi = 2."""

from collections import Counter

import pytest

from workbench.benchmarks import benchmark
from workbench.rules.tensat_file import tensat_rules
from workbench.saturation import Limits, Saturation
from workbench.trace import StopReason


def saturated(name, folder):
    rules = list(tensat_rules(folder / "tensat"))
    limits = Limits(e_nodes=60_000, seconds=120, iterations=20, k_multi=2, match_limit=10**9)
    with Saturation(benchmark(name), rules, limits) as run:
        assert run.run() is StopReason.SATURATED
        return run.egraph()


def tensats(egraph):
    """Count as Tensat does: a split is an e-node of its own, and outputs are chained by noops.

    Return its e-nodes and e-classes, and the splits. An enlarged kernel is told apart by the kernel
    whose size it takes.
    """
    slices = [
        (int(egraph.operands(i)[0]), *egraph.attrs[i]) for i, op in enumerate(egraph.ops) if op == "slice"
    ]
    ends = {(x, axis, stop) for x, axis, start, stop, _ in slices if start == 0}
    starts = {(x, axis, start) for x, axis, start, _, _ in slices if start > 0}
    assert ends == starts
    assert len(slices) == 2 * len(ends)
    enlarged = {int(c) for op, c in zip(egraph.ops, egraph.eclass, strict=True) if op == "enlarge"}
    references = {
        tuple(egraph.operands(i))
        for i, op in enumerate(egraph.ops)
        if op == "concat" and int(egraph.operands(i)[0]) in enlarged
    }
    more = len(ends) + len(egraph.roots) - 1
    kernels = len(references) - len(enlarged)
    return len(egraph) + more + kernels, egraph.n_classes + more, len(ends)


@pytest.mark.shared
def test_bert(shared_data):
    egraph = saturated("bert", shared_data)
    assert tensats(egraph) == (20_205, 7_276, 1445)
    count = Counter(egraph.ops)
    assert (count["matmul"], count["concat"]) == (14_382, 1382)


@pytest.mark.shared
def test_resnet50(shared_data):
    egraph = saturated("resnet50", shared_data)
    assert tensats(egraph)[0] == 4293
    count = Counter(egraph.ops)
    assert (count["relu"], count["concat"], count["conv2d"], count["add"]) == (812, 834, 64, 16)


@pytest.mark.shared
def test_vgg(shared_data):
    egraph = saturated("vgg19", shared_data)
    # Tensat's file has four concats more: which of two orders a symmetric pair is joined in.
    assert tensats(egraph)[0] == 2695
    count = Counter(egraph.ops)
    assert (count["conv2d"], count["relu"], count["merge_gconv"], count["concat"]) == (374, 384, 75, 692)
