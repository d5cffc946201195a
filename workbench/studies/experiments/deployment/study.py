"""The study of deployment: optimise model files as a user would, then run them against the originals."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.studies.experiments.deployment.config import (
    LIGHT,
    QUANTISED,
    DeploymentMethod,
    DeploymentStudy,
    DeploymentTiming,
)
from workbench.studies.experiments.isolated_runs import Call, plan_apart, repeats
from workbench.studies.experiments.optimisation.study import outcome as outcome
from workbench.studies.experiments.plan import Plan, Record, Run
from workbench.support.messages import one_line

if TYPE_CHECKING:
    import numpy as np
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


@dataclass(frozen=True, slots=True)
class Order:
    """The argument of one run's process."""

    model: str
    method: DeploymentMethod
    timing: DeploymentTiming
    seed: int


def make_plan(study: DeploymentStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, model by model; a study of deployment names no files, so ``home`` is unused."""
    blank: Record = {"device": None, "seconds": {}, "call": {}, "latency": {}}
    return plan_apart(study, folder, deploy_one, _runs(study), blank=blank)


def _runs(study: DeploymentStudy) -> Iterator[tuple[Run, Call]]:
    for model, (name, method) in product(study.models, study.methods.items()):
        for repeat, seed in repeats(study.repeats, study.seed):
            config = {
                "study": "deployment",
                "network": model,
                "method": {**asdict(method), "options": list(method.options)},
                "timing": study.timing.config(),
                "seed": seed,
            }
            run = Run(model, name, config, study.limit(name), seed, repeat)
            columns = {"network": model, "by": "saturation", "published": False}
            yield run, Call(Order(model, method, study.timing, seed), columns, study.grace)


# -- in the process of a run ---------------------------------------------------------------------------
def deploy_one(order: Order) -> Record:
    """Export a model, optimise its file as a user would, time both files and return the figures."""
    with tempfile.TemporaryDirectory(prefix="workbench-deployment-") as folder:
        place = Path(folder)
        given = model_file(order.model, place / "model.onnx", order.seed)
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
        if size_of(original) <= order.timing.up_to:
            about, notes = _rivals(order, original, place, forms)
            rewritten = place / HAND_FILE
            if order.timing.by_hand and rewritten.exists():
                forms[BY_HAND] = rewritten
            timed = time_files(forms, order.timing, order.seed)
            for target in order.timing.targets:
                title, rows = time_graphs(original, made, target, order)
                timed["titles"][target] = title
                timed["rows"] += rows
            apart, why = _difference(original, made, order.seed)
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
        from workbench.studies.benchmarks.quantised import quantise

        quantise(path, path, seed)
        path.with_name(HAND_FILE).unlink(missing_ok=True)
    return path


def exported(order: tuple[str, str, int]) -> None:
    """Export an architecture to a file; the argument is its name, the path and the seed."""
    from workbench.studies.benchmarks.exports import architecture
    from workbench.studies.benchmarks.exports.by_hand import by_hand
    from workbench.studies.benchmarks.exports.export import export

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
    from workbench.studies.experiments.process_monitor import watch
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


def _rivals(order: Order, original: Path, place: Path, forms: dict[str, Path]) -> tuple[Record, list[str]]:
    """Optimise the cleaned original by all rivals and add their files to ``forms``.

    Return version, seconds and difference by rival, and one note per rival that failed.
    """
    import onnx

    from workbench.studies.experiments.baselines import rival

    about: Record = {}
    notes: list[str] = []
    for name in order.timing.rivals:
        found = rival(name, onnx.load(original), seed=order.seed)
        about[name] = {"version": found.version, "seconds": found.seconds, "difference": found.difference}
        if found.model is None:
            notes.append(f"{name}: {found.note}")
            continue
        forms[name] = place / f"{name}.onnx"
        onnx.save_model(found.model, forms[name])
    return about, notes


def size_of(path: Path) -> float:
    """Return the size in MiB of a model's file and of its external data next to it."""
    beside = path.with_name(path.name + ".data")
    return sum(p.stat().st_size for p in (path, beside) if p.exists()) / _MIB


def time_files(forms: Mapping[str, Path], timing: DeploymentTiming, seed: int) -> Record:
    """Time files in alternation in ONNX Runtime, loaded by path, for each number of threads."""
    from workbench.devices.latency import latency_figures
    from workbench.devices.timing import executor, random_feeds, rounds

    rows: list[Record] = []
    titles: dict[str, str] = {}
    for threads in timing.threads:
        target = f"onnxruntime-{threads}" if threads else "onnxruntime"
        titles[target] = executor(threads or None, True)
        timers: list[Callable[[], float]] = []
        timed: list[Record] = []
        feeds: Any = None
        for form, path in forms.items():
            row: Record = {"target": target, "form": form}
            rows.append(row)
            try:
                loaded = load_file(path, threads)
                feeds = random_feeds(loaded, seed) if feeds is None else feeds
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
    from workbench.devices.latency import latency_figures
    from workbench.devices.targets import target
    from workbench.devices.timing import rounds
    from workbench.frontends import load_model

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

    options = ort.SessionOptions()
    options.log_severity_level = 4
    if threads:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _difference(original: Path, made: Path, seed: int) -> tuple[float | None, str]:
    """Return the difference of the outputs of both files, or None with the reason why it is unknown.

    The difference is a part of the largest output.
    """
    from workbench.devices.latency import difference
    from workbench.devices.timing import random_feeds

    try:
        first = load_file(original)
        feeds = random_feeds(first, seed)
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
    before, after = figures.get("original"), figures.get("optimized")
    ours: Record = next((r for r in latency["rows"] if r["form"] == OURS and "speedup" in r), {})
    row = {
        "original": before,
        "optimized": after,
        "saturation": figures.get("saturation"),
        "extraction": figures.get("extraction"),
        "nodes": figures.get("nodes"),
        "classes": figures.get("classes"),
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
