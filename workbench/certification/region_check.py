"""Comparison of the two graphs of a region on random values, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from workbench.certification import half_precision
from workbench.certification.certificate import Evidence
from workbench.certification.inputs import Range, random_inputs
from workbench.certification.regions import Region
from workbench.certification.tolerance import beyond, difference, most_explained, movement
from workbench.graph import Builder, Graph, Node, evaluate
from workbench.graph.evaluate import Memo, OpaqueRunner
from workbench.graph.weights import Weight
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.ops.types import FLOAT_DTYPES

#: A region with more operations than this is compared at smaller extents, if its attributes allow.
LARGE: Final = 1e6
#: Divisors of height, width and features, the largest first; height and width stay at least ``_LEAST``.
_SHRINK: Final = (16, 8, 4, 2)
_LEAST: Final = 8
#: Extents of at least this size count as features and are divided together.
_MANY: Final = 256
#: Factors applied to observed values to find overflow and loss of accuracy in 16-bit floats.
_MAGNITUDES: Final = (1.0, 150.0, 1.0 / 150.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The largest error in a region, its place if it is too large, and if it leaves out what ``numbers`` explain."""

    error: float
    difference: Evidence | None = None
    numbers: bool = False


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
    """Compare both graphs of a region on random inputs; stop at the first disagreement.

    Args:
        region: The two graphs.
        draws: The number of random inputs.
        seed: The seed of the inputs.
        tolerance: The largest allowed relative error.
        ranges: Observed distributions of the region's inputs, by name.
        opaque: Runs opaque operators.
        memo: A cache of values that depend only on weights, shared by regions with the same weights.
    """
    given, small = region, smaller(region)
    # The memo identifies weights by object identity; the weights of a smaller region are freed with it.
    region, memo = (region, {} if memo is None else memo) if small is None else (small, {})
    worst, numbers = 0.0, False
    for draw in range(draws):
        inputs = random_inputs(region.before, seed, draw, ranges)
        evaluated = partial(evaluate, inputs=inputs, precise=True, opaque=opaque, memo=memo)
        expected, found = (evaluated(graph) for graph in (region.before, region.after))
        explained: dict[str, np.ndarray] | None = None
        for k, name in enumerate(expected):
            error, where = difference(expected[name], found[name])
            if tolerance < error <= most_explained(region.before):
                explained = movement(region.before, evaluated) if explained is None else explained
                rest = beyond(expected[name], found[name], explained[name])
                without, at_most = difference(expected[name], rest)
                if without < error:
                    error, where, numbers = without, at_most, True
            worst = max(worst, error)
            if error > tolerance:
                at = tuple(int(i) for i in where)
                place = given.outputs[k], draw, at, float(expected[name][at]), float(found[name][at])
                seen = Evidence(*place, "float64", given.labels[k], str(given), given.rules)
                return Outcome(worst, seen, numbers)
    return Outcome(worst, numbers=numbers)


def short_fault(
    region: Region, *, seed: int, ranges: Mapping[str, Range] | None = None
) -> half_precision.RangeFault | None:
    """Return how a region of 16-bit floats overflows or loses accuracy, or None if it does neither.

    The region is computed on values in the observed ranges and on larger and smaller ones; the behaviour of
    the original decides which of them are realistic.
    """
    before, after = (half_precision.short_dtype(graph) for graph in (region.before, region.after))
    if before is None and after is None:
        return None
    if region.before.opaques or region.after.opaques:
        return None  # the rounding of an opaque operator is unknown
    region = smaller(region) or region
    inputs = random_inputs(region.before, seed, 0, ranges)
    boundary = [
        {k: v * v.dtype.type(factor) if str(v.dtype) in FLOAT_DTYPES else v for k, v in inputs.items()}
        for factor in _MAGNITUDES
    ]
    return half_precision.range_fault(region.before, region.after, boundary)


