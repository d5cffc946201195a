"""Constants that are the same numbers twice, side by side, read as such: tables of rotary positions are."""

from __future__ import annotations

from typing import Final

import numpy as np

from workbench.graph import Graph, GraphBuilder, Node
from workbench.graph.evaluate import Constants
from workbench.ops.types import FLOAT_DTYPES, TensorType

#: Larger constants are not looked at.
_LARGEST: Final = 1 << 22


def doubled(graph: Graph) -> Graph:
    """Return the graph with two copies of its left half in place of every constant whose halves are equal.

    The halves are those of the last axis. Only what the rest of the graph reads is replaced. A constant of
    one row or of one number everywhere stays as it is: its halves may be equal for no reason.
    """
    constant = graph.constant()
    read = {j for i, node in enumerate(graph.nodes) if not constant[i] for j in node.inputs if constant[j]}
    made = _from_copies(graph, constant)
    values = Constants(graph)
    asked = [i for i in sorted(read) if made[i] and graph.nodes[i].op != "concat" and _fits(graph, i)]
    found = {i for i in asked if _twice(values, i)}
    if not found:
        return graph
    copies: dict[int, int] = {}

    def made_twice(builder: GraphBuilder, i: int, node: Node, inputs: list[int]) -> int:
        operands = inputs if constant[i] else [copies.get(j, j) for j in inputs]
        value = builder.apply(node.op, operands, node.attrs)
        if i in found:
            half = builder.op("slice", value, axis=-1, start=0, stop=node.tensor.shape[-1] // 2)
            copies[value] = builder.op("concat", half, half, axis=-1)
        return value

    return graph.copied(
        lambda b, i, node, inputs: None if node.op == "input" else made_twice(b, i, node, inputs)
    )


def _from_copies(graph: Graph, constant: list[bool]) -> list[bool]:
    """Return for every node whether it is a constant that comes from a tensor written twice."""
    made: list[bool] = []
    for i, node in enumerate(graph.nodes):
        twice = node.op == "concat" and len(node.inputs) == 2 and len(set(node.inputs)) == 1
        twice = twice or (node.op == "weight" and _begins_twice(graph, i))
        made.append(constant[i] and (twice or any(made[j] for j in node.inputs)))
    return made


def _begins_twice(graph: Graph, i: int) -> bool:
    """Return whether a weight may be the same twice: most differ in their first row already."""
    data = graph.weights[str(graph.nodes[i].attrs[0])].data
    return data is not None and _fits(graph, i) and _equal_halves(data[(0,) * (data.ndim - 1)])


def _fits(graph: Graph, i: int) -> bool:
    kind = graph.nodes[i].type
    if not isinstance(kind, TensorType) or kind.dtype not in FLOAT_DTYPES or kind.elements > _LARGEST:
        return False
    return kind.rank >= 2 and kind.shape[-2] > 1 and kind.shape[-1] >= 4 and kind.shape[-1] % 2 == 0


def _twice(values: Constants, i: int) -> bool:
    try:
        value = values.precise(i)
    except IndexError:  # a place that an axis does not have: running the model says so
        return False
    return _equal_halves(value) and not bool((value == value.flat[0]).all())


def _equal_halves(value: np.ndarray) -> bool:
    left, right = np.split(value, 2, axis=-1)
    return left.tobytes() == right.tobytes()
