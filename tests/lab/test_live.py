"""The views in a real JupyterLab with a kernel and without a network."""

import re

import pytest

from tests.browser import needs_browser
from tests.lab.server import Page, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow, needs_browser]

SETUP = """
import workbench
from workbench.saturation import Limits, Saturation
graph = workbench.benchmark("bert", layers=2)
saturation = Saturation(graph, workbench.rule_set("default"), Limits(e_nodes=3000, iterations=6))
"""
ENDLESS = """
import workbench
from workbench.saturation import Limits, Saturation
b = workbench.GraphBuilder("sums")
x = b.input("x", (4, 4))
for k in range(30):
    x = b.op("add", x, b.input(f"x{k}", (4, 4)))
endless = Saturation(b.graph({"y": x}), workbench.rule_set("ac"), Limits(2_000_000, 600, 400))
"""


def label(page):
    return page.page.locator(".wb-stepper .wb-label").inner_text()


def test_a_saturation_is_started_and_stepped(lab, folder, offline):
    write_notebook(folder / "step.ipynb", SETUP, "stepper = saturation.view(); stepper")
    with Page(offline, lab, "step.ipynb") as page:
        page.run_all()
        page.page.wait_for_selector(".wb-stepper")
        page.page.locator(".jupyter-button", has_text="start").click()
        page.page.locator(".wb-status", has_text="stopped because").wait_for(timeout=60_000)
        page.page.locator(".wb-stepper").focus()
        page.page.keyboard.press("Home")
        assert label(page).startswith("iteration 0 of")
        page.page.keyboard.press("ArrowRight")
        assert label(page).startswith("iteration 1 of")
        page.page.locator(".wb-stepper input[type=range]").fill("2")
        assert label(page).startswith("iteration 2 of")
        chart = page.page.locator(".wb-stepper svg.wb-chart").first
        chart.click(position={"x": 58, "y": 100})
        assert label(page).startswith("iteration 0 of")
        page.page.get_by_label("play", exact=True).click()
        page.page.wait_for_function(
            "document.querySelector('.wb-stepper .wb-label').innerText.startsWith('iteration 2 of')"
        )
        assert page.wrong() == []


def test_the_pause_button_stops_a_running_saturation(lab, folder, offline):
    write_notebook(folder / "stop.ipynb", ENDLESS, "endless.view()", "print('known', len(endless.trace))")
    with Page(offline, lab, "stop.ipynb") as page:
        page.run_all()
        page.page.locator(".jupyter-button", has_text="start").click()
        page.page.wait_for_function(
            "/iteration [1-9]/.test(document.querySelector('.wb-stepper .wb-label').innerText)",
            timeout=60_000,
        )
        page.page.locator(".jupyter-button", has_text="pause").click()
        page.page.locator(".wb-status", has_text="paused; start continues").wait_for(timeout=240_000)
        # The kernel is free, and the object knows what it did.
        last = page.page.locator(".jp-CodeCell").last
        last.click()
        page.page.keyboard.press("Control+Enter")
        page.page.locator(".jp-OutputArea-output", has_text=re.compile(r"known ([2-9]|\d\d)")).wait_for()
        assert page.wrong() == []


def test_graphs_are_compared(lab, folder, offline):
    cells = (
        "import workbench\nresult = workbench.optimize(workbench.benchmark('bert', layers=2))",
        "result.compare().view()",
        "result.egraph.view(costs=result.costs, solution=result.solution)",
    )
    write_notebook(folder / "compare.ipynb", *cells)
    with Page(offline, lab, "compare.ipynb") as page:
        page.run_all()
        page.page.wait_for_selector(".wb-viewer .wb-box")
        assert page.page.locator(".wb-viewer").count() == 2
        first = page.page.locator(".wb-viewer").first
        first.locator(".wb-pane").nth(1).locator(".wb-box:not(.wb-opens)", has_text="matmul").first.click()
        assert "e-class" in first.locator(".wb-facts").inner_text()
        # The e-graph's viewer asks the kernel what an e-class would cost otherwise.
        second = page.page.locator(".wb-viewer").nth(1)
        second.get_by_role("searchbox").fill("matmul")
        page.page.keyboard.press("Enter")
        second.locator(".wb-facts", has_text=re.compile("Alternatives of e-class")).wait_for(timeout=60_000)
        assert page.wrong() == []


def test_a_bench_goes_the_whole_way_by_its_buttons(lab, folder, offline):
    write_notebook(
        folder / "bench.ipynb", "import workbench\nworkbench.lab(workbench.benchmark('bert', layers=1))"
    )
    with Page(offline, lab, "bench.ipynb") as page:
        page.run_all()
        page.page.locator(".jupyter-button", has_text="start").first.click()
        page.page.wait_for_function("document.body.innerText.includes('µs, optimal')", timeout=120_000)
        for tab, seen in (
            ("comparison", "original and optimised"),
            ("certificate", "equal on 3 random inputs"),
        ):
            page.page.locator(".lm-TabBar-tabLabel", has_text=tab).last.click()
            page.page.wait_for_function(f"document.body.innerText.includes('{seen}')", timeout=30_000)
        assert page.wrong() == []
