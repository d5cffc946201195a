"""The optimisation study: every network by every method, saturation or search, under one source of costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.experiments.config import Method, OptimisationStudy, SearchMethod
from workbench.experiments.plan import Plan, Record, Run, Task, Tell, at_once
from workbench.experiments.process import Outcome
from workbench.experiments.resources import resource

if TYPE_CHECKING:
    from workbench.pipeline import Optimized
    from workbench.search.optimize import Searched
    from workbench.trace import Trace

#: The stop reasons that are limits.
LIMITS: Final = ("e-node limit", "iteration limit", "time limit", "memory limit")

#: The extraction methods that prove nothing however long they have.
GREEDY: Final = ("tree", "dag", "local")


#: What rows of records leave out: the stages stand under ``seconds``, names in the study's own columns.
ELSEWHERE: Final = (
    "method", "network", "repeat", "import", "engine", "snapshot", "pricing", "history", "measuring",
    "certificate",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Order:
    """Say what one run optimises, and how; rules and costs are names or paths."""

    network: str
    method: Method
    rules: str
    cost: str
    certify: bool
    seed: int


def make_plan(study: OptimisationStudy, home: Path, folder: Path) -> Plan:
    """List a study's runs, network by network; ``home`` is the folder that its files are seen from."""
    costs, cost_config, no_costs = resource(study.cost, home)
    skipped = {no_costs: None} if no_costs else {}
    runs, orders = [], {}
    for network in study.networks:
        for name, method in study.methods.items():
            rules, rules_config, no_rules = resource(method.rules, home)
            if no_rules:
                skipped[f"{name}: {no_rules}"] = None
            for repeat in range(study.repeats):
                seed = study.seed + repeat
                config = {
                    "study": "optimisation",
                    "network": network,
                    "method": {"by": method.BY, **asdict(method), "rules": rules_config},
                    "cost": cost_config,
                    "certify": study.certify,
                    "seed": seed,
                }
                run = Run(network, name, config, method.limit, seed, repeat, no_costs or no_rules)
                runs.append(run)
                orders[run.name] = Order(network, method, rules, costs, study.certify, seed)
    return Plan(study, OptimisationWork(study, orders), tuple(runs), folder, tuple(skipped))


@dataclass(frozen=True, slots=True)
class OptimisationWork:
    """Optimise networks; runs share nothing."""

    study: OptimisationStudy
    orders: Mapping[str, Order]

    def batches(self, runs: Sequence[Run], tell: Tell) -> Iterator[list[Task]]:
        """Return all runs at once."""
        yield at_once(runs, optimise_one, self.orders, self.study.grace, self.study.memory)

    def figures(self, task: Task, outcome: Outcome) -> tuple[Record, Trace | None]:
        """Return the row of an optimisation, why it ended, what made the result, and the trace."""
        run, found = task.run, outcome.value or {}
        method = self.study.methods[run.method]
        row = {
            "network": run.subject,
            "method": run.method,
            "repeat": run.repeat,
            "by": method.BY,
            "k_multi": getattr(method, "k_multi", None),
            **found.get("row", {}),
            "published": False,
            "status": found.get("status", outcome.status),
            "notes": outcome.note,
        }
        reasons = found.get("stop_reason") or {"done": "finished"}.get(outcome.status, outcome.status)
        figures = {
            "row": row,
            "stop_reason": reasons,
            "limits_hit": found.get("limits_hit", ["time limit"] if outcome.status == "killed" else []),
            "device": found.get("device"),
            "seconds": found.get("seconds", {}),
            "result": found.get("result", {}),
        }
        return figures, found.get("trace")

    def elsewhere(self, folder: Path, known: set[str]) -> list[Record]:
        """Return nothing: what a run is called does not hang on its files."""
        return []


