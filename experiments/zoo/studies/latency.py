"""The study of latency: networks optimised by prices measured on a device, then timed there in every way to run them.

One command does all of it: operators are measured, every method optimises every network at these prices, and the
original and all results run in alternation.
"""

from __future__ import annotations

import contextlib
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import PositiveFloat, PositiveInt

from workbench.studies.experiments.config import (
    Method,
    Names,
    NetworkStudy,
    SaturationMethod,
    SearchMethod,
    StudyError,
    check_names,
    read_object,
    resource,
    title,
)
from workbench.studies.experiments.optimisation import outcome as optimisation_outcome
from workbench.studies.experiments.optimisation import run_figures
from workbench.studies.experiments.plan import Plan, Record, Run, Tell, network_of
from workbench.studies.experiments.process import Job, run_jobs
from workbench.studies.experiments.records import geometric_mean
from workbench.studies.experiments.results import NOTHING, frame_of, latency_frame, row_of, with_published
from workbench.studies.experiments.store import digest
from workbench.studies.experiments.tables import about, distinct, lines, missing, repeat_text, seconds_text
from workbench.support.messages import one_line
from zoo.studies.graph_records import in_half, pack, unpack
from zoo.studies.latency_tables import ratio_cell

if TYPE_CHECKING:
    import pandas as pd

    from workbench.devices.device import Device
    from workbench.graph import Graph

#: The ways to run a graph: torch call by call, as one CUDA graph, compiled, compiled and as one CUDA graph; ONNX
#: Runtime with its own optimiser on, and as one CUDA graph.
WAYS: Final = ("eager", "graph", "compile", "compile+graph", "onnxruntime", "onnxruntime+graph")
#: The arithmetic: TF32 rounds the operands of products in float32 to 10 bits, on a GPU.
PRECISIONS: Final = ("float32", "tf32", "float16")
#: The method of the runs that time the graphs, the name of the network as given, and of what timing chooses.
TIMING, ORIGINAL, CHOSEN = "timing", "original", "chosen"
#: The source of costs that are measured first.
MEASURED: Final = "measured"

#: Seconds for which a GPU works before anything is timed, so that its clocks have risen.
SOAK: Final = 3.0
#: Seconds to list the operators, besides the limits of the saturations.
LISTING: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyStudy(NetworkStudy):
    """A study that measures operators on a device, optimises networks at these prices, and times the results there.

    ``device`` is torch's name of it, ``precisions`` are of :data:`PRECISIONS`, ``ways`` of :data:`WAYS`; ``threads``
    are those of a CPU. An operator is sampled for ``milliseconds``, all of a precision for ``measuring`` seconds at
    most; the others are estimated. In every way all graphs of a network run in alternation for ``seconds``;
    torch's compiler has ``compiling`` seconds for all graphs of a network. The pictures have the methods ``shown``,
    by default all. ``rehearsal`` has the settings that ``--rehearse`` replaces. Another source of costs than
    ``measured`` is one of :func:`workbench.optimize`. Files are as in a study of optimisation.
    """

    KIND: ClassVar[str] = "latency"
    OWN_COSTS: ClassVar[tuple[str, ...]] = (MEASURED,)

    cost: str = MEASURED
    device: str = "cuda"
    precisions: Names = ("float32",)
    ways: Names = WAYS
    threads: PositiveInt = 1
    milliseconds: PositiveFloat = 10.0
    caches: str = "weights"
    measuring: PositiveFloat = 600.0
    seconds: PositiveFloat = 10.0
    compiling: PositiveFloat = 300.0
    shown: tuple[str, ...] = ()
    rehearsal: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from workbench.studies.devices.operators import Protocol

        self.check_networks()
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise StudyError(f"device must be cpu, cuda or cuda:N, got {self.device!r}")
        check_names("precisions", "precision", self.precisions, PRECISIONS)
        check_names("ways", "way", self.ways, WAYS)
        check_names("shown", "method of this study", self.shown, self.methods)
        Protocol(self.milliseconds, self.caches)
        if taken := {TIMING, ORIGINAL, CHOSEN} & {*self.methods}:
            raise StudyError(f"methods: {min(taken)!r} is a name of the study's own (try another one)")
        if self.rehearsal:
            self.rehearsed()

    def rehearsed(self) -> LatencyStudy:
        """Return the study with the settings of its rehearsal."""
        if not self.rehearsal:
            raise StudyError("rehearsal is missing: it has the settings that --rehearse replaces")
        try:
            return read_object(type(self), asdict(self) | {**self.rehearsal, "rehearsal": {}})
        except StudyError as error:
            raise StudyError(f"rehearsal: {error}") from None

    def place(self, stem: str) -> str:
        """Return the name of the folder of results: that of the GPU, or that of the study's file."""
        from workbench.devices.device import DeviceMissing, open_device
        from workbench.studies.devices.spec_io import Results, table_name

        try:
            device = open_device(self.device)
        except DeviceMissing:
            return stem
        if not device.cuda:
            return stem
        gpu = {"gpu": device.torch.cuda.get_device_name(self.device)}
        return Path(table_name(Results(gpu, {}))).stem

    @property
    def cuda(self) -> bool:
        """Return whether the device is a GPU."""
        return self.device != "cpu"

    def target(self, way: str) -> str:
        """Return the name of the target that runs graphs in a way on the device."""
        program, _, how = (way if way.startswith("onnxruntime") else f"torch+{way}").partition("+")
        on = f"{program}:{self.device}" if self.cuda else program
        return on + (f"+{how}" if how not in ("", "eager") else "")

    def open(self, precision: str) -> Device:
        """Return the device as it computes in a precision; raise DeviceMissing if it is not here."""
        from workbench.devices.device import open_device

        threads = None if self.cuda else self.threads
        return open_device(self.device, tf32=precision == "tf32", threads=threads)


