"""The process of one solver: it reads one problem from a pipe and reports its findings on another.

Run as ``python -m workbench.extraction.exact.worker SOLVER MEMORY_BYTES``. Frames in: the job, then better
selections found by other solvers. Frames out: ``("better", picked, bound, cuts)`` and
``("bound", None, bound, cuts)`` during the run; at the end ``("done", picked, bound, proved)``,
``("memory", …)`` or ``("error", message)``.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

from workbench.extraction.exact.types import Job
from workbench.support.processes import limit_memory, receive, send, served


def solve(name: str, job: Job, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Solve a job with the named solver and report better selections and bounds during the run.

    Args:
        name: ``"highs"``, ``"cp-sat:THREADS"``, ``"lns"`` or a method of Tensat.
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

    common: dict[str, Any] = {"tell": tell, "hear": hear}
    if name == "highs" and job.forbidden:
        from workbench.extraction.exact.highs import solve_highs

        common |= {"forbidden": job.forbidden, "apart": job.apart}
        found = solve_highs(job.problem, job.must, job.start, job.seconds, **common)
    elif name == "highs":
        from workbench.extraction.exact.cuts import solve_by_cuts

        found = solve_by_cuts(job.problem, job.must, job.start, job.seconds, **common)
    elif name == "lns":
        from workbench.extraction.exact.lns import solve_lns

        assert job.start is not None
        found = solve_lns(job.problem, job.start, job.seconds, tell=tell, hear=hear)
    elif name.startswith("tensat"):
        from workbench.extraction.exact.tensat import solve_tensat

        found = solve_tensat(name, job.problem, job.seconds, tell=tell)
    else:
        from workbench.extraction.exact.cpsat import solve_cpsat

        threads = int(name.partition(":")[2] or 2)
        found = solve_cpsat(job.problem, job.must, job.start, job.seconds, threads=threads, **common)
    send(answers, ("done", found.picked, found.bound, found.proved))


def main() -> None:
    """Serve on the standard streams; all other output is redirected to the standard error."""
    requests, answers = served()
    gc.disable()
    name, memory = sys.argv[1], int(sys.argv[2])
    limit_memory(memory)
    try:
        solve(name, receive(requests), requests, answers)
    except MemoryError:
        send(answers, ("memory", None))
    except Exception as error:  # the parent reports every failure
        send(answers, ("error", f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main()
