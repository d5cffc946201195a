"""The sweep of a study: do the runs without a record, and write each record as soon as its run ends."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from workbench.studies.experiments.plan import Plan, Record, Run, Task, Tell
from workbench.studies.experiments.pool import Pool, local_pool
from workbench.studies.experiments.process import Outcome
from workbench.studies.experiments.store import load_record, provenance, save_record


def sweep(
    plan: Plan,
    runs: Iterable[Run],
    *,
    pool: Pool | None = None,
    force: bool = False,
    command: str = "",
    tell: Tell = lambda text: None,
) -> Generator[Record]:
    """Do runs, write their records and yield each record when it is written.

    Records that are written stay if the iteration is abandoned.

    Args:
        plan: The plan of the study.
        runs: The runs to do; runs with a missing file are left out.
        pool: The pool that does the jobs; by default one at a time on this machine.
        force: Whether to do runs that already have a record.
        command: The command line that started the sweep, for the provenance.
        tell: A function that shows a message about the progress.

    Yields:
        The record of each run.
    """
    pool = pool or local_pool()
    todo = [run for run in runs if not run.absent and (force or load_record(plan.place(run)) is None)]
    for tasks in plan.work.batches(todo, tell):
        for task in tasks:
            if task.job is None:
                yield _keep(plan, task, Outcome("failed", None, task.why), provenance(), command)
        by_name = {task.job.name: task for task in tasks if task.job is not None}
        jobs = [task.job for task in tasks if task.job is not None]
        with contextlib.closing(pool(jobs)) as ended:
            for done in ended:
                yield _keep(plan, by_name[done.job.name], done.outcome, done.where, command)


def _keep(plan: Plan, task: Task, outcome: Outcome, where: Mapping[str, Any], command: str) -> Record:
    figures, trace = plan.work.figures(task, outcome)
    record = {
        "name": task.run.name,
        "config": dict(task.run.config),
        "failed": outcome.status != "done",
        "wall_seconds": round(outcome.seconds, 3),
        **figures,
        "provenance": {**where, "seed": task.run.seed, "command": command},
    }
    save_record(plan.place(task.run), record, trace)
    return record
