"""The rule browser as a widget: filter, sort, and a card of the rule that is looked at."""

from __future__ import annotations

import traitlets

from workbench.activity import RuleTable
from workbench.views.rules import rules_data
from workbench.views.widget import STATIC, View, script


class RuleBrowser(View):
    """Show the rules of a table, with what they did in a run where there is one.

    ``selected`` is the name of the rule on the card, ``query`` the text that rows must hold, ``verdict``
    one of the verdicts or ``""``, ``activity`` ``"fired"``, ``"idle"``, ``"best"`` or ``""``: all can be
    read and set. Everything was sent along, so that it works without a kernel. Where widgets are not
    shown, the static face stands in its place.
    """

    module = "rules"
    _esm = script("rules")
    _css = STATIC / "rules.css"

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
