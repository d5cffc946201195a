"""A solver's process: reads one problem from a pipe, tells what it finds on another.

Run as ``python -m workbench.extraction.worker SOLVER MEMORY_BYTES``. Frames in: the job, then better
selections of others. Frames out: ``("better", picked, bound, cuts)`` and ``("bound", None, bound, cuts)``,
at the end ``("done", picked, bound, proved)``, ``("memory", …)`` or ``("error", message)``.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

from workbench.extraction.solving import Job
from workbench.frames import limit_memory, receive, send


def solve(name: str, job: Job, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Solve a job with the solver named; tell of better selections and bounds meanwhile."""
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
                os._exit(1)  # nobody listens any more
        return heard

    common: dict[str, Any] = {"tell": tell, "hear": hear}
    if name == "highs":
        from workbench.extraction.highs import solve_highs

        found = solve_highs(job.problem, job.must, job.start, job.seconds, forbidden=job.forbidden, **common)
    elif name.startswith("tensat"):
        from workbench.extraction.tensat import solve_tensat

        found = solve_tensat(name, job.problem, job.seconds, tell=tell)
    else:
        from workbench.extraction.cpsat import solve_cpsat

        threads = int(name.partition(":")[2] or 2)
        found = solve_cpsat(job.problem, job.must, job.start, job.seconds, threads=threads, **common)
    send(answers, ("done", found.picked, found.bound, found.proved))


def main() -> None:
    """Serve on the standard streams; whatever else prints goes to the standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    name, memory = sys.argv[1], int(sys.argv[2])
    limit_memory(memory)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    try:
        solve(name, receive(requests), requests, answers)
    except MemoryError:
        send(answers, ("memory", None))
    except Exception as error:  # every failure goes to the parent, which says so
        send(answers, ("error", f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main()
