"""The plan of a study: its runs, the folders of their records; and the sweep that does the runs without one."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from workbench.studies.experiments.config import Method, NetworkStudy, is_file_name, resource, title
from workbench.studies.experiments.pool import Pool, local_pool
from workbench.studies.experiments.process import Job, Outcome
from workbench.studies.experiments.store import digest, load_record, provenance, save_record

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.run.trace import Trace
    from workbench.studies.experiments.config import Study


Record: TypeAlias = dict[str, Any]
Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a study: a method applied to a subject, which is a network, an e-graph or a set of rules.

    ``config`` holds the settings that determine the figures. ``seconds`` is the time that the limits allow.
    ``absent`` names a required file missing on this machine; ``config`` then has no digest for it.
    """

    subject: str
    method: str
    config: Mapping[str, Any]
    seconds: float
    seed: int
    repeat: int = 0
    absent: str = ""

    @property
    def name(self) -> str:
        """Return the name ``SUBJECT:METHOD``, with ``#2`` and so on appended for repeats."""
        return f"{self.subject}:{self.method}" + (f"#{self.repeat + 1}" if self.repeat else "")

    @property
    def stem(self) -> str:
        """Return the beginning of the name of the run's folder."""
        return f"{self.subject.replace('/', '-')}-{self.method}"

    @property
    def folder(self) -> str:
        """Return the name of the run's folder."""
        return f"{self.stem}-{digest(self.config)}"


@dataclass(frozen=True, slots=True)
class Task:
    """A run with its job, or with the reason ``why`` no job is possible.

    ``known`` holds figures that are known before the job is done.
    """

    run: Run
    job: Job | None
    why: str = ""
    known: Mapping[str, Any] = field(default_factory=dict)


class Work(Protocol):
    """The part of a sweep that depends on the kind of study."""

    def batches(self, runs: Sequence[Run], tell: Tell) -> Iterator[Sequence[Task]]:
        """Prepare runs and yield their tasks, in batches of runs that share a preparation."""
        ...

    def figures(self, task: Task, outcome: Outcome) -> tuple[Record, Trace | None]:
        """Return the record of a run without its settings and provenance, and the trace or None."""
        ...

    def elsewhere(self, folder: Path, known: set[str]) -> list[Record]:
        """Return records of other machines whose runs cannot be planned here because files are missing."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs of a study, the folder of its records, and the reasons for which runs are skipped."""

    study: Study
    work: Work
    runs: tuple[Run, ...]
    folder: Path
    skipped: tuple[str, ...]

    def place(self, run: Run) -> Path:
        """Return the folder of a run's record."""
        return self.folder / "runs" / run.folder

    def load(self, run: Run) -> Record | None:
        """Return the record of a run, or None.

        If a file of the run is missing here, a record from another machine with the same settings is used.
        """
        if not run.absent:
            return load_record(self.place(run))
        for folder in sorted((self.folder / "runs").glob(f"{run.stem}-*")):
            record = load_record(folder)
            if record is not None and without_digests(record["config"]) == run.config:
                return record
        return None

    def records(self) -> list[Record]:
        """Return the existing records, in the order of the study."""
        found = [record for run in self.runs if (record := self.load(run)) is not None]
        if self.skipped:
            # Records of files come before those of networks, as on a machine that has the files.
            found = self.work.elsewhere(self.folder, {record["name"] for record in found}) + found
        return found

    def missing(self) -> list[Run]:
        """Return the runs that can be done here and have no record."""
        return [run for run in self.runs if not run.absent and load_record(self.place(run)) is None]

    def only(self, pattern: str | None) -> list[Run]:
        """Return the runs whose name, subject or method matches a pattern; None matches all.

        Runs with a missing file are left out. Raise ValueError if the pattern matches no run of the study.
        """

        def fits(run: Run) -> bool:
            names = (run.name, run.subject, run.method)
            return pattern is None or any(fnmatch.fnmatchcase(name, pattern) for name in names)

        found = [run for run in self.runs if fits(run)]
        if not found and self.runs:
            raise ValueError(
                f"the pattern must match SUBJECT:METHOD, a subject or a method, got {pattern!r} "
                f"(try {self.runs[0].name})"
            )
        return [run for run in found if not run.absent]


def without_digests(config: object) -> object:
    """Return settings without the digests of files."""
    if not isinstance(config, Mapping):
        return config
    return {key: without_digests(value) for key, value in config.items() if key != "sha256"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One method on one network; ``model``, ``rules`` and ``cost`` are names or paths.

    ``config`` is the beginning of a run's settings. ``absent`` says which file is missing, if any.
    """

    network: str
    name: str
    method: Method
    rules: str
    cost: str
    config: Record
    absent: str
    model: str = ""

    def graph(self) -> Graph:
        """Return the network: a published one, or that of a model file at usual sizes."""
        from workbench.frontends import load_model
        from workbench.studies.benchmarks import benchmark

        return load_model(self.model) if is_file_name(self.model) else benchmark(self.network)


def cells(study: NetworkStudy, home: Path) -> tuple[list[Cell], tuple[str, ...]]:
    """Return every method on every network, network by network, and the reasons why some are skipped.

    The study's paths are relative to ``home``.
    """
    cost, cost_config, no_costs = resource(study.cost, home)
    skipped = {no_costs: None} if no_costs else {}
    found: list[Cell] = []
    for given in study.networks:
        network = title(given)
        model, model_config, no_model = resource(given, home)
        if no_model:
            skipped[f"{network}: {no_model}"] = None
        for name, method in study.methods.items():
            rules, rules_config, no_rules = resource(method.rules, home)
            if no_rules:
                skipped[f"{name}: {no_rules}"] = None
            config = {
                "study": study.KIND,
                "network": model_config,
                "method": {"by": method.BY, **asdict(method), "rules": rules_config},
                "cost": cost_config,
            }
            absent = no_costs or no_rules or no_model
            found.append(Cell(network, name, method, rules, cost, config, absent, model))
    return found, tuple(skipped)


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


# -- runs that share no preparation -----------------------------------------------------------------------
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