def work(graph: Graph) -> float:
    """Return the number of floating-point operations of a graph, including those on weights alone."""
    return sum(
        spec_of(node.op).flops(node.named_attrs(), [graph.nodes[i].tensor for i in node.inputs], node.type)
        for node in graph.nodes
        if isinstance(node.type, TensorType) and not spec_of(node.op).leaf
    )


def smaller(region: Region) -> Region | None:
    """Return a region of much work at smaller extents, or None if it stays as it is.

    The height and width of images are reduced first, then, if much work is left, the large channel or feature
    extents of values and weights. The operators are the same, slices take the same fraction of their axis,
    and both graphs are typed anew, so the result is another instance of the same rewrite. The whole models
    are compared at their own sizes in addition.
    """
    found = region
    for shrink in (_images, _features):
        if work(found.before) + work(found.after) > LARGE:
            tried = (_retyped(found, partial(shrink, factor=factor)) for factor in _SHRINK)
            found = next((less for less in tried if less is not None), found)
    return None if found is region else found


def _images(kind: TensorType, stored: bool, factor: int) -> tuple[int, ...]:
    """Return the shape of a value, with height and width divided if it is an image and not a weight."""
    shape = kind.shape
    if stored or len(shape) != 4:
        return shape
    return (*shape[:2], *(max(min(d, _LEAST), -(-d // factor)) for d in shape[2:]))


def _features(kind: TensorType, stored: bool, factor: int) -> tuple[int, ...]:
    """Return a shape with all large extents divided, for values and weights alike."""
    return tuple(d // factor if d >= _MANY and d % factor == 0 else d for d in kind.shape)


def _retyped(region: Region, shape: Callable[[TensorType, bool], tuple[int, ...]]) -> Region | None:
    try:
        before, after = (_resized(graph, shape) for graph in (region.before, region.after))
    except TypeMismatch:
        return None
    same = before.output_types == after.output_types and before.input_types == after.input_types
    less = work(before) + work(after) < work(region.before) + work(region.after)
    return replace(region, before=before, after=after) if same and less else None


def _resized(graph: Graph, shape: Callable[[TensorType, bool], tuple[int, ...]]) -> Graph:
    """Return a graph with inputs and weights of other shapes; weights keep their first entries."""

    def resized(builder: Builder, i: int, node: Node, inputs: list[int]) -> int | None:
        if node.op == "input":
            return builder.input(node.attr("name"), shape(node.tensor, False), node.tensor.dtype)
        if node.op == "weight":
            weight = graph.weights[node.attr("name")]
            kept = shape(weight.type, True)
            if kept != weight.type.shape:
                builder.weights[node.attr("name")] = Weight.of(weight.value()[tuple(slice(d) for d in kept)])
            return None
        if spec_of(node.op).places is not None:
            _check_places(graph, node, builder.type(inputs[0]))
        if node.op == "slice":
            part = _part(node, graph.nodes[node.inputs[0]].tensor, builder.type(inputs[0]))
            return builder.apply("slice", inputs, part)
        return None

    return graph.copied(resized)


def _check_places(graph: Graph, node: Node, is_: TensorType) -> None:
    """Raise TypeMismatch if an axis of which stored or computed places are read has another extent."""
    at, axis = spec_of(node.op).places, node.named_attrs()["axis"]
    assert at is not None
    was = graph.nodes[node.inputs[0]].tensor
    if graph.nodes[node.inputs[at]].op != "input" and was.shape[axis] != is_.shape[axis]:
        extents = f"{was.shape[axis]}, not {is_.shape[axis]}"
        raise TypeMismatch(f"the places that {node.op} reads are places of {extents}")


def _part(node: Node, was: TensorType, is_: TensorType) -> tuple[Any, ...]:
    """Return the attributes of a slice that takes the same fraction of an axis with a changed extent."""
    attrs = node.named_attrs()
    old, new = (kind.shape[attrs["axis"]] for kind in (was, is_))
    if old != new:
        for bound in ("start", "stop"):
            attrs[bound], rest = divmod(attrs[bound] * new, old)
            if rest:
                raise TypeMismatch(f"the part {bound} does not divide as its axis does")
    return spec_of("slice").pack(attrs)
