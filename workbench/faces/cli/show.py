"""``workbench show`` and ``diff``: a model, an e-graph, or the difference of two models as a page that stands alone."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from workbench.faces.cli.console import reporting_errors
from workbench.faces.cli.options import (
    DimOption,
    SizeOption,
    check_input,
    check_results,
    dimensions,
    option,
    writing,
)
from workbench.support.files import write_atomic


@reporting_errors
def show(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A model (ONNX, TASO's file.model), or an e-graph (egraph-serialize JSON, also gzipped).",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None, option("PAGE.html", "Write the page here instead of opening it.", "--output", "-o")
    ] = None,
    dim: DimOption = [],  # noqa: B006  (read only; typer wants the value itself)
    size: SizeOption = [],  # noqa: B006
) -> None:
    """Open a model or an e-graph as a page that stands alone."""
    check_input(file)
    check_results([output], keep=[file])
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
    a: Annotated[Path, typer.Argument(metavar="A", help="The first model.", show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", help="The second model.", show_default=False)],
    output: Annotated[
        Path | None, option("PAGE.html", "Write the page here instead of opening it.", "--output", "-o")
    ] = None,
    dim: DimOption = [],  # noqa: B006  (read only; typer wants the value itself)
    size: SizeOption = [],  # noqa: B006
    seed: Annotated[int, option("N", "Seed of the inputs.", min=0)] = 0,
) -> None:
    """Open two models side by side as a page; operators are related by equal values, not by names."""
    for file in (a, b):
        check_input(file)
    check_results([output], keep=[a, b])
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
