"""``workbench run``: do the runs of a study that a YAML file describes."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.faces.cli.console import FAILED, INTERRUPTED, complain, reporting_errors, show_table, stop
from workbench.faces.cli.options import QuietOption, check_input, flag, option
from workbench.support.files import UnwritableOutput, check_writable

if TYPE_CHECKING:
    from workbench.studies.experiments.plan import Plan, Run
    from workbench.studies.experiments.pool import Pool


@reporting_errors
def run(
    file: Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="The study.", show_default=False)],
    only: Annotated[
        str | None,
        option("PATTERN", "Only the runs that match: NETWORK:METHOD, a network (or e-graph), or a method."),
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", "List the runs without doing them.")] = False,
    jobs: Annotated[int, option("N", "Runs at a time.", "--jobs", "-j", min=1)] = 1,
    scheduler: Annotated[
        str | None, option("tcp://HOST:PORT", "Do the runs on a Dask cluster instead of here.")
    ] = None,
    results: Annotated[Path, option("FOLDER", "Folder of the records.")] = Path("results"),
    force: Annotated[bool, flag("--force", "Also do runs that have a record.")] = False,
    reports: Annotated[
        bool, typer.Option(help="Render a notebook for each run done now and one for the study.")
    ] = True,
    quiet: QuietOption = False,
) -> None:
    """Do the runs of a study that have no record yet, and make its tables; exit with 1 if one failed."""
    check_input(file)
    from workbench.studies.experiments.plan import sweep
    from workbench.studies.experiments.registry import make_plan, outcome_line, read_study
    from workbench.studies.experiments.tables import write_tables

    plan = make_plan(read_study(file), file.parent, results / file.stem)
    for reason in plan.skipped:
        complain(f"skipped: {reason}")
    chosen = plan.only(only)
    missing = {r.name for r in plan.missing()}
    if dry_run:
        _list(plan, chosen, missing)
        return
    todo = len(chosen) if force else sum(r.name in missing for r in chosen)
    _check_folder(plan.folder)
    command = _command(file, only, jobs, scheduler, force)
    done = 0
    kept: list[str] = []

    def tell(text: str) -> None:
        if not quiet:
            print(f"[{done}/{todo}] {text}", file=sys.stderr, flush=True)

    try:
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(_pool(scheduler if todo else None, jobs))
            records = sweep(plan, chosen, pool=pool, force=force, command=command, tell=tell)
            for record in stack.enter_context(contextlib.closing(records)):
                done += 1
                kept.append(record["name"])
                tell(outcome_line(record))
    except KeyboardInterrupt:
        if done:
            write_tables(plan)
        stop(
            INTERRUPTED,
            f"interrupted: {done} runs are kept, {todo - done} are left; run the command again to continue",
        )
    write_tables(plan)
    if reports and kept:
        _report(plan, [run for run in chosen if run.name in set(kept)], quiet)
    failed = [r["name"] for r in plan.records() if r["failed"] and r["name"] in {c.name for c in chosen}]
    what = f"{done} of {len(chosen)} runs done now" if todo else f"nothing to do: {len(chosen)} runs are done"
    skipped = sum(bool(r.absent) for r in plan.runs)
    what += f", {skipped} are skipped because a file is missing" if skipped else ""
    typer.echo(f"{what}; {plan.folder / 'table.md'}")
    if failed:
        stop(FAILED, f"{len(failed)} failed: {', '.join(failed)}; --force does them again")


def _report(plan: Plan, runs: Sequence[Run], quiet: bool) -> None:
    """Render the reports of runs and of their study.

    A report that fails is reported on stderr with its reason; the others are still rendered.
    """
    from workbench.studies.experiments.reports import ReportError, render_run, render_study

    failures: dict[str, list[str]] = {}
    wanted = [(run.name, partial(render_run, plan.place(run))) for run in runs]
    wanted.append(("the study", partial(render_study, plan.folder)))
    for number, (name, render) in enumerate(wanted, 1):
        if not quiet:
            print(f"[report {number}/{len(wanted)}] {name}", file=sys.stderr, flush=True)
        try:
            render()
        except ReportError as error:
            failures.setdefault(str(error), []).append(name)
            if isinstance(error.__cause__, ImportError):
                break
        except KeyboardInterrupt:
            stop(
                INTERRUPTED,
                f"interrupted: all runs are kept, {len(wanted) - number + 1} reports are not made",
            )
    for reason, names in failures.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        complain(f"no report of {names[0]}{more}: {reason}")


@contextlib.contextmanager
def _pool(scheduler: str | None, jobs: int) -> Iterator[Pool]:
    if scheduler is not None:
        from workbench.studies.experiments.pool import cluster_pool

        with cluster_pool(scheduler) as pool:
            yield pool
        return
    from workbench.studies.experiments.pool import local_pool

    yield local_pool(jobs)


def _command(file: Path, only: str | None, jobs: int, scheduler: str | None, force: bool) -> str:
    """Return the command for the report, without this machine's folders and addresses."""
    words = ["workbench", "run", file.name if file.is_absolute() else file.as_posix()]
    words += ["--only", only] if only is not None else []
    words += ["-j", str(jobs)] if scheduler is None else ["--scheduler", "tcp://…"]
    return shlex.join([*words, *(["--force"] if force else [])])


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableOutput(f"{folder}: {error.strerror}") from None
    check_writable(folder / "table.md")


def _list(plan: Plan, runs: list[Run], missing: set[str]) -> None:
    rows = [
        (r.name, f"{r.seconds:g}", "to do" if r.name in missing else "done", plan.place(r).name) for r in runs
    ]
    show_table(("run", "seconds", "state", "folder"), rows, right=[1])
