"""``workbench bench``, ``run`` and ``results``: published networks, studies and their stored runs."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from workbench.faces.cli import console, options
from workbench.faces.cli.console import Progress, command, complain, show_table, stop
from workbench.faces.cli.options import argument, check_files, flag, option, write_json, writing
from workbench.saturation.limits import Limits
from workbench.support.files import check_writable
from workbench.support.formatting import times
from workbench.support.messages import UnknownName, one_line

if TYPE_CHECKING:
    from workbench.studies.experiments.plan import Plan, Run
    from workbench.studies.experiments.stored_runs import StoredRuns


@options.with_settings(Limits, "e_nodes", "seconds", "iterations", "k_multi", "settle")
def bench(
    network: list[str] | None = argument(None, "NETWORK", "Published networks."),
    all_: bool = flag("--all", "All published networks."),
    rules: list[str] = options.RULES,
    cost: str = options.COST,
    json: Path | None = options.JSON,
    quiet: bool = options.QUIET,
    **settings: Any,
) -> None:
    """Run published networks and show the measured figures next to those of the papers."""
    check_files([], [json])
    from workbench.studies.benchmarks import benchmarks
    from workbench.studies.benchmarks.run import run_benchmark

    if all_ and network:
        raise ValueError(f"--all and {' '.join(network)} contradict each other; leave one out")
    names = benchmarks() if all_ else network
    if not names:
        raise ValueError(f"no network is given; name one, or use --all. There are: {', '.join(benchmarks())}")
    if len(rules) > 1:
        raise ValueError(f"--rules must be given at most once here, got {', '.join(rules)}")
    limits = Limits(**settings)
    runs = []
    for name in names:
        with Progress(name, quiet=quiet) as progress:
            progress("whole call")
            runs.append(run_benchmark(name, rules=rules[0], cost=cost, limits=limits))
    write_json(json, lambda: [r.summary() for r in runs])
    headings = ("network", "e-nodes", "e-classes", "it.", "stop", "sat. s", "extr. s", "whole s", "Tensat s",
                "times", "original µs", "tree", "DAG", "exact", "Tensat", "TASO")  # fmt: skip
    table = []
    for r in runs:
        p, whole = r.published, r.whole_call.seconds
        theirs = ("–",) * 4
        if p is not None:
            gains = times(1 + p.tensat_speedup / 100), times(1 + p.taso_speedup / 100)
            theirs = (f"{p.tensat_seconds:g}", f"{r.faster:.1f}×", *gains)
        saturated = r.stage("saturation") + r.stage("snapshot")
        ours = (f"{saturated:.3f}", f"{r.stage('extraction'):.3f}", f"{whole:.2f}")
        gained = [times(1 + r.gain(method)) for method in ("tree", "dag", "exact")]
        sizes = (r.e_nodes, r.e_classes, r.iterations, r.stop_reason)
        table.append((r.network, *sizes, *ours, *theirs[:2], f"{r.original:.1f}", *gained, *theirs[2:]))
    show_table(headings, table, right=[i for i in range(1, len(headings)) if i != 4])
    from workbench.costs.model import described
    from workbench.studies.benchmarks import SOURCE

    apart = ", ".join(f"{r.network} {r.stage('engine'):.2f} + {r.stage('pricing'):.2f}" for r in runs)
    typer.echo(
        f"\nGains: original / optimised, {described(runs[0].cost_source)}; those of Tensat and TASO are "
        f"measured: {SOURCE}.\n"
        "times: Tensat's seconds / the workbench's seconds, saturation and extraction only. Excluded: engine "
        f"start + pricing in seconds: {apart}.\n"
        f"whole: optimize() in a fresh process, imports and certificate included: "
        f"{sum(r.whole_call.seconds for r in runs):.1f} s in total, search {sum(r.search for r in runs):.1f} s."
    )


def run(
    file: Path = argument(..., "STUDY", "The study: a file, or its name in experiments."),
    only: str | None = option(
        None, "PATTERN", "Only the runs that match: NETWORK:METHOD, a network (or e-graph), or a method."
    ),
    dry_run: bool = flag("--dry-run", "List the runs without doing them."),
    jobs: int = option(1, "N", "Runs at a time.", "--jobs", "-j", min=1),
    scheduler: str | None = option(None, "tcp://HOST:PORT", "Do the runs on a Dask cluster instead of here."),
    results: Path = option(Path("results"), "FOLDER", "Folder of the records."),
    force: bool = flag("--force", "Also do runs that have a record."),
    rehearse: bool = flag(
        "--rehearse", "With the settings of the study's rehearsal, such as a CPU in the GPU's place."
    ),
    reports: bool = option(True, None, "Render a notebook for each run done now and one for the study."),
    quiet: bool = options.QUIET,
) -> None:
    """Do the runs of a study that have no record yet, and make its tables; exit with 1 if one failed."""
    file = _study(file)
    check_files([file])
    from workbench.studies.experiments.plan import sweep
    from workbench.studies.experiments.pool import cluster_pool, local_pool
    from workbench.studies.experiments.registry import make_plan, outcome_line, read_study
    from workbench.studies.experiments.tables import write_tables

    study = read_study(file)
    if rehearse:
        study, results = study.rehearsed(), results / "scratch"
    plan = make_plan(study, file.parent, results / study.place(file.stem))
    for reason in plan.skipped:
        complain(f"skipped: {reason}")
    chosen = plan.only(only)
    missing = {r.name for r in plan.missing()}
    if dry_run:
        rows = [
            (r.name, f"{r.seconds:g}", "to do" if r.name in missing else "done", plan.place(r).name)
            for r in chosen
        ]
        show_table(("run", "seconds", "state", "folder"), rows, right=[1])
        return
    todo = len(chosen) if force else sum(r.name in missing for r in chosen)
    options.place_of_result(plan.folder / "table.md")
    # The command for the report, without this machine's folders and addresses.
    words = ["workbench", "run", file.name if file.is_absolute() else file.as_posix()]
    words += ["--only", only] if only is not None else []
    words += ["-j", str(jobs)] if scheduler is None else ["--scheduler", "tcp://…"]
    said = shlex.join([*words, *(["--force"] if force else [])])
    kept: list[str] = []

    def tell(text: str) -> None:
        if not quiet:
            print(f"[{len(kept)}/{todo}] {text}", file=sys.stderr, flush=True)

    try:
        with contextlib.ExitStack() as stack:
            pool = local_pool(jobs)
            if scheduler is not None and todo:
                pool = stack.enter_context(cluster_pool(scheduler))
            records = sweep(plan, chosen, pool=pool, force=force, command=said, tell=tell)
            for record in stack.enter_context(contextlib.closing(records)):
                kept.append(record["name"])
                tell(outcome_line(record))
    except KeyboardInterrupt:
        if kept:
            write_tables(plan)
        kept_now = f"{len(kept)} runs are kept, {todo - len(kept)} are left"
        stop(console.INTERRUPTED, f"interrupted: {kept_now}; run the command again to continue")
    write_tables(plan)
    if kept:
        _pictures(plan)
    if reports and kept:
        _report(plan, [run for run in chosen if run.name in set(kept)], quiet)
    failed = [r["name"] for r in plan.records() if r["failed"] and r["name"] in {c.name for c in chosen}]
    what = f"nothing to do: {len(chosen)} runs are done"
    if todo:
        what = f"{len(kept)} of {len(chosen)} runs done now"
    skipped = sum(bool(r.absent) for r in plan.runs)
    what += f", {skipped} are skipped because a file is missing" if skipped else ""
    again = "" if todo else " (--results FOLDER makes them again elsewhere, --force here)"
    typer.echo(f"{what}; {plan.folder / 'table.md'}{again}")
    if failed:
        stop(console.FAILED, f"{len(failed)} failed: {', '.join(failed)}; --force does them again")


def _study(given: Path) -> Path:
    """Return the file of a study: the given one, or the one of this name in the folder ``experiments``."""
    if given.exists() or given.suffix:
        return given
    folder = Path("experiments")
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    if not known:
        raise FileNotFoundError(f"no study is called {given} (try a file STUDY.yaml, or a clone's folder)")
    if given.name not in known:
        raise UnknownName("study", str(given), known, also=f" (in {folder}), or a file STUDY.yaml")
    return folder / f"{given.name}.yaml"


def _pictures(plan: Plan) -> None:
    """Draw the figures of a kind that has some next to the tables; complain if a package for it is missing."""
    from workbench.studies.experiments.registry import module_of

    kind = module_of(plan.study.KIND)
    if not hasattr(kind, "draw"):
        return
    try:
        records = plan.records()
        for name, figure in kind.draw(plan, kind.table(records), records).items():
            writing(partial(figure.savefig, plan.folder / f"{name}.png", dpi=120))
    except ImportError as error:
        complain(f"no pictures: {one_line(error)}")


def _report(plan: Plan, runs: Sequence[Run], quiet: bool) -> None:
    """Render the reports of runs and of their study; one that fails is reported on stderr, the others are rendered."""
    from workbench.faces.plots.reports import ReportError, render

    failures: dict[str, list[str]] = {}
    wanted = [(run.name, "run", plan.place(run)) for run in runs] + [("the study", "study", plan.folder)]
    for number, (name, kind, folder) in enumerate(wanted, 1):
        if not quiet:
            print(f"[report {number}/{len(wanted)}] {name}", file=sys.stderr, flush=True)
        try:
            render(kind, folder)
        except ReportError as error:
            failures.setdefault(str(error), []).append(name)
            if isinstance(error.__cause__, ImportError):
                break
        except KeyboardInterrupt:
            left = len(wanted) - number + 1
            stop(console.INTERRUPTED, f"interrupted: all runs are kept, {left} reports are not made")
    for reason, names in failures.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        complain(f"no report of {names[0]}{more}: {reason}")


app = typer.Typer(
    name="results",
    help="Look at stored runs: pick studies, compare, plot, step through a trace.",
    **options.APPLICATION,
)


@command(app)
def page(
    folder: Path | None = argument(None, "FOLDER", "Folder of a study or of several; by default results/."),
    output: Path = option(Path("runs.html"), "FILE.html", "The page to write.", "--output", "-o"),
) -> None:
    """Write the stored runs as one page, which needs no server and no network."""
    check_writable(output)
    stored = _stored(folder)
    writing(lambda: stored.save_html(output))
    typer.echo(f"{len(stored)} runs of {len(stored.studies)} studies; {output}")


@command(app)
def serve(
    folder: Path | None = argument(None, "FOLDER", "Folder of a study or of several; by default results/."),
    port: int = option(8913, "N", "Port on this machine; 0 takes a free one.", min=0, max=65535),
) -> None:
    """Serve the page of the stored runs on this machine alone, read anew at every reload; Ctrl-C ends it."""
    stored = _stored(folder)
    with server(stored.folder, port) as found:
        typer.echo(f"{len(stored)} runs: http://{HOST}:{found.server_port}/ (Ctrl-C ends it)")
        try:
            found.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended")


def _stored(folder: Path | None) -> StoredRuns:
    """Return the runs of a folder; complain of files that were skipped."""
    from workbench.studies.experiments.stored_runs import browse

    stored = browse("" if folder is None else folder)
    for line in stored.skipped:
        complain(f"skipped: {line}")
    return stored


#: The only address that is served, so that no other machine can read the results.
HOST: Final = "127.0.0.1"
#: The names that a browser on this machine may use for it. A request by another name comes from another page.
NAMES: Final = ("127.0.0.1", "localhost")


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the page of a folder's runs, on this machine alone.

    Raise OSError, which names another port to try, if the port is taken.
    """
    try:
        return ThreadingHTTPServer((HOST, port), partial(_Handler, folder))
    except OSError as error:
        raise OSError(f"port {port} must be free, got: {error.strerror} (try --port 0)") from None


class _Handler(BaseHTTPRequestHandler):
    """Requests for the only page, which cannot be changed."""

    server_version = "workbench"
    sys_version = ""

    def __init__(self, runs: Path, *request: Any) -> None:
        self.runs = runs
        super().__init__(*request)  # it answers the request

    def do_GET(self) -> None:
        """Answer with the page, made from the files as they are now; a HEAD gets the same without the page."""
        host = self.headers.get("Host", "")
        name = host.rpartition(":")[0] or host
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
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing about a request that was answered."""

    def log_error(self, format: str, *args: Any) -> None:
        """Write on stderr that a request was refused, and why."""
        complain(format % args)
