"""The best cost after each step of a saturation, reconstructed from the finished e-graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.extract import Extraction
from workbench.extraction.result import Solution, Status
from workbench.run.trace import Trace

#: The name of the costs by step, which are not those of an exact extraction.
CURVE: Final = "greedy estimate"


def born_by(egraph: EGraph, step: int) -> tuple[EGraph, np.ndarray]:
    """Return the e-graph of the e-nodes born up to ``step``, in the finished e-classes, and their old positions."""
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
    """Return each step's least DAG-greedy cost of the e-nodes born so far; it never rises, and bounds the optimum."""
    found: dict[int, float] = {}
    best, known = float("inf"), -1
    for step in sorted(steps):
        smaller, kept = born_by(egraph, step)
        if len(kept) != known:
            known = len(kept)
            best = min(best, Extraction(smaller, np.asarray(costs)[kept], "dag").run().cost)
        found[step] = best
    return found


def add_costs(
    trace: Trace, egraph: EGraph, costs: np.ndarray, source: str, solution: Solution | None = None
) -> None:
    """Add a greedy estimate of the best cost after every step to a saturation's trace.

    Args:
        trace: The trace, which is changed.
        egraph: The e-graph after the last step.
        costs: One cost per e-node.
        source: The source of the costs, which the trace records together with the first and last cost.
        solution: The extraction from the finished e-graph. Without it the last estimate takes its place.
    """
    found = cost_by_step(egraph, costs, [step.index for step in trace])
    trace.set_costs(found)
    start = np.unique(egraph.original[egraph.original >= 0])
    before = float(np.asarray(costs)[start].sum())
    after = min(found.values(), default=before)
    trace.meta |= {"cost_source": source, "cost_before": before, "cost_after": after, "cost_curve": CURVE}
    if solution is not None:
        trace.meta |= {"cost_after": solution.cost, "cost_bound": solution.bound}
        optimal = solution.status is Status.OPTIMAL
        name = "extracted optimum" if optimal else f"extracted ({solution.status.value})"
        trace.meta["cost_after_is"] = name  # in the legend of a figure
