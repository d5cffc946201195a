"""Pools of processes that do jobs: on this machine here, on others in :mod:`.cluster`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.studies.experiments.process import Job, Outcome, run_jobs
from workbench.studies.experiments.store import provenance


@dataclass(frozen=True, slots=True)
class Done:
    """A job with its outcome; ``where`` is the provenance from the machine that did it."""

    job: Job
    outcome: Outcome
    where: Mapping[str, Any]


class Pool(Protocol):
    """A function that does jobs and yields each when it ends, in any order.

    If the iteration ends early, so do the running jobs.
    """

    def __call__(self, jobs: Sequence[Job]) -> Generator[Done]:
        """Do the jobs and yield each with its outcome."""
        ...


def local_pool(at_once: int = 1) -> Pool:
    """Return the pool that does ``at_once`` jobs at a time, each in its own process on this machine."""

    def do(jobs: Sequence[Job]) -> Generator[Done]:
        where = provenance()
        for job, outcome in run_jobs(jobs, at_once):
            yield Done(job, outcome, where)
            where = provenance()

    return do