@dataclass(frozen=True, slots=True)
class Order:
    """What a run needs: a network in a precision, and a method with its rules and costs, or the graphs to be timed."""

    network: str
    precision: str
    method: Method | None = None
    rules: str = ""
    cost: str = ""
    graphs: Mapping[str, str | None] = field(default_factory=dict)

    def original(self) -> Graph:
        """Return the network."""
        graph = network_of(self.network)
        return in_half(graph) if self.precision == "float16" else graph


def make_plan(study: LatencyStudy, home: Path, folder: Path) -> LatencyPlan:
    """Plan a study's runs: by precision, those that optimise, then those that time; paths are relative to ``home``."""
    return LatencyPlan.of(study, folder, do_run, _runs(study, home))


def named(method: str, precision: str) -> str:
    """Return the name of a method in a precision.

    >>> named("ours", "float32"), named("ours", "tf32")
    ('ours', 'ours-tf32')
    """
    return method if precision == PRECISIONS[0] else f"{method}-{precision}"


def _runs(study: LatencyStudy, home: Path) -> Iterator[Run]:
    cost, cost_config, no_costs = (
        (MEASURED, MEASURED, "") if study.cost == MEASURED else resource(study.cost, home)
    )
    for precision, given in product(study.precisions, study.networks):
        model, model_config, no_model = resource(given, home)
        columns = {"network": title(given), "precision": precision, "published": False}
        where = {
            "network": model_config, "device": study.device, "precision": precision, "cost": cost_config,
            "measuring": [study.milliseconds, study.caches, study.measuring],
        }  # fmt: skip
        methods = {}
        for name, method in study.methods.items():
            rules, rules_config, no_rules = resource(method.rules, home)
            methods[name] = {**asdict(method), "rules": rules_config}
            yield Run(
                title(given),
                named(name, precision),
                {**where, "method": methods[name]},
                method.limit,
                absent=no_costs or (no_rules and f"{name}: {no_rules}") or no_model,
                order=Order(model, precision, method, rules, cost),
                columns=columns | {"by": method.by, "k_multi": getattr(method, "k_multi", None)},
                figures={"device": None, "seconds": {}},
            )
        ways = {"ways": list(study.ways), "threads": study.threads, "seconds": study.seconds}
        yield Run(
            title(given),
            named(TIMING, precision),
            {**where, **ways, "compiling": study.compiling, "methods": methods},
            len(study.ways) * study.seconds * 4 / 3 + 2 * study.compiling,
            absent=no_model,
            order=Order(model, precision),
            columns=columns | {"by": TIMING},
            figures={"latency": {}},
        )


