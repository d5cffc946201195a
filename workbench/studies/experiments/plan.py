"""The plan of a study: its runs, the folders of their records; and the sweep that does the runs without one."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from workbench.studies.experiments.config import NetworkStudy, is_file_name, resource, title
from workbench.studies.experiments.pool import Pool, local_pool
from workbench.studies.experiments.process import Job, Outcome
from workbench.studies.experiments.store import digest, load_record, provenance, save_record

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.run.trace import Trace
    from workbench.studies.experiments.config import Study


Record: TypeAlias = dict[str, Any]
Tell: TypeAlias = Callable[[str], None]
#: The work of one run of a study, which returns the figures.
Work: TypeAlias = Callable[[Any, "Run"], Record]

#: Results of a function besides the figures of a record: they become part of the row, or are kept apart.
_OF_THE_ROW: Final = ("row", "status", "notes", "trace")

#: The reasons to stop that are limits, if a function does not name the limits that it met.
_LIMITS: Final = ("time limit", "killed")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a study: a method applied to a subject, which is a network, an e-graph or a set of rules.

    ``config`` holds the settings that determine the figures. ``seconds`` is the time that the limits allow; the
    process is killed ``grace`` seconds later, by default those of the study. ``absent`` names a required file
    missing on this machine; ``config`` then has no digest for it. ``order`` is what the study's function needs
    besides. ``columns`` of the row and ``figures`` of the record are known before the run.
    """

    subject: str
    method: str
    config: Mapping[str, Any]
    seconds: float
    seed: int = 0
    repeat: int = 0
    absent: str = ""
    order: Any = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    grace: float | None = None

    @property
    def name(self) -> str:
        """Return the name ``SUBJECT:METHOD``, with ``#2`` and so on appended for repeats."""
        return f"{self.subject}:{self.method}" + (f"#{self.repeat + 1}" if self.repeat else "")

    @property
    def folder(self) -> str:
        """Return the name of the run's folder, which ends in the digest of its settings."""
        return f"{self.subject.replace('/', '-')}-{self.method}-{digest(self.config)}"

    def record(self, outcome: Outcome) -> tuple[Record, Trace | None]:
        """Return the record of an outcome without its provenance, and the trace or None."""
        found = outcome.value or {}
        row = {
            **self.columns,
            "method": self.method,
            "repeat": self.repeat,
            **found.get("row", {}),
            "status": found.get("status", outcome.status),
            "notes": "; ".join(note for note in (outcome.note, *found.get("notes", ())) if note),
        }
        reason = found.get("stop_reason", outcome.status)
        record = {
            "name": self.name,
            "config": dict(self.config),
            "failed": outcome.status != "done",
            "wall_seconds": round(outcome.seconds, 3),
            "row": row,
            "stop_reason": reason,
            "limits_hit": ["time limit"] if reason in _LIMITS else [],
            "result": {},
            **self.figures,
            **{key: value for key, value in found.items() if key not in _OF_THE_ROW},
        }
        return record, found.get("trace")


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs of a study, the folder of its records, and the reasons for which runs are skipped.

    ``function`` is a function of a module. It does a run of the study in a process of its own and returns a
    dictionary: ``row`` and ``result``, ``status`` and ``stop_reason``, and, if there are any, ``notes``,
    ``limits_hit``, ``trace`` and further figures of the record.
    """

    study: Study
    function: Work
    runs: tuple[Run, ...]
    folder: Path
    skipped: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, study: Study, folder: Path, function: Work, runs: Iterable[Run], skipped: Iterable[str] = ()
    ) -> Self:
        """Return the plan of runs and their repeats, each of which has the next seed.

        Args:
            study: The study.
            folder: The folder of its records and tables.
            function: The work of one run.
            runs: The runs; their settings need neither the kind of the study nor the seed.
            skipped: Reasons for which further runs are skipped.
        """
        found = tuple(
            replace(run, config={"study": study.KIND, **run.config, "seed": seed}, seed=seed, repeat=repeat)
            for run in runs
            for repeat, seed in enumerate(range(study.seed, study.seed + study.repeats))
        )
        reasons = dict.fromkeys((*skipped, *(run.absent for run in found if run.absent)))
        return cls(study, function, found, folder, tuple(reasons))

    def place(self, run: Run) -> Path:
        """Return the folder of a run's record."""
        return self.folder / "runs" / run.folder

    def load(self, run: Run) -> Record | None:
        """Return a run's record or None; if a file of it is missing here, one of the same settings from elsewhere."""
        if not run.absent:
            return load_record(self.place(run))
        stem, _, _ = self.place(run).name.rpartition("-")
        found = map(load_record, sorted((self.folder / "runs").glob(f"{stem}-*")))
        return next((r for r in found if r is not None and without_digests(r["config"]) == run.config), None)

    def records(self) -> list[Record]:
        """Return the existing records, in the order of the study."""
        found = [record for run in self.runs if (record := self.load(run)) is not None]
        # Records of files come before those of networks, as on a machine that has the files.
        other = self.elsewhere({record["name"] for record in found}) if self.skipped else []
        return other + found

    def missing(self) -> list[Run]:
        """Return the runs that can be done here and have no record."""
        return [run for run in self.runs if not run.absent and load_record(self.place(run)) is None]

    def only(self, pattern: str | None) -> list[Run]:
        """Return the runs here whose name, subject or method matches a pattern; raise ValueError if none does."""

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

    def batches(self, runs: Sequence[Run], tell: Tell) -> Iterator[Sequence[Run]]:
        """Prepare runs and yield them, in batches that share a preparation; ``absent`` says why one is impossible."""
        yield runs

    def elsewhere(self, known: set[str]) -> list[Record]:
        """Return records of other machines whose runs cannot be planned here because files are missing."""
        return []

    def job(self, run: Run) -> Job:
        """Return the job that does a run in a process of its own."""
        grace = self.study.grace if run.grace is None else run.grace
        memory = int(self.study.memory * 2**30)
        return Job(run.name, partial(self.function, self.study), run, run.seconds + grace, run.seed, memory)

    def keep(self, run: Run, outcome: Outcome, origin: Mapping[str, Any]) -> Record:
        """Write the record of a run's outcome and return it; its provenance is the origin and the seed."""
        record, trace = run.record(outcome)
        record["provenance"] = {**origin, "seed": run.seed}
        save_record(self.place(run), record, trace)
        return record


