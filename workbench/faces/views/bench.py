"""The whole bench for a model in one cell: model, rules, growth, e-graph, extraction, comparison, certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import ipywidgets as widgets
import numpy as np

from workbench.certification import Certificate, certify
from workbench.costs import price_egraph
from workbench.costs.registry import NAMES, cost_model
from workbench.egraph import EGraph
from workbench.egraph.rebuild import rebuild
from workbench.extraction.api import extractor
from workbench.extraction.extract import Extraction
from workbench.extraction.result import Solution
from workbench.faces.views.controls import WIDE, button, limit_sliders
from workbench.faces.views.live import live
from workbench.faces.views.markup import paragraph
from workbench.faces.views.static_html import static_html
from workbench.faces.views.widgets import Stepper
from workbench.frontends.model import ModelLike
from workbench.frontends.model_file import open_model
from workbench.graph import Graph
from workbench.rules import RuleSet, rule_set, rule_sets
from workbench.saturation import Limits, Saturation
from workbench.studies.analysis.comparison import compare
from workbench.studies.analysis.rule_activity import rule_table
from workbench.support.formatting import microseconds

#: The tabs, in the order of the way through.
TABS: Final = ("model", "rules", "growth", "e-graph", "extraction", "comparison", "certificate")


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A graph that was extracted from a saturated e-graph, and what led to it."""

    original: Graph
    graph: Graph
    egraph: EGraph
    ruleset: RuleSet
    costs: np.ndarray
    cost_source: str
    solution: Solution
    certificate: Certificate


