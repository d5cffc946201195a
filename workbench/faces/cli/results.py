"""``workbench results``: look at stored runs in a browser, as a page in a file or from this machine alone."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from workbench.faces.cli.console import complain, reporting_errors
from workbench.faces.cli.options import APPLICATION, option, writing
from workbench.support.files import check_writable
from workbench.support.messages import one_line

app = typer.Typer(
    name="results",
    help="Look at stored runs: pick studies, compare, plot, step through a trace.",
    **APPLICATION,
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
    output: Annotated[Path, option("FILE.html", "The page to write.", "--output", "-o")] = Path("runs.html"),
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
    port: Annotated[int, option("N", "Port on this machine; 0 takes a free one.", min=0, max=65535)] = 8913,
) -> None:
    """Serve the page of the stored runs on this machine alone, read anew at every reload; Ctrl-C ends it."""
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


#: The only address that is served, so that no other machine can read the results.
HOST: Final = "127.0.0.1"
#: The names that a browser on this machine may use for it. A request by another name comes from another page.
NAMES: Final = ("127.0.0.1", "localhost")


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the page of a folder's runs, on this machine alone.

    Raise OSError, which names another port to try, if the port is taken.
    """

    class Handler(_Handler):
        runs = folder

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise OSError(f"port {port} must be free, got: {error.strerror} (try --port 0)") from None


class _Handler(BaseHTTPRequestHandler):
    """Requests for the only page, which cannot be changed."""

    runs: Path
    server_version = "workbench"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page, made from the files as they are now."""
        self._answer(True)

    def do_HEAD(self) -> None:
        """Answer like a GET, without the page."""
        self._answer(False)

    def _answer(self, body: bool) -> None:
        name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if name not in NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, f"this server answers to {' and '.join(NAMES)} only")
            return
        if self.path.partition("?")[0] != "/":
            self.send_error(HTTPStatus.NOT_FOUND, "the page of runs is /")
            return
        from workbench.studies.experiments.stored_runs import browse

        try:
            content = browse(self.runs).page().encode()
        except (OSError, ValueError) as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, one_line(error))
            return
        self.send_response(HTTPStatus.OK)
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; "
            "style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'",
        }
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing about a request that was answered."""

    def log_error(self, format: str, *args: Any) -> None:
        """Write on stderr that a request was refused, and why."""
        complain(format % args)
