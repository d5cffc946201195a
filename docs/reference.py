"""Write the pages that are made from the package: operators from their specifications, and the interface."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from operators import operators_page

import workbench

DOCS: Final = Path(__file__).parent
#: The packages that users import names from.
DOORS: Final = ("workbench", "workbench.laws", "workbench.kernels", "workbench.studies")
#: The modules of the interface, with their purposes.
MODULES: Final = {
    "workbench.graph": "Graphs: typed operators in order, built by `GraphBuilder`",
    "workbench.rules": "Rules and rule sets",
    "workbench.saturation": "Saturation, step by step, with its limits",
    "workbench.extraction": "Extraction: the cheapest term, with a proof",
    "workbench.costs": "Cost models",
    "workbench.laws.verification.verify": "Verification of rules",
    "workbench.optimizer.result": "What `optimize` returns",
    "workbench.certification": "Certificates, and the comparison of any two files",
    "workbench.frontends": "Models in and out",
    "workbench.studies.search": "TASO's backtracking search, the baseline",
    "workbench.run.trace": "Traces: the steps of a run as data",
    "workbench.faces.plots": "Figures",
    "workbench.studies.experiments.records": "The records that figures are drawn from",
    "workbench.results": "Stored runs",
}


def write(folder: Path) -> None:
    """Write all pages into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in (("operators", operators_page()), ("interface", interface_page())):
        page = folder / f"{name}.md"
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def write_runs(folder: Path) -> None:
    """Write the page of the runs that the repository stores."""
    folder.mkdir(exist_ok=True)
    stored = workbench.results.browse(DOCS.parent / "results")
    if stored.skipped:
        raise ValueError(f"stored runs must be readable, got: {stored.skipped[0]}")
    stored.save_html(folder / "runs.html")


def public(module: ModuleType) -> Iterator[object]:
    """Yield the things that a module documents."""
    for name in getattr(module, "__all__", vars(module)):
        yield getattr(module, name)


def interface_page() -> str:
    """Return the page of the interface: the names of the package, then the modules behind them."""
    said = "The names of `import workbench` and of its wings. Modules with more are below."
    parts = ["# Interface", said, "```{eval-rst}"]
    # A thing has one place that links lead to: its module below, or else here.
    below = {id(thing) for module in MODULES for thing in public(import_module(module))}
    homes = {name: door for door in reversed(DOORS) for name in import_module(door).__all__}
    for name, door in sorted(homes.items(), key=lambda item: item[0].lower()):
        thing = getattr(import_module(door), name)
        kind = "autoclass" if isinstance(thing, type) else "autofunction"
        options = "\n   :members:" if kind == "autoclass" else ""
        options += "\n   :no-index:" if id(thing) in below else ""
        parts.append(f".. {kind}:: {door}.{name}{options}\n")
    parts.append("```")
    for module, about in MODULES.items():
        parts += [
            f"## {module}",
            f"{about}.",
            "```{eval-rst}",
            f".. automodule:: {module}\n   :members:",
            "```",
        ]
    return "\n\n".join(parts) + "\n"
