"""Which widget shows what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from workbench.trace import Trace
from workbench.views.compare import comparison_data
from workbench.views.egraphs import MOST_E_NODES, Known, egraph_data, egraph_html
from workbench.views.graphs import cost_notes
from workbench.views.panes import graph_pane, viewer_data
from workbench.views.rule_browser import RuleBrowser
from workbench.views.rules import table_of
from workbench.views.stepper import Stepper
from workbench.views.still import Still
from workbench.views.viewer import Viewer
from workbench.views.widget import View

if TYPE_CHECKING:
    import numpy as np

    from workbench.comparison import Comparison
    from workbench.extraction.egraph import EGraph
    from workbench.extraction.solution import Solution
    from workbench.graph import Graph


def live(thing: Any, **options: Any) -> View:
    """Return the widget of an object: its own, a stepper where it has steps, else its static face."""
    rules = table_of(thing)
    if rules is not None:
        return RuleBrowser(rules)
    for kind in type(thing).__mro__:
        make = _VIEWS.get(kind.__name__)
        if make is not None:
            return make(thing, **options)
    if isinstance(getattr(thing, "trace", thing), Trace):
        return Stepper(thing, **options)
    return Still(thing, **options)


def graph_view(graph: Graph, *, cost: Any = "analytic") -> Viewer:
    """Return a graph as a widget; ``cost`` names or gives the cost model of the figures."""
    return Viewer(graph, viewer_data(f"Graph {graph.name}", [graph_pane(graph, cost_notes(graph, cost))]))


def comparison_view(comparison: Comparison) -> Viewer:
    """Return the original beside the optimised graph."""
    return Viewer(comparison, comparison_data(comparison))


def egraph_view(
    egraph: EGraph,
    *,
    costs: np.ndarray | None = None,
    solution: Solution | None = None,
    history: Sequence[EGraph] = (),
    focus: int | None = None,
    most: int = MOST_E_NODES,
) -> Viewer:
    """Return an e-graph as a widget.

    ``costs`` and ``solution`` show what is extracted, and what the alternatives of an e-class cost;
    ``history``, the snapshots of a saturation, shows merges. At most ``most`` e-nodes are drawn, from
    the e-class ``focus`` or the roots on. Raise ValueError for an e-class that there is not.
    """
    if focus is not None and not 0 <= focus < egraph.n_classes:
        raise ValueError(f"no e-class is numbered {focus}: they go from 0 to {egraph.n_classes - 1}")
    known = Known.of(egraph, costs, None if solution is None else solution.choice, history)
    answer = None
    if costs is not None and solution is not None:
        answer = _alternatives(egraph, costs, solution)
    return Viewer(
        egraph,
        egraph_data(known, focus=focus, most=most),
        face=lambda: egraph_html(known),
        answer=answer,
        focus=lambda c: egraph_data(known, focus=c, most=most),
    )


def _alternatives(
    egraph: EGraph, costs: np.ndarray, solution: Solution
) -> Callable[[str], dict[str, Any] | None]:
    def answer(key: str) -> dict[str, Any] | None:
        from workbench.extraction.alternatives import alternatives

        c = int(key.removeprefix("e-class ")) if key.startswith("e-class ") else -1
        if c < 0:
            c = int(egraph.eclass[int(key)]) if key.isdigit() else -1
        if c < 0:
            return None
        found = alternatives(egraph, costs, c, best=solution, seconds=5.0)
        rows = [
            [a.node, a.op, f"{a.cost:.6g}", f"{a.bound:.6g}", f"{a.more:+.6g}", "taken" if a.taken else ""]
            for a in found
        ]
        columns = ["e-node", "operator", "whole costs", "at least", "more than best", ""]
        return {"title": f"Alternatives of e-class {egraph.class_name(c)}", "columns": columns, "rows": rows}

    return answer


_VIEWS: dict[str, Callable[..., View]] = {
    "Graph": graph_view,
    "Comparison": comparison_view,
    "EGraph": egraph_view,
}
