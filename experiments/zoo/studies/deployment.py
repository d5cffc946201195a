"""The study of deployment: optimise model files as a user would, then run them against the originals."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import NonNegativeInt, PositiveFloat

from workbench.studies.experiments.config import (
    Declared,
    Distinct,
    Names,
    Some,
    Study,
    StudyError,
    Unique,
    check_keys,
    check_names,
    resource,
)
from workbench.studies.experiments.optimisation import outcome as outcome
from workbench.studies.experiments.plan import Plan, Record, Run
from workbench.studies.experiments.records import geometric_mean
from workbench.studies.experiments.results import NOTHING, frame_of, latency_frame, row_of
from workbench.studies.experiments.tables import (
    about,
    distinct,
    lines,
    missing,
    repeat_text,
    seconds_text,
)
from workbench.support.messages import one_line
from zoo.studies.baselines import RIVALS, rival
from zoo.studies.latency_tables import ratio_cell, rival_lines, timed_columns
from zoo.studies.process_monitor import watch

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from onnxruntime import InferenceSession


#: The names of the files; the files of rivals have the rivals' names. AGAIN is a second copy of the
#: original, which shows the noise.
ORIGINAL, AGAIN, BY_HAND, OURS = "original", "original again", "by hand", "ours"

#: The name of the file of a form rewritten by hand, next to the model.
HAND_FILE: Final = "by-hand.onnx"

#: A result whose interval of ratios lies below this is slower than the original.
WORTH: Final = 0.98

#: Seconds of a round of all forms from which on two rounds are enough.
SLOW: Final = 15.0

_MIB: Final = 2**20


#: The prefix of the names of architectures that come with onnx.
LIGHT: Final = "light/"

#: The prefix of the names of architectures whose exported file is quantised to 8 bits.
QUANTISED: Final = "quantised/"

#: The end of a name that is a file.
FILE: Final = ".onnx"

#: Options that a method must not have, because the study itself sets them.
_OWN: Final = ("-o", "--output", "--force", "--json", "--report", "--quiet", "-q", "--dim")


@dataclass(frozen=True, slots=True)
class DeploymentMethod(Declared):
    """A method: a call of ``workbench optimize`` with these options, by default none.

    ``seconds`` is the limit on the call.
    """

    options: tuple[str, ...] = ()
    seconds: PositiveFloat = 600.0

    def __post_init__(self) -> None:
        for option in self.options:
            if option.partition("=")[0] in _OWN:
                raise StudyError(f"options must not have {option!r}: the study sets it itself; leave it out")


@dataclass(frozen=True, slots=True)
class DeploymentTiming(Declared):
    """Settings of the timing: numbers of threads, seconds for each of them, and rivals.

    ``0`` threads stands for ONNX Runtime's own default. Files of more than ``up_to`` MiB are optimised but
    not timed, because all forms of a model are in memory at once, some with repacked weights. The original
    and the result also run on the ``targets``, if any, as far as these have all operators. With
    ``by_hand``, an architecture that people rewrite by hand is timed in that form too.
    """

    threads: Annotated[tuple[NonNegativeInt, ...], Unique, Some] = (1,)
    seconds: PositiveFloat = 6.0
    rivals: Distinct = ("onnxsim", "onnxslim")
    up_to: PositiveFloat = 1024.0
    targets: Distinct = ()
    by_hand: bool = False

    def __post_init__(self) -> None:
        from workbench.devices.targets import target

        check_names("targets", "target", self.targets, [n for n in target.names() if n != "onnxruntime"])

        check_names("rivals", "rival", self.rivals, RIVALS)

    def config(self) -> dict[str, Any]:
        """Return the settings as plain data, without optional ones that the study does not use."""
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {k: v for k, v in plain.items() if v or k not in ("targets", "by_hand")}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentStudy(Study):
    """A study that optimises every model by every method as a user would: a file in, a file out.

    ``models`` are those of :mod:`zoo.exports`, with the prefix ``quantised/`` the same in 8
    bits, and with the prefix ``light/`` those of :mod:`workbench.studies.benchmarks.light`. A name that ends with
    ``.onnx`` is a file, or one in an installed package: ``PACKAGE/FILE.onnx``. ``workbench optimize``
    optimises the file in its own process, whose seconds and memory are recorded. Then the cleaned original,
    the files of rivals and the result run in alternation.
    """

    KIND: ClassVar[str] = "deployment"

    models: Names
    methods: Annotated[Mapping[str, DeploymentMethod], Some]
    timing: DeploymentTiming = field(default_factory=DeploymentTiming)
    memory: PositiveFloat = 20.0

    def __post_init__(self) -> None:
        check_names("models", "model", [n for n in self.models if not n.endswith(FILE)], known_models())
        check_keys("methods", self.methods)

    def limit(self, method: str) -> float:
        """Return the seconds that a method's call and the timing allow for a run."""
        timed = len(self.timing.threads) + len(self.timing.targets)
        return self.methods[method].seconds + 4 * self.timing.seconds * timed


