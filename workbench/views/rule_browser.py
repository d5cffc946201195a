"""The rule browser as a widget: filter, sort, and a card of the rule that is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from workbench.activity import RuleTable
from workbench.views.rules import rule_table_html, rules_data

_STATIC = Path(__file__).resolve().parent.parent / "static"


class RuleBrowser(anywidget.AnyWidget):  # type: ignore[misc]
    """Show the rules of a table, with what they did in a run where there is one.

    ``selected`` is the name of the rule on the card, ``query`` the text that rows must hold, ``verdict``
    one of the verdicts or ``""``, ``activity`` ``"fired"``, ``"idle"``, ``"best"`` or ``""``: all can be
    read and set. Everything was sent along, so that it works without a kernel. Where widgets are not
    shown, the static face stands in its place.
    """

    _esm = _STATIC / "rules.js"
    _css = _STATIC / "rules.css"

    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)
    query = traitlets.Unicode("").tag(sync=True)
    verdict = traitlets.Unicode("").tag(sync=True)
    activity = traitlets.Unicode("").tag(sync=True)

    def __init__(self, rules: RuleTable) -> None:
        self._rules = rules
        first = (rules.fired or rules.rows)[:1]
        super().__init__(data=rules_data(rules), selected=first[0].rule.name if first else "")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        data = dict(data) | {"text/plain": repr(self), "text/html": rule_table_html(self._rules)}
        return data, metadata

    def __repr__(self) -> str:
        return f"RuleBrowser at {self.selected or 'no rule'}: {self._rules!r}"
