"""A JupyterLab of its own: a folder, a port of the loopback, no settings of anybody's, no network."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

#: Chromium resolves nothing but the loopback, so that a request elsewhere fails and is seen.
NO_NETWORK = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def jupyter_lab(folder, home):
    """Yield the address of a JupyterLab that serves a folder; ``home`` takes its settings."""
    port = free_port()
    settings = home / "config" / "lab" / "user-settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    # All cells stay in the page, seen or not; nobody is asked whether there is news.
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    news = settings.parent / "apputils-extension"
    news.mkdir(exist_ok=True)
    (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    environment = os.environ | {
        "HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "config"), "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"), "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    command = [
        sys.executable, "-m", "jupyter", "lab", f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1",
        "--IdentityProvider.token=", "--ServerApp.password=", "--ServerApp.disable_check_xsrf=True",
        f"--ServerApp.root_dir={folder}", "--no-browser", "--ServerApp.allow_root=True",
        # The page's own object of the application shows what it waits for.
        "--LabApp.expose_app_in_browser=True",
        # News and updates would be asked for elsewhere.
        "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    with (home / "lab.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/status", timeout=2).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((home / "lab.log").read_text()[-2000:]) from None
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


#: What JupyterLab itself says on the console without a network, or of itself; none of it is ours.
ITS_OWN = re.compile(
    r"favicon|404 \(Not Found\)|Failed to load resource|ResizeObserver|DEPRECATED|jupyterlab"
)

HAS_KERNEL = """() => {
    const session = window.jupyterapp?.shell?.currentWidget?.sessionContext;
    return session?.isReady && session.session?.kernel?.status === 'idle';
}"""


class Page:
    """A notebook open in JupyterLab, and all that went wrong in the page."""

    def __init__(self, browser, address, notebook):
        self.context = browser.new_context(viewport={"width": 1500, "height": 1100})
        self.page = self.context.new_page()
        self.failed, self.errors = [], []
        self.page.on("requestfailed", lambda r: self.failed.append(r.url))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        # A workspace of its own: no tabs of the page before.
        self.page.goto(f"{address}/lab/workspaces/w{time.time_ns()}/tree/{notebook}")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.context.close()

    def wrong(self):
        """Return requests that left the machine, and errors that are not JupyterLab's own."""
        elsewhere = [url for url in self.failed if "127.0.0.1" not in url]
        return elsewhere + [text for text in self.errors if not ITS_OWN.search(text)]

    def run_all(self, timeout=120):
        """Run all cells and wait until the last one has its number."""
        # JupyterLab asks for a kernel, in a dialog, when a cell is run before the session has one.
        self.page.wait_for_function(HAS_KERNEL, timeout=timeout * 1000)
        self.page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            prompts = self.prompts()
            if prompts and all(re.search(r"\d", p) for p in prompts):
                return
            self.page.wait_for_timeout(200)
        asks = self.page.locator("dialog").all_inner_texts()
        raise TimeoutError(f"cells still run after {timeout} s: {self.prompts()}; JupyterLab asks {asks}")

    def prompts(self):
        return self.page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts()


def write_notebook(path, *cells):
    """Write a notebook of code cells."""
    made = [
        {
            "cell_type": "code", "id": f"cell-{k}", "metadata": {}, "execution_count": None, "outputs": [],
            "source": source,
        }
        for k, source in enumerate(cells)
    ]  # fmt: skip
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook), encoding="utf-8")
