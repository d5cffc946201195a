"""The process of one solver: it reads one job from a pipe and reports its findings on another."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Mapping
from typing import IO

from workbench.extraction.exact.cuts import solve_by_cuts
from workbench.extraction.exact.types import Job, Link
from workbench.support.processes import limit_memory, receive, send, served
from workbench.support.wings import offered


def serve(name: str, job: Job, answers: IO[bytes]) -> None:
    """Solve a job with the named solver, and report better selections and bounds during the run.

    Frames are ``("better", picked, bound, cuts)`` and ``("bound", None, bound, cuts)`` during the run; at the end
    ``("done", picked, bound, proved)``.

    Args:
        name: ``"highs"`` or a method of Tensat.
        job: The problem and its limits.
        answers: The pipe for reports and the outcome.
    """

    def tell(picked: Mapping[int, int] | None, bound: float, cuts: int) -> None:
        send(answers, ("bound" if picked is None else "better", picked and dict(picked), bound, cuts))

    link = Link(tell)
    found = solve_by_cuts(job, link) if name == "highs" else offered("solve_tensat")(name, job, link)
    send(answers, ("done", found.picked, found.bound, found.proved))


def main() -> None:
    """Serve as ``python -m workbench.extraction.exact.worker SOLVER MEMORY_BYTES``: the frame in is the job.

    All output but frames is redirected to the standard error. At the end there may also be a frame
    ``("memory", …)`` or ``("error", message)``. The process ends with its parent.
    """
    requests, answers = served()
    gc.disable()
    name, memory = sys.argv[1], int(sys.argv[2])
    limit_memory(memory)
    try:
        job = receive(requests)
        threading.Thread(target=_end_with_parent, args=[requests], daemon=True).start()
        serve(name, job, answers)
    except MemoryError:
        send(answers, ("memory", None))
    except Exception as error:  # the parent reports every failure
        send(answers, ("error", f"{type(error).__name__}: {error}"))


def _end_with_parent(requests: IO[bytes]) -> None:
    """End this process when the pipe from the parent closes."""
    requests.read(1)
    os._exit(1)


if __name__ == "__main__":
    main()
