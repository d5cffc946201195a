"""``workbench results``: look at stored runs in a browser, as a page in a file or from this machine alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workbench.faces.cli.console import complain, reporting_errors
from workbench.faces.cli.options import writing
from workbench.support.files import check_writable

app = typer.Typer(
    name="results",
    help="Look at stored runs: pick studies, compare, plot, step through a trace.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FolderArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FOLDER]", help="Folder of a study or of several; by default results/.", show_default=False
    ),
]


@app.command()
@reporting_errors
def page(
    folder: FolderArgument = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.html", help="The page to write.")
    ] = Path("runs.html"),
) -> None:
    """Write the stored runs as one page, which needs no server and no network."""
    check_writable(output)
    from workbench.studies.experiments.stored_runs import browse

    stored = browse("" if folder is None else folder)
    for line in stored.skipped:
        complain(f"skipped: {line}")
    writing(lambda: stored.save_html(output))
    typer.echo(f"{len(stored)} runs of {len(stored.studies)} studies; {output}")


@app.command()
@reporting_errors
def serve(
    folder: FolderArgument = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port on this machine; 0 takes a free one.")
    ] = 8913,
) -> None:
    """Serve the page of the stored runs on this machine alone, read anew at every reload; Ctrl-C ends it."""
    from workbench.faces.cli.results_server import HOST, server
    from workbench.studies.experiments.stored_runs import browse

    stored = browse("" if folder is None else folder)
    for line in stored.skipped:
        complain(f"skipped: {line}")
    with server(stored.folder, port) as found:
        typer.echo(f"{len(stored)} runs: http://{HOST}:{found.server_port}/ (Ctrl-C ends it)")
        try:
            found.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended")
