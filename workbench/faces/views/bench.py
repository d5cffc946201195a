"""The whole bench for a model in one cell: model, rules, growth, e-graph, extraction, comparison, certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import ipywidgets as widgets
import numpy as np

from workbench.certification import Certificate, certify
from workbench.costs import price_egraph
from workbench.costs.registry import cost_model
from workbench.egraph import EGraph
from workbench.egraph.rebuild import rebuild
from workbench.extraction.api import extractor
from workbench.extraction.extract import Extraction
from workbench.extraction.result import Solution
from workbench.faces.views.live import WRAPPED, Controls, button, dropdown, live
from workbench.faces.views.markup import paragraph
from workbench.faces.views.static_html import static_html
from workbench.faces.views.widgets import Faced
from workbench.frontends.model import ModelLike
from workbench.frontends.model_file import open_model
from workbench.graph import Graph
from workbench.rules import RuleSet, rule_set
from workbench.saturation import Saturation
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


class Lab(Faced, widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A bench of ipywidgets for one model; every control and view can be linked, observed and put elsewhere.

    ``controls`` are those of the saturation: its rules, costs, limits and buttons. ``saturation``, ``extraction``
    and ``outcome`` are the objects behind the views; the latter two are None until they exist. The tab of rules is
    drawn when it is first looked at. Symbolic dimensions of a model file have usual sizes.
    """

    def __init__(self, model: ModelLike, *, rules: str = "default", cost: str = "analytic") -> None:
        self.graph = open_model(model).graph
        self.extraction: Extraction | None = None
        self.outcome: Outcome | None = None
        saturation = Saturation(self.graph, rule_set(rules))
        self.controls = Controls(saturation, self.graph.name, rules=rules, cost=cost)
        self.rules, self.cost = self.controls.choices["rules"], self.controls.choices["costs"]
        self.limits, self.stepper = self.controls.limits, self.controls.stepper
        self.method = dropdown("extraction", extractor.names(), "exact")
        self.extract_button = button("extract", "scissors", self.extract)
        self.status = widgets.HTML()
        self.tabs = widgets.Tab([widgets.VBox() for _ in TABS], titles=TABS)
        self.tabs.observe(self._looked, "selected_index")
        for control in (self.controls.start_button, self.controls.step_button):
            control.on_click(lambda _: self._look("growth"))
        self.controls.step_button.on_click(lambda _: self._grown())
        self.stepper.observe(self._ran, "running")
        self.stepper.observe(self._told, "status")
        self.rules.observe(self._anew, "value")
        self.cost.observe(self._priced, "value")
        buttons, choices, stepper = self.controls.children
        row = widgets.HBox([*buttons.children, self.extract_button, self.method], layout=WRAPPED)
        super().__init__([choices, row, self.status, self.tabs])
        self._tab("growth", stepper)
        self._priced()
        self._say("not started")

    @property
    def saturation(self) -> Saturation:
        """Return the saturation that the controls drive now."""
        subject = self.controls.subject
        assert isinstance(subject, Saturation)
        return subject

    def face(self) -> str:
        """Return the static faces of what there is."""
        shown = [self.graph, self.saturation, self.extraction, self.outcome and self.outcome.certificate]
        return self.status.value + "".join(static_html(thing) for thing in shown if thing is not None)

    def __repr__(self) -> str:
        return f"Lab of {self.graph.name!r}: {len(self.graph)} nodes, rules {self.rules.value}, costs {self.cost.value}"

    def extract(self) -> None:
        """Extract from the e-graph as it is, rebuild the graph, compare it and certify it."""
        if self.stepper.running or not len(self.saturation.trace):
            self._say("the extraction needs an e-graph (try start or step, and pause while it runs)")
            return
        ruleset, model = rule_set(self.rules.value), cost_model(self.cost.value)
        try:
            self._say("extracting")
            egraph = self.saturation.egraph()
            costs = price_egraph(egraph, model)
            seconds = self.limits["seconds"].value
            self.extraction = Extraction(egraph, costs, self.method.value, seconds=seconds)
            self.extraction.trace.meta["cost_source"] = model.source
            solution = self.extraction.run()
            graph = rebuild(self.graph, egraph, solution.choice)
            self._say("certifying")
            certificate = certify(self.graph, graph)
        except (ValueError, RuntimeError, OSError) as error:
            self._say(str(error))
            return
        matched = dict.fromkeys(r.rule for s in self.saturation.trace for r in s.rules if r.matches)
        certificate = replace(certificate, rules={name: ruleset.verdict(ruleset[name]) for name in matched})
        self.outcome = Outcome(self.graph, graph, egraph, ruleset, costs, model.source, solution, certificate)
        history = self.saturation.snapshots
        self._show("e-graph", lambda: live(egraph, costs=costs, solution=solution, history=history))
        self._show("extraction", lambda: live(self.extraction))
        self._show("comparison", lambda: live(compare(self.outcome)))  # type: ignore[arg-type]  # its parts are there
        self._show("certificate", lambda: live(certificate))
        before = float(costs[np.unique(egraph.original[egraph.original >= 0])].sum())
        gain = f"{microseconds(before)} → {microseconds(solution.cost)}, {solution.status.value} ({model.source})"
        self._say(f"{gain}; {certificate.verdict()}")

    def close(self) -> None:
        """End the saturation's process and remove the widgets."""
        self.saturation.close()
        self.controls.close()
        super().close()

    # -- the way through ------------------------------------------------------------------------------
    def _told(self, change: Mapping[str, Any]) -> None:
        if self.stepper.running:
            self._say(change["new"])

    def _ran(self, change: Mapping[str, Any]) -> None:
        if not change["new"]:
            self._grown()
            if not self.saturation.unfinished:
                self.extract()

    def _grown(self) -> None:
        egraph, history = self.saturation.egraph(), self.saturation.snapshots
        self._show("e-graph", lambda: live(egraph, history=history))

    def _anew(self, _change: object) -> None:
        """Forget what the saturation that was left has given."""
        self.extraction = self.outcome = None
        for name in set(TABS[1:]) - {"growth"}:
            self._tab(name)
        self._looked()
        self._say("changed: start begins a new saturation")

    def _priced(self, _change: object = None) -> None:
        self._show("model", lambda: live(self.graph, cost=self.cost.value))

    # -- showing --------------------------------------------------------------------------------------
    def _looked(self, _change: object = None) -> None:
        place = TABS.index("rules")
        if self.tabs.selected_index == place and not self.tabs.children[place].children:
            self._show("rules", lambda: live(rule_table(rule_set(self.rules.value))))

    def _look(self, name: str) -> None:
        self.tabs.selected_index = TABS.index(name)

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
