"""The study of kernels: chains and models as mixed programs, certified and timed whole."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from workbench.studies.experiments.config import Distinct, Some, Study, StudyError, Unique, check_names
from workbench.studies.experiments.plan import Plan, Record, Run
from workbench.studies.experiments.tables import about, cell, lines, missing, run_table
from workbench.support.messages import one_line
from zoo.chains import CHAINS, chain
from zoo.studies.deployment import known_models, model_file

if TYPE_CHECKING:
    import pandas as pd

    from workbench.graph import Graph
    from workbench.kernels.codegen.deployment import Deployed


#: The rules that saturate the e-graphs of chains.
RULES: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsStudy(Study):
    """A study that runs chains of operators and whole models as mixed programs.

    ``chains`` are names of :data:`zoo.chains.CHAINS`, ``models`` those of a study of
    deployment. Each runs with each number of ``threads`` against ONNX Runtime, in alternation, for
    ``seconds``. So does the original of a model on each of the ``rivals``, which are other targets. With
    ``rules``, models are rewritten by them first, as chains are by :data:`RULES`. ``limit`` is the limit of a run.
    """

    KIND: ClassVar[str] = "kernels"

    chains: Distinct = ()
    models: Distinct = ()
    threads: Annotated[tuple[PositiveInt, ...], Unique, Some] = (1, 2)
    rivals: Distinct = ()
    rules: str = ""
    seconds: PositiveFloat = 4.0
    limit: PositiveFloat = 300.0
    grace: NonNegativeFloat = 60.0
    memory: PositiveFloat = 8.0

    def __post_init__(self) -> None:
        if not self.chains and not self.models:
            raise StudyError("chains or models must name at least one, got none")
        from workbench.devices.targets import target

        check_names("chains", "chain", self.chains, CHAINS)
        check_names("rivals", "target", self.rivals, [n for n in target.names() if n != "onnxruntime"])
        if self.models:
            check_names("models", "model", self.models, known_models())


def make_plan(study: KernelsStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, subject by subject; the study names no files, so ``home`` is unused."""
    return Plan.of(study, folder, run_one, _runs(study))


def _runs(study: KernelsStudy) -> Iterator[Run]:
    subjects = [*((name, True) for name in study.chains), *((name, False) for name in study.models)]
    for (subject, is_chain), threads in product(subjects, study.threads):
        config = {
            "network": subject,
            "chain": is_chain,
            "threads": threads,
            "timing": study.seconds,
            **({"rules": rules} if (rules := RULES if is_chain else study.rules) else {}),
            **({"rivals": list(study.rivals)} if study.rivals and not is_chain else {}),
        }
        columns = {"network": subject, "kind": "chain" if is_chain else "model", "threads": threads}
        yield Run(subject, f"{threads}-threads", config, study.limit, columns=columns)


