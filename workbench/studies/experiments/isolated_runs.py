"""The work of a study whose runs share no preparation: each is one call in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from workbench.studies.experiments.plan import Plan, Record, Run, Task, Tell
from workbench.studies.experiments.process import Job, Outcome

if TYPE_CHECKING:
    from workbench.run.trace import Trace
    from workbench.studies.experiments.config import Study

#: Results of a function besides the figures of a record: they become part of the row, or are kept apart.
_OF_THE_ROW: Final = ("row", "status", "notes", "trace")

#: The reasons to stop that are limits, if a function does not name the limits that it met.
_LIMITS: Final = ("time limit", "killed")


@dataclass(frozen=True, slots=True)
class Call:
    """The input of one run's process: the argument ``order`` and the limits beyond those of the run.

    Attributes:
        order: The argument of the study's function.
        columns: The columns of the run's row that its settings give.
        grace: The seconds after the run's own limit at which its process is killed.
    """

    order: object
    columns: Record
    grace: float


@dataclass(frozen=True, slots=True)
class Apart:
    """The work of a study whose runs share no preparation.

    ``function`` is a function of a module. It takes the order of a run and returns a dictionary: ``row`` and
    ``result``, ``status`` and ``stop_reason``, and, if there are any, ``notes``, ``limits_hit``, ``trace``
    and further figures of the record. ``blank`` holds those figures for a run without an outcome.

    Attributes:
        function: The work of one run.
        calls: The input of each run's process, by the run's name.
        memory: The memory limit of a process, in GiB.
        blank: The figures of a run that returned nothing.
    """

    function: Callable[..., Record]
    calls: Mapping[str, Call]
    memory: float
    blank: Record = field(default_factory=dict)

    def batches(self, runs: Sequence[Run], tell: Tell) -> Iterator[list[Task]]:
        """Yield the tasks of all runs in one batch."""
        memory = int(self.memory * 2**30)
        tasks = []
        for run in runs:
            call = self.calls[run.name]
            limit = run.seconds + call.grace
            tasks.append(Task(run, Job(run.name, self.function, call.order, limit, run.seed, memory)))
        yield tasks

    def figures(self, task: Task, outcome: Outcome) -> tuple[Record, Trace | None]:
        """Return the record of a run without its settings and provenance, and the trace or None."""
        run, found = task.run, outcome.value or {}
        call = self.calls[run.name]
        row = {
            **call.columns,
            "method": run.method,
            "repeat": run.repeat,
            **found.get("row", {}),
            "status": found.get("status", outcome.status),
            "notes": "; ".join(note for note in (outcome.note, *found.get("notes", ())) if note),
        }
        reason = found.get("stop_reason", outcome.status)
        figures = {
            "row": row,
            "stop_reason": reason,
            "limits_hit": ["time limit"] if reason in _LIMITS else [],
            "result": {},
            **self.blank,
            **{key: value for key, value in found.items() if key not in _OF_THE_ROW},
        }
        return figures, found.get("trace")

    def elsewhere(self, folder: Path, known: set[str]) -> list[Record]:
        """Return an empty list: the names of these runs do not depend on their files."""
        return []


def repeats(count: int, seed: int) -> Iterable[tuple[int, int]]:
    """Return the numbers of a run's repeats, each with its seed; every repeat has the next seed."""
    return enumerate(range(seed, seed + count))


def plan_apart(
    study: Study,
    folder: Path,
    function: Callable[..., Record],
    found: Iterable[tuple[Run, Call]],
    *,
    blank: Record | None = None,
    skipped: Iterable[str] = (),
) -> Plan:
    """Return the plan of a study whose runs share no preparation.

    Args:
        study: The study.
        folder: The folder of its records and tables.
        function: The work of one run.
        found: The runs, each with the input of its process.
        blank: The figures of a run that returned nothing.
        skipped: The reasons for which runs are skipped; read after ``found``.
    """
    pairs = list(found)
    calls = {run.name: call for run, call in pairs}
    work = Apart(function, calls, study.memory, blank or {})
    return Plan(study, work, tuple(run for run, _ in pairs), folder, tuple(skipped))
