"""The controls under Voilà: an app of a notebook, driven by its buttons."""

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.browser import needs_browser
from tests.lab.server import free_port, write_notebook

pytest.importorskip("voila", reason="voila is not installed")
pytestmark = [pytest.mark.browser, pytest.mark.slow, needs_browser]

APP = """
import workbench
from workbench.saturation import Limits, Saturation
saturation = Saturation(workbench.benchmark("bert", layers=1), limits=Limits(e_nodes=3000, iterations=6))
saturation.view()
"""


@pytest.fixture
def app(tmp_path):
    write_notebook(tmp_path / "app.ipynb", APP)
    port = free_port()
    command = [sys.executable, "-m", "voila", "app.ipynb", f"--port={port}", "--no-browser"]
    folders = {
        "HOME": str(tmp_path),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "c"),
    }
    path = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    with (tmp_path / "voila.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=os.environ | folders | {"PYTHONPATH": path}, stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/voila/static/main.js", timeout=2).close()
            except urllib.error.HTTPError:
                break  # it answers
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError((tmp_path / "voila.log").read_text()[-2000:]) from None
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def test_a_saturation_is_stepped_started_and_looked_at(app, offline):
    page = offline.new_page()
    try:
        page.goto(app, timeout=120_000)
        page.locator(".wb-stepper").wait_for(timeout=120_000)
        page.locator(".jupyter-button", has_text="step").click()
        page.locator(".wb-label", has_text="iteration 1 of 1").wait_for(timeout=60_000)
        page.locator(".jupyter-button", has_text="start").click()
        page.locator(".wb-status", has_text="stopped because").wait_for(timeout=60_000)
        page.get_by_label("first step").click()
        assert page.locator(".wb-label").inner_text().startswith("iteration 0 of")
        assert page.locator(".jupyter-button", has_text="start").is_disabled()
    finally:
        page.close()
