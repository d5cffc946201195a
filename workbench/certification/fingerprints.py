"""Matching of values of two graphs that are equal on random inputs, for graphs that no e-graph relates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from workbench.certification.regions import Correspondence
from workbench.graph import Graph
from workbench.graph.evaluate import OpaqueRunner, values

#: Sums are compared to this many digits; in float64 equal values agree to more.
_DIGITS: Final = 7


def matched(
    original: Graph, optimised: Graph, inputs: Mapping[str, np.ndarray], opaque: OpaqueRunner | None = None
) -> Correspondence:
    """Evaluate both graphs in float64 and number their nodes; equal numbers denote values that look equal.

    A value is identified by its type and four figures: its scale and three sums over its entries. Values
    that do not vary (all zeros, for example) are not matched. A number is a conjecture, not a proof: the
    regions between matched values are checked afterwards.

    Args:
        original: The graph before rewriting.
        optimised: The graph after rewriting.
        inputs: Inputs of both graphs, by name.
        opaque: Runs opaque operators.
    """
    numbers: dict[Any, int] = {}
    sides = []
    for graph in (original, optimised):
        found = [-1] * len(graph)
        for i, value in values(graph, inputs, precise=True, opaque=opaque):
            sums = _fingerprint(value)
            if sums is not None:
                found[i] = numbers.setdefault((graph.nodes[i].type, sums), len(numbers))
        sides.append(tuple(found))
    return Correspondence(sides[0], sides[1])


def _fingerprint(value: Any) -> tuple[str, ...] | None:
    """Return figures that identify a value; None if it is not a varied array of finite numbers."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.size < 2:
        return None
    data = value.reshape(-1).astype(np.float64)
    scale = float(np.abs(data).max())
    if not np.isfinite(scale) or scale == 0 or float(np.ptp(data)) <= 1e-9 * scale:
        return None
    places = np.arange(data.size, dtype=np.float64)
    sums = (float(data @ np.cos(0.7 * places)), float(data @ np.sin(1.3 * places)), float(data @ data))
    # Unless there are many entries, the sums are of the order of the scale; a sum that cancels is only noise.
    return (
        f"{scale:.{_DIGITS}e}",
        *(f"{s / scale**k:.{_DIGITS}f}" for s, k in zip(sums, (1, 1, 2), strict=True)),
    )