def outcome(record: Record) -> str:
    """Return the outcome of a run in one line."""
    row = record["row"]
    if not row.get("before"):
        return str(row["notes"] or row["status"])
    return (
        f"{row['speedup']:.2f}× ({row['before']:.0f} → {row['after']:.0f} µs), {row['kernels']} kernels, "
        f"{row['status']}"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def graph_of(run: Run) -> Graph:
    """Return the chain or the imported model of a run; torch exports a model in its own process."""
    from workbench.frontends import load_onnx

    if run.config["chain"]:
        return chain(run.subject)
    with tempfile.TemporaryDirectory(prefix="workbench-kernels-") as folder:
        return load_onnx(model_file(run.subject, Path(folder) / "model.onnx", run.seed))


def run_one(study: KernelsStudy, run: Run) -> Record:
    """Deploy one chain or model as a mixed program, and return the figures."""
    from workbench.costs.registry import cost_model
    from workbench.kernels.codegen.compiler import build_from
    from workbench.kernels.codegen.deployment import deploy
    from workbench.optimizer.pipeline import optimize

    build, graph = build_from(), graph_of(run)
    rewritten: dict[str, Any] = {}
    if rules := run.config.get("rules"):
        found = optimize(graph, rules=rules, cost="cpu", time=False, seed=run.seed)
        rewritten = {"candidates": [found.graph]}
        if run.config["chain"]:  # clusters compete with rewrites in one e-graph
            rewritten["saturated"] = (found.egraph, found.costs)
    done = deploy(
        graph,
        cost_model("cpu"),
        **rewritten,
        threads=run.config["threads"],
        seconds=study.seconds,
        seed=run.seed,
        build=build,
    )
    clusters = () if done.tried is None else done.tried.clusters
    beside = {name: against(name, graph, study, run) for name in run.config.get("rivals", ())}
    return {
        "row": {
            **figures(done),
            "arithmetic": build.arithmetic,
            "flags": " ".join(build.flags),
            **{name: found.get("speedup") for name, found in beside.items()},
        },
        "status": "kept" if done.plan is None else "mixed",
        "stop_reason": "kept" if done.plan is None else "mixed",
        "notes": [
            done.reason,
            *(f"{n}: {found['skipped']}" for n, found in beside.items() if "skipped" in found),
        ],
        "result": {"clusters": [[m.op for m in c.members] for c in clusters], "rivals": beside},
    }


def against(name: str, graph: Graph, study: KernelsStudy, run: Run) -> Record:
    """Time a graph on a target and in ONNX Runtime in alternation; return the figures, or why there are none."""
    from workbench.devices.device import DeviceMissing
    from workbench.devices.targets import OnnxRuntime, target
    from workbench.devices.timing import rounds
    from workbench.studies.devices.latency import latency_figures

    threads = run.config["threads"]
    try:
        rival = target(name, threads=threads)
        rival.check(graph)
        with (
            OnnxRuntime(threads).timers([graph], run.seed) as plain,
            rival.timers([graph], run.seed) as other,
        ):
            before, after = rounds([*plain, *other], seconds=study.seconds, least=5, most=400)
    except (DeviceMissing, LookupError, RuntimeError, ValueError) as error:
        return {"skipped": one_line(error, 300)}
    return {"title": rival.title, **latency_figures(after, before)}


def figures(done: Deployed) -> Record:
    """Return the figures of a mixed program; a figure is None if nothing was timed or certified."""
    timed, plan, certificate = done.timed, done.tried, done.certificate
    return {
        "kernels": 0 if plan is None else len(plan.clusters),
        "operators": 0 if plan is None else sum(len(c.members) for c in plan.clusters),
        "others": 0 if plan is None else plan.others,
        "before": None if timed is None else timed.before,
        "after": None if timed is None else timed.after,
        "speedup": None if timed is None else timed.speedup,
        "low": None if timed is None else timed.interval[0],
        "high": None if timed is None else timed.interval[1],
        "noise": None if timed is None else timed.noise,
        "rounds": None if timed is None else timed.rounds,
        "certified": None if certificate is None else certificate.passed,
        "error": None if certificate is None else certificate.deployed_error,
    }


COLUMNS: Final = (
    "network", "kind", "threads", "repeat", "kernels", "operators", "others", "before", "after", "speedup",
    "low", "high", "noise", "rounds", "certified", "error", "arithmetic", "flags", "status", "stop_reason",
    "failed", "notes",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    records = list(records)
    named = dict.fromkeys(n for r in records for n in (r.get("result") or {}).get("rivals", ()))
    at = COLUMNS.index("certified")
    return run_table(
        records, (*COLUMNS[:at], *named, *COLUMNS[at:]), ["kernels", "operators", "others", "rounds"]
    )


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the table as text."""
    named = [name for name in frame.columns if name not in COLUMNS]
    head = ["network", "threads", "kernels", "operators in them", "other operators", "ONNX Runtime µs",
            "mixed µs", "speed-up", "noise", *named, "certified", "error", "result"]  # fmt: skip
    rows = [
        [
            str(row["network"]), str(row["threads"]), cell(row["kernels"], "{:d}"),
            cell(row["operators"], "{:d}"), cell(row["others"], "{:d}"), cell(row["before"], "{:.0f}"),
            cell(row["after"], "{:.0f}"), _speedup(row), cell(row["noise"], "{:.1%}"),
            *(cell(row[n], "{:.2f}") for n in named),
            cell(row["certified"]), cell(row["error"], "{:.1e}"),
            "the original stays" if row["status"] == "kept" else str(row["status"]),
        ]
        for row in frame.to_dict("records")
    ]  # fmt: skip
    parts = ["# Kernels: clusters of operators as C, next to ONNX Runtime", _about(frame, records)]
    return "\n\n".join([*parts, lines(head, rows), *missing(plan)]) + "\n"


def _about(frame: pd.DataFrame, records: Sequence[Record]) -> str:
    import pandas as pd

    chains = frame[frame["kind"] == "chain"]
    counts = [
        f"{(part['speedup'] >= 2).sum()} of {len(part)} chains at {count} "
        f"thread{'s' if count != 1 else ''} are at least 2 times as fast."
        for count, part in chains.groupby("threads")
    ]
    models = frame[frame["kind"] == "model"]
    for count, part in models.groupby("threads"):
        taken = part[part["status"] == "mixed"]
        lowest = taken["low"].min()  # no number if no model that runs with kernels was timed
        counts.append(
            f"{(taken['speedup'] >= 1.05).sum()} of {len(part)} models at {count} "
            f"thread{'s' if count != 1 else ''} are at least 1.05 times as fast"
            + (
                "."
                if pd.isna(lowest)
                else f"; the lowest interval of a model that runs with kernels begins at {lowest:.2f}."
            )
        )
    used = sorted({str(a) for a in frame["arithmetic"].dropna()})
    flags = sorted({str(f) for f in frame["flags"].dropna()})
    return about(
        records,
        ".",
        "A mixed program runs clusters of operators as C kernels, which are operators of ONNX Runtime in one "
        "session with the others; a program of kernels alone has no session. In chains, clusters compete "
        "with rewrites in one saturated e-graph. The program and the original "
        "in ONNX Runtime (its optimiser on) run in alternation, whole, on the same inputs: medians, "
        "and the 95 % interval of the ratio. If the program is not faster beyond the noise, the "
        "original stays.",
        *_rivals(records),
        *([f"Kernels: {', '.join(used)} (`{'`, `'.join(flags)}`)."] if used else []),
        *counts,
    )


def _rivals(records: Sequence[Record]) -> list[str]:
    """Return a sentence on the columns of rivals, if there are any."""
    found = [
        (n, f["title"])
        for r in records
        for n, f in (r.get("result") or {}).get("rivals", {}).items()
        if "title" in f
    ]
    if not found:
        return []
    told = "; ".join(dict.fromkeys(f"*{name}*: {title}" for name, title in found))
    return [f"The columns of other runtimes have how many times as fast the original runs there ({told})."]


def _speedup(row: Any) -> str:
    interval = f" ({cell(row['low'], '{:.2f}')}–{cell(row['high'], '{:.2f}')})"
    return cell(row["speedup"], "{:.2f}" + interval)
