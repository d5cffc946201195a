"""A widget that shows a static face: for what has neither steps nor a picture to move."""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.views.faces import static_html
from workbench.views.widget import STATIC, View, script


class Still(View):
    """Show an object's static face as it is."""

    module = "static"
    _esm = script("static")
    _css = STATIC / "static.css"
    html = traitlets.Unicode("").tag(sync=True)

    def __init__(self, subject: Any) -> None:
        super().__init__(subject, html=static_html(subject))
