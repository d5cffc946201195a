"""How the best cost fell while the e-graph grew, seen afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from workbench.extraction.egraph import EGraph
from workbench.extraction.extract import Extraction
from workbench.trace import Trace


def born_by(egraph: EGraph, step: int) -> tuple[EGraph, np.ndarray]:
    """Return the e-graph of the e-nodes born in ``step`` or before, and their positions.

    E-classes stay as they are at the end: a merge counts from the start.
    """
    kept = np.flatnonzero(egraph.birth_step <= step)
    position = np.full(len(egraph) + 1, -1, dtype=np.int64)  # the last entry serves -1
    position[kept] = np.arange(len(kept))
    arity = np.diff(egraph.child_start)
    rows = [egraph.operands(int(i)) for i in kept]
    smaller = replace(
        egraph,
        ops=tuple(egraph.ops[i] for i in kept),
        attrs=tuple(egraph.attrs[i] for i in kept),
        child_start=np.concatenate([[0], np.cumsum(arity[kept])]).astype(egraph.child_start.dtype),
        children=np.concatenate(rows).astype(egraph.children.dtype) if rows else egraph.children[:0],
        eclass=egraph.eclass[kept],
        birth_rule=egraph.birth_rule[kept],
        birth_step=egraph.birth_step[kept],
        original=position[egraph.original].astype(egraph.original.dtype),
        node_names=tuple(egraph.node_names[i] for i in kept) if egraph.node_names else (),
    )
    return smaller, kept


def cost_by_step(egraph: EGraph, costs: np.ndarray, steps: Iterable[int]) -> dict[int, float]:
    """Return for each step the least DAG-greedy cost of the e-nodes born so far, in the costs' unit.

    It never rises from one step to the next. The exact optimum of the last step may lie below.
    """
    found: dict[int, float] = {}
    best = float("inf")
    known = -1
    for step in sorted(steps):
        smaller, kept = born_by(egraph, step)
        if len(kept) != known:
            known = len(kept)
            best = min(best, Extraction(smaller, np.asarray(costs)[kept], "dag").run().cost)
        found[step] = best
    return found


def add_costs(trace: Trace, egraph: EGraph, costs: np.ndarray, source: str) -> None:
    """Add to a saturation's trace the best cost known after every step, and where the costs come from."""
    found = cost_by_step(egraph, costs, [step.index for step in trace])
    trace.set_costs(found)
    start = np.unique(egraph.original[egraph.original >= 0])
    before = float(np.asarray(costs)[start].sum())
    after = min(found.values(), default=before)
    trace.meta |= {"cost_source": source, "cost_before": before, "cost_after": after}
