"""What a part of a result needs of the operands: the rules against what the operators compute."""

import numpy as np
import pytest

from tests.ops.test_onnx_form import INSTANCES, inputs, instance
from workbench.ops import operators, spec_of
from workbench.ops.locality import Operand

CASES = [case for case in INSTANCES if case[2] and spec_of(case[0]).parts is not None]


def needed(graph, axis, k):
    """Return the axes, of more than one place, along which a part of an operand suffices for one place."""
    feeds = {name: x.astype(np.float64) for name, x in inputs(graph).items()}
    node = graph.nodes[graph.outputs[0][1]]
    operand = graph.nodes[node.inputs[k]].attr("name")
    read = np.zeros(feeds[operand].shape, dtype=bool)
    place = np.s_[..., 0] if axis == -1 else (..., 0, *[slice(None)] * (-1 - axis))
    spec = spec_of(node.op)
    order = [graph.nodes[i].attr("name") for i in node.inputs]

    def part(values):
        return spec.evaluate([values[n] for n in order], node.named_attrs())[place]

    before = part(feeds)
    for at in np.ndindex(read.shape):
        for step in (0.25, -3.0, 9.0):
            changed = feeds[operand].copy()
            changed[at] += step
            with np.errstate(all="ignore"):
                read[at] |= not np.array_equal(part(feeds | {operand: changed}), before, equal_nan=True)
    rank = read.ndim
    return {
        a
        for a in range(-rank, 0)
        if read.shape[a] > 1 and not read.any(axis=tuple(b for b in range(rank) if b != rank + a)).all()
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{case[1]}")
def test_a_part_needs_what_the_rule_says(case):
    op, _, shapes = case
    if any(isinstance(n, str) for shape in shapes for n in shape):
        pytest.skip("an operand of integers")
    graph = instance(*case)
    node = graph.nodes[graph.outputs[0][1]]
    kinds = [graph.nodes[i].type for i in node.inputs]
    for axis in range(-node.type.rank, 0):
        if node.type.shape[axis] == 1:
            continue
        for k, kind in enumerate(kinds):
            found = spec_of(op).parts(frozenset({axis}), Operand(k, kinds, node.type, node.named_attrs()))
            several = {a for a in found if kind.shape[a] > 1}
            if op == "reshape":  # the axes of a group are not told apart
                assert several >= needed(graph, axis, k), axis
            else:
                assert several == needed(graph, axis, k), (axis, k)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{case[1]}")
def test_the_whole_result_needs_whole_operands_unless_a_part_is_taken(case):
    graph = instance(*case)
    node = graph.nodes[graph.outputs[0][1]]
    kinds = [graph.nodes[i].type for i in node.inputs]
    for k in range(len(kinds)):
        found = spec_of(case[0]).parts(frozenset(), Operand(k, kinds, node.type, node.named_attrs()))
        assert found == (frozenset({node.attr("axis")}) if case[0] == "slice" else frozenset())


def test_the_operators_of_an_encoder_have_rules():
    have = {s.name for s in operators() if s.parts is not None}
    assert {
        "matmul",
        "softmax",
        "layernorm",
        "rmsnorm",
        "add",
        "gelu",
        "reshape",
        "transpose",
        "slice",
    } <= have
    assert "attention" not in have
