"""The widget of any object, by its class, and the controls of one that can take steps, all ipywidgets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from workbench.costs import price_egraph
from workbench.costs.registry import NAMES, cost_model
from workbench.extraction.api import extractor
from workbench.extraction.cost_history import add_costs
from workbench.extraction.extract import Extraction
from workbench.faces.views.compare import comparison_data
from workbench.faces.views.egraphs import MOST_E_NODES, Known, Part
from workbench.faces.views.graphs import Notes, cost_notes, graph_pane, viewer_data
from workbench.faces.views.rules import table_of
from workbench.faces.views.widgets import (
    EGraphViewer,
    Faced,
    RuleBrowser,
    RunsBrowser,
    Stepper,
    Still,
    View,
    Viewer,
)
from workbench.rules import rule_sets
from workbench.run.stepper import Stepwise
from workbench.run.trace import Trace
from workbench.saturation import Saturation

if TYPE_CHECKING:
    import numpy as np

    from workbench.costs.model import CostModel
    from workbench.egraph.egraph import EGraph
    from workbench.extraction.result import Solution
    from workbench.graph import Graph
    from workbench.laws.run_proofs.checking import Accepted

#: How wide a control is, and its name within it.
WIDE: Final = {"layout": {"width": "320px", "max_width": "100%"}, "style": {"description_width": "90px"}}
#: A row that goes on below where the page is narrow.
WRAPPED: Final = {"flex_flow": "row wrap"}
#: Where the meta data of a saturation's trace keep a limit.
_META: Final = {
    "e_nodes": "e_node_limit",
    "iterations": "iteration_limit",
    "seconds": "time_limit",
    "k_multi": "k_multi",
}


class Controls(Faced, widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A box of ipywidgets for an object that can take steps: start, pause, step, choices, limits, and its stepper.

    Every part can be linked, observed and put elsewhere. A limit that is changed before a run or at a pause holds
    from the next step on. Other rules, and a limit that is changed after the end, begin a new saturation; another
    cost model or method, a new extraction. ``subject`` is the object that the box drives now. With a cost model a
    saturation's stepper draws the least cost after each step, a greedy estimate, whenever it stops. ``title`` is
    the stepper's. ``rules`` and ``cost`` are the names of a saturation's rule set, if it is one of the library, and
    of its cost model.
    """

    def __init__(self, subject: Stepwise, title: str = "", *, rules: str = "", cost: str = "") -> None:
        self.subject = self._given = subject
        self.stepper = Stepper(subject, title)
        self.start_button = button("start", "play", self.stepper.start)
        self.pause_button = button("pause", "pause", self.stepper.pause)
        self.step_button = button("step", "step-forward", self._advance)
        self.limits: dict[str, widgets.Widget] = {}
        self.choices: dict[str, widgets.Dropdown] = {}
        if isinstance(subject, Saturation):
            self.limits = {name: _slider(name, getattr(subject.limits, name)) for name in _META}
            self.choices = {
                "rules": dropdown("rules", rule_sets() if rules else [("as given", ""), *rule_sets()], rules),
                "costs": dropdown("costs", [("none", ""), *NAMES], cost),
            }
        elif isinstance(subject, Extraction):
            self.limits = {"seconds": _slider("seconds", subject.seconds)}
            self.choices = {"method": dropdown("method", extractor.names(), subject.method)}
            if any(subject.egraph.types):
                self.choices["costs"] = dropdown("costs", [("as given", ""), *NAMES], "")
        for name, control in (self.limits | self.choices).items():
            control.observe(lambda change, name=name: self._changed(name, change["new"]), "value")
        self.stepper.observe(self._state, ["running", "status"])
        self.stepper.observe(lambda _: self._price(), "running")
        buttons = widgets.HBox([self.start_button, self.pause_button, self.step_button])
        chosen, limits = (
            widgets.VBox(list(d.values()), layout={"max_width": "100%"}) for d in (self.choices, self.limits)
        )
        super().__init__([buttons, widgets.HBox([chosen, limits], layout=WRAPPED), self.stepper])
        self._state()

    def close(self) -> None:
        """Release what the box began itself, and remove the widgets."""
        self._release()
        super().close()

    def _release(self) -> None:
        self.stepper.pause(wait=True)
        if isinstance(self.subject, Saturation) and self.subject is not self._given:
            self.subject.close()

    def _advance(self) -> None:
        self.stepper.advance()
        self._price()

    def _changed(self, name: str, value: Any) -> None:
        """Obey a control that was changed: now, from the next step on, or by beginning anew."""
        saturates = isinstance(self.subject, Saturation)
        if saturates and name == "costs":
            self._price()
        elif name in self.choices or not self.subject.unfinished:
            self._begin()
        elif isinstance(self.subject, Saturation):
            self.subject.limits = replace(self.subject.limits, **{name: value})
        else:
            self.subject.seconds = value  # type: ignore[attr-defined]  # an extraction
        if name in self.limits:
            self.subject.trace.meta[_META[name]] = value
            self.stepper.refresh()

    def _begin(self) -> None:
        """Drive a new object with what is chosen; say why if there is none."""
        try:
            new = self._new()
        except (ValueError, LookupError, OSError, RuntimeError) as error:
            self.stepper.status = str(error)
            return
        self._release()
        self.subject = new
        self.stepper.follow(new)

    def _new(self) -> Stepwise:
        chosen = {name: control.value for name, control in (self.limits | self.choices).items()}
        if isinstance(self._given, Saturation):
            limits = replace(self._given.limits, **{name: chosen[name] for name in self.limits})
            return Saturation(self._given.graph, chosen["rules"] or self._given.rules, limits)
        assert isinstance(self._given, Extraction)
        egraph, costs = self._given.egraph, self._given.costs
        source = self._given.trace.meta.get("cost_source", "")
        if chosen.get("costs"):
            model = cost_model(chosen["costs"])
            costs, source = price_egraph(egraph, model), model.source
        made = Extraction(egraph, costs, chosen["method"], seconds=chosen["seconds"])
        made.trace.meta["cost_source"] = source
        return made

    def _price(self) -> None:
        """Add the costs by a saturation's chosen cost model to its trace."""
        name = self.choices["costs"].value if isinstance(self.subject, Saturation) else ""
        if not name or self.stepper.running or not len(self.subject.trace):
            return
        self.stepper.status = "pricing"
        try:
            egraph, model = self.subject.egraph(), cost_model(name)
            add_costs(self.subject.trace, egraph, price_egraph(egraph, model), model.source)
        except (ValueError, LookupError, OSError, RuntimeError) as error:
            self.stepper.status = str(error)
            return
        self.stepper.refresh()

    def _state(self, _change: object = None) -> None:
        running, over = self.stepper.running, not self.stepper.unfinished
        self.pause_button.disabled = not running
        for control in (*self.limits.values(), *self.choices.values()):
            control.disabled = running
        for control in (self.start_button, self.step_button):
            control.disabled = running or over

    def face(self) -> str:
        """Return the static face of the object."""
        return self.stepper.face()

    def __repr__(self) -> str:
        return repr(self.stepper)

    def page(self) -> str:
        """Return the stepper as a complete page, which needs no kernel."""
        return self.stepper.page()

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the stepper as one file that opens from disk, without a kernel or network access."""
        self.stepper.save_html(path)


def _slider(name: str, value: float) -> widgets.Widget:
    """Return the slider of a limit; its end is moved if the value is beyond it."""
    least, most, by = {
        "e_nodes": (1000, 100_000, 1000),
        "iterations": (1, 100, 1),
        "seconds": (1, 300, 0.1),
        "k_multi": (0, 3, 1),
    }[name]
    kind = widgets.FloatSlider if name == "seconds" else widgets.IntSlider
    bounds = {"min": min(least, value), "max": max(most, value), "step": by}
    return kind(value, description=name.replace("e_nodes", "e-nodes"), **bounds, **WIDE)


def dropdown(name: str, options: Iterable[str | tuple[str, str]], value: str) -> widgets.Dropdown:
    """Return a choice of names, or of labels with their values."""
    pairs = [(option, option) if isinstance(option, str) else option for option in options]
    return widgets.Dropdown(options=pairs, value=value, description=name, **WIDE)


def button(name: str, icon: str, action: Callable[[], None]) -> widgets.Button:
    """Return a button that calls a function."""
    made = widgets.Button(description=name, icon=icon)
    made.on_click(lambda _: action())
    return made


# -- widgets by class ------------------------------------------------------------------------------------
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
    most: int = MOST_E_NODES,
) -> Viewer:
    """Return an e-graph as a widget.

    Args:
        egraph: The e-graph.
        costs: The costs of the e-nodes; with ``solution`` they give the costs of alternatives.
        solution: The extraction to show.
        history: The snapshots of a saturation, which show merges.
        most: Limit on the e-nodes in the picture.
    """
    known = Known(egraph, costs, None if solution is None else solution.choice, history)
    return EGraphViewer(known, Part(most=most), solution)


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
