"""The extraction study: every e-graph by every method, each run in a process of its own."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import math
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.experiments.config import ExtractionStudy, Instances, StudyError
from workbench.experiments.process import Job, Outcome, run_jobs
from workbench.experiments.store import digest, load_record, provenance, save_record

if TYPE_CHECKING:
    from workbench.extraction import Solution
    from workbench.trace import Trace

#: Seconds beyond the saturation's own limit in which an e-graph is read or grown, and priced.
PREPARATION: Final = 600.0

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Instance:
    """Name an e-graph, say what it is made from, and which file that is where it is one."""

    name: str
    origin: Mapping[str, Any]
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Ask for one extraction; what decides its figures is in ``config``."""

    instance: Instance
    method: str
    seconds: float
    seed: int
    repeat: int = 0

    @property
    def name(self) -> str:
        """Return how the run is spoken of: ``INSTANCE:METHOD``, repeats with their number."""
        return f"{self.instance.name}:{self.method}" + (f"#{self.repeat + 1}" if self.repeat else "")

    @property
    def config(self) -> dict[str, Any]:
        """Return the settings that the run's folder is named by."""
        instance = {"name": self.instance.name, **self.instance.origin}
        return {
            "study": "extraction",
            "instance": instance,
            "method": self.method,
            "seconds": self.seconds,
            "seed": self.seed,
        }

    @property
    def folder(self) -> str:
        """Return the name of the run's folder."""
        return f"{self.instance.name.replace('/', '-')}-{self.method}-{digest(self.config)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold a study's runs, the folder of their records, and why instances are not among them."""

    study: ExtractionStudy
    runs: tuple[Run, ...]
    folder: Path
    skipped: tuple[str, ...]

    def place(self, run: Run) -> Path:
        """Return the folder of a run's record."""
        return self.folder / "runs" / run.folder

    def records(self) -> list[Record]:
        """Return the records there are, in the order of the study.

        Where the study's files are not here, records of other machines stand for them.
        """
        found = [record for run in self.runs if (record := load_record(self.place(run))) is not None]
        if self.skipped:
            # Files stand before networks, as they do where they are.
            found = self._elsewhere({record["name"] for record in found}) + found
        return found

    def missing(self) -> list[Run]:
        """Return the runs without a record."""
        return [run for run in self.runs if load_record(self.place(run)) is None]

    def only(self, pattern: str | None) -> list[Run]:
        """Return the runs whose name, instance or method a pattern fits; raise ValueError for none."""
        if pattern is None:
            return list(self.runs)

        def fits(run: Run) -> bool:
            names = (run.name, run.instance.name, run.method)
            return any(fnmatch.fnmatchcase(name, pattern) for name in names)

        found = [run for run in self.runs if fits(run)]
        if not found and self.runs:
            raise ValueError(
                f"no run fits {pattern!r}; a run is INSTANCE:METHOD, as {self.runs[0].name}, and a pattern "
                "fits that, the instance or the method"
            )
        return found

    def _elsewhere(self, known: set[str]) -> list[Record]:
        study = self.study
        seeds = range(study.seed, study.seed + study.repeats)
        found = []
        for folder in sorted((self.folder / "runs").glob("[!.]*")):
            record = load_record(folder)
            if record is None or record["name"] in known or "sha256" not in record["config"]["instance"]:
                continue
            config = record["config"]
            method = config["method"]
            if (
                method in study.methods
                and config["seconds"] == study.limit(method)
                and config["seed"] in seeds
            ):
                found.append(record)
        order = {method: i for i, method in enumerate(study.methods)}

        def place(record: Record) -> tuple[str, int, int]:
            config = record["config"]
            return config["instance"]["name"], order[config["method"]], config["seed"]

        return sorted(found, key=place)


