"""The study of branches: networks merged by the workbench, by hand and by rivals; costs, latency, scaling."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import PositiveFloat, PositiveInt

from workbench.optimizer.settings import Settings
from workbench.run.settings import check, same
from workbench.saturation.limits import Limits
from workbench.studies.experiments.config import (
    Declared,
    Distinct,
    Some,
    Study,
    StudyError,
    Unique,
    check_keys,
    check_names,
    check_rules,
    is_file_name,
    resource,
    said,
)
from workbench.studies.experiments.optimisation import outcome as outcome
from workbench.studies.experiments.optimisation import run_figures
from workbench.studies.experiments.plan import Plan, Record, Run
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
from zoo.all_families import ALL_FAMILIES
from zoo.studies.baselines import RIVALS, Rival, rival
from zoo.studies.latency_tables import ratio_cell, rival_lines, timed_columns

if TYPE_CHECKING:
    import pandas as pd
    from onnx import ModelProto

    from workbench.costs import CostModel
    from workbench.devices.targets import Target
    from workbench.graph import Graph
    from workbench.optimizer.result import Optimized


#: The names of a network's forms; the forms of rivals have the rivals' names.
ORIGINAL, BY_HAND, OURS = "original", "by hand", "ours"


Parameters: TypeAlias = Mapping[str, int | float | bool | str]


@dataclass(frozen=True, slots=True)
class BranchesMethod(Declared):
    """Settings of a method that saturates under its own cost source.

    Names and limits are those of :func:`workbench.optimize`; ``seconds`` limits the saturation. If
    ``measure`` = k > 0, the k cheapest results are timed end to end in ONNX Runtime and the fastest is taken.
    ``cost: cpu`` measures with the number of threads of the study's timing.
    """

    cost: str = "analytic"
    rules: str = "default"
    measure: int = same(Settings, "measure")
    measure_seconds: float = same(Settings, "measure_seconds")
    e_nodes: int = same(Settings, "e_nodes")
    seconds: float = same(Limits, "seconds")
    extraction_seconds: float = same(Settings, "extraction_seconds", 60.0)

    def __post_init__(self) -> None:
        from workbench.costs.registry import cost_model

        check(self)
        check_rules(self.rules)
        if not is_file_name(self.cost):
            cost_model(self.cost)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds + self.extraction_seconds + (self.measure_seconds if self.measure else 0)


@dataclass(frozen=True, slots=True)
class Latency(Declared):
    """Settings of the timing: targets, rivals, number of threads, and seconds.

    All forms of a network on all targets run in alternation for ``seconds`` in total. ``targets`` are those
    of ``workbench.target.names()``; without targets nothing is timed. ``rivals`` are timed in
    ONNX Runtime only.
    """

    targets: Distinct = ("onnxruntime", "torch", "torch+compile")
    rivals: Distinct = ("onnxsim", "onnxslim")
    threads: PositiveInt = 1
    seconds: PositiveFloat = 10.0

    def __post_init__(self) -> None:
        from workbench.devices.targets import target

        check_names("targets", "target", self.targets, target.names())
        check_names("rivals", "rival", self.rivals, RIVALS)


@dataclass(frozen=True, slots=True)
class Scaling(Declared):
    """Runs of some families with each number of ``blocks``, by some of the methods, without timing.

    Parameters of a family are those of the study unless they are given here.
    """

    families: Mapping[str, Parameters] = field(default_factory=dict)
    blocks: Annotated[tuple[PositiveInt, ...], Unique] = ()
    methods: Distinct = ()

    def __post_init__(self) -> None:
        named = {"families": self.families, "blocks": self.blocks, "methods": self.methods}
        if any(named.values()) and (empty := [key for key, value in named.items() if not value]):
            raise StudyError(f"{empty[0]} must name at least one, got none")


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchesStudy(Study):
    """A study that optimises families of :mod:`zoo.all_families` by every method.

    The original, the results of rivals, the form merged by hand and the workbench's result are then timed
    against each other. ``families`` maps names to parameters. Files are as in a study of optimisation.
    """

    KIND: ClassVar[str] = "branches"

    families: Annotated[Mapping[str, Parameters], Some]
    methods: Annotated[Mapping[str, BranchesMethod], Some]
    latency: Latency = field(default_factory=Latency)
    scaling: Scaling = field(default_factory=Scaling)

    def __post_init__(self) -> None:
        check_names("families", "family", self.families, ALL_FAMILIES)
        for family, parameters in self.families.items():
            _check_parameters(family, parameters)
        check_keys("methods", self.methods)
        check_names("scaling.families", "family of this study", self.scaling.families, self.families)
        for family, more in self.scaling.families.items():
            _check_parameters(family, {**self.families[family], **more}, "scaling.families")
        check_names("scaling.methods", "method of this study", self.scaling.methods, self.methods)

    def limit(self, method: str) -> float:
        """Return the seconds that a method's limits and the timing allow for a run."""
        return self.methods[method].limit + (self.latency.seconds if self.latency.targets else 0)


