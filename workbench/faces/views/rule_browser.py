"""The rule browser as a widget: filter, sort, and a card of the selected rule."""

from __future__ import annotations

import traitlets

from workbench.faces.views.rules import rules_data
from workbench.faces.views.widget import View, script, style
from workbench.studies.analysis.rule_activity import RuleTable


class RuleBrowser(View):
    """A widget for the rules of a table and their activity in a run, if there is one.

    ``selected`` is the name of the rule on the card, ``query`` the text that rows must contain, ``verdict``
    one of the verdicts or ``""``, and ``activity`` is ``"fired"``, ``"idle"``, ``"best"`` or ``""``. All of
    them can be read and set. The widget contains all data and works without a kernel. A page without
    widgets shows the static face instead.
    """

    module = "rules"
    _esm = script("rules")
    _css = style("rules")

    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)
    query = traitlets.Unicode("").tag(sync=True)
    verdict = traitlets.Unicode("").tag(sync=True)
    activity = traitlets.Unicode("").tag(sync=True)

    def __init__(self, rules: RuleTable) -> None:
        first = (rules.fired or rules.rows)[:1]
        super().__init__(rules, data=rules_data(rules), selected=first[0].rule.name if first else "")

    def __repr__(self) -> str:
        return f"RuleBrowser at {self.selected or 'no rule'}: {self._subject!r}"
