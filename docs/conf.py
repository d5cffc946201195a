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
author = "the authors of tamago workbench"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "notebooks/*.ipynb",
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
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Settings", "params_style")]

html_theme = "furo"
html_title = project
html_extra_path = ["_extra", "generated/site"]
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
html_copy_source = False


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
    app.connect("autodoc-process-docstring", _keep, priority=400)
    app.connect("autodoc-process-docstring", _restore, priority=600)
