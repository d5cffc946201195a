"""The study of branches: merged by hand, by us, and left apart by others; costs, latency, scaling."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.experiments.branches_config import BranchesMethod, BranchesStudy, Latency, Parameters
from workbench.experiments.optimisation_study import ELSEWHERE, saturation_extras, saturation_figures
from workbench.experiments.plan import Plan, Record, Run, Task, Tell, at_once
from workbench.experiments.process import Outcome
from workbench.experiments.resources import resource

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.costs import CostModel
    from workbench.devices.targets import Target
    from workbench.experiments.rivals import Rival
    from workbench.graph import Graph
    from workbench.pipeline import Optimized
    from workbench.trace import Trace

#: What the forms of a network are called, beside the rivals' own names.
ORIGINAL, BY_HAND, OURS = "original", "by hand", "ours"


@dataclass(frozen=True, slots=True)
class Order:
    """Say what one run optimises and times; rules and costs are names or paths, no latency for None."""

    family: str
    parameters: Parameters
    method: BranchesMethod
    rules: str
    cost: str
    latency: Latency | None
    threads: int
    seed: int


def make_plan(study: BranchesStudy, home: Path, folder: Path) -> Plan:
    """List a study's runs, family by family, then those that scale; files are seen from ``home``."""
    runs: list[Run] = []
    orders: dict[str, Order] = {}
    skipped: dict[str, None] = {}

    def add(subject: str, family: str, parameters: Parameters, name: str, latency: Latency | None) -> None:
        method = study.methods[name]
        rules, rules_config, no_rules = resource(method.rules, home)
        costs, cost_config, no_costs = resource(method.cost, home)
        skipped.update({f"{name}: {absent}": None for absent in (no_rules, no_costs) if absent})
        seconds = study.limit(name) if latency is not None else method.limit
        for repeat in range(study.repeats):
            seed = study.seed + repeat
            config = {
                "study": "branches",
                "network": subject,
                "family": family,
                "parameters": dict(parameters),
                "method": {**asdict(method), "rules": rules_config, "cost": cost_config},
                "latency": None if latency is None else _plain(latency),
                "threads": study.latency.threads,
                "seed": seed,
            }
            run = Run(subject, name, config, seconds, seed, repeat, no_rules or no_costs)
            runs.append(run)
            orders[run.name] = Order(
                family, parameters, method, rules, costs, latency, study.latency.threads, seed
            )

    timed = study.latency if study.latency.targets else None
    for family, given in study.families.items():
        for name in study.methods:
            add(family, family, given, name, timed)
    for family, more in study.scaling.families.items():
        for blocks in study.scaling.blocks:
            for name in study.scaling.methods:
                larger = {**study.families[family], **more, "blocks": blocks}
                add(f"{family}-x{blocks}", family, larger, name, None)
    return Plan(study, BranchesWork(study, orders), tuple(runs), folder, tuple(skipped))


def _plain(latency: Latency) -> dict[str, Any]:
    return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(latency).items()}


@dataclass(frozen=True, slots=True)
class BranchesWork:
    """Optimise and time networks with branches; runs share nothing."""

    study: BranchesStudy
    orders: Mapping[str, Order]

    def batches(self, runs: Sequence[Run], tell: Tell) -> Iterator[list[Task]]:
        """Return all runs at once."""
        yield at_once(runs, merge_one, self.orders, self.study.grace, self.study.memory)

    def figures(self, task: Task, outcome: Outcome) -> tuple[Record, Trace | None]:
        """Return the row of a run, why it ended, what made the result, the latencies, and the trace."""
        run, found = task.run, outcome.value or {}
        order = self.orders[run.name]
        row = {
            "network": run.subject,
            "method": run.method,
            "repeat": run.repeat,
            "by": "saturation",
            "family": order.family,
            "blocks": order.parameters.get("blocks"),
            **found.get("row", {}),
            "published": False,
            "status": found.get("status", outcome.status),
            "notes": "; ".join(n for n in (outcome.note, *found.get("notes", ())) if n),
        }
        figures = {
            "row": row,
            "stop_reason": found.get("stop_reason", outcome.status),
            "limits_hit": found.get("limits_hit", ["time limit"] if outcome.status == "killed" else []),
            "device": found.get("device"),
            "seconds": found.get("seconds", {}),
            "result": found.get("result", {}),
            "latency": found.get("latency", {}),
        }
        return figures, found.get("trace")

    def elsewhere(self, folder: Path, known: set[str]) -> list[Record]:
        """Return nothing: what a run is called does not hang on its files."""
        return []


