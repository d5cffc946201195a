"""The optimisation study: networks optimised by saturation and by search, under one source of costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.run.trace import StopReason
from workbench.studies.experiments.config import Method, OptimisationStudy, SaturationMethod, SearchMethod
from workbench.studies.experiments.grid import Cell, cells
from workbench.studies.experiments.isolated_runs import Call, plan_apart, repeats
from workbench.studies.experiments.plan import Plan, Record, Run
from workbench.support.formatting import gain

if TYPE_CHECKING:
    from workbench.optimizer.result import Result

#: The stop reasons that are limits.
LIMITS: Final = (
    StopReason.E_NODE_LIMIT,
    StopReason.ITERATION_LIMIT,
    StopReason.TIME_LIMIT,
    StopReason.MEMORY_LIMIT,
)

#: The extraction methods that never prove optimality, whatever their time limit.
GREEDY: Final = ("tree", "dag", "local")

#: Columns that rows of records omit: stages are under ``seconds``, names are in the study's own columns.
ELSEWHERE: Final = (
    "method", "network", "repeat", "import", "engine", "search", "snapshot", "pricing", "history",
    "measuring", "certificate",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Order:
    """The argument of one run's process; ``rules`` and ``cost`` are names or paths."""

    network: str
    method: Method
    rules: str
    cost: str
    certify: bool
    seed: int


def make_plan(study: OptimisationStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, network by network; paths in the study are relative to ``home``."""
    found, skipped = cells(study, "optimisation", home)
    blank: Record = {"device": None, "seconds": {}}
    return plan_apart(study, folder, optimise_one, _runs(study, found), blank=blank, skipped=skipped)


def _runs(study: OptimisationStudy, found: Sequence[Cell[Method]]) -> Iterator[tuple[Run, Call]]:
    for cell, (repeat, seed) in product(found, repeats(study.repeats, study.seed)):
        config = {**cell.config, "certify": study.certify, "seed": seed}
        run = Run(cell.network, cell.name, config, cell.method.limit, seed, repeat, cell.absent)
        order = Order(cell.network, cell.method, cell.rules, cell.cost, study.certify, seed)
        columns = {
            "network": cell.network,
            "by": cell.method.BY,
            "k_multi": cell.method.k_multi if isinstance(cell.method, SaturationMethod) else None,
            "published": False,
        }
        yield run, Call(order, columns, study.grace)


def outcome(record: Record) -> str:
    """Return the outcome of an optimisation in one line."""
    row = record["row"]
    wrong = "" if row["certified"] in (True, None) else ", its certificate failed: the original stays"
    return (
        f"{gain(row['original'], row['optimized'])}, {record['stop_reason']}, {row['seconds']:.2f} s{wrong}"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def optimise_one(order: Order) -> Record:
    """Optimise a network once and return the figures with the trace."""
    from workbench.costs.registry import cost_model
    from workbench.optimizer.pipeline import optimize
    from workbench.studies.benchmarks import benchmark
    from workbench.studies.search.optimize import search_optimize

    graph, model, method = benchmark(order.network), cost_model(order.cost), order.method
    settings = asdict(method) | {"rules": order.rules}
    if isinstance(method, SearchMethod):
        searched = search_optimize(graph, cost=model, seed=order.seed, certify=order.certify, **settings)
        found = run_figures(searched)
    else:
        done = optimize(graph, cost=model, seed=order.seed, certify=order.certify, **settings)
        found = run_figures(done)
    return found | {"device": model.device}


def run_figures(done: Result) -> Record:
    """Return the row of a result, why its run ended, the seconds by stage, and its origin."""
    from workbench.extraction.solution import Status
    from workbench.faces.plots.records import record
    from workbench.optimizer.record import SaturationFigures, to_json

    found = done.record()
    way, data = found.way, to_json(found)
    made: Record
    if isinstance(way, SaturationFigures):
        status, reason = way.status.value, found.stop_reason.value
        limits = [reason] if found.stop_reason in LIMITS else []
        if found.settings["extractor"] not in GREEDY and way.status is not Status.OPTIMAL:
            limits.append("extraction time limit")
        made = {"scope": way.scope, "extraction_notes": list(map(str, way.endings))}
    else:
        # TASO's search ends when its budget is spent; only time is a limit that it should not meet.
        spent = found.stop_reason is StopReason.ITERATION_LIMIT
        status, reason = "searched", "budget" if spent else found.stop_reason.value
        limits = [reason] if found.stop_reason in LIMITS and not spent else []
        made = {"substitutions": {rule: way.history.count(rule) for rule in found.rules}}
    kept = ("rules", "offending_rules", "certificate", "operators_before", "operators_after")
    return {
        "row": {key: _finite(value) for key, value in record(done).items() if key not in ELSEWHERE},
        "status": status,
        "stop_reason": reason,
        "limits_hit": limits,
        "seconds": dict(found.seconds),
        "result": {key: data[key] for key in kept} | made,
        "trace": done.trace,
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