def known_models() -> list[str]:
    """Return the names of all models that a study can have."""
    from workbench.studies.benchmarks.light import light_names
    from zoo.exports import architectures

    found = architectures()
    return [*(LIGHT + name for name in light_names()), *found, *(QUANTISED + name for name in found)]


@dataclass(frozen=True, slots=True)
class Order:
    """What a run needs."""

    model: str
    method: DeploymentMethod
    timing: DeploymentTiming
    file: str = ""
    seed: int = 0


def make_plan(study: DeploymentStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, model by model; files are looked for in ``home`` and in packages."""
    return Plan.of(study, folder, deploy_one, _runs(study, home))


def _runs(study: DeploymentStudy, home: Path) -> Iterator[Run]:
    for model, name in product(study.models, study.methods):
        method = study.methods[name]
        file, about, absent = resource(in_package(model), home) if model.endswith(FILE) else ("", {}, "")
        config = {
            "network": {**about, "file": model} if about else model,
            "method": {**asdict(method), "options": list(method.options)},
            "timing": study.timing.config(),
        }
        yield Run(
            model,
            name,
            config,
            study.limit(name),
            absent=absent,
            order=Order(model, method, study.timing, file),
            columns={"network": model, "by": "saturation", "published": False},
            figures={"device": None, "seconds": {}, "call": {}, "latency": {}},
        )


def in_package(name: str) -> str:
    """Return the path of ``PACKAGE/FILE`` in an installed package that has it, otherwise the name."""
    package, _, rest = name.partition("/")
    spec = find_spec(package) if package.isidentifier() else None
    found = (Path(place, rest) for place in (spec and spec.submodule_search_locations) or ())
    return next((str(path) for path in found if path.is_file()), name)


# -- in the process of a run ---------------------------------------------------------------------------
def deploy_one(study: DeploymentStudy, run: Run) -> Record:
    """Export a model, optimise its file as a user would, time both files and return the figures."""
    order: Order = replace(run.order, seed=run.seed)
    with tempfile.TemporaryDirectory(prefix="workbench-deployment-") as folder:
        place = Path(folder)
        given = Path(order.file or model_file(order.model, place / "model.onnx", order.seed))
        original = cleaned(given, place / "cleaned.onnx")
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        call, figures = _call(order, given, place)
        made = place / "ours.onnx"
        if not made.exists():
            raise RuntimeError(f"workbench optimize wrote nothing (exit code {call['code']}): {call['said']}")
        forms: dict[str, Path] = {ORIGINAL: original, AGAIN: original, OURS: made}
        about: Record = {}
        timed: Record = {"threads": order.timing.threads[0], "titles": {}, "rows": []}
        apart: float | None = None
        notes: list[str] = []
        shapes = shapes_of(original, (figures.get("dynamic") or {}).get("sizes") or {})
        if size_of(original) <= order.timing.up_to:
            about, notes = _rivals(order, original, forms, shapes)
            rewritten = place / HAND_FILE
            if order.timing.by_hand and rewritten.exists():
                forms[BY_HAND] = rewritten
            timed = time_files(forms, order.timing, order.seed, shapes)
            for target in order.timing.targets:
                title, rows = time_graphs(original, made, target, order)
                timed["titles"][target] = title
                timed["rows"] += rows
            apart, why = _difference(original, made, order.seed, shapes)
            notes += [why] if why else []
        else:
            notes = [f"not timed, as its file is larger than {order.timing.up_to:g} MiB"]
        latency = {"rivals": about, "load": load, **timed}
        sizes = {name: size_of(path) for name, path in {"given": given, **forms}.items() if name != AGAIN}
        return _record(call, figures, latency, sizes, apart, notes)


def model_file(name: str, path: Path, seed: int = 0) -> Path:
    """Write a model of the study to a file and return the path; torch exports in its own process.

    The form rewritten by hand, if there is one, is written to :data:`HAND_FILE` next to it.
    """
    if name.startswith(LIGHT):
        import onnx

        from workbench.studies.benchmarks.light import light_model

        onnx.save_model(light_model(name.removeprefix(LIGHT), seed), path)
        return path
    from workbench.studies.experiments.process import Job, run_jobs

    plain = name.removeprefix(QUANTISED)
    ((_, outcome),) = run_jobs([Job(name, exported, (plain, str(path), seed), 900.0)])
    if outcome.status != "done":
        raise RuntimeError(f"the export of {plain} {outcome.status}: {outcome.note}")
    if name != plain:
        from zoo.quantised import quantise

        quantise(path, path, seed)
        path.with_name(HAND_FILE).unlink(missing_ok=True)
    return path


def exported(order: tuple[str, str, int]) -> None:
    """Export an architecture to a file; the argument is its name, the path and the seed."""
    from zoo.exports import architecture
    from zoo.exports.by_hand import by_hand
    from zoo.exports.export import export

    name, path, seed = order
    wanted = architecture(name)
    module = wanted.module(seed)
    export(wanted, path, seed=seed, module=module)
    rewritten = by_hand(module)
    if rewritten is not None:
        export(wanted, Path(path).with_name(HAND_FILE), seed=seed, module=rewritten)


def cleaned(path: Path, target: Path) -> Path:
    """Return a file of the model without initialisers among its inputs.

    This is ``path`` itself if there are none, otherwise ``target``, which is written.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    stored = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in stored]
    if len(inputs) == len(model.graph.input):
        return path
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    onnx.save_model(model, target)
    return target


