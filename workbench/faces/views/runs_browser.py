"""Stored runs as a widget: pick studies, compare two sets, plot, and step through a trace."""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.faces.views.runs import first_choice, runs_data, runs_html, runs_page, runs_script, runs_style
from workbench.faces.views.widget import View
from workbench.studies.experiments.stored_runs import StoredRuns


class RunsBrowser(View):
    """A widget for stored runs.

    ``chosen`` lists the series that are shown, each as ``"STUDY / METHOD"``. ``across`` and ``up`` are the
    figures of the axes (``up`` may be ``"network"``), ``first`` and ``second`` the series to compare, and
    ``selected`` is the number of the run on the card. All of them can be read and set. The widget contains
    all data and works without a kernel. A page without widgets shows the static face instead.
    """

    module = "runs"
    _esm = runs_script()
    _css = runs_style()

    data = traitlets.Dict().tag(sync=True)
    chosen = traitlets.List().tag(sync=True)
    query = traitlets.Unicode("").tag(sync=True)
    across = traitlets.Unicode("").tag(sync=True)
    up = traitlets.Unicode("network").tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)
    first = traitlets.Unicode("").tag(sync=True)
    second = traitlets.Unicode("").tag(sync=True)
    selected = traitlets.Int(-1).tag(sync=True)

    def __init__(self, stored: StoredRuns, study: str = "") -> None:
        if study:
            stored.only(study)
        data = runs_data(stored)
        super().__init__(stored, data=data, **first_choice(data, study))

    def face(self) -> str:
        """Return the static face for pages without scripts."""
        return runs_html(self._subject)

    def page(self) -> str:
        """Return the view as a complete page."""
        return runs_page(self._subject)

    def __repr__(self) -> str:
        shown: list[Any] = self.chosen
        return f"RunsBrowser of {', '.join(shown) or 'nothing'}: {self._subject!r}"
