"""The values of a graph that are one number everywhere, known before any input is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.graph.graph import Graph, Node
from workbench.graph.weights import Weight
from workbench.ops import TensorType, Trait, spec_of


def numbers_in(graph: Graph) -> dict[int, float]:
    """Return the nodes whose elements are all one number, each with the number.

    They are weights, the numbers of rules, and results of operators without axes on these.
    """
    found: dict[int, float] = {}
    for i, node in enumerate(graph.nodes):
        number = None
        if node.op == "weight":
            number = graph.weights[str(node.attrs[0])].number()
        elif Trait.NUMBER in spec_of(node.op).traits or _of_numbers(node, found):
            number = _computed(node, found)
        if number is not None:
            found[i] = number
    return found


def _of_numbers(node: Node, found: Mapping[int, float]) -> bool:
    scalar = isinstance(node.type, TensorType) and node.type.rank == 0
    return scalar and bool(node.inputs) and not node.attrs and all(j in found for j in node.inputs)


def _computed(node: Node, found: Mapping[int, float]) -> float | None:
    evaluate, dtype = spec_of(node.op).evaluate, node.tensor.numpy_dtype()
    if evaluate is None:
        return None
    operands = [np.asarray(found[j], dtype) for j in node.inputs]
    with np.errstate(all="ignore"):
        return Weight.of(np.asarray(evaluate(operands, node.named_attrs()), dtype)).number()
