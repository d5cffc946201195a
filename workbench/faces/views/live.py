"""The widget of any object, by its class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from workbench.faces.views.compare import comparison_data
from workbench.faces.views.controls import Controls
from workbench.faces.views.egraphs import MOST_E_NODES, Known, Part
from workbench.faces.views.graphs import Notes, cost_notes, graph_pane, viewer_data
from workbench.faces.views.rules import table_of
from workbench.faces.views.widgets import EGraphViewer, RuleBrowser, RunsBrowser, Stepper, Still, View, Viewer
from workbench.run.stepper import Stepwise
from workbench.run.trace import Trace

if TYPE_CHECKING:
    import numpy as np

    from workbench.costs.model import CostModel
    from workbench.egraph.egraph import EGraph
    from workbench.extraction.result import Solution
    from workbench.graph import Graph
    from workbench.laws.run_proofs.checking import Accepted


def live(thing: object, **options: Any) -> View | Controls:
    """Return the widget of an object: its own, controls or a stepper if it has a trace, otherwise its static face."""
    rules = table_of(thing)
    if rules is not None:
        return RuleBrowser(rules)
    for kind in type(thing).__mro__:
        make = _VIEWS.get(kind.__name__)
        if make is not None:
            return make(thing, **options)
    if isinstance(thing, Stepwise) and thing.unfinished:
        return Controls(thing, **options)
    if isinstance(getattr(thing, "trace", thing), Trace):
        return Stepper(thing, **options)
    return Still(thing, **options)


def graph_view(graph: Graph, *, cost: str | CostModel = "analytic") -> Viewer:
    """Return a graph as a widget; ``cost`` is the cost model of the figures, or its name."""
    notes = cost_notes(graph, cost)
    return Viewer(graph, viewer_data(f"Graph {graph.name}", [graph_pane(graph, notes)], unit="µs"))


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

    Args:
        egraph: The e-graph.
        costs: The costs of the e-nodes; with ``solution`` they give the costs of alternatives.
        solution: The extraction to show.
        history: The snapshots of a saturation, which show merges.
        focus: The e-class from which the picture starts; by default the roots.
        most: Limit on the e-nodes in the picture.

    Raises:
        ValueError: ``focus`` is not an e-class.
    """
    if focus is not None and not 0 <= focus < egraph.n_classes:
        raise ValueError(f"focus must be an e-class from 0 to {egraph.n_classes - 1}, got {focus}")
    known = Known(egraph, costs, None if solution is None else solution.choice, history)
    return EGraphViewer(known, Part(focus, most=most), solution)


def proof_view(accepted: Accepted) -> Viewer:
    """Return an accepted proof as a widget: its steps between the original and the result, which mark their terms."""
    shown = accepted.replayed
    titles = ("original", "result")
    panes = [
        graph_pane(graph, Notes(groups=shown.groups(side)), title=titles[side])
        for side, graph in enumerate(shown.graphs)
    ]
    rows = shown.by_region()
    steps = [f"step 0 of {len(shown.proof.steps)}: both graphs"]
    for (k, region, by), pairs in groupby(rows, lambda row: row[:3]):
        said = "; ".join(f"{left} = {right}" for *_, left, right in pairs)
        steps.append(f"step {k} of {len(shown.proof.steps)}, in region {region}, {by}: {said}")
    cells, keys = [list(row) for row in rows], [str(row[0]) for row in rows]
    table = {"columns": list(shown.REGIONS), "rows": cells, "keys": keys}
    data = viewer_data("Proof", panes, steps=steps, focus=[[], *shown.focus()], table=table)
    viewer = Viewer(accepted, data)
    viewer.step = 0
    return viewer


_VIEWS: dict[str, Callable[..., View]] = {
    "Accepted": proof_view,
    "Graph": graph_view,
    "Comparison": lambda comparison: Viewer(comparison, comparison_data(comparison)),
    "EGraph": egraph_view,
    "StoredRuns": RunsBrowser,
}
