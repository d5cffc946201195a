"""The study of branches: networks merged by the workbench, by hand and by rivals; costs, latency, scaling."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.studies.experiments.branches.config import BranchesMethod, BranchesStudy, Latency, Parameters
from workbench.studies.experiments.isolated_runs import Call, plan_apart, repeats
from workbench.studies.experiments.optimisation.study import outcome as outcome
from workbench.studies.experiments.optimisation.study import run_figures
from workbench.studies.experiments.plan import Plan, Record, Run
from workbench.studies.experiments.resources import resource
from workbench.support.messages import one_line

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.costs import CostModel
    from workbench.devices.targets import Target
    from workbench.graph import Graph
    from workbench.optimizer.result import Optimized
    from workbench.studies.experiments.baselines import Rival

#: The names of a network's forms; the forms of rivals have the rivals' names.
ORIGINAL, BY_HAND, OURS = "original", "by hand", "ours"


@dataclass(frozen=True, slots=True)
class Order:
    """The argument of one run's process; ``rules`` and ``cost`` are names or paths.

    If ``latency`` is None, nothing is timed.
    """

    family: str
    parameters: Parameters
    method: BranchesMethod
    rules: str
    cost: str
    latency: Latency | None
    threads: int
    seed: int


def make_plan(study: BranchesStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, family by family, then those of the scaling; paths are relative to ``home``."""
    skipped: dict[str, None] = {}
    blank: Record = {"device": None, "seconds": {}, "latency": {}}
    found = (pair for case in _cases(study) for pair in _runs(study, case, home, skipped))
    return plan_apart(study, folder, merge_one, found, blank=blank, skipped=skipped)


@dataclass(frozen=True, slots=True)
class _Case:
    """A network and the name of a method; ``latency`` is None if nothing is timed."""

    subject: str
    family: str
    parameters: Parameters
    method: str
    latency: Latency | None


def _cases(study: BranchesStudy) -> Iterator[_Case]:
    timed = study.latency if study.latency.targets else None
    for family, given in study.families.items():
        for name in study.methods:
            yield _Case(family, family, given, name, timed)
    for family, more in study.scaling.families.items():
        for blocks, name in product(study.scaling.blocks, study.scaling.methods):
            larger = {**study.families[family], **more, "blocks": blocks}
            yield _Case(f"{family}-x{blocks}", family, larger, name, None)


def _runs(
    study: BranchesStudy, case: _Case, home: Path, skipped: dict[str, None]
) -> Iterator[tuple[Run, Call]]:
    name, latency, threads = case.method, case.latency, study.latency.threads
    method = study.methods[name]
    rules, rules_config, no_rules = resource(method.rules, home)
    costs, cost_config, no_costs = resource(method.cost, home)
    skipped.update({f"{name}: {absent}": None for absent in (no_rules, no_costs) if absent})
    seconds = study.limit(name) if latency is not None else method.limit
    for repeat, seed in repeats(study.repeats, study.seed):
        config = {
            "study": "branches",
            "network": case.subject,
            "family": case.family,
            "parameters": dict(case.parameters),
            "method": {**asdict(method), "rules": rules_config, "cost": cost_config},
            "latency": None if latency is None else _plain(latency),
            "threads": threads,
            "seed": seed,
        }
        run = Run(case.subject, name, config, seconds, seed, repeat, no_rules or no_costs)
        order = Order(case.family, case.parameters, method, rules, costs, latency, threads, seed)
        columns = {
            "network": case.subject,
            "by": "saturation",
            "family": case.family,
            "blocks": case.parameters.get("blocks"),
            "published": False,
        }
        yield run, Call(order, columns, study.grace)


def _plain(latency: Latency) -> dict[str, Any]:
    return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(latency).items()}