def _check_parameters(family: str, given: Parameters, where: str = "families") -> None:
    """Raise :class:`StudyError` for an invalid parameter, or if a network of one block cannot be built."""
    known = ALL_FAMILIES.parameters(family)
    check_names(f"{where}.{family}", "parameter", given, known)
    for name, value in given.items():
        key, usual = f"{where}.{family}.{name}", known[name]
        kinds = (int, float) if isinstance(usual, float) else type(usual)
        if isinstance(value, bool) != isinstance(usual, bool) or not isinstance(value, kinds):
            raise StudyError(f"{key} must be like its default {said(usual)}, got {said(value)}")
        if isinstance(value, int) and not isinstance(value, bool) and value < (name != "seed"):
            raise StudyError(f"{key} must be at least {int(name != 'seed')}, got {value}")
    try:
        small = {**given, "blocks": 1} if "blocks" in known else given
        ALL_FAMILIES.build(family, small, by_hand=False)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise StudyError(f"{where}.{family}: {error.args[0] if error.args else error}") from None


@dataclass(frozen=True, slots=True)
class Order:
    """What a run needs; ``rules`` and ``cost`` are names or paths.

    If ``latency`` is None, nothing is timed.
    """

    family: str
    parameters: Parameters
    method: BranchesMethod
    rules: str
    cost: str
    latency: Latency | None
    threads: int
    seed: int = 0


