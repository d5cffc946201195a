"""What is left of a view when nothing runs: untrusted notebooks, converted ones, plain text."""

import base64
import json
import re
import subprocess
import sys

import pytest

from tests.browser import needs_browser
from tests.lab.server import Page, write_notebook

#: A notebook with a view of each kind, on one layer of BERT.
CELLS = (
    """
import workbench
from workbench.saturation import Limits, Saturation

graph = workbench.benchmark("bert", layers=1)
rules = workbench.rule_set("merge")
result = workbench.optimize(graph, rules=rules, cost="analytic", time=False)
saturation = Saturation(graph, rules, Limits(iterations=3))
saturation.run()
""",
    "saturation.view()",
    "saturation.egraph().view(most=60)",
    "graph.view(cost='analytic')",
    "result.compare().view()",
    "rules.view(ablation=workbench.studies.ablation(graph, rules, cost='analytic'))",
)

pytestmark = [pytest.mark.notebook, pytest.mark.slow]


@pytest.fixture(scope="package")
def executed(folder):
    """Return a notebook as papermill leaves it: never trusted, without the state of widgets."""
    papermill = pytest.importorskip("papermill", reason="papermill is not installed")
    path = folder / "views.ipynb"
    write_notebook(folder / "given.ipynb", *CELLS)
    papermill.execute_notebook(
        str(folder / "given.ipynb"), str(path), progress_bar=False, store_widget_state=False, cwd=str(folder)
    )
    return path


def views(path):
    """Return the outputs that are widgets."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [o for c in cells for o in c.get("outputs", []) if "data" in o]
    return [o["data"] for o in outputs if "application/vnd.jupyter.widget-view+json" in o["data"]]


def test_it_is_small_and_every_view_has_its_faces(executed):
    assert executed.stat().st_size < 1_000_000
    found = views(executed)
    assert len(found) == len(CELLS) - 1
    for data in found:
        html = "".join(data["text/html"])
        assert "<img" in html
        assert "<script" not in html
        assert len(html) < 400_000
        text = "".join(data["text/plain"])
        assert text.count("\n") <= 12
        assert "object at 0x" not in text


def test_pictures_are_pictures(executed):
    for data in views(executed):
        for kind, encoded in re.findall(
            r'src="data:image/([a-z+]+);base64,([^"]+)"', "".join(data["text/html"])
        ):
            content = base64.b64decode(encoded, validate=True)
            assert content.startswith(b"\x89PNG" if kind == "png" else b"<svg")


@pytest.mark.browser
@needs_browser
def test_untrusted_it_shows_pictures(executed, lab, offline):
    with Page(offline, lab, executed.name) as page:
        page.page.wait_for_timeout(1000)
        count = len(views(executed))
        # Nothing is shown as a widget, and every view as a picture that was loaded.
        assert page.page.locator(".wb-viewer, .wb-stepper").count() == 0
        for cell in page.page.locator(".jp-CodeCell").all():
            cell.scroll_into_view_if_needed()
        page.page.wait_for_timeout(500)
        loaded = page.page.locator(".jp-RenderedHTMLCommon img").evaluate_all(
            "all => all.filter((i) => i.src.startsWith('data:') && i.naturalWidth > 50).length"
        )
        assert loaded >= count
        assert [url for url in page.failed if "127.0.0.1" not in url] == []


@pytest.mark.browser
@needs_browser
def test_converted_it_needs_no_network(executed, offline):
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", str(executed)]
    subprocess.run(command, check=True, capture_output=True)
    html = executed.with_suffix(".html")
    context = offline.new_context()
    page = context.new_page()
    page.goto(html.as_uri())
    loaded = page.locator("img").evaluate_all("all => all.filter((i) => i.naturalWidth > 50).length")
    assert loaded >= len(views(executed))
    context.close()
