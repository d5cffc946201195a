"""Random inputs that fit a graph: equal seeds and draws give equal inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.graph import Graph
from workbench.ops import TensorType, Trait, spec_of, with_trait
from workbench.ops.types import FLOAT_DTYPES

#: Operators that pass all their operands' elements on, so that an index stays one.
_PASSING: Final = {op for op in with_trait(Trait.SELECTS) | {"cast"} if spec_of(op).places is None}


@dataclass(frozen=True, slots=True)
class Range:
    """The observed distribution of a value of a network: its mean, standard deviation and bounds."""

    mean: float
    deviation: float
    least: float
    most: float

    @classmethod
    def of(cls, array: np.ndarray) -> Range | None:
        """Return the range of an array's finite entries, or None if it has none."""
        data = np.asarray(array, dtype=np.float64)
        data = data[np.isfinite(data)]
        if not data.size:
            return None
        return cls(float(data.mean()), float(data.std()), float(data.min()), float(data.max()))


def random_inputs(
    graph: Graph, seed: int, draw: int, ranges: Mapping[str, Range] | None = None
) -> dict[str, np.ndarray]:
    """Return random inputs that fit a graph, by name.

    Args:
        graph: The graph.
        seed: The seed.
        draw: The number of the draw, which also selects the distribution of floats: normal (with the mean,
            deviation and bounds of the input's entry in ``ranges``, if any), uniform in [0, 1), and normal
            with three times the deviation and a tenth of zeros, in turn.
        ranges: Observed distributions of inputs, by name.

    Returns:
        Inputs by name. Integers used as indices stay below the indexed extent; other integers are 0 or 1.
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
    """Return safe inputs for a model that fails on others: integers suited to divide, index and count.

    The attempts use integers that are all 1, all 0, then from 1 to 3; indices stay within their limits.
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
    """Return the extent that each node used as an index must stay below, by node number."""
    limits: dict[int, int] = {}
    for node in graph.nodes:
        at = spec_of(node.op).places
        if at is not None:
            extent = graph.nodes[node.inputs[0]].tensor.shape[node.attr("axis")]
            limits[node.inputs[at]] = min(limits.get(node.inputs[at], extent), extent)
    # Casts, reshapes and slices of an index are still that index.
    for j in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[j]
        if j in limits and node.op in _PASSING:
            for source in node.inputs:
                limits[source] = min(limits.get(source, limits[j]), limits[j])
    return limits
