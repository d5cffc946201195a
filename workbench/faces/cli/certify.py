"""``workbench certify``: check whether two model files compute the same, and locate a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workbench.faces.cli.console import FAILED, Progress, reporting_errors
from workbench.faces.cli.options import (
    DimOption,
    QuietOption,
    check_input,
    check_results,
    dimensions,
    write_json,
)


@reporting_errors
def certify(
    a: Annotated[Path, typer.Argument(metavar="A", help="The original, an ONNX file.", show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", help="The optimised ONNX file.", show_default=False)],
    dim: DimOption = [],  # noqa: B006
    draws: Annotated[int, typer.Option(min=1, metavar="N", help="Inputs to draw.")] = 4,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the draws.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.001, metavar="S", help="Limit on all work.")] = 600.0,
    run_seconds: Annotated[float, typer.Option(min=0.001, metavar="S", help="Limit on one run.")] = 120.0,
    memory: Annotated[
        float | None,
        typer.Option(min=0.1, max=65_536, metavar="GIB", help="Limit on the runtime's memory."),
    ] = None,
    repro: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a small model that shows the difference.")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the outcome as JSON.")] = None,
    outputs_only: Annotated[
        bool, typer.Option("--outputs-only", help="Do not compare values inside if the outputs agree.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Compare a model with its original; exit with 1 if they differ."""
    for file in (a, b):
        check_input(file)
    check_results([json, repro], keep=[a, b])
    from workbench.certification import certify_files

    with Progress(quiet=quiet) as progress:
        found = certify_files(
            a,
            b,
            dims=dimensions(dim),
            draws=draws,
            seed=seed,
            seconds=seconds,
            run_seconds=run_seconds,
            memory=None if memory is None else int(memory * 2**30),
            repro=repro,
            inside=not outputs_only,
            progress=lambda text: progress("comparison", text),
        )
    write_json(json, found.summary)
    typer.echo(str(found))
    if not found.equal:
        raise typer.Exit(FAILED)
