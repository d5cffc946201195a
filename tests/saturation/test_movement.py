"""The laws of movement in a saturation: they come before merges, and only if something demands them."""

import numpy as np

from workbench.graph import GraphBuilder, evaluate
from workbench.rules import parse_rule, rule_set
from workbench.run.trace import StepKind, StopReason
from workbench.saturation import Limits, Saturation


def projections(read):
    """Return two products of one operand, added and bent; of the result one row is read, or all."""
    b = GraphBuilder()
    x = b.input("x", (1, 6, 4))
    y = b.op("add", b.op("gelu", b.op("matmul", x, b.weight((4, 5)))), b.op("matmul", x, b.weight((4, 5))))
    return b.graph({"y": b.op("slice", y, axis=-2, start=2, stop=3) if read else y})


def matched(saturation):
    return {r.rule for step in saturation.trace.steps for r in step.rules if r.matches}


def test_a_slice_moves_down_to_the_input():
    saturation = Saturation(projections(True), rule_set("default"))
    assert saturation.run() is StopReason.SATURATED
    assert {"part-of-both-add", "part-of-gelu", "rows-of-product"} <= matched(saturation)


def test_without_a_slice_nothing_moves_and_operators_merge():
    saturation = Saturation(projections(False), rule_set("default"))
    saturation.run()
    assert "merge-matmuls" in matched(saturation)
    assert not {"part-of-both-add", "rows-of-product", "columns-of-product"} & matched(saturation)


def test_after_a_movement_operators_merge_among_the_chosen_ones():
    saturation = Saturation(projections(True), rule_set("default"))
    saturation.run()
    assert "merge-matmuls" not in matched(saturation)
    assert saturation.merge_among(range(saturation.e_classes))
    assert any(s.kind is StepKind.MERGE for s in saturation.trace.steps)
    moves = [r.rule for s in saturation.trace.steps if s.kind is StepKind.MERGE for r in s.rules]
    assert "merge-matmuls" in moves


def test_shapes_axes_and_permutations_in_a_law():
    laws = [
        "part: slice[axis=a, start=i, stop=j](transpose[perm=p](x)) => "
        "transpose[perm=p](slice[axis=p[a], start=i, stop=j](x)) where i < dim(x, -1)",
        "cut: reshape[shape=(n, h, d)](relu(x)) => relu(reshape[shape=(n, h, d)](x)) where d = 3, n < h",
        "none: reshape[shape=(n, h, d)](relu(x)) => relu(neg(neg(reshape[shape=(n, h, d)](x)))) where h < n",
    ]
    b = GraphBuilder()
    x = b.op("reshape", b.op("relu", b.input("x", (24, 1))), shape=(2, 4, 3))
    y = b.op("slice", b.op("transpose", x, perm=(2, 0, 1)), axis=-3, start=1, stop=3)
    graph = b.graph({"y": y})
    saturation = Saturation(graph, [r for law in laws for r in parse_rule(law)], Limits(iterations=4))
    saturation.run()
    assert matched(saturation) == {"part", "cut"}
    egraph = saturation.egraph()
    made = {egraph.rules[int(r)] for r in egraph.birth_rule if r >= 0}
    assert made == {"part", "cut"}
    value = np.arange(24, dtype=np.float32).reshape(24, 1)
    assert next(iter(evaluate(graph, {"x": value}).values())).shape == (2, 2, 4)
