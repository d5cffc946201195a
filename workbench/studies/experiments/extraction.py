"""The extraction study: extractions from every e-graph by every method."""

from __future__ import annotations

import glob
import json
import os
import pickle
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import NonNegativeFloat, PositiveFloat

from workbench.run.settings import check, same
from workbench.saturation.limits import Limits
from workbench.studies.experiments import config
from workbench.studies.experiments.plan import Plan, Record, Run, Tell, network_of
from workbench.studies.experiments.process import Job, run_jobs
from workbench.studies.experiments.store import finite, load_record, repetition
from workbench.studies.experiments.tables import about, cell, lines, missing, seconds_text

if TYPE_CHECKING:
    import pandas as pd


#: The prefix of the methods of the extraction gym's own program, and the variable with its path.
GYM, GYM_PROGRAM = "gym-", "EXTRACTION_GYM_PROGRAM"
#: These methods; those by CBC have a limit of their own.
GYM_METHODS: Final = tuple(
    GYM + name for name in ("bottom-up", "faster-greedy-dag", "ilp-cbc-timeout", "faster-ilp-cbc-timeout")
)

#: Limit in seconds, beyond the saturation's own, on reading or growing an e-graph and pricing it.
PREPARATION: Final = 600.0


@dataclass(frozen=True, slots=True)
class SaturationSettings(config.Declared):
    """Settings that grow the e-graph of a network; names and limits are those of ``optimize``."""

    rules: str = "default"
    cost: str = "analytic"
    e_nodes: int = same(Limits, "e_nodes")
    seconds: float = same(Limits, "seconds")
    iterations: int = same(Limits, "iterations")
    k_multi: int = same(Limits, "k_multi")
    settle: int = same(Limits, "settle")

    def __post_init__(self) -> None:
        from workbench.costs.registry import cost_model
        from workbench.rules import rule_set

        check(self)
        rule_set(self.rules)
        cost_model(self.cost)


