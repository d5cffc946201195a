"""Rounded numbers of a model: the change of a value if they change by as much as they were rounded.

A model stores sqrt(2) as 1.41421354. An operator that means sqrt(2) itself is as good a reading of it: the
two differ by the rounding of the number, and not by an error of a rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from workbench.graph import Graph, GraphBuilder, Node
from workbench.graph.weights import Weight

#: Largest part of a value that rounded numbers may explain, by their element type: eight units in the last
#: place.
MOST: Final = {"float32": 1e-6, "float16": 8e-3}
#: Largest number of rounded numbers of one region that are moved.
MANY: Final = 24

#: A number below this, with no finer fraction than one part in as many, is not the rounding of another one.
PLAIN: Final = 2.0**10

Evaluated = Callable[[Graph], Mapping[str, np.ndarray]]


def most_explained(graph: Graph) -> float:
    """Return the largest part of a value that a graph's rounded numbers may explain; 0 if it has none."""
    return max((MOST[weight.type.dtype] for weight in _numbers(graph).values()), default=0.0)


def movement(graph: Graph, evaluated: Evaluated) -> dict[str, np.ndarray]:
    """Return by how much each output moves if the graph's numbers move by half a unit in their last place.

    A number is a weight whose elements are all the same. ``evaluated`` computes a graph's outputs in float64.
    """
    stays = evaluated(graph)
    total = {name: np.zeros(np.shape(value)) for name, value in stays.items()}
    for name, weight in list(_numbers(graph).items())[:MANY]:
        value = weight.value().reshape(-1)[:1]
        half = float(abs(np.spacing(value[0]))) / 2
        # So small a step moves a value by as much in either direction.
        end = evaluated(_with(graph, name, float(value[0]) + half))
        for output, value in stays.items():
            if value.dtype.kind == "f":
                moved = np.abs(end[output] - value)
                total[output] += np.nan_to_num(moved, nan=0.0, posinf=0.0, neginf=0.0)
    most = most_explained(graph)
    for output, value in stays.items():
        largest = np.abs(value[np.isfinite(value)]).max(initial=0.0)
        total[output] = np.minimum(total[output], most * largest)
    return total


def beyond(expected: np.ndarray, found: np.ndarray, explained: np.ndarray) -> np.ndarray:
    """Return ``found``, moved towards ``expected`` by the explained difference."""
    with np.errstate(invalid="ignore"):
        gap = found - expected
        rest = np.sign(gap) * np.maximum(np.abs(gap) - explained, 0)
    return np.where(np.isfinite(rest), expected + rest, found)


def _numbers(graph: Graph) -> dict[str, Weight]:
    """Return the weights that are one number which its element type may have rounded."""
    return {
        name: weight
        for name, weight in graph.weights.items()
        if weight.type.dtype in MOST and _may_be_rounded(weight.number())
    }


def _may_be_rounded(number: float | None) -> bool:
    """Return whether a number may be another one that was rounded: 1, 8 and 0.5 are meant exactly."""
    return number is not None and not (abs(number) < PLAIN and (number * PLAIN).is_integer())


def _with(graph: Graph, name: str, value: float) -> Graph:
    """Return a graph in which one weight is a number, which need not be one of its element type."""

    def number(builder: GraphBuilder, i: int, node: Node, inputs: list[int]) -> int | None:
        if node.op != "weight" or node.attr("name") != name:
            return None
        scalar = builder.op("scalar", value=value, dtype=node.tensor.dtype)
        shape = node.tensor.shape
        return builder.op("expand", scalar, shape=shape) if shape else scalar

    return graph.copied(number)
