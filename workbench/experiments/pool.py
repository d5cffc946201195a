"""Where jobs are done: in processes on this machine, or as :mod:`~workbench.experiments.cluster` has it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.experiments.process import Job, Outcome, run_jobs
from workbench.experiments.store import provenance


@dataclass(frozen=True, slots=True)
class Done:
    """Hold how a job ended, and the provenance of what it found: of the machine that did it."""

    job: Job
    outcome: Outcome
    where: Mapping[str, Any]


class Pool(Protocol):
    """Do jobs and return each when it ends, in any order; what runs ends with the iteration."""

    def __call__(self, jobs: Sequence[Job]) -> Generator[Done]:
        """Do jobs."""
        ...


def local_pool(at_once: int = 1) -> Pool:
    """Return the pool that does so many jobs at a time, each in a process of its own on this machine."""

    def do(jobs: Sequence[Job]) -> Generator[Done]:
        where = provenance()
        for job, outcome in run_jobs(jobs, at_once):
            yield Done(job, outcome, where)
            where = provenance()

    return do
