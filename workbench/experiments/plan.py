"""The plan of a study: its runs, where their records are, and which of them are missing."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from workbench.experiments.store import digest, load_record

if TYPE_CHECKING:
    from workbench.experiments.config import Study
    from workbench.experiments.process import Job, Outcome
    from workbench.trace import Trace

Record: TypeAlias = dict[str, Any]
Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """Ask for one run: a method on a subject, which is a network or an e-graph.

    ``config`` is what decides its figures. ``seconds`` are those that its limits allow. ``absent`` says
    which of its files is not here: then its config lacks the digest of what the file holds.
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
        """Return how the run is spoken of: ``SUBJECT:METHOD``, repeats with their number."""
        return f"{self.subject}:{self.method}" + (f"#{self.repeat + 1}" if self.repeat else "")

    @property
    def stem(self) -> str:
        """Return what the name of the run's folder begins with."""
        return f"{self.subject.replace('/', '-')}-{self.method}"

    @property
    def folder(self) -> str:
        """Return the name of the run's folder."""
        return f"{self.stem}-{digest(self.config)}"


@dataclass(frozen=True, slots=True)
class Task:
    """Hold what is to be done for a run: a job, or why there can be none, and what is known before."""

    run: Run
    job: Job | None
    why: str = ""
    known: Mapping[str, Any] = field(default_factory=dict)


def at_once(
    runs: Sequence[Run], function: Callable[..., Any], orders: Mapping[str, Any], grace: float, memory: float
) -> list[Task]:
    """Return runs that share nothing as tasks: ``grace`` seconds beyond a run's own, ``memory`` in GiB."""
    from workbench.experiments.process import Job

    size = int(memory * 2**30)
    return [
        Task(run, Job(run.name, function, orders[run.name], run.seconds + grace, run.seed, size))
        for run in runs
    ]


class Work(Protocol):
    """Say what a kind of study adds to the sweep."""

    def batches(self, runs: Sequence[Run], tell: Tell) -> Iterator[Sequence[Task]]:
        """Prepare runs, so many at a time as share what is prepared, and return what is to be done."""
        ...

    def figures(self, task: Task, outcome: Outcome) -> tuple[Record, Trace | None]:
        """Return what the record of a run holds besides its settings and provenance, and the trace."""
        ...

    def elsewhere(self, folder: Path, known: set[str]) -> list[Record]:
        """Return records of runs that cannot be planned here, for want of the files that name them."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold a study's runs, the folder of their records, and what is skipped and why."""

    study: Study
    work: Work
    runs: tuple[Run, ...]
    folder: Path
    skipped: tuple[str, ...]

    def place(self, run: Run) -> Path:
        """Return the folder of a run's record."""
        return self.folder / "runs" / run.folder

    def load(self, run: Run) -> Record | None:
        """Return the record of a run, None where there is none.

        Where the run's files are not here, that of another machine stands for it.
        """
        if not run.absent:
            return load_record(self.place(run))
        for folder in sorted((self.folder / "runs").glob(f"{run.stem}-*")):
            record = load_record(folder)
            if record is not None and without_digests(record["config"]) == run.config:
                return record
        return None

    def records(self) -> list[Record]:
        """Return the records there are, in the order of the study."""
        found = [record for run in self.runs if (record := self.load(run)) is not None]
        if self.skipped:
            # What stands for files comes before networks, as it does where they are.
            found = self.work.elsewhere(self.folder, {record["name"] for record in found}) + found
        return found

    def missing(self) -> list[Run]:
        """Return the runs that can be done here and have no record."""
        return [run for run in self.runs if not run.absent and load_record(self.place(run)) is None]

    def only(self, pattern: str | None) -> list[Run]:
        """Return the runs whose name, subject or method a pattern fits; raise ValueError for none.

        Runs whose files are not here are not among them.
        """

        def fits(run: Run) -> bool:
            names = (run.name, run.subject, run.method)
            return pattern is None or any(fnmatch.fnmatchcase(name, pattern) for name in names)

        found = [run for run in self.runs if fits(run)]
        if not found and self.runs:
            raise ValueError(
                f"no run fits {pattern!r}; a run is INSTANCE:METHOD, as {self.runs[0].name}, and a pattern "
                "fits that, the instance or the method"
            )
        return [run for run in found if not run.absent]


def without_digests(config: Any) -> Any:
    """Return settings without what stands for the contents of files."""
    if not isinstance(config, Mapping):
        return config
    return {key: without_digests(value) for key, value in config.items() if key != "sha256"}


def make_plan(study: Study, home: Path, folder: Path) -> Plan:
    """List a study's runs, subject by subject; ``home`` is the folder that its files are seen from."""
    from workbench.experiments import (
        ablation_study,
        branches_study,
        deployment_study,
        extraction_study,
        optimisation_study,
        verification_study,
    )
    from workbench.experiments.config import (
        AblationStudy,
        BranchesStudy,
        DeploymentStudy,
        ExtractionStudy,
        VerificationStudy,
    )

    if isinstance(study, ExtractionStudy):
        return extraction_study.make_plan(study, home, folder)
    if isinstance(study, AblationStudy):
        return ablation_study.make_plan(study, home, folder)
    if isinstance(study, VerificationStudy):
        return verification_study.make_plan(study, home, folder)
    if isinstance(study, BranchesStudy):
        return branches_study.make_plan(study, home, folder)
    if isinstance(study, DeploymentStudy):
        return deployment_study.make_plan(study, home, folder)
    return optimisation_study.make_plan(study, home, folder)
