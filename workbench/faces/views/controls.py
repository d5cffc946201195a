"""The controls of an object that can take steps: buttons and sliders around its stepper, all ipywidgets."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import ipywidgets as widgets

from workbench.extraction.extract import Extraction
from workbench.faces.views.widgets import Stepper
from workbench.run.stepper import Stepwise
from workbench.saturation import Limits, Saturation

#: How wide a control is, and its name within it.
WIDE: Final = {"layout": {"width": "320px"}, "style": {"description_width": "90px"}}
#: Where the meta data of a saturation's trace keep a limit.
_META: Final = {
    "e_nodes": "e_node_limit",
    "iterations": "iteration_limit",
    "seconds": "time_limit",
    "k_multi": "k_multi",
}


class Controls(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A box of ipywidgets for an object that can take steps: start, pause, step, its limits, and its stepper.

    Every part can be linked, observed and put elsewhere. A limit that is changed before a run or at a pause
    holds from the next step on.

    Args:
        subject: A saturation, an extraction, or another stepwise object.
        title: The title of the stepper.
    """

    def __init__(self, subject: Stepwise, title: str = "") -> None:
        self.subject = subject
        self.stepper = Stepper(subject, title)
        self.start_button = button("start", "play", self.stepper.start)
        self.pause_button = button("pause", "pause", self.stepper.pause)
        self.step_button = button("step", "step-forward", self.stepper.advance)
        self.limits: dict[str, widgets.Widget] = {}
        if isinstance(subject, Saturation):
            self.limits = limit_sliders(subject.limits)
        elif isinstance(subject, Extraction):
            self.limits = {"seconds": _slider("seconds", subject.seconds)}
        for name, slider in self.limits.items():
            slider.observe(lambda change, name=name: self._limit(name, change["new"]), "value")
        self.stepper.observe(self._state, ["running", "status"])
        buttons = widgets.HBox([self.start_button, self.pause_button, self.step_button])
        super().__init__([buttons, widgets.VBox(list(self.limits.values())), self.stepper])
        self._state()

    def _limit(self, name: str, value: Any) -> None:
        if isinstance(self.subject, Saturation):
            self.subject.limits = replace(self.subject.limits, **{name: value})
        else:
            self.subject.seconds = value  # type: ignore[attr-defined]  # an extraction
        self.subject.trace.meta[_META[name]] = value
        self.stepper.refresh()

    def _state(self, _change: object = None) -> None:
        running, over = self.stepper.running, not self.stepper.unfinished
        self.pause_button.disabled = not running
        for control in (self.start_button, self.step_button, *self.limits.values()):
            control.disabled = running or over

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Return the widget, with the static face of its object for pages without widgets."""
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return dict(data) | {"text/plain": repr(self), "text/html": self.stepper.face()}, metadata

    def __repr__(self) -> str:
        return repr(self.stepper)

    def page(self) -> str:
        """Return the stepper as a complete page, which needs no kernel."""
        return self.stepper.page()

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the stepper as one file that opens from disk, without a kernel or network access."""
        self.stepper.save_html(path)


def limit_sliders(limits: Limits) -> dict[str, widgets.Widget]:
    """Return sliders for the limits of a saturation, by name."""
    return {name: _slider(name, getattr(limits, name)) for name in _META}


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


def button(name: str, icon: str, action: Callable[[], None]) -> widgets.Button:
    """Return a button that calls a function."""
    made = widgets.Button(description=name, icon=icon)
    made.on_click(lambda _: action())
    return made
