"""A solver in a process of its own; its last report is kept if it dies or runs out of memory or time."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Final

from workbench.extraction.exact.cuts import solve_by_cuts
from workbench.extraction.exact.types import Best, Job, Solved
from workbench.extraction.result import Ending, Limit
from workbench.support.processes import SOLVER_MEMORY, Child, limit_memory, receive, send, served
from workbench.support.wings import offered

#: Callback with seconds, cost and bound; returns whether to go on.
Patience = Callable[[float, float, float], bool]


@dataclass(slots=True, eq=False)
class SolverProcess:
    """A solver on one job, until it proves an optimum or ends, or the time is up.

    ``name`` is ``"highs"`` or a method of Tensat. ``best`` is the best selection and bound so far, ``endings`` are
    the reasons for an early end. ``child`` is the process while it runs and after.
    """

    job: Job
    name: str = "highs"
    memory: int = SOLVER_MEMORY
    proved: bool = False
    done: bool = False
    best: Best = field(init=False)
    endings: list[Ending] = field(default_factory=list)
    child: Child | None = None

    def __post_init__(self) -> None:
        self.best = Best.of(self.job)

    def run(self, patience: Patience | None = None) -> Iterator[None]:
        """Run the process to its end; yield every better cost or bound, and go on while ``patience`` does."""
        began, best = time.perf_counter(), self.best
        self.child = Child("workbench.extraction.exact.solver_process", self.name, str(self.memory))
        try:
            with contextlib.suppress(BrokenPipeError):  # if the process has died, the first read notices it
                self.child.send(self.job)
            known = best.cost, best.bound
            while not self.proved and not self.done:
                left = began + self.job.seconds - time.perf_counter()
                if left <= 0:
                    self.endings.append(Ending(Limit.TIME))
                    break
                self._listen(self.child, min(left, 0.2))
                if (best.cost, best.bound) != known:
                    known = best.cost, best.bound
                    yield
                if patience and not patience(time.perf_counter() - began, best.cost, best.bound):
                    self.endings.append(Ending(Limit.PATIENCE))
                    break
        finally:
            self.child.kill()
        if not self.proved and not self.endings:
            self.endings.append(Ending(Limit.TIME))  # the solver observes it itself

    @property
    def solved(self) -> Solved:
        """Return the best selection and bound found so far."""
        return Solved(self.best.picked, self.best.bound, self.proved, tuple(self.endings))

    def _listen(self, child: Child, seconds: float) -> None:
        if not child.answered(seconds):
            return
        try:
            kind, *report = child.receive()
        except EOFError:
            code = child.wait()
            kind, report = ("killed", []) if code < 0 else ("error", [f"its process ended with code {code}"])
        if kind in _ENDINGS:
            self.done = True
            self.endings.append(Ending(_ENDINGS[kind], self.name, *report))
            return
        picked, bound, last = report
        if picked is not None:
            self.best.offer(picked)  # which checks cost and acyclicity, as a solver may err
        self.best.raise_bound(min(bound, self.best.cost))
        if kind == "done":
            self.done, self.proved = True, last
        else:
            self.best.formulas = max(self.best.formulas, last)
        self.proved |= self.best.met


#: The reports after which a process has ended without a solution.
_ENDINGS: Final = {"memory": Limit.MEMORY, "error": Limit.FAILED, "killed": Limit.KILLED}


# -- in the process -----------------------------------------------------------------------------------
def main() -> None:
    """Serve as ``python -m workbench.extraction.exact.solver_process SOLVER MEMORY_BYTES``: the frame in is the job.

    Frames out are ``("found", picked or None, bound, cuts)`` during the run, and at its end
    ``("done", picked, bound, proved)``, ``("memory",)`` or ``("error", message)``. All other output is redirected to
    the standard error. The process ends with its parent.
    """
    requests, answers = served()
    gc.disable()
    name, memory = sys.argv[1], int(sys.argv[2])
    limit_memory(memory)

    def tell(picked: Mapping[int, int] | None, bound: float, cuts: int) -> None:
        send(answers, ("found", picked and dict(picked), bound, cuts))

    try:
        job = receive(requests)
        threading.Thread(target=_end_with_parent, args=[requests], daemon=True).start()
        found = solve_by_cuts(job, tell) if name == "highs" else offered("solve_tensat")(name, job, tell)
        send(answers, ("done", found.picked, found.bound, found.proved))
    except MemoryError:
        send(answers, ("memory",))
    except Exception as error:  # the parent reports every failure
        send(answers, ("error", f"{type(error).__name__}: {error}"))


def _end_with_parent(requests: IO[bytes]) -> None:
    """End this process when the pipe from the parent closes."""
    requests.read(1)
    os._exit(1)


if __name__ == "__main__":
    main()
