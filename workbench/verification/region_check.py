"""Compare the two graphs of a region on random values, in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from workbench.graph import Graph, GraphBuilder, evaluate
from workbench.graph.evaluate import Memo, OpaqueRunner
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.ops.types import FLOAT_DTYPES
from workbench.verification.inputs import Range, random_inputs
from workbench.verification.regions import Region

if TYPE_CHECKING:
    from workbench.verification.ranges import RangeFault

#: A region of more work than this is compared on images of smaller height and width, if its attributes allow.
LARGE: Final = 2e7
#: What height and width are divided by, the most first; they stay at least this large.
_SHRINK: Final = (16, 8, 4, 2)
_LEAST: Final = 8
#: What values seen are multiplied by to find overflow and loss in 16-bit floats.
_MAGNITUDES: Final = (1.0, 150.0, 1.0 / 150.0)


@dataclass(frozen=True, slots=True)
class Difference:
    """A disagreement: the output of a region, the draw, the entry and both values."""

    output: int
    draw: int
    index: tuple[int, ...]
    expected: float
    found: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The largest relative error that comparing a region found, and where it is if it is too large."""

    error: float
    difference: Difference | None = None


def compare(
    region: Region,
    *,
    draws: int,
    seed: int,
    tolerance: float,
    ranges: Mapping[str, Range] | None = None,
    opaque: OpaqueRunner | None = None,
    memo: Memo | None = None,
) -> Outcome:
    """Compare both graphs of a region on ``draws`` random inputs; stop at the first disagreement.

    ``memo`` holds what weights alone make of it, for other regions with the same weights.
    """
    memo = {} if memo is None else memo
    region = smaller(region) or region
    worst = 0.0
    for draw in range(draws):
        inputs = random_inputs(region.before, seed, draw, ranges)
        expected, found = (
            evaluate(graph, inputs, precise=True, opaque=opaque, memo=memo)
            for graph in (region.before, region.after)
        )
        for k, name in enumerate(expected):
            error, where = difference(expected[name], found[name])
            worst = max(worst, error)
            if error > tolerance:
                at = tuple(int(i) for i in where)
                return Outcome(
                    worst, Difference(k, draw, at, float(expected[name][at]), float(found[name][at]))
                )
    return Outcome(worst)


def short_fault(region: Region, *, seed: int, ranges: Mapping[str, Range] | None = None) -> RangeFault | None:
    """Return how a region of 16-bit floats overflows or loses accuracy, None if it does neither.

    It is computed on values of the ranges that were seen, and on larger and smaller ones; the original
    decides which of them are within reach.
    """
    from workbench.verification.ranges import range_fault, short_dtype

    if short_dtype(region.before) is None and short_dtype(region.after) is None:
        return None
    region = smaller(region) or region
    boundary = []
    for factor in _MAGNITUDES:
        inputs = random_inputs(region.before, seed, 0, ranges)
        boundary.append({k: v * v.dtype.type(factor) if _is_float(v) else v for k, v in inputs.items()})
    return range_fault(region.before, region.after, boundary)


def _is_float(array: np.ndarray) -> bool:
    return str(array.dtype) in FLOAT_DTYPES


def difference(expected: np.ndarray, found: np.ndarray) -> tuple[float, Sequence[int]]:
    """Return the largest relative difference of two arrays and where it is.

    Relative to the largest finite entry of ``expected``. Entries that are not finite must agree.
    """
    if expected.shape != found.shape:
        return math.inf, (0,) * expected.ndim
    if not np.issubdtype(expected.dtype, np.floating):
        wrong = np.argwhere(expected != found)
        return (math.inf, wrong[0].tolist()) if len(wrong) else (0.0, ())
    finite = np.isfinite(expected)
    strange = (finite != np.isfinite(found)) | (
        ~finite & ~((expected == found) | (np.isnan(expected) & np.isnan(found)))
    )
    if strange.any():
        return math.inf, np.argwhere(strange)[0].tolist()
    if not finite.any():
        return 0.0, ()
    gap = np.where(finite, np.abs(np.where(finite, expected, 0) - np.where(finite, found, 0)), 0.0)
    scale = float(np.abs(expected[finite]).max())
    where = np.unravel_index(int(gap.argmax()), gap.shape)
    largest = float(gap[where])
    return (largest / scale if scale > 0 else largest), [int(i) for i in where]


def work(graph: Graph) -> float:
    """Return the floating-point operations of a graph, what depends on weights alone included."""
    total = 0.0
    for node in graph.nodes:
        if isinstance(node.type, TensorType) and node.op not in ("input", "weight", "opaque", "project"):
            kinds = [graph.nodes[i].tensor for i in node.inputs]
            total += spec_of(node.op).flops(node.named_attrs(), kinds, node.type)
    return total


def smaller(region: Region) -> Region | None:
    """Return a region of much work on images of smaller height and width, None if it stays as it is.

    The operators and their attributes are the same, and both graphs are typed anew, so that it is another
    instance of the same rewrite. The whole models are compared at their own sizes besides.
    """
    if work(region.before) + work(region.after) <= LARGE:
        return None
    for factor in _SHRINK:
        try:
            before, after = (_shrunk(graph, factor) for graph in (region.before, region.after))
        except TypeMismatch:
            continue
        if before.output_types == after.output_types:
            return replace(region, before=before, after=after)
    return None


def _shrunk(graph: Graph, factor: int) -> Graph:
    builder = GraphBuilder(graph.name)
    builder.weights, builder.opaques = dict(graph.weights), dict(graph.opaques)
    place: list[int] = []
    for node in graph.nodes:
        if node.op == "input":
            shape = node.tensor.shape
            if len(shape) == 4:
                shape = (*shape[:2], *(max(min(d, _LEAST), -(-d // factor)) for d in shape[2:]))
            place.append(builder.input(node.attr("name"), shape, node.tensor.dtype))
        else:
            place.append(builder.apply(node.op, [place[j] for j in node.inputs], node.attrs))
    return builder.graph([(name, place[i]) for name, i in graph.outputs])
