"""A widget that shows a static face, for objects that have neither steps nor a movable picture."""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.faces.views.faces import static_html
from workbench.faces.views.widget import View, script, style


class Still(View):
    """A widget that shows an object's static face."""

    module = "static"
    _esm = script("static")
    _css = style("static")
    html = traitlets.Unicode("").tag(sync=True)

    def __init__(self, subject: Any) -> None:
        super().__init__(subject, html=static_html(subject))
