"""The ablation study: the cost of a network's best graph without each of the rules that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.studies.experiments.config import AblationStudy, SaturationMethod
from workbench.studies.experiments.grid import Cell, cells
from workbench.studies.experiments.isolated_runs import Call, plan_apart
from workbench.studies.experiments.plan import Plan, Record, Run

if TYPE_CHECKING:
    from workbench.studies.analysis.ablation import Ablation


@dataclass(frozen=True, slots=True)
class Order:
    """The argument of one run's process; ``rules`` and ``cost`` are names or paths.

    ``seconds`` is the time after which the run stops before the next rule.
    """

    network: str
    method: SaturationMethod
    rules: str
    cost: str
    candidates: tuple[str, ...]
    seconds: float


def make_plan(study: AblationStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, network by network; paths in the study are relative to ``home``."""
    found, skipped = cells(study, "ablation", home)
    return plan_apart(study, folder, ablate_one, (_run(study, cell) for cell in found), skipped=skipped)


def _run(study: AblationStudy, cell: Cell[SaturationMethod]) -> tuple[Run, Call]:
    own = {"candidates": list(study.candidates), "seconds": study.seconds, "seed": study.seed}
    config = {**cell.config, **own}
    run = Run(cell.network, cell.name, config, study.seconds, study.seed, absent=cell.absent)
    order = Order(cell.network, cell.method, cell.rules, cell.cost, study.candidates, study.seconds)
    columns = {"network": cell.network, "by": "ablation", "published": False}
    # When the time is up, the optimisation without the current rule is still finished.
    return run, Call(order, columns, cell.method.limit + study.grace)


def outcome(record: Record) -> str:
    """Return the outcome of an ablation in one line."""
    row = record["row"]
    return f"{row['optimized']:.6g} µs, {row['needed']} of {row['left_out']} rules needed"


# -- in the process of a run ---------------------------------------------------------------------------
def ablate_one(order: Order) -> Record:
    """Optimise a network with all rules and without each in turn; return the figures with the trace."""
    from workbench.costs.registry import cost_model
    from workbench.studies.analysis.ablation import Ablation
    from workbench.studies.benchmarks import benchmark

    run = Ablation(
        benchmark(order.network),
        candidates=order.candidates or None,
        cost=cost_model(order.cost),
        certify=False,
        **(asdict(order.method) | {"rules": order.rules}),
    )
    spent = 0.0
    for step in run:
        spent += step.seconds
        if spent > order.seconds:
            break
    reason = "time limit" if run.left else "finished"
    return _figures(run, spent) | {"stop_reason": reason, "trace": run.trace}


def _figures(run: Ablation, seconds: float) -> Record:
    best = run.best
    assert best is not None
    rows = [_plain(row) for row in run.frame().to_dict("records")]
    return {
        "status": best.solution.status.value,
        "notes": [run.caution],
        "row": {
            "original": best.cost_before,
            "optimized": best.cost_after,
            "bound": best.solution.bound,
            "nodes": best.e_nodes,
            "classes": best.e_classes,
            "seconds": round(seconds, 4),
            "cost_source": best.cost_source,
            "left_out": len(rows),
            # A loss below a thousandth of a percent is rounding.
            "needed": sum(row["loss"] > 1e-3 for row in rows),
        },
        "result": {"without": rows, "not_left_out": list(run.left)},
    }


def _plain(row: Mapping[Any, Any]) -> Record:
    """Return a row of an ablation with plain Python values, for JSON."""
    return {str(key): value.item() if hasattr(value, "item") else value for key, value in row.items()}
