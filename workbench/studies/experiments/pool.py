"""Pools of processes that do jobs: on this machine here, on others by Dask."""

from __future__ import annotations

import contextlib
import pickle
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench._version import __version__
from workbench.studies.experiments.process import Job, Outcome, reach_zoo, run_jobs
from workbench.studies.experiments.store import provenance
from workbench.support.messages import one_line

if TYPE_CHECKING:
    from workbench.laws.synthesis.shards import Evaluated, Mapper, Shard


#: A job with its outcome and the provenance from the machine that did it.
Done: TypeAlias = tuple[Job, Outcome, Mapping[str, Any]]
#: A function that does jobs and yields each when it ends; the running jobs end with the iteration.
Pool: TypeAlias = Callable[[Sequence[Job]], Generator[Done]]


def local_pool(at_once: int = 1) -> Pool:
    """Return the pool that does ``at_once`` jobs at a time, each in its own process on this machine."""

    def do(jobs: Sequence[Job]) -> Generator[Done]:
        where = provenance()
        for job, outcome in run_jobs(jobs, at_once):
            yield job, outcome, where
            where = provenance()

    return do


#: Seconds to wait for a scheduler, and again for its first worker.
PATIENCE = 20.0


class ClusterMissing(ConnectionError):
    """Raised when no Dask cluster is usable; the message explains how to start one."""


@contextlib.contextmanager
def cluster_pool(address: str) -> Iterator[Pool]:
    """Connect to a Dask scheduler (``tcp://HOST:PORT``) and return the pool of its workers.

    If the iteration over a pool is abandoned, its jobs are ended on the workers too. If a worker is lost,
    Dask gives its job to another worker. Files that jobs name must exist on the workers under the same
    path. Raise :class:`ClusterMissing` if ``distributed`` is not installed, if no scheduler answers within
    :data:`PATIENCE` seconds, if it has no worker, or if a worker lacks this version of the workbench.
    """
    with _connected(address) as client:

        def do(jobs: Sequence[Job]) -> Generator[Done]:
            from distributed import as_completed

            sweep = uuid.uuid4().hex
            # The job's name alone must not be the key: Dask would return the remembered result of a repeat.
            futures = {
                client.submit(_do, sweep, pickle.dumps(job), key=f"{job.name}-{sweep}", pure=False): job
                for job in jobs
            }
            try:
                for future in as_completed(futures, loop=client.loop):
                    job, error = futures[future], future.exception()
                    if error is None:
                        outcome, where = future.result()
                    else:
                        # Dask abandons a job after several workers were lost while doing it.
                        note = " ".join(f"{type(error).__name__}: {error}".split())
                        outcome, where = Outcome("crashed", None, note), provenance()
                    yield job, outcome, where
                    future.release()
            finally:
                if not all(future.done() for future in futures):
                    client.cancel(list(futures))
                    client.run(_halt, sweep, on_error="ignore")

        yield do


@contextlib.contextmanager
def cluster_mapper(address: str) -> Iterator[Mapper]:
    """Connect to a Dask scheduler and return the mapper of its workers; raise the errors of :func:`cluster_pool`."""
    with _connected(address) as client:
        yield _Cluster(client, sum(client.nthreads().values()))


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The mapper that evaluates shards on the workers of a Dask cluster."""

    client: Any
    workers: int

    def __call__(self, function: Callable[[Shard], Evaluated], shards: Sequence[Shard]) -> list[Evaluated]:
        """Return the results in the order of the shards."""
        futures = self.client.map(function, shards, pure=False)
        found: list[Evaluated] = self.client.gather(futures)
        return found


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise ClusterMissing(
            "a scheduler needs Dask: pip install 'tamago-workbench[dask]', or omit --scheduler"
        ) from None
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterMissing(
            f"no Dask scheduler answers at {address} ({one_line(error)}); `dask scheduler` "
            "starts one, `dask worker --nthreads 1 ADDRESS` a worker"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise ClusterMissing(
                f"the scheduler at {address} has no worker; `dask worker --nthreads 1 {address}` starts one"
            ) from None
        for worker, found in client.run(_version, on_error="return").items():
            if found != __version__:
                raise ClusterMissing(
                    f"the worker {worker} must have workbench {__version__}, got {found} (install it there)"
                )
        yield client


# -- on a worker --------------------------------------------------------------------------------------
_HALTS: dict[str, threading.Event] = {}


def _version() -> str:
    return __version__


def _halt(sweep: str) -> None:
    """End the jobs of a sweep that was abandoned."""
    _HALTS.setdefault(sweep, threading.Event()).set()


def _do(sweep: str, packed: bytes) -> tuple[Outcome, dict[str, Any]]:
    reach_zoo()  # the job may be one of its studies
    job: Job = pickle.loads(packed)
    where, halted = provenance(), Outcome("killed", None, "the sweep was abandoned")
    ended = run_jobs([job], halt=_HALTS.setdefault(sweep, threading.Event()))
    return next((outcome for _, outcome in ended), halted), where