def make_plan(study: ExtractionStudy, home: Path, folder: Path) -> Plan:
    """List a study's runs, e-graph by e-graph; ``home`` is the folder that its patterns start from."""
    instances, skipped = _instances(study.instances, home)
    runs = tuple(
        Run(instance, method, study.limit(method), study.seed + repeat, repeat)
        for instance in instances
        for method in study.methods
        for repeat in range(study.repeats)
    )
    return Plan(study, runs, folder, tuple(skipped))


def _instances(wanted: Instances, home: Path) -> tuple[list[Instance], list[str]]:
    found: dict[str, Instance] = {}
    skipped = []
    for pattern in wanted.files:
        unset = [name for name in re.findall(r"\$\{(\w+)\}", pattern) if not os.environ.get(name)]
        if unset:
            skipped.append(f"{pattern}: {unset[0]} is not set in the environment")
            continue
        filled = re.sub(r"\$\{(\w+)\}", lambda match: os.environ[match[1]], pattern)
        # Path.glob takes no absolute pattern.
        files = sorted(Path(file) for file in glob.glob(str(home / filled), recursive=True))  # noqa: PTH207
        if not files:
            skipped.append(f"{pattern}: there is no such file")
        for file in files:
            name = f"{file.resolve().parent.name}/{file.name.removesuffix('.gz').removesuffix('.json')}"
            if name in found and found[name].file != file:
                raise StudyError(f"two files are called {name}: their records could not be told apart")
            origin = {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
            found[name] = Instance(name, origin, file)
    grown = asdict(wanted.saturation)
    networks = [Instance(name, {"network": name, **grown}) for name in wanted.networks]
    return [*found.values(), *networks], skipped


def sweep(
    plan: Plan,
    runs: Iterable[Run],
    *,
    at_once: int = 1,
    force: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Generator[Record]:
    """Do the runs that have no record, or all with ``force``, and return each record when it is kept.

    An e-graph is made once for all its runs, just before the first. What is kept stays when the
    iteration is given up.
    """
    todo = [run for run in runs if force or load_record(plan.place(run)) is None]
    with tempfile.TemporaryDirectory(prefix="workbench-") as scratch:
        for instance, group in groupby(todo, key=lambda run: run.instance):
            tell(f"{instance.name}: preparing the e-graph")
            file = Path(scratch) / "egraph.pickle"
            limit = PREPARATION + float(instance.origin.get("seconds", 0.0))
            seed = plan.study.seed
            job = Job(instance.name, prepare, (instance, file), limit, seed)
            (_, prepared), *_ = run_jobs([job])
            for run, outcome, where in _extractions(plan, list(group), file, prepared, at_once):
                record = _record(run, prepared, outcome, where)
                trace = outcome.value["trace"] if outcome.status == "done" else None
                save_record(plan.place(run), record, trace)
                yield record


def _extractions(
    plan: Plan, runs: Sequence[Run], file: Path, prepared: Outcome, at_once: int
) -> Iterator[tuple[Run, Outcome, Mapping[str, Any]]]:
    where = provenance()
    if prepared.status != "done":
        failed = Outcome("failed", None, f"there is no e-graph ({prepared.status}): {prepared.note}")
        yield from ((run, failed, where) for run in runs)
        return
    by_name = {run.name: run for run in runs}
    jobs = [
        Job(r.name, extract_one, (file, r.method, r.seconds), r.seconds + plan.study.grace, r.seed)
        for r in runs
    ]
    for job, outcome in run_jobs(jobs, at_once):
        yield by_name[job.name], outcome, where
        where = provenance()


def _record(run: Run, prepared: Outcome, outcome: Outcome, where: Mapping[str, Any]) -> Record:
    figures = prepared.value or {}
    found = outcome.value or {}
    row = {
        "instance": run.instance.name,
        "e_nodes": figures.get("e_nodes"),
        "e_classes": figures.get("e_classes"),
        "method": run.method,
        "cost": found.get("cost"),
        "bound": found.get("bound"),
        "gap": found.get("gap"),
        "status": found.get("status", outcome.status),
        "scope": found.get("scope", ""),
        "seconds": found.get("seconds"),
        "found_by": found.get("found_by", ""),
        "notes": "; ".join([*found.get("notes", ()), *([outcome.note] if outcome.note else [])]),
    }
    e_graph = {k: v for k, v in figures.items() if k not in ("e_nodes", "e_classes")}
    return {
        "name": run.name,
        "config": run.config,
        "row": row,
        "failed": outcome.status != "done",
        "wall_seconds": round(outcome.seconds, 3),
        "stop_reason": _stop_reason(row),
        "e_graph": e_graph,
        "provenance": dict(where),
    }


def _stop_reason(row: Mapping[str, Any]) -> str:
    """Return why a run ended: what was proved or noted, else that its method had nothing left to do."""
    return row["status"] if row["status"] == "optimal" else row["notes"] or "finished"


# -- in a process of their own ------------------------------------------------------------------------
def prepare(argument: tuple[Instance, Path]) -> dict[str, Any]:
    """Read or grow an e-graph, price it, leave both in a file, and return its figures."""
    from workbench.extraction import load_json

    instance, target = argument
    if instance.file is not None:
        egraph, costs = load_json(instance.file)
        figures: dict[str, Any] = {"cost_source": "the file's own"}
    else:
        egraph, costs, figures = _grow(instance.origin)
    target.write_bytes(pickle.dumps((egraph, costs), protocol=pickle.HIGHEST_PROTOCOL))
    return {"e_nodes": len(egraph), "e_classes": egraph.n_classes, **figures}


def _grow(origin: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    from workbench.benchmarks import benchmark
    from workbench.costs import graph_cost, price_egraph
    from workbench.costs.choose import cost_model
    from workbench.rules import rule_set
    from workbench.saturation import Limits, Saturation

    graph = benchmark(origin["network"])
    chosen = rule_set(origin["rules"])
    limits = Limits(
        origin["e_nodes"],
        origin["seconds"],
        origin["iterations"],
        origin["k_multi"],
        settle=origin["settle"],
        weights=chosen.weights,
    )
    with Saturation(graph, chosen.rules, limits, keep=0) as saturation:
        stop = saturation.run()
        egraph = saturation.egraph()
    model = cost_model(origin["cost"])
    bind = getattr(model, "bind", None)
    if bind is not None:
        bind(graph)
    figures = {
        "cost_source": model.source,
        "stop_reason": stop.value,
        "iterations": sum(step.index > 0 for step in saturation.trace),
        "saturation_seconds": round(saturation.seconds, 3),
        "original_cost": graph_cost(graph, model),
    }
    return egraph, price_egraph(egraph, model), figures


def extract_one(argument: tuple[Path, str, float]) -> dict[str, Any]:
    """Extract once from the e-graph in a file and return the figures with the trace."""
    from workbench.extraction import Extraction
    from workbench.extraction.extract import NOTHING

    file, method, seconds = argument
    egraph, costs = pickle.loads(file.read_bytes())
    run = Extraction(egraph, costs, method, seconds=seconds)
    figures = _figures(run.run(), run.trace)
    if NOTHING in figures["notes"]:
        # What stands in for it is no result of the method's.
        notes = tuple(note for note in figures["notes"] if note != NOTHING)
        kept = {name: figures[name] for name in ("bound", "seconds", "trace")}
        return {"status": "nothing found", "notes": notes, **kept}
    return figures


def _figures(solution: Solution, trace: Trace) -> dict[str, Any]:
    return {
        "cost": _finite(solution.cost),
        "bound": _finite(solution.bound),
        "gap": _finite(solution.gap),
        "status": solution.status.value,
        "scope": solution.scope,
        "seconds": round(solution.seconds, 4),
        "found_by": solution.method,
        "notes": solution.notes,
        "trace": trace,
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
