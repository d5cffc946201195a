"""Random inputs that fit a graph: the same for the same seed and draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workbench.graph import Graph
from workbench.ops import TensorType
from workbench.ops.types import FLOAT_DTYPES

#: Operators that pass an index on as it is.
_PASSING = frozenset({"reshape", "slice", "transpose", "expand", "identity", "cast", "concat"})


@dataclass(frozen=True, slots=True)
class Range:
    """What a value of a network was seen to be: its mean, deviation and bounds."""

    mean: float
    deviation: float
    least: float
    most: float

    @classmethod
    def of(cls, array: np.ndarray) -> Range | None:
        """Return the range of an array's finite entries, None if it has none."""
        data = np.asarray(array, dtype=np.float64)
        data = data[np.isfinite(data)]
        if not data.size:
            return None
        return cls(float(data.mean()), float(data.std()), float(data.min()), float(data.max()))


def random_inputs(
    graph: Graph, seed: int, draw: int, ranges: Mapping[str, Range] | None = None
) -> dict[str, np.ndarray]:
    """Return inputs that fit a graph, by name.

    Floats are normal in the first draw (within the input's range, if ``ranges`` has one), in [0, 1) in the
    second, then normal of a larger scale with ties at zero. Integers used as indices stay in range; other
    integers are small.
    """
    limits = index_limits(graph)
    inputs: dict[str, np.ndarray] = {}
    for k, i in enumerate(graph.inputs):
        kind = graph.nodes[i].tensor
        rng = np.random.default_rng([seed, draw, k])
        name = graph.nodes[i].attr("name")
        data: np.ndarray
        if kind.dtype in FLOAT_DTYPES:
            data = _floats(rng, kind, draw, (ranges or {}).get(name))
        elif kind.dtype == "bool":
            data = rng.integers(0, 2, size=kind.shape)
        elif kind.dtype == "string":
            data = rng.integers(0, 2, size=kind.shape).astype(str).astype(object)
        else:
            data = rng.integers(0, limits.get(i, 2), size=kind.shape)
        inputs[name] = np.asarray(data).astype(kind.numpy_dtype())
    return inputs


def gentle_inputs(graph: Graph, seed: int, attempt: int) -> dict[str, np.ndarray]:
    """Return inputs for a model that fails on others: integers that divide, index and count safely.

    The attempts take integers of 1 alone, of 0 alone, then from 1 to 3 within the limits of indices.
    """
    limits = index_limits(graph)
    inputs = random_inputs(graph, seed, 1)
    for k, i in enumerate(graph.inputs):
        kind = graph.nodes[i].tensor
        if kind.dtype in FLOAT_DTYPES or kind.dtype in ("bool", "string"):
            continue
        most = limits.get(i)
        rng = np.random.default_rng([seed, attempt, k])
        low, high = ((1, 2), (0, 1), (1, 4))[attempt % 3]
        choice = rng.integers(low, high, size=kind.shape)
        if most is not None:
            choice = np.minimum(choice, most - 1)
        inputs[graph.nodes[i].attr("name")] = choice.astype(kind.numpy_dtype())
    return inputs


def _floats(rng: np.random.Generator, kind: TensorType, draw: int, seen: Range | None) -> np.ndarray:
    if draw % 3 == 1:
        return np.asarray(rng.random(kind.shape))
    data = np.asarray(rng.standard_normal(kind.shape))
    if draw % 3 == 2:
        return np.where(rng.random(kind.shape) < 0.1, 0.0, 3.0 * data)
    if seen is not None:
        return np.clip(seen.mean + seen.deviation * data, seen.least, seen.most)
    return data


def index_limits(graph: Graph) -> dict[int, int]:
    """Return for nodes that index a tensor the extent that they must stay below."""
    limits: dict[int, int] = {}
    for node in graph.nodes:
        if node.op == "gather":
            extent = graph.nodes[node.inputs[0]].tensor.shape[node.attr("axis")]
            limits[node.inputs[1]] = min(limits.get(node.inputs[1], extent), extent)
    # Casts, reshapes and slices of an index are still that index.
    for j in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[j]
        if j in limits and node.op in _PASSING:
            for source in node.inputs:
                limits[source] = min(limits.get(source, limits[j]), limits[j])
    return limits
