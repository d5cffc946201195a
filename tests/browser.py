"""A browser without a network, and a page with one of our modules and a model as anywidget makes it."""

import json
import os
import shutil

import pytest


def script(name):
    """Return a view's module as the browser gets it."""
    from workbench.faces.views.widgets import script

    return script(name)


#: What anywidget offers a module: get, set, save, events, messages to the kernel.
MODEL = """
class Model {
  constructor(state) { this.state = state; this.listeners = {}; this.sent = []; this.saved = 0; }
  get(name) { return this.state[name]; }
  set(name, value) { this.state[name] = value; }
  save_changes() { this.saved += 1; }
  send(message) { this.sent.push(message); }
  on(names, act) { for (const n of names.split(" ")) (this.listeners[n] ||= []).push(act); }
  change(name, value) {
    this.state[name] = value;
    (this.listeners[`change:${name}`] || []).forEach((f) => f());
  }
}
"""


def chromium():
    """Return the path of Debian's Chromium, None if it is missing."""
    return os.environ.get("WORKBENCH_CHROMIUM") or shutil.which("chromium")


needs_browser = pytest.mark.skipif(chromium() is None, reason="no Chromium here; CI installs it")


def show(browser, module, state, *, dark=False):
    """Return a page that renders a module with a state, and the list of what went wrong in it."""
    context = browser.new_context(color_scheme="dark" if dark else "light", offline=True)
    page = context.new_page()
    problems = []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.on("requestfailed", lambda r: problems.append(r.url))
    source = script(module)
    source = source.replace("export default { render };", "window.view = { render };")
    from workbench.faces.views.widgets import style

    page.set_content(
        f"<!DOCTYPE html><meta charset='utf-8'><style>:root {{ color-scheme: light dark }}"
        f" {style(module)}</style>"
        f"<div id='el'></div><script type='module'>{MODEL}\n{source}\n"
        f"window.model = new Model({json.dumps(state)});\n"
        "window.view.render({ model: window.model, el: document.getElementById('el') });</script>"
    )
    page.wait_for_function("window.view !== undefined")
    return page, problems