@dataclass(frozen=True, slots=True)
class LatencyPlan(Plan):
    """A plan that measures the operators of the networks before it optimises them, and times one network at a time."""

    study: LatencyStudy

    def batches(self, runs: Sequence[Run], tell: Tell) -> Iterator[list[Run]]:
        """Yield by precision the runs that optimise, at prices that are measured first, then each that times."""
        self.study.open(PRECISIONS[0])
        for precision in self.study.precisions:
            mine = [run for run in runs if run.order.precision == precision]
            optimising = [run for run in mine if run.order.method is not None]
            if optimising and self.study.cost == MEASURED:
                table = str(self._prices(precision, tell))
                optimising = [replace(run, order=replace(run.order, cost=table)) for run in optimising]
            if optimising:
                yield optimising
            for run in mine:
                if run.order.method is None:
                    yield [self._with_graphs(run)]

    def _prices(self, precision: str, tell: Tell) -> Path:
        """Return the recorded costs of the operators, which are measured unless they were; both can be continued."""
        from workbench.studies.devices.spec_io import record_table

        study = self.study
        saturations = {
            name: asdict(m) for name, m in study.methods.items() if isinstance(m, SaturationMethod)
        }
        # Prices of another machine, or measured in another way, are not those of this study.
        way = [study.open(precision).title, study.milliseconds, study.caches, study.measuring]
        which = digest({"networks": study.networks, "methods": saturations, "way": way})[:6]
        stem = self.folder / "operators" / f"{precision}-{which}"
        table, spec, measured = (stem.with_suffix(f".{kind}") for kind in ("parquet", "spec.json", "json"))
        if table.exists():
            return table
        if not spec.exists():
            tell(f"operators, {precision}: listing those of {len(study.networks)} networks")
            stem.parent.mkdir(parents=True, exist_ok=True)
            runs = [run for run in self.runs if run.order.precision == precision and not run.absent]
            limit = LISTING + sum(m["seconds"] for m in saturations.values()) * len(study.networks)
            job = Job("operators", list_operators, (runs, spec), limit, study.seed)
            ((_, listed),) = run_jobs([job])
            if listed.status != "done":
                raise StudyError(f"the operators could not be listed: {listed.note or listed.status}")
        tell(f"operators, {precision}: measuring on {study.device}")
        words = [sys.executable, "-m", "workbench.studies.devices.measure", str(spec), str(measured)]
        words += ["--device", study.device, "--milliseconds", str(study.milliseconds)]
        words += ["--caches", study.caches, "--seconds", str(study.measuring)]
        words += ["--tf32"] if precision == "tf32" else []
        words += [] if study.cuda else ["--threads", str(study.threads)]
        code = subprocess.run(words, check=False).returncode
        if code == 130:
            raise KeyboardInterrupt
        if code:
            raise StudyError(f"the operators could not be measured: the program ended with code {code}")
        return record_table([measured], table)[0]

    def _with_graphs(self, run: Run) -> Run:
        """Return a run that times, with the graphs of the methods that have a record."""
        graphs: dict[str, str | None] = {}
        for other in self.runs:
            alike = (other.subject, other.repeat, other.order.precision)
            if other.order.method is None or alike != (run.subject, run.repeat, run.order.precision):
                continue
            record = self.load(other)
            if record is not None and not record["failed"]:
                graphs[other.method] = record["graph"]
        return replace(run, order=replace(run.order, graphs=graphs))

    def job(self, run: Run) -> Job:
        """Return the job that does a run; on a GPU one that times has no limit of memory, as CUDA reserves all."""
        found = Plan.job(self, run)
        return replace(found, memory=None) if self.study.cuda and run.order.method is None else found


