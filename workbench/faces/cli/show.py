"""``workbench show`` and ``diff``: a model, an e-graph, or the difference of two models as a page that stands alone."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import typer

from workbench.faces.cli.console import reporting_errors
from workbench.faces.cli.options import DIM, SIZE, argument, check_files, dimensions, option, writing
from workbench.support.files import write_atomic


@reporting_errors
def show(
    file: Path = argument(
        ..., "FILE", "A model (ONNX, TASO's file.model), or an e-graph (egraph-serialize JSON, also gzipped)."
    ),
    output: Path | None = option(
        None, "PAGE.html", "Write the page here instead of opening it.", "--output", "-o"
    ),
    dim: list[str] = DIM,
    size: list[str] = SIZE,
) -> None:
    """Open a model or an e-graph as a page that stands alone."""
    check_files([file], [output])
    from workbench.faces.views import whole_page

    if {".json"} & {*file.suffixes}:
        from workbench.egraph import load_json

        egraph, costs = load_json(file)
        page = whole_page(egraph, costs=costs)
    else:
        from workbench.frontends import load_model

        page = whole_page(load_model(file, dims=dimensions(dim), sizes=dimensions(size, "--size")))
    typer.echo(str(_opened(page, output, file.stem)))


@reporting_errors
def diff(
    a: Path = argument(..., "A", "The first model."),
    b: Path = argument(..., "B", "The second model."),
    output: Path | None = option(
        None, "PAGE.html", "Write the page here instead of opening it.", "--output", "-o"
    ),
    dim: list[str] = DIM,
    size: list[str] = SIZE,
    seed: int = option(0, "N", "Seed of the inputs.", min=0),
) -> None:
    """Open two models side by side as a page; operators are related by equal values, not by names."""
    check_files([a, b], [output])
    from workbench.faces.views import whole_page
    from workbench.studies.analysis.diff import diff as compared

    found = compared(a, b, dims=dimensions(dim), sizes=dimensions(size, "--size"), seed=seed)
    typer.echo(str(found))
    typer.echo(str(_opened(whole_page(found), output, f"{a.stem}-{b.stem}")))


def _opened(page: str, output: Path | None, name: str) -> Path:
    """Write a page, open it if no file was named for it, and return its place."""
    place = output or Path(tempfile.mkdtemp(prefix="workbench-")) / f"{name}.html"
    writing(lambda: write_atomic(place, page))
    if output is None:
        webbrowser.open(place.as_uri())
    return place
