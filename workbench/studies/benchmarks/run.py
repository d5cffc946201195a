"""Runs of the published networks with the papers' limits, for comparison with the papers' figures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from workbench.costs import CostModel, graph_cost, price_egraph
from workbench.costs.registry import cost_model
from workbench.extraction.exact.solve import load_solver
from workbench.extraction.extract import extract
from workbench.rules import rule_set
from workbench.run.trace import Step
from workbench.saturation import Limits, Saturation
from workbench.studies.benchmarks import benchmark
from workbench.studies.benchmarks.published import PUBLISHED, Published


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """The figures of one network: seconds by stage, sizes, and costs in microseconds by method.

    ``search`` covers the same stages as Tensat's published seconds: saturation, reading the e-graph and
    exact extraction. It excludes ``engine`` (compiling the rules, starting the engine, loading the solver)
    and ``pricing``.
    """

    network: str
    rules: str
    k_multi: int
    e_nodes: int
    e_classes: int
    iterations: int
    stop_reason: str
    engine: float
    pricing: float
    saturation: float
    snapshot: float
    extraction: float
    original: float
    tree: float
    dag: float
    exact: float
    bound: float
    status: str
    scope: str
    cost_source: str
    published: Published | None

    @property
    def search(self) -> float:
        """Return the seconds of saturation, reading the e-graph, and exact extraction."""
        return self.saturation + self.snapshot + self.extraction

    @property
    def faster(self) -> float | None:
        """Return Tensat's published seconds divided by this run's, or None if none are published."""
        return self.published.tensat_seconds / self.search if self.published else None

    def gain(self, method: str) -> float:
        """Return original / optimised - 1 for ``"tree"``, ``"dag"`` or ``"exact"``."""
        after: float = getattr(self, method)
        return self.original / after - 1 if after > 0 else 0.0

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return asdict(self) | {
            "search": self.search,
            "faster": self.faster,
            "gains": {method: self.gain(method) for method in ("tree", "dag", "exact")},
        }


def run_benchmark(
    name: str,
    *,
    rules: str = "default",
    cost: str | os.PathLike[str] | CostModel = "analytic",
    limits: Limits | None = None,
    progress: Callable[[str, Step | None], None] | None = None,
) -> BenchmarkRun:
    """Run a published network and return its figures.

    Args:
        name: The name of the network.
        rules: The name of the rule set.
        cost: A cost model, its name, or the path of a recorded table.
        limits: The limits; by default Tensat's (50 000 e-nodes, 15 iterations, k_multi 1).
        progress: A function called with a stage's name, and with each step of the saturation.

    Raises:
        LookupError: The network, the rule set or the cost model is unknown; the message has the nearest name.
    """
    graph = benchmark(name)
    chosen = rule_set(rules)
    limits = limits or Limits()
    model = cost_model(cost)
    tell = progress or (lambda stage, step: None)
    began = time.perf_counter()
    load_solver()
    loading = time.perf_counter() - began
    with Saturation(graph, chosen, limits, keep=0) as saturation:
        saturation.start_engine()
        stop = saturation.run(lambda step: tell("saturation", step))
        began = time.perf_counter()
        egraph = saturation.egraph()
        snapshot = time.perf_counter() - began
    tell("pricing", None)
    began = time.perf_counter()
    costs = price_egraph(egraph, model)
    before = graph_cost(graph, model)
    pricing = time.perf_counter() - began
    tell("extraction", None)
    tree, dag = (extract(egraph, costs, method).cost for method in ("tree", "dag"))
    began = time.perf_counter()
    exact = extract(egraph, costs, "exact", seconds=limits.seconds)
    extraction = time.perf_counter() - began
    return BenchmarkRun(
        network=name,
        rules=rules,
        k_multi=limits.k_multi,
        e_nodes=saturation.e_nodes,
        e_classes=saturation.e_classes,
        iterations=sum(step.index > 0 for step in saturation.trace),
        stop_reason=stop.value,
        engine=saturation.engine_seconds + loading,
        pricing=pricing,
        saturation=saturation.seconds,
        snapshot=snapshot,
        extraction=extraction,
        original=before,
        tree=tree,
        dag=dag,
        exact=exact.cost,
        bound=exact.bound,
        status=exact.status.value,
        scope=exact.scope,
        cost_source=model.source,
        published=PUBLISHED.get(name),
    )