def _call(order: Order, given: Path, place: Path) -> tuple[Record, Record]:
    """Run ``workbench optimize`` and return the call's seconds and memory, and the figures that it wrote."""
    from workbench.support.processes import command, environment

    said, made = place / "figures.json", place / "ours.onnx"
    words = command(
        "workbench.faces.cli", "optimize", str(given), "-o", str(made), "--json", str(said), "--quiet"
    )
    done = watch(
        [*words, "--seed", str(order.seed), *order.method.options],
        seconds=order.method.seconds,
        environment=environment(),
    )
    if done.late:
        raise RuntimeError(f"workbench optimize was not finished after {order.method.seconds:g} s")
    text = " ".join((done.errors or done.output).replace(str(place), "…").split())
    call = {
        "seconds": done.seconds,
        "peak_mib": None if done.peak is None else done.peak / _MIB,
        "together_mib": None if done.together is None else done.together / _MIB,
        "code": done.code,
        "said": text[-300:] if done.code else "",
    }
    return call, json.loads(said.read_text()) if said.exists() else {}


def shapes_of(path: Path, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file's inputs at sizes of its symbolic dimensions, by name; none without sizes."""
    from workbench.frontends import load_model
    from workbench.ops import TensorType

    inputs = [n for n in load_model(path, sizes=sizes).nodes if n.op == "input"] if sizes else []
    return {n.attr("name"): n.type.shape for n in inputs if isinstance(n.type, TensorType)}


def _rivals(
    order: Order, original: Path, forms: dict[str, Path], shapes: Mapping[str, Sequence[int]]
) -> tuple[Record, list[str]]:
    """Optimise the cleaned original by all rivals and add their files to ``forms``.

    Return version, seconds and difference by rival, and one note per rival that failed.

    Args:
        order: The settings of the run.
        original: The file of the original.
        forms: The files by their forms; those of rivals are written next to ours.
        shapes: Shapes of inputs with open dimensions, by name.
    """
    import onnx

    about: Record = {}
    notes: list[str] = []
    for name in order.timing.rivals:
        found = rival(name, onnx.load(original), seed=order.seed, shapes=shapes)
        about[name] = {"version": found.version, "seconds": found.seconds, "difference": found.difference}
        if found.model is None:
            notes.append(f"{name}: {found.note}")
            continue
        forms[name] = forms[OURS].with_name(f"{name}.onnx")
        onnx.save_model(found.model, forms[name])
    return about, notes


def size_of(path: Path) -> float:
    """Return the size in MiB of a model's file and of its external data next to it."""
    beside = path.with_name(path.name + ".data")
    return sum(p.stat().st_size for p in (path, beside) if p.exists()) / _MIB


def time_files(
    forms: Mapping[str, Path],
    timing: DeploymentTiming,
    seed: int,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Record:
    """Time files in alternation in ONNX Runtime, loaded by path, for each number of threads.

    Args:
        forms: The files, by their forms.
        timing: Threads and seconds.
        seed: Seed of the random inputs.
        shapes: Shapes of inputs with open dimensions, by name; otherwise open dimensions are 1.
    """
    from workbench.devices.targets import OnnxRuntime
    from workbench.devices.timing import random_feeds, rounds
    from workbench.studies.devices.latency import latency_figures

    rows: list[Record] = []
    titles: dict[str, str] = {}
    for threads in timing.threads:
        target = f"onnxruntime-{threads}" if threads else "onnxruntime"
        titles[target] = OnnxRuntime(threads or None).title
        timers: list[Callable[[], float]] = []
        timed: list[Record] = []
        feeds: Any = None
        for form, path in forms.items():
            row: Record = {"target": target, "form": form}
            rows.append(row)
            try:
                loaded = load_file(path, threads)
                feeds = random_feeds(loaded, seed, shapes) if feeds is None else feeds
                loaded.run(None, feeds)
            except Exception as error:  # the runtime refuses the file, for any reason
                row["skipped"] = one_line(error, 300)
                continue
            timers.append(partial(_timed, loaded, feeds, own=threads == 1))
            timed.append(row)
        taken = rounds(timers, seconds=timing.seconds, least=9, most=400, slow=SLOW) if timers else []
        reference = next((t for row, t in zip(timed, taken, strict=True) if row["form"] == ORIGINAL), None)
        for row, samples in zip(timed, taken, strict=True):
            row |= latency_figures([t * 1e6 for t in samples], reference and [t * 1e6 for t in reference])
    return {"threads": timing.threads[0], "titles": titles, "rows": rows}


def time_graphs(original: Path, made: Path, name: str, order: Order) -> tuple[str, list[Record]]:
    """Time the graphs of both files in alternation on a target; return its title and one row per form.

    Args:
        original: The file of the original.
        made: The file of the result.
        name: The name of the target.
        order: The settings of the run.
    """
    from workbench.devices.device import DeviceMissing
    from workbench.devices.targets import target
    from workbench.devices.timing import rounds
    from workbench.frontends import load_model
    from workbench.studies.devices.latency import latency_figures

    rows: list[Record] = [{"target": name, "form": form} for form in (ORIGINAL, AGAIN, OURS)]
    try:
        chosen = target(name, threads=order.timing.threads[0] or None)
        graphs = [load_model(path) for path in (original, original, made)]
        for graph in graphs:
            chosen.check(graph)
        with chosen.timers(graphs, order.seed) as timers:
            taken = rounds(timers, seconds=order.timing.seconds, least=5, most=400, slow=1e6 * SLOW)
    except (DeviceMissing, LookupError, RuntimeError, ValueError) as error:
        reason = one_line(error, 300)
        return name, [row | {"skipped": reason} for row in rows]
    for row, samples in zip(rows, taken, strict=True):
        row |= latency_figures(samples, taken[0])
    return chosen.title, rows


def _timed(loaded: Any, feeds: Mapping[str, np.ndarray], *, own: bool) -> float:
    """Return the seconds of a run; with ``own``, without the time that other processes used the core."""
    began, own_began = time.perf_counter(), time.thread_time()
    loaded.run(None, feeds)
    spent, own_spent = time.perf_counter() - began, time.thread_time() - own_began
    return min(spent, own_spent) if own and own_spent > 0 else spent


def load_file(path: Path, threads: int = 1) -> InferenceSession:
    """Load a file into ONNX Runtime with its defaults, except that idle threads sleep instead of spinning."""
    import onnxruntime as ort

    from workbench.frontends.runtime import session_options

    options = session_options(threads=threads or None, spin=False)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _difference(
    original: Path, made: Path, seed: int, shapes: Mapping[str, Sequence[int]]
) -> tuple[float | None, str]:
    """Return the difference of the outputs of both files, or None with the reason why it is unknown.

    The difference is a part of the largest output.

    Args:
        original: The file of the original.
        made: The file of the result.
        seed: Seed of the random inputs.
        shapes: Shapes of inputs with open dimensions, by name.
    """
    from workbench.devices.timing import random_feeds
    from workbench.studies.devices.latency import difference

    try:
        first = load_file(original)
        feeds = random_feeds(first, seed, shapes)
        expected = first.run(None, feeds)
        del first
        found = difference(expected, load_file(made).run(None, feeds))
    except Exception as error:
        return None, f"outputs were not compared: {' '.join(str(error).split())[:200]}"
    return (
        (found, "")
        if found < float("inf")
        else (None, "outputs differ in shape or in which values are finite")
    )


def _record(
    call: Record, figures: Record, latency: Record, sizes: Record, apart: float | None, notes: list[str]
) -> Record:
    certificate = figures.get("certificate") or {}
    before, after = figures.get("cost_before"), figures.get("cost_after")
    ours: Record = next((r for r in latency["rows"] if r["form"] == OURS and "speedup" in r), {})
    row = {
        "original": before,
        "optimized": after,
        "saturation": figures.get("saturation"),
        "extraction": figures.get("extraction"),
        "nodes": figures.get("e_nodes"),
        "classes": figures.get("e_classes"),
        "iter": figures.get("iterations"),
        "seconds": call["seconds"],
        "cost_source": figures.get("cost_source", ""),
        "bound": figures.get("bound"),
        "certified": certificate.get("passed"),
        "kept": None if before is None else bool(before == after),
        "peak_mib": call["peak_mib"],
        "together_mib": call["together_mib"],
        "given_mib": sizes["given"],
        "ours_mib": sizes[OURS],
        "difference": apart,
        "measured_speedup": ours.get("speedup"),
        "speedup_low": (ours.get("interval") or [None, None])[0],
        "speedup_high": (ours.get("interval") or [None, None])[1],
    }
    return {
        "row": row,
        "status": figures.get("status", "no figures"),
        "device": row["cost_source"],
        "stop_reason": figures.get("stop_reason", "no figures"),
        "seconds": figures.get("seconds", {}),
        "call": call,
        "latency": latency,
        "notes": notes,
        "result": {
            "rules": figures.get("rules", []),
            "certificate": figures.get("certificate"),
            "measured": figures.get("measured"),
            "operators_before": figures.get("operators_before", {}),
            "operators_after": figures.get("operators_after", {}),
            "sizes_mib": sizes,
        },
    }


COLUMNS: Final = (
    "network", "method", "repeat", "original", "optimized", "speedup", "certified", "saturation",
    "extraction", "seconds", "nodes", "classes", "iter", "status", "stop_reason", "limits_hit",
    "cost_source", "hardware", "failed", "notes",
)  # fmt: skip

#: MiB from which a file is large; below, Python and its libraries need more memory than the weights.
LARGE: Final = 100.0

#: Figures that only the runs of this study have.
OWN: Final = (
    "kept", "measured_speedup", "speedup_low", "speedup_high", "peak_mib", "together_mib", "given_mib",
    "ours_mib", "difference",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run, with the medians of every form on every target (in µs) as last columns."""
    import pandas as pd

    kept = list(records)
    frame = frame_of(map(row_of, kept))[list(COLUMNS)]
    own = pd.DataFrame(
        [{k: r["row"].get(k) for k in OWN} for r in kept], index=frame.index, columns=list(OWN)
    )
    return pd.concat([frame, own, timed_columns(kept, frame.index)], axis=1)


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text; a summary over all models precedes each table of speeds."""
    parts = [f"# {plan.folder.name}: files of real architectures, optimised and run", _about(records)]
    found = latency_frame(records)
    for target, rows in found.groupby("target", sort=False):
        title = next((t for t in rows["title"] if t), str(target))
        parts += [f"## Speed: {title}", _summary(rows, records), _speed(rows, records)]
        parts += remarks(str(target), title, records)
    if len(found):
        parts.append(_KEY)
    done = [r for r in records if not r["failed"]]
    if done:
        parts += ["## The call", _calls(done), _CALL_KEY, "## Certificates", _certificates(done)]
    noted = [f"- {r['name']}: {r['row']['notes']}" for r in records if r["row"].get("notes")]
    if noted:
        parts.append("## Notes\n\n" + "\n".join(noted))
    return "\n\n".join([*parts, *missing(plan)]) + "\n"


def remarks(target: str, title: str, records: Sequence[Record]) -> list[str]:
    """Name the models that ran in another way on a target, and those that were not timed, with the reason."""
    others: dict[str, list[str]] = {}
    skipped: dict[str, list[str]] = {}
    for record in records:
        latency = record.get("latency", {})
        rows = [row for row in latency.get("rows", ()) if row["target"] == target]
        reason = next((row["skipped"] for row in rows if row.get("skipped")), "")
        own = latency.get("titles", {}).get(target, title)
        if reason:
            skipped.setdefault(reason, []).append(_named(record["row"]))
        elif own not in (title, target):
            others.setdefault(own, []).append(_named(record["row"]))
    said = [f"{', '.join(names)}: {own}." for own, names in others.items()]
    said += [f"Not timed: {', '.join(names)} ({reason})." for reason, names in skipped.items()]
    return ["\n".join(said)] if said else []


_KEY: Final = (
    "All files of a model run in alternation, in a new random order for each round, with the "
    "runtime's own optimiser on. With one thread, time in which other processes used the core is not "
    "counted. *Original*: the file without initialisers among its inputs, median and quartiles. Other "
    "files: the median of the rounds' ratios original / file, with its 95 % interval within that run. "
    "*Original again* is a second copy of the original and shows the effect of noise alone. **Bold**: "
    "the whole interval is faster than the original. ✗: slower, the whole interval lies below "
    f"{WORTH}. *Same file*: the optimiser wrote the original, because it found nothing faster; in the means its "
    "ratio is 1."
)

_CALL_KEY: Final = (
    "*Whole*: the command from its start to its end, including Python's start, in seconds; the stages "
    "are the command's own figures. *Peak*: the largest memory of one of its processes, including "
    "weights that are mapped from the file. *Together*: the memory of all processes at once, counting "
    "shared memory for each of them. *× file*: the peak divided by the size of the given file, for "
    "files of at least 100 MiB. Rivals' seconds are those of the function alone, after its import."
)


def _about(records: Sequence[Record]) -> str:
    sources = distinct(str(r["row"].get("cost_source") or "").partition(";")[0] for r in records)
    loads = [v for r in records if (v := r.get("latency", {}).get("load")) is not None]
    return about(
        records,
        ", one row per run. A model without a file is exported by torch with seeded random weights (models in "
        "`light/` come with onnx), and one with a file comes with a package. `workbench optimize` optimises it "
        "with its default settings, apart from the options of a method. Then both files run.",
        f"Costs: {'; '.join(s for s in sources if s) or 'none yet'}.",
        *rival_lines(records),
        *([f"Load when the calls began: {min(loads):.1f} to {max(loads):.1f}."] if loads else []),
    )


def _named(row: Record) -> str:
    method = "" if row["method"] == "default" else f", {row['method']}"
    return row["network"] + method + repeat_text(row["repeat"])


def _by_run(rows: pd.DataFrame) -> dict[tuple[Any, ...], dict[str, dict[str, Any]]]:
    found: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows.to_dict("records"):
        known = {str(key): value for key, value in row.items()}
        key = (known["network"], known["method"], known["repeat"])
        found.setdefault(key, {})[str(known["form"])] = known
    return found


def _ratio_known(row: dict[str, Any] | None) -> bool:
    return row is not None and row["speedup"] == row["speedup"]


def _summary(rows: pd.DataFrame, records: Sequence[Record]) -> str:
    stays = {
        (r["row"]["network"], r["row"]["method"], r["row"]["repeat"]): r["row"].get("kept") for r in records
    }
    by_run = {key: forms for key, forms in _by_run(rows).items() if _ratio_known(forms.get(OURS))}
    runs = list(by_run.values())
    if not runs:
        return "Nothing is timed yet."
    # A kept original is the same file: its interval is noise.
    faster = sum(f[OURS]["speedup_low"] > 1 and not stays[key] for key, f in by_run.items())
    slower = [
        f[OURS]["network"] for key, f in by_run.items() if f[OURS]["speedup_high"] < WORTH and not stays[key]
    ]
    kept = sum(bool(stays[key]) for key in by_run)  # of the models that are timed
    mean = geometric_mean([1.0 if stays[key] else f[OURS]["speedup"] for key, f in by_run.items()])
    noise = geometric_mean([f[AGAIN]["speedup"] for f in runs if _ratio_known(f.get(AGAIN))])
    said = [
        f"{len(runs)} models: {faster} faster than the original (the whole interval above 1), {kept} kept "
        f"unchanged, {len(slower)} slower than {WORTH}×" + (f" ({', '.join(slower)})" if slower else ""),
        f"geometric mean of the ratios {mean:.3f}, of the original over itself {noise or 1:.3f}",
    ]
    for name in distinct(n for forms in runs for n in forms if n not in (ORIGINAL, AGAIN, OURS)):
        theirs = [f[name] for f in runs if _ratio_known(f.get(name))]
        worse = sum(row["speedup_high"] < WORTH for row in theirs)
        ratio = geometric_mean([row["speedup"] for row in theirs])
        if ratio:
            said.append(f"{name} {ratio:.3f} on {len(theirs)}, {worse} slower than {WORTH}×")
    return "; ".join(said) + "."


def _speed(rows: pd.DataFrame, records: Sequence[Record]) -> str:
    kept = {(r["row"]["network"], r["row"]["method"], r["row"]["repeat"]): r["row"] for r in records}
    rivals = distinct(form for form in rows["form"] if form not in (ORIGINAL, AGAIN, OURS))
    said = []
    for key, forms in _by_run(rows).items():
        original, row = forms[ORIGINAL], kept[key]
        if original["median"] != original["median"]:
            continue
        said.append(
            [
                _named(row),
                f"{original['median'] / 1000:.3g} ms "
                f"({original['low'] / 1000:.3g}–{original['high'] / 1000:.3g})",
                ratio_cell(forms.get(AGAIN), 3, WORTH),
                "same file" if row.get("kept") else ratio_cell(forms.get(OURS), 3, WORTH),
                *(ratio_cell(forms.get(name), 3, WORTH) for name in rivals),
            ]
        )
    return lines(["model", ORIGINAL, AGAIN, OURS, *rivals], said)


#: The stages of a call; older records name the timing ``measuring``.
_STAGES: Final = (
    "import", "engine", "saturation", "pricing", "extraction", "measuring", "timing", "certificate",
)  # fmt: skip


def _calls(records: Sequence[Record]) -> str:
    rivals = distinct(name for r in records for name in r["latency"].get("rivals", {}))
    stages = [s for s in _STAGES if any(s in r["seconds"] for r in records)]
    rows = []
    for record in records:
        row, seconds = record["row"], record["seconds"]
        about = record["latency"].get("rivals", {})
        large = row["peak_mib"] and row["given_mib"] >= LARGE
        ratio = row["peak_mib"] / row["given_mib"] if large else None
        rows.append(
            [
                _named(row),
                seconds_text(row["seconds"]),
                *(seconds_text(seconds[s]) if s in seconds else NOTHING for s in stages),
                *(seconds_text(about[n]["seconds"]) if n in about else NOTHING for n in rivals),
                _mib(row["given_mib"]),
                _mib(row["ours_mib"]),
                _mib(row["peak_mib"]),
                NOTHING if ratio is None else f"{ratio:.1f}",
                _mib(row["together_mib"]),
            ]
        )
    head = ["model", "whole", *stages, *rivals, "file MiB", "ours MiB", "peak MiB", "× file", "together MiB"]
    return lines(head, rows)


def _mib(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _certificates(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        row, found = record["row"], record["result"].get("certificate") or {}
        before = sum(record["result"]["operators_before"].values())
        after = sum(record["result"]["operators_after"].values())
        rows.append(
            [
                _named(row),
                {True: "passed", False: "FAILED", None: NOTHING}[row["certified"]],
                str(found.get("regions", NOTHING)),
                _number(found.get("error")),
                _number(found.get("deployed_error")),
                _number(row["difference"]),
                f"{before} → {after}" if before else NOTHING,
                ", ".join(record["result"]["rules"]) or "none",
            ]
        )
    head = ["model", "certificate", "regions", "in float64", "as saved", "outputs here", "operators", "rules"]
    key = (
        "*In float64*: the largest relative difference of a rewritten region. *As saved*: the difference of "
        "the outputs of both files in the certificate. *Outputs here*: the difference of the outputs of both "
        "files in this study, with the runtime's optimiser on and other inputs."
    )
    return lines(head, rows) + "\n\n" + key


def _number(value: float | str | None) -> str:
    return NOTHING if value is None else value if isinstance(value, str) else f"{value:.1e}"