# -- in a process of their own ------------------------------------------------------------------------
def merge_one(order: Order) -> Record:
    """Optimise a network once, time all its forms against each other, and return the figures."""
    from workbench.benchmarks.branches import branched
    from workbench.devices.targets import OnnxRuntime
    from workbench.frontends import to_onnx
    from workbench.pipeline import optimize
    from workbench.plots.records import record
    from workbench.summary import running_operators

    graph, method = branched(order.family, **order.parameters), order.method
    model = _cost_model(order)
    done = optimize(
        graph,
        cost=model,
        rules=order.rules,
        e_nodes=method.e_nodes,
        seconds=method.seconds,
        extraction_seconds=method.extraction_seconds,
        measure=method.measure,
        measure_on=OnnxRuntime(order.threads),
        measure_seconds=method.measure_seconds,
        seed=order.seed,
    )
    by_hand, why = _by_hand(order)
    original = to_onnx(graph)
    rivals = _rivals(order, original)
    forms: dict[str, Graph | ModelProto | None] = {
        ORIGINAL: graph,
        **{r.name: r.model for r in rivals},
        BY_HAND: by_hand,
        OURS: done.graph,
    }
    counts = {name: node_counts(form) for name, form in forms.items() if form is not None}
    certificate = done.certificate
    assert certificate is not None
    row = {key: value for key, value in record(done).items() if key not in ELSEWHERE}
    row |= saturation_extras(done) | {
        "by_hand": None if by_hand is None else _cost(by_hand, model),
        "rounding": certificate.rounding,
        "own_rounding": certificate.own_rounding,
        "operators": sum(counts[OURS].values()),
        "operators_original": sum(counts[ORIGINAL].values()),
        "operators_by_hand": sum(counts[BY_HAND].values()) if by_hand is not None else None,
    }
    found = saturation_figures(done)
    found["result"] |= {
        "nodes": counts,
        "chain": chain(done),
        "measured": None if done.measured is None else done.measured.summary(),
        **({"operators_by_hand": running_operators(by_hand)} if by_hand is not None else {}),
    }
    absent = {r.name: r.note for r in rivals if r.model is None} | ({BY_HAND: why} if why else {})
    return found | {
        "row": {key: _finite(value) for key, value in row.items()},
        "device": str(getattr(getattr(model, "device", None), "name", None) or model.source),
        "notes": [f"{name}: {note}" for name, note in absent.items()],
        "latency": {}
        if order.latency is None
        else _latency(order.latency, forms, absent, rivals, order.seed),
    }


def _cost_model(order: Order) -> CostModel:
    from workbench.stages import cost_model_of

    if order.cost == "cpu":
        from workbench.costs.measured import MeasuredCost

        return MeasuredCost(threads=order.threads)
    return cost_model_of(order.cost)


def _cost(graph: Graph, model: CostModel) -> float:
    """Return what a graph costs; a model that measures has it measured, not estimated."""
    from workbench.costs import node_costs
    from workbench.costs.pricing import instances_of

    measure = getattr(model, "measure", None)
    if measure is not None:
        measure(instances_of(graph))
    return float(node_costs(graph, model).sum())


def _by_hand(order: Order) -> tuple[Graph | None, str]:
    from workbench.benchmarks.branches import hand_merged

    try:
        return hand_merged(order.family, **order.parameters), ""
    except ValueError as error:
        return None, str(error)


def _rivals(order: Order, model: ModelProto) -> list[Rival]:
    from workbench.experiments.rivals import rival

    names = order.latency.rivals if order.latency is not None else ()
    return [rival(name, model, seed=order.seed) for name in names]


def node_counts(form: Graph | ModelProto) -> dict[str, int]:
    """Count the operators of a form as an ONNX file has them, the most frequent first."""
    from collections import Counter

    from workbench.frontends import to_onnx
    from workbench.graph import Graph

    model = to_onnx(form) if isinstance(form, Graph) else form
    counts = Counter(node.op_type for node in model.graph.node if node.op_type != "Constant")
    return dict(counts.most_common())


def chain(done: Optimized) -> list[str]:
    """Return the rules that led to the operator that runs and took most of them, in order."""
    if done.graph is done.original:
        return []
    (_, links), *_ = done.compare().stories() or [(0, ())]
    return [link.rule for link in links]


def _latency(
    latency: Latency,
    forms: Mapping[str, Graph | ModelProto | None],
    absent: Mapping[str, str],
    rivals: Sequence[Rival],
    seed: int,
) -> Record:
    """Time every form on every target, all in alternation, and say where one cannot be."""
    from workbench.devices.latency import latency_figures
    from workbench.graph import Graph
    from workbench.timing import rounds

    rows: list[Record] = []
    timers: list[Callable[[], float]] = []
    titles: dict[str, str] = {}
    with contextlib.ExitStack() as loaded:
        for on in latency.targets:
            target, why = _target(on, latency.threads)
            if target is not None:
                titles[on] = target.title
            for name, form in forms.items():
                if on != "onnxruntime" and name in latency.rivals:
                    continue  # a rival writes ONNX files
                row: Record = {"target": on, "form": name}
                rows.append(row)
                timer: Callable[[], float] | str = why
                if target is not None:
                    model = form if on == "onnxruntime" or isinstance(form, Graph) else None
                    timer = absent[name] if model is None else _timer(loaded, target, model, seed)
                if isinstance(timer, str):
                    row["skipped"] = timer
                else:
                    timers.append(timer)
        taken = rounds(timers, seconds=latency.seconds) if timers else []
    timed = [row for row in rows if "skipped" not in row]
    samples = dict(zip(((row["target"], row["form"]) for row in timed), taken, strict=True))
    for row in timed:
        row |= latency_figures(samples[row["target"], row["form"]], samples.get((row["target"], ORIGINAL)))
    about = {r.name: {"version": r.version, "seconds": r.seconds, "difference": r.difference} for r in rivals}
    return {"threads": latency.threads, "titles": titles, "rivals": about, "rows": rows}


def _target(name: str, threads: int) -> tuple[Target | None, str]:
    from workbench.devices.device import DeviceMissing
    from workbench.devices.targets import target

    try:
        return target(name, threads=threads), ""
    except DeviceMissing as error:
        return None, str(error)


def _timer(
    loaded: contextlib.ExitStack, target: Target, model: Graph | ModelProto, seed: int
) -> Callable[[], float] | str:
    """Load a model on a target; return what times it, or why it does not run there."""
    try:
        (timer,) = loaded.enter_context(target.timers([model], seed))
        timer()
    except (RuntimeError, ValueError) as error:  # refused, not executable, not compiled
        return " ".join(str(error).split())[:300] or type(error).__name__
    return timer


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
