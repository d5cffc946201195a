"""The process of one solver: it reads one job from a pipe and reports its findings on another."""

from __future__ import annotations

import gc
import os
import select
import sys
import threading
from collections.abc import Mapping
from typing import IO

from workbench.extraction.exact.types import Job, Link
from workbench.support.processes import limit_memory, receive, send, served
from workbench.support.wings import offered


def serve(name: str, job: Job, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Solve a job with the named solver, and report better selections and bounds during the run.

    Frames in are better selections found by other solvers. Frames out are ``("better", picked, bound, cuts)``
    and ``("bound", None, bound, cuts)`` during the run; at the end ``("done", picked, bound, proved)``.

    Args:
        name: ``"highs"``, ``"cp-sat:THREADS"`` or a method of Tensat.
        job: The problem and its limits.
        requests: The pipe with selections found by other solvers.
        answers: The pipe for reports and the outcome.
    """
    lock = threading.Lock()

    def tell(picked: Mapping[int, int] | None, bound: float, cuts: int) -> None:
        with lock:
            send(answers, ("bound" if picked is None else "better", picked and dict(picked), bound, cuts))

    def hear() -> dict[int, int] | None:
        heard: dict[int, int] | None = None
        while select.select([requests], [], [], 0.0)[0]:
            try:
                heard = receive(requests)
            except EOFError:
                os._exit(1)  # the parent process has gone
        return heard

    link = Link(tell, hear)
    # A process imports its own solver only: HiGHS and CP-SAT cannot be loaded into the same one.
    if name == "highs":
        from workbench.extraction.exact.cuts import solve_by_cuts

        found = solve_by_cuts(job, link)
    elif name.startswith("tensat"):
        found = offered("solve_tensat")(name, job, link)
    else:
        from workbench.extraction.exact.cpsat import solve_cpsat

        found = solve_cpsat(job, link, threads=int(name.partition(":")[2] or 2))
    send(answers, ("done", found.picked, found.bound, found.proved))


def main() -> None:
    """Serve as ``python -m workbench.extraction.exact.worker SOLVER MEMORY_BYTES``: the first frame in is the job.

    All output but frames is redirected to the standard error. At the end there may also be a frame
    ``("memory", …)`` or ``("error", message)``.
    """
    requests, answers = served()
    gc.disable()
    name, memory = sys.argv[1], int(sys.argv[2])
    limit_memory(memory)
    try:
        serve(name, receive(requests), requests, answers)
    except MemoryError:
        send(answers, ("memory", None))
    except Exception as error:  # the parent reports every failure
        send(answers, ("error", f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main()