@dataclass(frozen=True, slots=True)
class Instances(config.Declared):
    """The e-graphs of a study.

    ``files`` are glob patterns of egraph-serialize JSON files, relative to the study's own folder;
    ``${NAME}`` is replaced by the environment variable. ``networks`` are published networks or model files, whose
    e-graphs are grown with the settings ``saturation``.
    """

    files: config.Distinct = ()
    networks: config.Distinct = ()
    saturation: SaturationSettings = field(default_factory=SaturationSettings)

    def __post_init__(self) -> None:
        config.check_published(self.networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionStudy(config.Study):
    """A study that extracts every e-graph by every method.

    The methods ``gym-…`` are those of the extraction gym's own program, whose path the environment's
    ``EXTRACTION_GYM_PROGRAM`` has. They take files alone.
    ``seconds`` limits a run; ``seconds_for`` limits the runs of the methods that it names instead. A run
    that has not ended ``grace`` seconds after its limit is killed. ``seed`` determines the iteration order of
    sets, on which no result should depend. The processes of solvers have their own limits of memory.
    """

    KIND: ClassVar[str] = "extraction"

    instances: Instances
    methods: config.Names
    seconds: PositiveFloat = 60.0
    seconds_for: Mapping[str, PositiveFloat] = field(default_factory=dict)
    grace: NonNegativeFloat = 30.0

    def __post_init__(self) -> None:
        from workbench.extraction.registry import methods

        config.check_names("methods", "extraction method", self.methods, [*methods(), *GYM_METHODS])
        config.check_names("seconds_for", "method of this study", self.seconds_for, self.methods)

    def limit(self, method: str) -> float:
        """Return the limit in seconds on a run of a method."""
        return self.seconds_for.get(method, self.seconds)


@dataclass(frozen=True, slots=True)
class Instance:
    """An e-graph of the study: its name, its origin in the run's settings, and its file or that of its model."""

    name: str
    origin: Mapping[str, Any]
    file: Path | None = None
    model: str = ""


#: Columns of a run without a result.
_BLANK: Final = {
    "e_nodes": None, "e_classes": None, "cost": None, "bound": None, "gap": None, "scope": "",
    "seconds": None, "found_by": "",
}  # fmt: skip


def make_plan(study: ExtractionStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, e-graph by e-graph; the patterns of files are relative to ``home``."""
    instances, skipped = _instances(study.instances, home)
    gym, runs = Path(os.environ.get(GYM_PROGRAM, "")), []
    program = {"program": config.sha256(gym)} if gym.is_file() else {}
    for instance, method in product(instances, study.methods):
        own = {"name": instance.name, **instance.origin}
        settings: Record = {"instance": own, "method": method, "seconds": study.limit(method)}
        known: dict[str, Any] = {"columns": {"instance": instance.name, **_BLANK}, "figures": {"e_graph": {}}}
        known["order"] = instance
        if method in GYM_METHODS:
            settings |= program
            if instance.file is None:
                known["absent"] = "the gym's program reads files alone"
            elif not program:
                known["absent"] = f"{GYM_PROGRAM} names no file (try the gym's target/release/extraction-gym)"
        runs.append(Run(instance.name, method, settings, study.limit(method), **known))
    return ExtractionPlan.of(study, folder, extract_one, runs, skipped)


def _instances(wanted: Instances, home: Path) -> tuple[list[Instance], list[str]]:
    found: dict[str, Instance] = {}
    skipped = []
    for pattern in wanted.files:
        variable = config.unset(pattern)
        if variable is not None:
            skipped.append(f"{pattern}: {variable} is not set in the environment")
            continue
        # Path.glob does not accept absolute patterns.
        files = sorted(Path(file) for file in glob.glob(str(home / config.filled(pattern)), recursive=True))  # noqa: PTH207
        if not files:
            skipped.append(f"{pattern}: no such file")
        for file in files:
            name = f"{file.resolve().parent.name}/{file.name.removesuffix('.gz').removesuffix('.json')}"
            if name in found and found[name].file != file:
                raise config.StudyError(
                    f"two files have the name {name}; their records would be indistinguishable"
                )
            origin = {"sha256": config.sha256(file)}
            found[name] = Instance(name, origin, file)
    grown = asdict(wanted.saturation)
    networks = []
    for given in wanted.networks:
        model, form, reason = config.resource(given, home)
        if reason:
            skipped.append(reason)
        else:
            networks.append(Instance(config.title(given), {"network": form, **grown}, model=model))
    return [*found.values(), *networks], skipped


@dataclass(frozen=True, slots=True)
class ExtractionPlan(Plan):
    """The plan of an extraction study; an e-graph is made once, just before the first of its runs."""

    study: ExtractionStudy

    def batches(self, runs: Sequence[Run], tell: Tell) -> Iterator[list[Run]]:
        """Yield the runs of one e-graph after the other, after preparing the e-graph."""
        for subject, group in groupby(runs, key=lambda run: run.subject):
            tell(f"{subject}: preparing the e-graph")
            alike = list(group)
            instance: Instance = alike[0].order
            limit = PREPARATION + float(instance.origin.get("seconds", 0.0))
            ((_, prepared),) = run_jobs([Job(subject, prepare, instance, limit, self.study.seed)])
            if prepared.status == "done":
                pickled, size, figures = prepared.value
                yield [
                    replace(
                        run,
                        order=instance.file if run.method in GYM_METHODS else pickled,
                        columns={**run.columns, **size},
                        figures={"e_graph": figures},
                    )
                    for run in alike
                ]
            else:
                why = f"without an e-graph ({prepared.status}): {prepared.note}"
                yield [replace(run, absent=why) for run in alike]

    def elsewhere(self, known: set[str]) -> list[Record]:
        """Return other machines' records for files that are missing here, in the order of the study."""
        study, found = self.study, {}
        for place in sorted((self.folder / "runs").glob("[!.]*")):
            record = load_record(place)
            if record is None or record["name"] in known or "sha256" not in record["config"]["instance"]:
                continue
            made = record["config"]
            method, seed = made["method"], made["seed"]
            planned = method in study.methods and made["seconds"] == study.limit(method)
            if planned and seed in range(study.seed, study.seed + study.repeats):
                found[made["instance"]["name"], study.methods.index(method), seed] = record
        return [found[rank] for rank in sorted(found)]


def outcome(record: Record) -> str:
    """Return the outcome of an extraction in one line."""
    row = record["row"]
    spent = "no time" if row["seconds"] is None else f"{row['seconds']:.2f} s"
    cost, bound = (f"{row[k]:.6g}" if row[k] is not None else "none" for k in ("cost", "bound"))
    return f"cost {cost}, bound {bound}, {row['status']}, {spent}"


# -- in the process of a run ---------------------------------------------------------------------------
def prepare(instance: Instance) -> tuple[bytes, Record, Record]:
    """Read or grow an e-graph and price it; return a pickle of both, its size, and further figures."""
    from workbench.costs import graph_cost, price_egraph
    from workbench.costs.registry import cost_model
    from workbench.egraph import load_json
    from workbench.rules import rule_set
    from workbench.saturation import Saturation

    if instance.file is not None:
        egraph, costs = load_json(instance.file)
        figures: Record = {"cost_source": "the file's own"}
    else:
        graph, own = network_of(instance.model), instance.origin
        limits = Limits(
            **{key: own[key] for key in ("e_nodes", "seconds", "iterations", "k_multi", "settle")}
        )
        with Saturation(graph, rule_set(own["rules"]), limits, keep=0) as saturation:
            stop = saturation.run()
            egraph = saturation.egraph()
        model = cost_model(own["cost"])
        model.bind(graph)
        costs = price_egraph(egraph, model)
        figures = {
            "cost_source": model.source,
            "stop_reason": stop.value,
            "iterations": sum(step.index > 0 for step in saturation.trace),
            "saturation_seconds": round(saturation.seconds, 3),
            "original_cost": graph_cost(graph, model),
        }
    pickled = pickle.dumps((egraph, costs), protocol=pickle.HIGHEST_PROTOCOL)
    return pickled, {"e_nodes": len(egraph), "e_classes": egraph.n_classes}, figures


def extract_one(study: ExtractionStudy, run: Run) -> Record:
    """Extract once from the pickled e-graph of a run and return the figures with the trace."""
    from workbench.extraction import Extraction, Limit

    if run.method in GYM_METHODS:
        return _by_the_gym(run, run.seconds + study.grace / 2)
    egraph, costs = pickle.loads(run.order)
    extraction = Extraction(egraph, costs, run.method, seconds=run.seconds)
    solution = extraction.run()
    row = {"bound": finite(float(solution.bound)), "seconds": round(solution.seconds, 4)}
    trace = extraction.trace
    if Limit.NOTHING in solution.limits:
        # The tree selection in its place is not a result of the method.
        notes = tuple(str(e) for e in solution.endings if e.limit is not Limit.NOTHING)
        status = "nothing found"
    else:
        notes, status = solution.notes, solution.status.value
        row |= {"cost": finite(float(solution.cost)), "gap": finite(float(solution.gap))}
        row |= {"scope": solution.scope, "found_by": solution.method}
    reason = status if status == "optimal" else "; ".join(notes) or "finished"
    return {"row": row, "status": status, "notes": notes, "stop_reason": reason, "trace": trace}


def _by_the_gym(run: Run, seconds: float) -> Record:
    """Run the gym's program on a file; return its figures. CBC has a limit built in, ``seconds`` ends all methods."""
    with tempfile.TemporaryDirectory(prefix="workbench-gym-") as folder:
        out = Path(folder) / "out.json"
        words = [os.environ[GYM_PROGRAM], "--extractor", run.method.removeprefix(GYM), "--out", str(out)]
        try:
            done = subprocess.run(
                [*words, str(run.order)], capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            why = f"not finished after {seconds:g} s"
        else:
            why = "" if not done.returncode else (done.stderr.strip().splitlines() or ["it failed"])[-1]
        if why:
            return {"status": "nothing found", "notes": (why,), "stop_reason": why}
        found = json.loads(out.read_text())
    row = {"cost": found["dag"], "seconds": round(found["micros"] / 1e6, 4), "found_by": found["extractor"]}
    return {"row": row, "status": "feasible", "notes": (), "stop_reason": "finished"}


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One published extraction; a gap in the notes follows the solver's own definition."""

    method: str
    cost: float
    status: str
    seconds: float | None = None
    notes: str = ""


PUBLISHED_IN: Final = (
    "logs that come with SmoothE's artifact (ASPLOS 2025): 900 s and 36 000 s are time limits; HeuriGym's "
    "best known costs (baseline.json of its e-graph extraction)"
)

#: Where HeuriGym records the costs.
_HEURIGYM: Final = "HeuriGym's best known"
_UNREACHED: Final = "counts e-nodes that no root reaches"

#: The published runs by instance. The status is "optimal" only if the solver ended before its limit.
PUBLISHED_COSTS: Final[dict[str, tuple[PublishedRun, ...]]] = {
    "extraction-gym/bert": (
        PublishedRun("CPLEX 900 s", 0.704720, "feasible", notes="gap 9.65 %"),
        PublishedRun("CPLEX 36 000 s", 0.704720, "optimal", 4243.0),
        PublishedRun("SCIP 900 s", 0.766555, "feasible", notes="gap 28 %"),
        PublishedRun("CBC 900 s", 4.138542, "feasible"),
        PublishedRun("SmoothE (A100)", 0.824704, "feasible", notes="reached after 1.2 s"),
    ),
    "rover/box_filter_3iteration_egraph": (PublishedRun(_HEURIGYM, 1701.0, "feasible"),),
    "rover/box_filter_5iteration_egraph": (PublishedRun(_HEURIGYM, 1819.0, "feasible"),),
    "rover/fir_8_tap_5iteration_egraph": (PublishedRun(_HEURIGYM, 5936.0, "feasible"),),
    "rover/mcm_3_7_21_original_8iteration_egraph": (PublishedRun(_HEURIGYM, 1050.0, "feasible"),),
    "rover/mcm_3_7_21_original_9iteration_egraph": (PublishedRun(_HEURIGYM, 1050.0, "feasible"),),
    "maxsat/hamming6-2.clq": (PublishedRun(_HEURIGYM, -3648.0, "feasible", notes=_UNREACHED),),
    "maxsat/johnson8-4-4.clq": (PublishedRun(_HEURIGYM, -3710.0, "feasible", notes=_UNREACHED),),
    "tensat/bert": (PublishedRun(_HEURIGYM, 0.7047199768, "feasible"),),
    "extraction-gym/resnet50": (
        PublishedRun("CPLEX 900 s", 4.385795, "feasible", notes="gap 0.04 %"),
        PublishedRun("CPLEX 36 000 s", 4.385795, "optimal", 23.3),
        PublishedRun("SCIP 900 s", 4.385795, "feasible", notes="gap 0.21 %"),
        PublishedRun("CBC 900 s", 4.485784, "feasible"),
        PublishedRun("SmoothE (A100)", 4.385795, "feasible", notes="worst of 3 seeds 4.386291; 3 to 10 s"),
    ),
    "extraction-gym/vgg": (
        PublishedRun("CPLEX 900 s", 4.850757, "feasible", notes="gap 68 %"),
        PublishedRun("CPLEX 36 000 s", 4.850757, "feasible", 36_027.0, "not proven"),
        PublishedRun("SCIP 900 s", 4.893893, "feasible", notes="gap 243 %"),
        PublishedRun("CBC 900 s", 8.262464, "feasible"),
        PublishedRun("SmoothE (A100)", 4.850757, "feasible"),
    ),
}

COLUMNS: Final = (
    "instance", "e_nodes", "e_classes", "source", "method", "cost", "bound", "gap", "status", "scope",
    "seconds", "limit", "repeat", "found_by", "notes",
)  # fmt: skip

#: Studies of more e-graphs than this have a section for those with published figures alone.
DETAILED: Final = 150

#: Relative difference up to which two costs are the same: published ones have six decimals.
SAME: Final = 2e-6


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run; published figures follow the runs of the same e-graph."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    by_instance: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        by = "extraction gym" if record["config"].get("method") in GYM_METHODS else "workbench"
        more = {"source": by, "limit": record["config"]["seconds"], "repeat": repetition(record)}
        by_instance.setdefault(record["row"]["instance"], []).append(record["row"] | more)
    for instance, ours in by_instance.items():
        same = {key: ours[0][key] for key in ("instance", "e_nodes", "e_classes")} | {"source": "published"}
        rows += [*ours, *(same | asdict(p) for p in PUBLISHED_COSTS.get(instance, ()))]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({"e_nodes": "Int64", "e_classes": "Int64", "repeat": "Int64"})


def contradictions(frame: pd.DataFrame) -> list[str]:
    """Return a line per e-graph with a proven bound above a cost that was reached, which is a defect."""
    found = []
    for instance, rows in frame.groupby("instance", sort=False):
        ours = rows.to_dict("records")
        bounds = [r for r in ours if r["scope"] == "e-graph" and cell(r["bound"])]
        reached = [r for r in ours if cell(r["cost"]) and r["notes"] != _UNREACHED]
        if not bounds or not reached:
            continue
        bound = max(bounds, key=lambda r: r["bound"])
        cost = min(reached, key=lambda r: r["cost"])
        if bound["bound"] - cost["cost"] > SAME * abs(cost["cost"]):
            found.append(
                f"{instance}: {bound['method']} proves that no term costs less than {bound['bound']:.6f}, "
                f"but {cost['method']} has a term of cost {cost['cost']:.6f}"
            )
    return found


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: an overview, then every instance with its published figures."""
    described = about(
        records,
        ". Costs are DAG costs. A bound is proven for every term of the e-graph; for `filtered` and "
        "`tensat-filtered`, which break cycles first, only for the terms that remain. `tensat`, "
        "`tensat-integer` and `tensat-filtered` are Tensat's integer programs alone, in HiGHS. All other "
        "methods begin with the greedy selections; *found by* names the source of the best selection. The "
        "methods `gym-…` are those of the extraction gym's own program.",
    )
    ours = frame[frame["source"] != "published"]
    assert isinstance(plan.study, ExtractionStudy)
    parts = ["# Extraction, e-graph by e-graph", described, *_families(plan.study, ours)]
    parts += ["## At a glance", _overview(plan.study, ours)]
    wrong = contradictions(frame)
    if wrong:
        parts += ["**Contradictions, which are defects:**", *(f"- {line}" for line in wrong)]
    parts += missing(plan)
    units = {r["row"]["instance"]: r["e_graph"] for r in records if r["e_graph"]}
    many = frame["instance"].nunique() > DETAILED
    for instance, rows in frame.groupby("instance", sort=False):
        if many and not (rows["source"] == "published").any():
            continue
        parts += [f"## {instance}", _origin(units.get(str(instance), {}), rows), _detail(rows)]
    if (frame["source"] == "published").any():
        parts.append(
            f"*Published* figures: {PUBLISHED_IN}. They are from other machines; only costs are comparable."
        )
    return "\n\n".join(parts) + "\n"


def _families(study: ExtractionStudy, ours: pd.DataFrame) -> list[str]:
    """Return a table of the methods by family, which is the folder of an e-graph, if there are several."""
    ours = ours.assign(family=ours["instance"].astype(str).str.split("/").str[0])
    if ours["family"].nunique() < 2:
        return []
    least = ours.groupby("instance")["cost"].min()

    def cells(group: pd.DataFrame) -> list[str]:
        found = []
        for method in study.methods:
            rows = group[group["method"] == method]
            done = rows[rows["cost"].notna()]
            reached = done["cost"] - least[done["instance"]].to_numpy() <= SAME * done["cost"].abs()
            proved = (done["status"] == "optimal").sum()
            text = f"{reached.sum()} of {len(rows)}" + (f", {proved} optimal" if proved else "")
            found.append(f"{text}, {seconds_text(done['seconds'].sum())}" if len(rows) else "–")
        return found

    rows = [
        [str(name), str(group["instance"].nunique()), *cells(group)]
        for name, group in ours.groupby("family", sort=False)
    ]
    rows.append(["all", str(ours["instance"].nunique()), *cells(ours)])
    key = (
        "Each cell: on how many e-graphs a method has the least cost of this table, on how many it proves that "
        "nothing costs less, and the sum of its seconds."
    )
    return ["## By family", lines(["family", "e-graphs", *study.methods], rows), key]


def _overview(study: ExtractionStudy, ours: pd.DataFrame) -> str:
    rows = []
    for instance, group in ours.groupby("instance", sort=False):
        best, whole = group["cost"].min(), group[group["scope"] == "e-graph"]["bound"].max()
        cells = [_cell(group[group["method"] == method], best) for method in study.methods]
        size = group.iloc[0]
        name = f"{instance} ({cell(size['e_nodes']) or '–'} / {cell(size['e_classes']) or '–'})"
        rows.append([name, _cost(best), _cost(whole), *cells])
    head = ["e-graph (e-nodes / e-classes)", "least cost", "best bound", *study.methods]
    key = (
        "Each cell: the excess of the cost over the least cost, and the seconds. **✓**: proven optimal. "
        "**(✓)**: proven optimal among the terms that remain after cycles are broken. **†**: no result. "
        "Limits in seconds: " + ", ".join(f"{m} {study.limit(m):g}" for m in study.methods) + "."
    )
    return lines(head, rows) + "\n\n" + key


def _cell(rows: pd.DataFrame, best: float) -> str:
    """Return the cell of a method, with medians over repeats."""
    if rows.empty:
        return "–"
    done = rows[rows["cost"].notna()]
    if done.empty:
        return f"† {rows.iloc[0]['status']}"
    excess = (float(done["cost"].median()) - best) / abs(best) if best else 0.0
    proved = (done["status"] == "optimal").all()
    mark = "" if not proved else " ✓" if (done["scope"] == "e-graph").all() else " (✓)"
    far = "=" if excess <= SAME else f"+{excess:.2%}" if excess < 1 else f"×{1 + excess:.1f}"
    return f"{far}, {seconds_text(done['seconds'].median())}{mark}"


def _origin(e_graph: dict[str, Any], rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    text = f"{cell(first['e_nodes']) or '–'} e-nodes, {cell(first['e_classes']) or '–'} e-classes"
    if not e_graph:
        return text + "."
    if "iterations" in e_graph:
        text += (
            f"; {e_graph['iterations']} iterations in {e_graph['saturation_seconds']:.2f} s, "
            f"{e_graph['stop_reason']}; the original network costs {_cost(e_graph['original_cost'])}"
        )
    return f"{text}. Costs: {e_graph['cost_source']}."


def _detail(rows: pd.DataFrame) -> str:
    head = ["method", "cost", "bound", "gap", "status", "seconds", "found by", "notes"]
    body = []
    for row in rows.to_dict("records"):
        published = row["source"] == "published"
        method = f"*{row['method']}, published*" if published else f"{row['method']}"
        if not published and row["repeat"] > 1:
            method += f" (repeat {row['repeat']})"
        status = row["status"] if row["scope"] != "cycle-free part" else f"{row['status']} without cycles"
        found_by = row["found_by"] if isinstance(row["found_by"], str) else ""
        gap = cell(row["gap"], "{:.2%}")
        cells = [_cost(row["cost"]), _cost(row["bound"]), gap, status, seconds_text(row["seconds"]), found_by]
        body.append([method, *cells, str(row["notes"] or "").replace("|", "/").replace("\n", " ")])
    return lines(head, body)


def _cost(value: Any) -> str:
    return cell(value, "{:.6f}" if value is not None and value < 100 else "{:.3f}")
