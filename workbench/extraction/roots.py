"""Extraction for several outputs that are not always asked for together.

Extraction by itself serves a caller who asks for all outputs in every call: an e-node that several of them
need is paid once, and weights would change nothing. Here every call asks for one output, some more often than
others. A call pays for the term of its output alone, so that the cost of a call is on average
``Σ weight(root) · cost(term of the root)``, and a part that two outputs share is paid in the calls of both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.extract import extract
from workbench.extraction.solution import Solution, Status


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """One term per root, and the weighted sum of their costs.

    ``terms`` maps a root to its solution, ``weights`` to its weight. No choice of terms has a weighted cost
    below ``bound``. ``status`` is that of the root with the weakest.
    """

    terms: Mapping[int, Solution]
    weights: Mapping[int, float]
    cost: float
    bound: float
    status: Status

    @property
    def gap(self) -> float:
        """Return the relative distance from the bound: (cost - bound) / abs(cost)."""
        return max(0.0, (self.cost - self.bound) / abs(self.cost)) if self.cost else 0.0


def extract_weighted(
    egraph: EGraph,
    costs: np.ndarray,
    weights: Mapping[int, float],
    method: str = "exact",
    *,
    seconds: float = 60.0,
) -> Outputs:
    """Return the terms of least weighted cost when every call asks for one of the roots.

    The terms do not depend on one another, so each is extracted by itself. The time that one leaves over
    goes to the others. Use :func:`~workbench.extraction.extract.extract` when a call asks for all roots.

    Args:
        egraph: The e-graph.
        costs: One cost per e-node.
        weights: The weight of every root, such as the share of calls that ask for it: above 0 and finite.
        method: A name of :data:`~workbench.extraction.METHODS`.
        seconds: Time limit for all together.

    Raises:
        ValueError: For weights that are not of the roots or not positive, an unknown method, or a limit that
            is not positive.
        NoExtraction: (a ValueError) for costs that cannot be used or a root without a finite term.
    """
    roots = tuple(dict.fromkeys(egraph.roots))
    if set(weights) != set(roots):
        raise ValueError(f"there must be one weight for each of the roots {roots}, got {dict(weights)}")
    for root, weight in weights.items():
        if not 0.0 < weight < math.inf:
            raise ValueError(f"the weight of root {root} must be positive and finite, got {weight}")
    terms: dict[int, Solution] = {}
    left = seconds
    # The lightest roots first: time that they do not use goes to the heavier ones.
    order = sorted(roots, key=lambda r: (weights[r], r))
    for done, root in enumerate(order):
        share = left * weights[root] / math.fsum(weights[r] for r in order[done:])
        terms[root] = extract(replace(egraph, roots=(root,)), costs, method, seconds=share)
        left = max(left - terms[root].seconds, 1e-3 * seconds)
    found = {root: terms[root] for root in roots}
    weakest = max(found.values(), key=lambda s: list(Status).index(s.status))
    return Outputs(
        found,
        {root: float(weights[root]) for root in roots},
        math.fsum(weights[r] * s.cost for r, s in found.items()),
        math.fsum(weights[r] * s.bound for r, s in found.items()),
        weakest.status,
    )