def outcome(record: Record) -> str:
    """Return the outcome of a run in one line."""
    if record["row"]["by"] != TIMING:
        return optimisation_outcome(record)
    timed = [row for row in record["latency"]["rows"] if "speedup" in row]
    if not timed:
        return "nothing was timed"
    best = max(timed, key=lambda row: row["speedup"])
    return (
        f"{len(timed)} timed in alternation, best {best['speedup']:.2f}× ({best['form']}, {best['target']})"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def list_operators(given: tuple[Sequence[Run], Path]) -> None:
    """Write the operators in the e-graphs of all networks and saturations to a file, the important ones first."""
    from workbench.rules.ruleset import rules_of
    from workbench.saturation.limits import Limits
    from workbench.studies.devices.instances import saturated_instances
    from workbench.studies.devices.spec_io import Spec, write_spec

    runs, file = given
    names = ("e_nodes", "seconds", "iterations", "k_multi", "settle")
    ways: dict[tuple[Any, ...], dict[str, Graph]] = {}
    for run in runs:
        order, method = run.order, run.order.method
        if isinstance(method, SaturationMethod):
            key = (order.rules, *(getattr(method, name) for name in names))
            ways.setdefault(key, {})[run.subject] = order.original()
    found: dict[Any, None] = {}
    for (rules, *values), networks in ways.items():
        limits = Limits(**dict(zip(names, values, strict=True)))
        found |= dict.fromkeys(saturated_instances(networks, rules=rules_of(rules), limits=limits).instances)
    write_spec(file, Spec(tuple(found)))


def do_run(study: LatencyStudy, run: Run) -> Record:
    """Optimise a network by a method, or time it and the results of all methods."""
    return _timed(study, run) if run.order.method is None else _optimised(study, run)


def _optimised(study: LatencyStudy, run: Run) -> Record:
    from workbench.costs.lookup import RecordedCost
    from workbench.costs.registry import cost_model
    from workbench.optimizer.pipeline import optimize
    from workbench.studies.search.optimize import search_optimize

    order: Order = run.order
    method, graph, model = order.method, order.original(), cost_model(order.cost)
    assert method is not None
    way: Callable[..., Any] = search_optimize if isinstance(method, SearchMethod) else optimize
    settings = method.arguments(study.grace) | {"rules": order.rules}
    done = way(graph, cost=model, seed=run.seed, **settings)
    kept = None if done.graph is done.original else pack(done.graph)
    used = list(model.lookup.used.values()) if isinstance(model, RecordedCost) else []
    priced = {"recorded": used.count(True), "estimated": used.count(False)}
    return run_figures(done) | {"device": model.device, "graph": kept, "priced": priced}


def _timed(study: LatencyStudy, run: Run) -> Record:
    """Time the original and all results in every way, in each in alternation; equal graphs are timed once."""
    order: Order = run.order
    tf32, device = order.precision == "tf32", study.open(order.precision)
    original = order.original()
    first: dict[str | None, str] = {None: ORIGINAL}
    alike = {name: first.setdefault(text, name) for name, text in order.graphs.items()}
    graphs = {name: original if text is None else unpack(text) for text, name in first.items()}
    ours = [alike[name] for m, method in study.methods.items() if method.by == "saturation"
            and (name := named(m, order.precision)) in alike]  # fmt: skip
    place = {name: i for i, name in enumerate((ORIGINAL, *order.graphs, CHOSEN))}
    apart = _differences(graphs, device, run.seed)
    rows: list[Record] = []
    titles: dict[str, str] = {}
    compiles = any(way.startswith("compile") for way in study.ways)
    late = _compiled_in_time(study, run, graphs) if compiles else {}
    options: dict[str, Any] = {"soak_seconds": SOAK, "trial_seconds": study.seconds / 3}
    device.soak(SOAK)
    clocks = [device.clocks()]
    for way in study.ways:
        on = study.target(way)
        target, why = _target(study, way, tf32=tf32)
        titles |= {} if target is None else {on: target.title}
        options |= {on: target.options()} if hasattr(target, "options") else {}
        absent = late if way.startswith("compile") else {}
        here = {name: graph for name, graph in graphs.items() if name not in absent and target is not None}
        known, winner = _in_a_way(study, target, here, ours, run.seed)
        clocks.append(device.clocks())
        for name, same in ({ORIGINAL: ORIGINAL} | alike | {CHOSEN: winner}).items():
            row = {"target": on, "form": name} | known.get(same, {"skipped": absent.get(same, why)})
            rows.append(row | ({"same_as": same} if same != name else {}))
    rows.sort(key=lambda row: (list(map(study.target, study.ways)).index(row["target"]), place[row["form"]]))
    lacking = [name for m in study.methods if (name := named(m, order.precision)) not in order.graphs]
    return {
        "row": {"cost_source": device.title},
        "notes": [f"without results of {', '.join(lacking)}"] if lacking else [],
        "device": device.title,
        "result": {"device": device.provenance(), "options": options, "clocks": clocks, "differences": apart},
        "latency": {"threads": study.threads, "titles": titles, "rows": rows},
    }


def _in_a_way(
    study: LatencyStudy, target: Any, graphs: Mapping[str, Graph], ours: Iterable[str], seed: int
) -> tuple[dict[str, Record], str]:
    """Time graphs on a target in alternation; return the figures or the reason by name, and which one is chosen.

    Args:
        study: The study.
        target: The target, on which all graphs are loaded at once.
        graphs: The graphs by name.
        ours: The names of those that saturation made.
        seed: The seed of the inputs and of the order of the runs.
    """
    from workbench.devices.timing import rounds
    from workbench.studies.devices.latency import latency_figures

    found: dict[str, Record] = {}
    timers: dict[str, Callable[[], float]] = {}
    with contextlib.ExitStack() as loaded:
        for name, graph in graphs.items():
            timer = _timer(loaded, target, graph, seed)
            if isinstance(timer, str):
                found[name] = {"skipped": timer}
            else:
                timers[name] = timer
        guarded = [_guarded(name, timer, found) for name, timer in timers.items()]
        took = [
            rounds(guarded, seconds=seconds, seed=order) if guarded else []
            for seconds, order in ((study.seconds / 3, seed + 1), (study.seconds, seed))
        ]
    trial, taken = (
        {n: t for n, t in zip(timers, samples, strict=True) if n not in found} for samples in took
    )
    for name, samples in taken.items():
        found[name] = latency_figures(samples, taken.get(ORIGINAL))
    return found, _chosen(trial, ours)


def _guarded(name: str, timer: Callable[[], float], failures: dict[str, Record]) -> Callable[[], float]:
    """Return a timer that notes why it fails, once and for all: the other graphs are timed nevertheless."""

    def time_once() -> float:
        try:
            return math.nan if name in failures else timer()
        except Exception as error:  # such as memory that another graph took meanwhile
            failures[name] = {"skipped": one_line(error, 300)}
            return math.nan

    return time_once


def _chosen(tried: Mapping[str, Sequence[float]], ours: Iterable[str]) -> str:
    """Return the graph of saturation that is the fastest, or the original if none is faster for sure.

    This is what a measuring optimiser keeps. Its figures are of other rounds than those that choose it.
    """
    from workbench.devices.ranking import WORTH
    from workbench.devices.timing import paired_speedup

    reference, found = tried.get(ORIGINAL), {}
    for name in dict.fromkeys(ours):
        if reference is not None and name != ORIGINAL and name in tried:
            speedup, interval = paired_speedup(reference, tried[name])
            if interval[0] > 1 + WORTH:
                found[name] = speedup
    return max(found, key=found.__getitem__, default=ORIGINAL)


def _differences(graphs: Mapping[str, Graph], device: Device, seed: int) -> dict[str, float | str]:
    """Return how far each graph's outputs on the device are from the original's, or why that is not known."""
    from workbench.studies.devices.latency import difference
    from workbench.torch.executor import Program, draw_inputs, to_array

    found: dict[str, float | str] = {}
    expected: list[Any] | None = None
    with device.settings():
        inputs = draw_inputs(graphs[ORIGINAL], device, seed)
        for name, graph in graphs.items():
            try:
                outputs = [to_array(y) for y in Program(graph, device)(*inputs)]
            except (RuntimeError, ValueError, MemoryError) as error:
                found[name] = one_line(error, 200)
            else:
                expected = expected if expected is not None or name != ORIGINAL else outputs
                apart = None if expected is None else difference(expected, outputs)
                found[name] = (
                    "the original did not run" if apart is None else apart if apart < 1e300 else "infinite"
                )
            device.release()
    return found


def _target(study: LatencyStudy, way: str, *, tf32: bool) -> tuple[Any, str]:
    """Return the target of a way, or None and the reason why it is not there."""
    from workbench.devices.device import DeviceMissing
    from workbench.devices.targets import target

    if way.endswith("graph") and not study.cuda:
        return None, "CUDA graphs need a CUDA device"
    try:
        return target(study.target(way), threads=None if study.cuda else study.threads, tf32=tf32), ""
    except (DeviceMissing, ImportError) as error:
        return None, one_line(error, 300)


def _timer(loaded: contextlib.ExitStack, target: Any, graph: Graph, seed: int) -> Callable[[], float] | str:
    """Load a graph on a target until ``loaded`` is left; return a function that times a run, or why there is none."""
    try:
        (timer,) = loaded.enter_context(target.timers([graph], seed))
        timer()
    except Exception as error:  # refused, not compiled, out of memory: each is a row of the study
        return one_line(error, 300)
    return timer


# -- compilations ---------------------------------------------------------------------------------------
#: The reason of a graph that was not compiled in time.
TIME_IS_UP: Final = "the seconds for compiling the network's graphs were used up"


def _compiled_in_time(study: LatencyStudy, run: Run, graphs: Mapping[str, Graph]) -> dict[str, str]:
    """Return by name why graphs are not to be compiled here: they were not, ahead, in a process that is ended in time.

    A compilation cannot be interrupted, and one of a large network takes minutes. Compiled graphs stay in the
    compiler's cache.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        file = Path(folder) / "compiled"
        job = Job("compilations", compile_ahead, (study, run, graphs, file), study.compiling, run.seed)
        ((_, ended),) = run_jobs([job])
        done = file.read_text().splitlines() if file.exists() else []
    why = TIME_IS_UP if ended.status == "killed" else ended.note
    return {name: why for name in graphs if name not in done}


def compile_ahead(given: tuple[LatencyStudy, Run, Mapping[str, Graph], Path]) -> None:
    """Compile graphs one after the other, and write the name of each into a file."""
    study, run, graphs, file = given
    target, _ = _target(study, "compile", tf32=run.order.precision == "tf32")
    for name, graph in graphs.items():
        with contextlib.ExitStack() as loaded:
            if target is not None:
                _timer(loaded, target, graph, run.seed)
        with file.open("a") as names:
            names.write(f"{name}\n")


COLUMNS: Final = (
    "network", "method", "precision", "by", "repeat", "original", "optimized", "claimed", "certified", "bound",
    "saturation", "extraction", "seconds", "call_seconds", "nodes", "classes", "iter", "k_multi", "status",
    "stop_reason", "limits_hit", "cost_source", "hardware", "failed", "notes",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per method and network, with its measured µs and speed-up on every target as last columns."""
    import pandas as pd

    kept = list(records)
    optimised = [r for r in kept if r["row"]["by"] != TIMING]
    rows = [row_of(r) for r in optimised]
    frame = frame_of(rows).assign(precision=[row["precision"] for row in rows])[list(COLUMNS)]
    timed = {_key(row): row for row in _rows(_timings(kept))}
    targets = distinct(str(target) for *_, target in timed)
    figures = [
        {
            f"{target}: {name}": timed.get((row["network"], row["method"], row["repeat"], target), {}).get(
                column
            )
            for target in targets
            for name, column in (("µs", "median"), ("speed-up", "speedup"))
        }
        for row in rows
    ]
    return pd.concat([frame, pd.DataFrame(figures, index=frame.index)], axis=1)


def _key(row: Mapping[Any, Any]) -> tuple[str, str, int, str]:
    return row["network"], row["form"], row["repeat"], row["target"]


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def _timings(records: Iterable[Record]) -> pd.DataFrame:
    """Return the timings of records, one row per network, form, repeat and target, with their precision."""
    timing = [r for r in records if r["row"]["by"] == TIMING and r["latency"]]
    frames = [latency_frame([r]).assign(precision=r["row"]["precision"]) for r in timing]
    if not frames:
        return latency_frame([]).assign(precision="")
    import pandas as pd

    return pd.concat(frames, ignore_index=True)


def quoted(timings: pd.DataFrame) -> str | None:
    """Return the target whose speed-ups are quoted: the first that timed something, CUDA graphs before all others.

    Call by call, launches from Python take longer than small operators: they hide what the graph costs.
    """
    known = distinct(str(t) for t in timings.loc[timings["median"].notna(), "target"])
    return next((t for t in known if t.endswith("+graph")), known[0] if known else None)


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: speed-ups, the comparison with the papers, the optimiser's seconds."""
    assert isinstance(plan.study, LatencyStudy)
    timings = _timings(records)
    parts = [f"# {plan.folder.name}: networks optimised by prices of a device, timed there", _about(records)]
    for precision in plan.study.precisions:
        own, runs = timings[timings["precision"] == precision], frame[frame["precision"] == precision]
        if (target := quoted(own)) is not None:
            parts += [
                f"## {precision}: against the papers",
                _claims(plan.study, own, runs, target, precision),
            ]
        for name, rows in own.groupby("target", sort=False):
            if rows["median"].notna().any():
                said = next((t for t in rows["title"] if t), str(name))
                parts += [f"## {precision}: {said}", _speedups(rows)]
        if runs["seconds"].notna().any():
            parts += [f"## {precision}: seconds of the optimiser, and gains by prices", _optimiser(runs)]
    if timings["median"].notna().any():
        parts.append(_KEY + _ON_A_GPU * plan.study.cuda)
    return "\n\n".join([*parts, *_not_timed(timings, records), *missing(plan)]) + "\n"


_KEY: Final = (
    "In every way all graphs of a network run in alternation, in a new random order for each round. Original: the "
    "median. Other graphs: the median of the rounds' ratios original / graph, with its 95 % interval within that "
    "run. **Bold**: the whole interval is faster than the original. Equal graphs are timed once."
)
_ON_A_GPU: Final = (
    f" The GPU works for {SOAK:g} s before anything is timed. Inputs and results stay on it, cuDNN tries all of its "
    "algorithms, and runs follow each other for 2 ms. Call by call and in ONNX Runtime launches are part of the times: "
    "`+graph` is what the graph itself needs."
)


def _about(records: Sequence[Record]) -> str:
    devices = distinct(
        ", ".join(f"{k} {v}" for k, v in sorted(r["result"]["device"].items()) if k not in ("device", "date"))
        for r in records
        if r["result"].get("device")
    )
    clocks = [c for r in records for c in r["result"].get("clocks", ()) if c.get("clock_sm_mhz")]
    said = []
    if clocks:
        speeds = [float(c["clock_sm_mhz"]) for c in clocks]
        said = [f"Clock of the multiprocessors beside the runs: {min(speeds):.0f} to {max(speeds):.0f} MHz."]
    prices: dict[str, list[int]] = {}
    for r in records:
        if r["row"]["by"] != TIMING and not r["failed"]:
            source = str(r["row"]["cost_source"]).partition(";")[0]
            prices.setdefault(f"{r['row']['precision']}: {source}", []).append(r["priced"]["estimated"])
    return about(
        records,
        ", one row per method and network.",
        *(f"Device: {d}." for d in devices),
        *said,
        *(
            f"Prices, {s}; in an e-graph {max(n)} operators or fewer were estimated."
            for s, n in prices.items()
        ),
    )


def _claims(
    study: LatencyStudy, timings: pd.DataFrame, runs: pd.DataFrame, target: str, precision: str
) -> str:
    """Return a table: each method of saturation against the original and against TASO's search.

    Args:
        study: The study.
        timings: The timings of the precision.
        runs: The runs that optimise in the precision.
        target: The target whose speed-ups count.
        precision: The precision.
    """
    rows = timings[timings["target"] == target]
    speedup = rows.pivot_table(index="network", columns="form", values="speedup", sort=False)
    seconds = runs.pivot_table(index="network", columns="method", values="seconds", sort=False)
    searches = [named(n, precision) for n, m in study.methods.items() if m.by == "search"]
    said = []
    for name in (CHOSEN, *(named(n, precision) for n, m in study.methods.items() if m.by == "saturation")):
        if name not in speedup:
            continue
        own = speedup[name].dropna()
        line = [name, str(len(own)), f"{own.min():.3f}× ({own.idxmin()})", f"{geometric_mean(own):.3f}×"]
        for search in searches:
            cells = [NOTHING] * 3
            if search in speedup and (gain := (own / speedup[search]).dropna()).size:
                cells[:2] = (
                    f"{gain.max() - 1:+.1%} ({gain.idxmax()})",
                    f"{gain.min() - 1:+.1%} ({gain.idxmin()})",
                )
            if {name, search} <= {*seconds.columns} and (both := seconds[[name, search]].dropna()).size:
                cells[2] = f"{both[search].sum() / both[name].sum():.1f}×"
            line += cells
        said.append(line)
    head = ["method", "networks", "least against the original", "geometric mean"]
    for search in searches:
        head += [f"faster than {search}, best", "worst", f"seconds of {search} / its own"]
    key = (
        f"Times are those of `{target}`. *{CHOSEN}*: the fastest of these methods in rounds before those that count, "
        "or the original if none was faster by more than 1 % for sure: what `optimize` with `measure` keeps. "
        "The papers' claims, of a T4: results up to 16 % faster than what TASO's search finds, and an optimiser "
        "48 times as fast. TASO's search is the workbench's implementation, in Python on one thread, with the "
        "same prices: it needs much less time than TASO's program."
    )
    return lines(head, said) + "\n\n" + key


def _speedups(rows: pd.DataFrame) -> str:
    forms = distinct(form for form in rows["form"] if form != ORIGINAL)
    said = []
    for (network, _), group in rows.groupby(["network", "repeat"], sort=False):
        by_form = {row["form"]: row for row in _rows(group)}
        original = by_form[ORIGINAL]
        first = NOTHING
        if original["median"] == original["median"]:
            first = f"{original['median']:.0f} µs ({original['low']:.0f}–{original['high']:.0f})"
        cells = [ratio_cell(by_form.get(form), 3) for form in forms]
        said.append([f"{network}{repeat_text(original['repeat'])}", first, *cells])
    means = [geometric_mean(rows.loc[rows["form"] == form, "speedup"]) for form in forms]
    said.append(["geometric mean", "", *(NOTHING if m is None else f"{m:.3f}×" for m in means)])
    return lines(["network", ORIGINAL, *forms], said)


def _optimiser(runs: pd.DataFrame) -> str:
    methods = distinct(str(m) for m in runs["method"])
    said = []
    for network, group in runs.groupby("network", sort=False):
        cells = []
        for method in methods:
            own = group[(group["method"] == method) & group["seconds"].notna()]
            gain = (own["original"] / own["optimized"]).mean()
            mark = " ✗" if own["certified"].eq(False).any() else ""
            limit = " …" if own["limits_hit"].fillna("").ne("").any() else ""
            cells.append(
                f"{seconds_text(own['seconds'].mean())}, {gain:.3f}×{mark}{limit}" if len(own) else NOTHING
            )
        said.append([str(network), *cells])
    key = (
        "Seconds: saturation, reading the e-graph and extraction, or the search. Gains: the sum of the operators' "
        "prices, original / result. **✗**: the certificate refused the result, and the original stays. **…**: a "
        "limit affected the result."
    )
    return lines(["network", *methods], said) + "\n\n" + key


def _not_timed(timings: pd.DataFrame, records: Sequence[Record]) -> list[str]:
    """Return the section on what was not timed or failed, with each reason once."""
    reasons: dict[str, dict[str, None]] = {}
    for row in _rows(timings[timings["skipped"].notna()]):
        place = f"{row['network']}, {row['precision']}"
        reasons.setdefault(f"{row['target']}: {row['skipped']}", {})[place] = None
    for record in records:
        for note in [record["row"]["notes"]] if record["row"]["notes"] else []:
            reasons.setdefault(str(note), {})[record["name"]] = None
        for form, apart in (record["result"].get("differences") or {}).items():
            if isinstance(apart, str) or apart > APART:
                said = apart if isinstance(apart, str) else f"{apart:.1e} off the original"
                reasons.setdefault(f"outputs on the device: {said}", {})[f"{record['name']}, {form}"] = None
    told = [f"- {reason} ({', '.join(places)})" for reason, places in reasons.items()]
    return ["## Not timed, and remarks", "\n".join(told)] if told else []


#: The difference of outputs from which on it is remarked, as a fraction of the largest output.
APART: Final = 5e-2


def draw(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> dict[str, Any]:
    """Return the papers' figures by name: speed-up, optimiser's time and k_multi next to the published ones."""
    from workbench.faces.plots import plot_k_multi_trends, plot_optimiser_time, plot_speedup

    study = plan.study
    assert isinstance(study, LatencyStudy)
    timings, figures = _timings(records), {}
    for precision in study.precisions:
        runs = frame[frame["precision"] == precision]
        own = timings[timings["precision"] == precision]
        target = quoted(own)
        if target is None:
            continue
        measured = {_key(row)[:3]: row for row in _rows(own[own["target"] == target])}
        rows = [
            {**row, "speedup": 100 * (found["speedup"] - 1), "cost_source": f"measured: {found['title']}"}
            for row in _rows(runs)
            if (found := measured.get((row["network"], row["method"], row["repeat"]))) is not None
        ]
        own_rows = [{k: v for k, v in row.items() if k not in ("original", "optimized")} for row in rows]
        end = "" if precision == PRECISIONS[0] else f"-{precision}"
        shown = {named(m, precision) for m in study.shown or study.methods}
        few = with_published(frame_of(row for row in own_rows if row["method"] in shown))
        figures[f"speed-up{end}"] = plot_speedup(few).figure
        figures[f"optimiser-time{end}"] = plot_optimiser_time(few, reference="TASO").figure
        several = [row for row in own_rows if re.search(r"-k\d+$", str(row["method"]).removesuffix(end))]
        if several:
            trends = [row | {"method": str(row["method"]).removesuffix(end)} for row in several]
            figures[f"k-multi{end}"] = plot_k_multi_trends(frame_of(trends))
    return figures