def make_plan(study: BranchesStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, family by family, then those of the scaling; paths are relative to ``home``."""
    return Plan.of(study, folder, merge_one, (_run(study, case, home) for case in _cases(study)))


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


def _run(study: BranchesStudy, case: _Case, home: Path) -> Run:
    name, latency, threads = case.method, case.latency, study.latency.threads
    method = study.methods[name]
    rules, rules_config, no_rules = resource(method.rules, home)
    costs, cost_config, no_costs = resource(method.cost, home)
    absent = no_rules or no_costs
    config = {
        "network": case.subject,
        "family": case.family,
        "parameters": dict(case.parameters),
        "method": {**asdict(method), "rules": rules_config, "cost": cost_config},
        "latency": None if latency is None else _plain(latency),
        "threads": threads,
    }
    return Run(
        case.subject,
        name,
        config,
        study.limit(name) if latency is not None else method.limit,
        absent=f"{name}: {absent}" if absent else "",
        order=Order(case.family, case.parameters, method, rules, costs, latency, threads),
        columns={
            "network": case.subject,
            "by": "saturation",
            "family": case.family,
            "blocks": case.parameters.get("blocks"),
            "published": False,
        },
        figures={"device": None, "seconds": {}, "latency": {}},
    )


def _plain(latency: Latency) -> dict[str, Any]:
    return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(latency).items()}


# -- in the process of a run ---------------------------------------------------------------------------
#: Seconds for the parts of a call that have no limit of their own, such as the certificate.
_REST: Final = 600.0


def merge_one(study: BranchesStudy, run: Run) -> Record:
    """Optimise a network once, time all its forms against each other, and return the figures."""
    from workbench.devices.targets import OnnxRuntime
    from workbench.frontends import to_onnx
    from workbench.optimizer.pipeline import optimize
    from workbench.optimizer.summary import running_operators

    order: Order = replace(run.order, seed=run.seed)
    graph, method = ALL_FAMILIES.build(order.family, order.parameters, by_hand=False), order.method
    model = _cost_model(order)
    done = optimize(
        graph,
        cost=model,
        rules=order.rules,
        e_nodes=method.e_nodes,
        saturation_seconds=method.seconds,
        extraction_seconds=method.extraction_seconds,
        seconds=method.limit + _REST,
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
    try:
        return ALL_FAMILIES.build(order.family, order.parameters, by_hand=True), ""
    except ValueError as error:
        return None, str(error)


def _rivals(order: Order, model: ModelProto) -> list[Rival]:
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
    from workbench.devices.timing import rounds
    from workbench.graph import Graph
    from workbench.studies.devices.latency import latency_figures

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


COLUMNS: Final = (
    "network", "family", "blocks", "method", "repeat", "original", "optimized", "by_hand", "speedup",
    "certified", "rounding", "own_rounding", "operators_original", "operators_by_hand", "operators",
    "saturation", "extraction", "seconds", "nodes", "classes", "iter", "status", "stop_reason",
    "limits_hit", "cost_source", "hardware", "failed", "notes",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run, with the medians of every form on every target (in µs) as last columns."""
    import pandas as pd

    kept = list(records)
    frame = frame_of(map(row_of, kept))[list(COLUMNS)]
    return pd.concat([frame, timed_columns(kept, frame.index)], axis=1)


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text; the runs of the scaling come last."""
    timed = [r for r in records if r["config"]["latency"] is not None]
    scaled = [r for r in records if r["config"]["latency"] is None]
    found = latency_frame(timed)
    parts = [f"# {plan.folder.name}: networks with branches, merged", _about(records)]
    if timed or not scaled:
        parts += ["## Operators and costs", _costs(timed or records)]
    for target, rows in found.groupby("target", sort=False):
        if rows["median"].isna().all():
            continue
        title = next((t for t in rows["title"] if t), str(target))
        parts += [f"## Latency: {title}", _latency_table(rows)]
    if found["median"].notna().any():
        parts.append(_KEY)
    if timed:
        parts += ["## Rounding", _rounding(timed), "## Rules behind the results", _rules(timed)]
    if any(r["result"].get("measured") for r in timed):
        parts += ["## Chosen by measuring", _measured(timed)]
    if scaled:
        parts += ["## How the optimiser scales", _scaling(scaled)]
    return "\n\n".join([*parts, *_skipped(timed, found), *missing(plan)]) + "\n"


_KEY: Final = (
    "All forms on all targets run in alternation, in a new random order for each round. Original: the "
    "median. Other forms: the median of the rounds' ratios original / form, with its 95 % interval within "
    "that run; the interval of another run may differ. **Bold**: the whole interval is faster than the "
    "original."
)


def _about(records: Sequence[Record]) -> str:
    return about(
        records,
        f", one row per run. *{BY_HAND}*: merged by the published formulas, without rewrite rules. *{OURS}*: "
        "merged by the default rules, which contain nothing specific to the family.",
        *rival_lines(records),
    )


def _named(row: Record) -> list[str]:
    return [row["network"], row["method"] + repeat_text(row["repeat"])]


def _costs(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        row, named = record["row"], _named(record["row"])
        if record["failed"]:
            rows.append([*named, f"† {row['status']}", *[""] * 8])
            continue
        counts = {form: sum(n.values()) for form, n in record["result"]["nodes"].items()}
        others = [str(n) for form, n in counts.items() if form not in (ORIGINAL, BY_HAND, OURS)]
        gain = f"{row['original'] / row['optimized'] - 1:+.0%}" if row["optimized"] else NOTHING
        rows.append(
            [
                *named,
                str(counts[ORIGINAL]),
                ", ".join(distinct(others)) or NOTHING,
                str(counts.get(BY_HAND, NOTHING)),
                str(counts[OURS]),
                f"{row['original']:.1f}",
                NOTHING if row["by_hand"] is None else f"{row['by_hand']:.1f}",
                f"{row['optimized']:.1f} ({gain}){'' if row['certified'] else ' ✗'}",
                str(row["nodes"]),
                seconds_text(row["seconds"]),
            ]
        )
    head = ["family", "method", "operators: original", "rivals", BY_HAND, OURS]
    head += ["cost in µs: original", BY_HAND, OURS, "e-nodes", "optimiser"]
    sources = {
        r["row"]["method"]: r["row"]["cost_source"].partition(";")[0] for r in records if not r["failed"]
    }
    key = (
        "Operators are counted in ONNX files. Costs are sums over operators. The form merged by hand is "
        "priced as written, with activations as separate operators; in ours an activation may be part of a "
        "convolution. " + "; ".join(f"{method}: {source}" for method, source in sources.items())
    )
    refused = any(r["row"].get("certified") is False for r in records)
    return (
        lines(head, rows)
        + f"\n\n{key}."
        + (" **✗**: the certificate refused the result, and the original stays." if refused else "")
    )


def _latency_table(rows: pd.DataFrame) -> str:
    forms = distinct(form for form in rows["form"] if form != ORIGINAL)
    said = []
    for _, group in rows.groupby(["network", "method", "repeat"], sort=False):
        by_form: dict[str, dict[str, Any]] = {
            row["form"]: {str(key): value for key, value in row.items()} for row in group.to_dict("records")
        }
        original = by_form[ORIGINAL]
        first = NOTHING if original["median"] != original["median"] else _microseconds(original)
        said.append([*_named(original), first, *(ratio_cell(by_form.get(form)) for form in forms)])
    return lines(["family", "method", "original", *forms], said)


def _microseconds(row: dict[str, Any]) -> str:
    return f"{row['median']:.0f} µs ({row['low']:.0f}–{row['high']:.0f})"


def _rounding(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        certificate = record["result"].get("certificate")
        if certificate is not None:
            ours, own = record["row"]["rounding"], record["row"]["own_rounding"]
            ratio = f"{ours / own:.1f}" if own else NOTHING
            rows.append(
                [
                    *_named(record["row"]),
                    *(NOTHING if figure is None else f"{figure:.1e}" for figure in (own, ours)),
                    ratio,
                    f"{certificate['error']:.1e}",
                    str(certificate["draws"]),
                ]
            )
    head = ["family", "method", "the original in float32", "ours in float32", "ratio", "in float64", "draws"]
    key = (
        "Difference of a form from the original in float64, as a part of the largest output. Merged "
        "operators sum in another order; the agreement in float64 to its own rounding shows that nothing "
        "else changed."
    )
    return lines(head, rows) + "\n\n" + key


def _rules(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        result = record["result"]
        if result:
            verdicts = result["certificate"]["rules"]
            judged = Counter(verdicts.get(rule, "unknown") for rule in result["rules"])
            texts = ", ".join(f"{n} {verdict}" for verdict, n in judged.most_common())
            rows.append(
                [*_named(record["row"]), ", ".join(result["rules"]) or "none: the original stays", texts]
            )
    return lines(["family", "method", "rules, the most productive first", "verdicts"], rows)


def _measured(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        measured = record["result"].get("measured")
        if not measured:
            continue
        speedups = [c["speedup"] for c in measured["candidates"]]
        winner = measured["winner"]
        taken = "the original" if winner is None else f"number {winner + 1} by cost"
        best = f"{max(speedups):.3f}×" if speedups else NOTHING
        counts = [str(len(speedups)), best, f"{measured['noise']:.1%}", str(measured["rounds"]), taken]
        rows.append([*_named(record["row"]), *counts])
    key = (
        "The best results by cost are timed end to end against the original. A result is taken if it is "
        "faster by more than the noise, the difference of the original from a second copy of itself."
    )
    return (
        lines(["family", "method", "candidates", "the fastest", "noise", "rounds", "taken"], rows)
        + f"\n\n{key}"
    )


def _scaling(records: Sequence[Record]) -> str:
    blocks = sorted({r["row"]["blocks"] for r in records})
    by_family: dict[tuple[str, str], dict[int, str]] = {}
    for record in records:
        row = record["row"]
        cell = f"† {row['status']}"
        if not record["failed"]:
            spent = sum(record["seconds"].values())
            merged = f"{row['operators_original']} → {row['operators']}"
            cell = (
                f"{seconds_text(row['seconds'])} of {seconds_text(spent)}; {row['nodes']} e-nodes; {merged}"
            )
        by_family.setdefault((row["family"], row["method"]), {})[row["blocks"]] = cell
    rows = [[*key, *(cells.get(n, NOTHING) for n in blocks)] for key, cells in by_family.items()]
    head = ["family", "method", *(f"{n} block{'s' if n > 1 else ''}" for n in blocks)]
    key = (
        "Each cell: seconds of saturation, reading the e-graph and extraction, out of the seconds of the "
        "whole call (including engine start and certificate); e-nodes; operators of the original → ours."
    )
    return lines(head, rows) + "\n\n" + key


def _skipped(records: Sequence[Record], found: pd.DataFrame) -> list[str]:
    """Return the section on forms that were not timed, with each reason once."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    forms: dict[tuple[str, str], dict[str, None]] = {}
    for row in found[found["skipped"].notna()].to_dict("records"):
        key = (str(row["target"]), str(row["skipped"]))
        reasons.setdefault(key, {})[f"{row['network']}:{row['method']}"] = None
        forms.setdefault(key, {})[str(row["form"])] = None
    for record in records:
        if record["failed"]:
            key = (str(record["row"]["status"]), str(record["row"]["notes"]))
            reasons.setdefault(key, {})[record["name"]] = None
    everywhere = len({f"{r['row']['network']}:{r['row']['method']}" for r in records})
    told = []
    for key, runs in reasons.items():
        which = f", {', '.join(forms[key])}" if key in forms else ""
        where = "all runs" if len(runs) == everywhere else ", ".join(runs)
        told.append(f"- {key[0]}{which}: {key[1]} ({where})")
    return ["## Not timed", "\n".join(told)] if told else []