# -- in the process of a run ---------------------------------------------------------------------------
def merge_one(order: Order) -> Record:
    """Optimise a network once, time all its forms against each other, and return the figures."""
    from workbench.devices.targets import OnnxRuntime
    from workbench.frontends import to_onnx
    from workbench.optimizer.pipeline import optimize
    from workbench.optimizer.summary import running_operators
    from workbench.studies.benchmarks.all_families import ALL_FAMILIES

    graph, method = ALL_FAMILIES.build(order.family, order.parameters, by_hand=False), order.method
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
    found = run_figures(done)
    row = found["row"] | {
        "by_hand": None if by_hand is None else _cost(by_hand, model),
        "rounding": certificate.rounding,
        "own_rounding": certificate.own_rounding,
        "operators": sum(counts[OURS].values()),
        "operators_original": sum(counts[ORIGINAL].values()),
        "operators_by_hand": sum(counts[BY_HAND].values()) if by_hand is not None else None,
    }
    found["result"] |= {
        "nodes": counts,
        "chain": chain(done),
        "measured": None if done.measured is None else done.measured.summary(),
        **({"operators_by_hand": running_operators(by_hand)} if by_hand is not None else {}),
    }
    absent = {r.name: r.note for r in rivals if r.model is None} | ({BY_HAND: why} if why else {})
    return found | {
        "row": {key: _finite(value) for key, value in row.items()},
        "device": model.device,
        "notes": [f"{name}: {note}" for name, note in absent.items()],
        "latency": {}
        if order.latency is None
        else _latency(order.latency, forms, absent, rivals, order.seed),
    }


def _cost_model(order: Order) -> CostModel:
    from workbench.costs.registry import cost_model

    if order.cost == "cpu":
        from workbench.costs.measured import MeasuredCost

        return MeasuredCost(threads=order.threads)
    return cost_model(order.cost)


def _cost(graph: Graph, model: CostModel) -> float:
    """Return the cost of a graph; a measuring cost model measures its operators instead of estimating."""
    from workbench.costs import node_costs
    from workbench.costs.pricing import instances_of

    model.measure(instances_of(graph))
    return float(node_costs(graph, model).sum())


def _by_hand(order: Order) -> tuple[Graph | None, str]:
    from workbench.studies.benchmarks.all_families import ALL_FAMILIES

    try:
        return ALL_FAMILIES.build(order.family, order.parameters, by_hand=True), ""
    except ValueError as error:
        return None, str(error)


def _rivals(order: Order, model: ModelProto) -> list[Rival]:
    from workbench.studies.experiments.baselines import rival

    names = order.latency.rivals if order.latency is not None else ()
    return [rival(name, model, seed=order.seed) for name in names]


def node_counts(form: Graph | ModelProto) -> dict[str, int]:
    """Return the counts of the operators in a form's ONNX file, the most frequent first."""
    from collections import Counter

    from workbench.frontends import to_onnx
    from workbench.graph import Graph

    model = to_onnx(form) if isinstance(form, Graph) else form
    counts = Counter(node.op_type for node in model.graph.node if node.op_type != "Constant")
    return dict(counts.most_common())


def chain(done: Optimized) -> list[str]:
    """Return the rules that led to the operator with the longest derivation, in order."""
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
    """Time every form on every target, all in alternation.

    Args:
        latency: The targets, rivals, threads and seconds of the timing.
        forms: The forms by name, None for a missing one.
        absent: The reasons for missing forms, by name.
        rivals: The results of the rivals.
        seed: Seed of the random inputs.

    Returns:
        One row per form and target; ``skipped`` is the reason if a form was not timed on a target.
    """
    from workbench.devices.latency import latency_figures
    from workbench.devices.timing import rounds
    from workbench.graph import Graph

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
    """Load a model on a target; return a function that times one run, or the reason why it fails."""
    try:
        (timer,) = loaded.enter_context(target.timers([model], seed))
        timer()
    except (RuntimeError, ValueError) as error:  # refused, not executable, not compiled
        return one_line(error, 300)
    return timer


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