class Lab(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A bench of ipywidgets for one model; every control and view can be linked, observed and put elsewhere.

    Changed rules or limits begin a new saturation at the next start. ``saturation``, ``extraction`` and
    ``outcome`` are the objects behind the views; they are None until they exist.

    Args:
        model: A graph or a model file; symbolic dimensions have usual sizes.
        rules: The name of a rule set.
        cost: The name of a cost model.
    """

    def __init__(self, model: ModelLike, *, rules: str = "default", cost: str = "analytic") -> None:
        self.graph = open_model(model).graph
        self.saturation: Saturation | None = None
        self.extraction: Extraction | None = None
        self.outcome: Outcome | None = None
        self.stepper: Stepper | None = None
        self.rules = widgets.Dropdown(options=rule_sets(), value=rules, description="rules", **WIDE)
        self.cost = widgets.Dropdown(options=list(NAMES), value=cost, description="costs", **WIDE)
        self.method = widgets.Dropdown(
            options=extractor.names(), value="exact", description="extraction", **WIDE
        )
        self.limits = limit_sliders(Limits())
        self.start_button = button("start", "play", self.start)
        self.pause_button = button("pause", "pause", self.pause)
        self.step_button = button("step", "step-forward", self.step)
        self.extract_button = button("extract", "scissors", self.extract)
        self.status = widgets.HTML()
        self.tabs = widgets.Tab([widgets.VBox() for _ in TABS], titles=TABS)
        for control in (self.rules, *self.limits.values()):
            control.observe(self._changed, "value")
        self.cost.observe(self._priced, "value")
        choices = widgets.VBox([self.rules, self.cost, self.method])
        sizes = widgets.VBox(list(self.limits.values()))
        buttons = widgets.HBox([self.start_button, self.pause_button, self.step_button, self.extract_button])
        super().__init__([widgets.HBox([choices, sizes]), buttons, self.status, self.tabs])
        self._show("rules", lambda: live(rule_table(rule_set(self.rules.value))))
        self._priced()
        self._say("not started")

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Return the widget, with a static face of what there is for pages without widgets."""
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        shown = [
            self.graph,
            self.saturation,
            self.extraction,
            None if self.outcome is None else self.outcome.certificate,
        ]
        faces = "".join(static_html(thing) for thing in shown if thing is not None)
        return dict(data) | {"text/plain": repr(self), "text/html": self.status.value + faces}, metadata

    def __repr__(self) -> str:
        return f"Lab of {self.graph.name!r}: {len(self.graph)} nodes, rules {self.rules.value}, costs {self.cost.value}"

    # -- controls -------------------------------------------------------------------------------------
    def start(self) -> None:
        """Saturate in a thread, then extract, compare and certify."""
        stepper = self._opened()
        if stepper is not None and not stepper.running:
            self.tabs.selected_index = TABS.index("growth")
            stepper.start()

    def pause(self) -> None:
        """Stop the saturation after the current step."""
        if self.stepper is not None:
            self.stepper.pause()

    def step(self) -> None:
        """Take one step of the saturation."""
        stepper = self._opened()
        if stepper is None or stepper.running or not stepper.unfinished:
            return
        self.tabs.selected_index = TABS.index("growth")
        stepper.advance()
        self._grown()

    def extract(self) -> None:
        """Extract from the e-graph as it is, rebuild the graph, compare it and certify it."""
        if self.saturation is None or (self.stepper is not None and self.stepper.running):
            self._say("the extraction needs an e-graph (try start or step, and pause while it runs)")
            return
        ruleset, model = rule_set(self.rules.value), cost_model(self.cost.value)
        try:
            self._say("extracting")
            egraph = self.saturation.egraph()
            costs = price_egraph(egraph, model)
            self.extraction = Extraction(
                egraph, costs, self.method.value, seconds=self.limits["seconds"].value
            )
            solution = self.extraction.run()
            graph = rebuild(self.graph, egraph, solution.choice)
            self._say("certifying")
            certificate = certify(self.graph, graph)
        except (ValueError, RuntimeError, OSError) as error:
            self._say(str(error))
            return
        self.outcome = Outcome(self.graph, graph, egraph, ruleset, costs, model.source, solution, certificate)
        history = self.saturation.snapshots
        self._show("e-graph", lambda: live(egraph, costs=costs, solution=solution, history=history))
        self._show("extraction", lambda: live(self.extraction))
        self._show("comparison", lambda: live(compare(self.outcome)))  # type: ignore[arg-type]  # what it reads is there
        self._show("certificate", lambda: live(certificate))
        before = float(costs[egraph.original[egraph.original >= 0]].sum())
        gain = f"{microseconds(before)} → {microseconds(solution.cost)}, {solution.status.value} ({model.source})"
        self._say(f"{gain}; {certificate.verdict()}")

    def close(self) -> None:
        """End the saturation's process and remove the widgets."""
        if self.saturation is not None:
            self.saturation.close()
        super().close()

    # -- the way through ------------------------------------------------------------------------------
    def _opened(self) -> Stepper | None:
        """Return the stepper of the saturation; begin one if there is none for these rules and limits."""
        if self.stepper is not None:
            return self.stepper
        limits = Limits(**{name: slider.value for name, slider in self.limits.items()})
        self._say("the engine starts")
        try:
            self.saturation = Saturation(self.graph, rule_set(self.rules.value), limits)
        except (ValueError, OSError, RuntimeError) as error:
            self._say(str(error))
            return None
        self.stepper = Stepper(self.saturation, self.graph.name)
        self.stepper.observe(self._ran, "running")
        self.stepper.observe(self._told, "status")
        self._tab("growth", self.stepper)
        return self.stepper

    def _told(self, change: Mapping[str, Any]) -> None:
        if self.stepper is not None and self.stepper.running:
            self._say(change["new"])

    def _ran(self, change: Mapping[str, Any]) -> None:
        if not change["new"] and self.saturation is not None:
            self._grown()
            if not self.saturation.unfinished:
                self.extract()

    def _grown(self) -> None:
        if self.saturation is not None:
            egraph, history = self.saturation.egraph(), self.saturation.snapshots
            self._show("e-graph", lambda: live(egraph, history=history))

    def _changed(self, _change: object) -> None:
        """Forget the saturation: the next start begins a new one."""
        if self.stepper is not None:
            self.stepper.pause(wait=True)
            self.stepper = None
        if self.saturation is not None:
            self.saturation.close()
        self.saturation = self.extraction = self.outcome = None
        for name in TABS[2:]:
            self._tab(name)
        self._show("rules", lambda: live(rule_table(rule_set(self.rules.value))))
        self._say("changed: start begins a new saturation")

    def _priced(self, _change: object = None) -> None:
        self._show("model", lambda: live(self.graph, cost=self.cost.value))

    # -- showing --------------------------------------------------------------------------------------
    def _show(self, name: str, make: Callable[[], widgets.Widget]) -> None:
        """Put a view into a tab, or the reason why there is none."""
        try:
            self._tab(name, make())
        except (ValueError, RuntimeError, TypeError) as error:
            self._tab(name, widgets.HTML(paragraph(f"no view: {error}")))

    def _tab(self, name: str, *views: widgets.Widget) -> None:
        self.tabs.children[TABS.index(name)].children = views

    def _say(self, text: str) -> None:
        self.status.value = paragraph(text) if text else ""
