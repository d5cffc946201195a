"""Settings of the documentation site, which ``bin/docs`` builds from the repository as it lies."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import live  # noqa: E402
import reference  # noqa: E402

reference.write(DOCS / "generated")
# The page of stored runs lies at the top of the site, next to the page that leads to the documentation.
reference.write_runs(DOCS / "generated" / "site")
live.write_views(DOCS / "generated" / "site" / "views")

project = "tamago workbench"
author = "the tamago workbench contributors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "notebooks/*.ipynb",
    "notebooks/README.md",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "rules/README.md",
    "experiments/README.md",
    "results/README.md",
    "results/*/*.md",
    "workbench/*/README.md",
]
exclude_patterns = [
    ".venv*",
    "build",
    "docs/generated/site",
    "out",
    "**/out",
    "tests",
    "**/runs",
    ".git",
    ".*_cache",
]

# Notebooks are committed with their outputs; nothing is run to build the site.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # widgets keep a static face, so no script is loaded
myst_heading_anchors = 3
myst_enable_extensions = ["fieldlist"]
# A link to a file that is not a page, such as a module, is a download.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 90
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Settings", "params_style")]

html_theme = "furo"
html_title = project
html_extra_path = ["_extra", "generated/site"]
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_js_files = ["filter.js"]
html_show_sphinx = False
html_copy_source = False


#: What people search for, by the page that answers; the search ranks these entries first.
SEARCHED = {
    "README": "install, installation, pip, requirements",
    "docs/index": "install, demo, quick start",
    "docs/models": "batch, batch size, dynamic shapes, symbolic dimensions, ONNX, load a model",
    "docs/command-line": "CLI, options, shell",
    "docs/generated/options": "CLI options, flags",
    "docs/how-to/accelerator": "own accelerator, systolic array, hardware",
    "docs/how-to/cost-model": "own cost model, custom cost",
    "docs/how-to/device": "own device, GPU, CUDA",
    "docs/how-to/extractor": "own extractor",
    "docs/how-to/operator": "own operator, custom operator",
    "docs/how-to/rule": "own rule, custom rule, write a rule, rewrite rule",
    "docs/how-to/study": "own study, experiment, benchmark",
    "docs/how-to/target": "own target, runtime",
    "docs/how-to/torch-compile": "torch.compile, training",
    "docs/how-to/torch-tensorflow": "Hugging Face, HuggingFace, transformers, PyTorch, TensorFlow, Keras, BERT",
    "docs/online": "Binder, Colab, Docker, container",
    "docs/views": "widgets, stepper, Voilà, ipywidgets, dashboard",
    "rules/README": "rules, rule library, theorems",
}


def _searched(_app: object, page: str, source: list[str]) -> None:
    """Append a page's entries of the index, which Sphinx's search knows."""
    if entries := SEARCHED.get(page):
        source[0] += (
            f"\n```{{index}} !{entries.replace(', ', ', !')}\n```\n"  # ! is for entries that come first
        )


#: Sentences about properties and attributes, by name, while Napoleon reads the others.
_kept: dict[str, list[str]] = {}


def _keep(_app: object, what: str, name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Keep a property's sentence from Napoleon, which would take what is before a colon for a type."""
    if what in ("attribute", "data", "property"):
        _kept[name], lines[:] = list(lines), []


def _restore(_app: object, _what: str, name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Put back what was kept."""
    lines.extend(_kept.pop(name, ()))


def setup(app: Sphinx) -> None:
    """Connect what the settings alone cannot say."""
    app.connect("source-read", _searched)
    app.connect("autodoc-process-docstring", _keep, priority=400)
    app.connect("autodoc-process-docstring", _restore, priority=600)
