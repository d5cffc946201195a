"""Write the views that the site shows live: pages without a kernel, made by the package's own widgets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import workbench
from workbench.costs import price_egraph
from workbench.extraction import Extraction, extract
from workbench.graph import Graph
from workbench.saturation import Limits, Saturation
from workbench.studies.benchmarks import benchmark


def sums() -> Graph:
    """Return the graph of the page of ideas: two products of one operand, added."""
    b = workbench.GraphBuilder("sums")
    x, y, z = (b.input(name, (4, 4)) for name in "xyz")
    return b.graph({"out": b.op("add", b.op("matmul", x, y), b.op("matmul", x, z))})


FACTOR: Final = "factor: add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))"


def egraph_view() -> Any:
    """Return the e-graph of the page of ideas, with its steps and its extraction."""
    with Saturation(sums(), workbench.parse_rules(FACTOR), Limits(iterations=5)) as saturation:
        saturation.run()
        egraph = saturation.egraph()
        costs = price_egraph(egraph, workbench.cost_model("analytic"))
        return egraph.view(costs=costs, solution=extract(egraph, costs), history=saturation.snapshots)


def saturation_view() -> Any:
    """Return a saturation of a published network, step by step."""
    with Saturation(benchmark("nasrnn"), workbench.rule_set("default"), Limits()) as saturation:
        saturation.run()
        saturation.egraph()
        return saturation.view()


def extraction_view() -> Any:
    """Return an extraction in which greedy and exact differ, step by step."""
    limits = Limits(k_multi=1, settle=0)
    with Saturation(benchmark("bert"), workbench.rule_set("tensat-like"), limits) as saturation:
        saturation.run()
        egraph = saturation.egraph()
    extraction = Extraction(egraph, price_egraph(egraph, workbench.cost_model("analytic")), seconds=60.0)
    extraction.run()
    return extraction.view()


def comparison_view() -> Any:
    """Return the graph of the page of ideas next to its optimised form."""
    return workbench.optimize(sums(), cost="analytic").compare().view()


def rules_view() -> Any:
    """Return the default rules, each with both sides drawn and its verdict."""
    return workbench.rule_set("default").view()


#: The views by the stems of their files.
VIEWS: Final[dict[str, Callable[[], Any]]] = {
    "egraph": egraph_view,
    "saturation": saturation_view,
    "extraction": extraction_view,
    "comparison": comparison_view,
    "rules": rules_view,
}


def write_views(folder: Path) -> None:
    """Write all views into a folder."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, make in VIEWS.items():
        make().save_html(folder / f"{name}.html")