def without_digests(config: object) -> object:
    """Return settings without the digests of files."""
    if not isinstance(config, Mapping):
        return config
    return {key: without_digests(value) for key, value in config.items() if key != "sha256"}


def network_of(model: str) -> Graph:
    """Return a published network by its name, or that of a model file at usual sizes."""
    from workbench.frontends import load_model
    from workbench.studies.benchmarks import benchmark

    return load_model(model) if is_file_name(model) else benchmark(model)


def cells(study: NetworkStudy, home: Path) -> Iterator[Run]:
    """Yield every method on every network as a run; the study's paths are relative to ``home``.

    A run's order has the model, the method, its rules and the costs; all but the method are names or paths.
    """
    cost, cost_config, no_costs = resource(study.cost, home)
    for given in study.networks:
        model, model_config, no_model = resource(given, home)
        for name, method in study.methods.items():
            rules, rules_config, no_rules = resource(method.rules, home)
            config = {
                "network": model_config,
                "method": {**asdict(method), "rules": rules_config},
                "cost": cost_config,
            }
            yield Run(
                title(given),
                name,
                config,
                method.limit,
                absent=no_costs or (no_rules and f"{name}: {no_rules}") or no_model,
                order=(model, method, rules, cost),
                columns={"network": title(given), "published": False},
            )


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
    """
    pool, about = pool or local_pool(), {"command": command}
    todo = [run for run in runs if not run.absent and (force or load_record(plan.place(run)) is None)]
    for batch in plan.batches(todo, tell):
        for run in batch:
            if run.absent:
                yield plan.keep(run, Outcome("failed", None, run.absent), provenance() | about)
        by_name = {run.name: run for run in batch if not run.absent}
        with contextlib.closing(pool([plan.job(run) for run in by_name.values()])) as ended:
            for job, outcome, where in ended:
                yield plan.keep(by_name[job.name], outcome, {**where, **about})