# -- in a process of their own ------------------------------------------------------------------------
def optimise_one(order: Order) -> Record:
    """Optimise a network once and return the figures with the trace."""
    from workbench.benchmarks import benchmark
    from workbench.pipeline import optimize
    from workbench.plots.records import record
    from workbench.search.optimize import search_optimize
    from workbench.stages import cost_model_of

    graph, model, method = benchmark(order.network), cost_model_of(order.cost), order.method
    settings = asdict(method) | {"rules": order.rules}
    if isinstance(method, SearchMethod):
        searched = search_optimize(graph, cost=model, seed=order.seed, certify=order.certify, **settings)
        row, found = _search_row(searched), _search_figures(searched)
    else:
        done = optimize(graph, cost=model, seed=order.seed, certify=order.certify, **settings)
        row, found = record(done) | saturation_extras(done), saturation_figures(done)
    row = {key: _finite(value) for key, value in row.items() if key not in ELSEWHERE}
    return found | {"row": row, "device": _device(model)}


def saturation_extras(done: Optimized) -> Record:
    """Return the columns of a saturation's row that records of results lack."""
    claimed = min(done.cost_before, done.solution.cost)
    return {
        "optimized": done.cost_after,
        "claimed": claimed,
        "bound": done.solution.bound,
        "certified": None if done.certificate is None else done.certificate.passed,
    }


def saturation_figures(done: Optimized) -> Record:
    """Return why a saturation ended, where its seconds went, and what made its result."""
    limits: list[str] = [done.stop_reason.value] if done.stop_reason.value in LIMITS else []
    solution = done.solution
    if done.settings["extractor"] not in GREEDY and solution.status.value != "optimal":
        limits.append("extraction time limit")
    return {
        "status": solution.status.value,
        "stop_reason": done.stop_reason.value,
        "limits_hit": limits,
        "seconds": dict(done.seconds),
        "result": {
            "rules": list(done.rules),
            "offending_rules": list(done.offending),
            "scope": solution.scope,
            "extraction_notes": list(solution.notes),
            "certificate": None if done.certificate is None else done.certificate.summary(),
            **_operators(done.original, done.graph),
        },
        "trace": done.trace,
    }


def _search_row(searched: Searched) -> Record:
    """Return the columns of records of runs; there is no e-graph, and ``iter`` are graphs expanded."""
    elapsed, best, reached = 0.0, searched.cost_before, 0.0
    for step in searched.trace:
        elapsed += step.seconds
        if step.cost is not None and step.cost < best * (1 - 1e-9):
            best, reached = step.cost, elapsed
    return {
        "original": searched.cost_before,
        "optimized": searched.cost_after,
        "claimed": best,
        "saturation": None,
        "extraction": None,
        "nodes": None,
        "classes": None,
        "programs": math.log2(searched.found) if searched.found else None,
        "iter": searched.expanded,
        "seconds": searched.seconds["search"],
        "seconds_best": reached,
        "budget": str(searched.settings["budget"]),
        "candidates": searched.found,
        "cost_source": searched.cost_source,
        "bound": None,
        "certified": None if searched.certificate is None else searched.certificate.passed,
    }


def _search_figures(searched: Searched) -> Record:
    # That the budget is spent is how TASO's search ends; only time is a limit that it should not meet.
    reason = searched.stop_reason.value
    return {
        "status": "searched",
        "stop_reason": "budget" if reason == "iteration limit" else reason,
        "limits_hit": [reason] if reason in LIMITS and reason != "iteration limit" else [],
        "seconds": dict(searched.seconds),
        "result": {
            "rules": list(searched.rules),
            "substitutions": {rule: searched.history.count(rule) for rule in searched.rules},
            "offending_rules": list(searched.offending),
            "certificate": None if searched.certificate is None else searched.certificate.summary(),
            **_operators(searched.original, searched.graph),
        },
        "trace": searched.trace,
    }


def _operators(before: Any, after: Any) -> Record:
    from workbench.summary import running_operators

    return {"operators_before": running_operators(before), "operators_after": running_operators(after)}


def _device(model: Any) -> str:
    """Return the device that costs are of: what the model says, else where they come from."""
    return str(getattr(getattr(model, "device", None), "name", None) or model.source)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
