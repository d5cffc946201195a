"""The verification study: all rules of a set proved in one e-graph, or each in an e-graph of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.experiments.config import VerificationStudy
from workbench.experiments.plan import Plan, Record, Run, Task, Tell, at_once
from workbench.experiments.process import Outcome
from workbench.experiments.resources import is_file_name, resource

if TYPE_CHECKING:
    from workbench.rules.pattern import Rule
    from workbench.trace import Trace
    from workbench.verification import Verification


@dataclass(frozen=True, slots=True)
class Order:
    """Say which rules one run decides, and how; ``rules`` is a name or a path."""

    rules: str
    one_by_one: bool
    seconds: float
    e_nodes: int
    rounds: int
    seed: int


def make_plan(study: VerificationStudy, home: Path, folder: Path) -> Plan:
    """List a study's runs, rules by rules; ``home`` is the folder that its files are seen from."""
    runs, orders = [], {}
    skipped: dict[str, None] = {}
    for text in study.rules:
        where, rules_config, absent = resource(text, home)
        if absent:
            skipped[absent] = None
        for mode in study.modes:
            for repeat in range(study.repeats):
                seed = study.seed + repeat
                config = {
                    "study": "verification",
                    "rules": rules_config,
                    "mode": mode,
                    "seconds": study.seconds,
                    "e_nodes": study.e_nodes,
                    "rounds": study.rounds,
                    "seed": seed,
                }
                run = Run(subject(text), mode, config, study.seconds, seed, repeat, absent)
                runs.append(run)
                orders[run.name] = Order(
                    where, mode == "one-by-one", study.seconds, study.e_nodes, study.rounds, seed
                )
    return Plan(study, VerificationWork(study, orders), tuple(runs), folder, tuple(skipped))


def subject(rules: str) -> str:
    """Return how rules are spoken of: a set by its name, a file by its folder's and its own.

    >>> subject("default"), subject("${SHARED}/data/taso/graph_subst.pb")
    ('default', 'taso/graph_subst')
    """
    if not is_file_name(rules):
        return rules
    file = Path(rules)
    return "/".join([*(p for p in (file.parent.name,) if p and "$" not in p and p != ".."), file.stem])


@dataclass(frozen=True, slots=True)
class VerificationWork:
    """Decide rules; runs share nothing."""

    study: VerificationStudy
    orders: Mapping[str, Order]

    def batches(self, runs: Sequence[Run], tell: Tell) -> Iterator[list[Task]]:
        """Return all runs at once."""
        yield at_once(runs, verify_one, self.orders, self.study.grace, self.study.memory)

    def figures(self, task: Task, outcome: Outcome) -> tuple[Record, Trace | None]:
        """Return the row of a verification, why it ended, every verdict, and the trace."""
        run, found = task.run, outcome.value or {}
        row = {
            "rules": run.subject,
            "method": run.method,
            "repeat": run.repeat,
            **found.get("row", {}),
            "status": found.get("stop_reason", outcome.status),
            "notes": outcome.note,
        }
        figures = {
            "row": row,
            "stop_reason": row["status"],
            "limits_hit": ["time limit"] if row["status"] in ("time limit", "killed") else [],
            "result": found.get("result", {}),
        }
        return figures, found.get("trace")

    def elsewhere(self, folder: Path, known: set[str]) -> list[Record]:
        """Return nothing: what a run is called does not hang on its files."""
        return []


# -- in a process of their own ------------------------------------------------------------------------
def verify_one(order: Order) -> Record:
    """Decide rules once and return the figures with the trace."""
    from workbench.verification import Effort, Verification

    effort = Effort(seconds=order.seconds, e_nodes=order.e_nodes, rounds=order.rounds)
    options: dict[str, Any] = {"effort": effort, "seed": order.seed, "one_by_one": order.one_by_one}
    if is_file_name(order.rules):
        from workbench.rules.reading import read_rules

        run = Verification.of(read_rules(order.rules), **options)
    else:
        from workbench.rules import rule_set

        rules: Sequence[Rule] = tuple(rule_set(order.rules))
        run = Verification(rules, name=order.rules, **options)
    with contextlib.closing(run):
        reason = run.run()
    return {"row": _row(run), "stop_reason": reason.value, "result": _result(run), "trace": run.trace}


def _row(run: Verification) -> Record:
    return {
        "count": len(run.verdicts),
        **{name: run.counts.get(name, 0) for name in ("proved", "tested", "refuted", "unknown", "rejected")},
        "contradictions": len(run.contradictions),
        "e_graph_seconds": round(run.egraph_seconds, 4),
        "proving_seconds": round(run.prove_seconds, 4),
        "seconds": round(run.seconds, 4),
        # Of one e-graph a rule only the last is left.
        "e_nodes": None if run.one_by_one else max((step.e_nodes for step in run.trace), default=0),
    }


def _result(run: Verification) -> Record:
    return {"verdicts": {verdict.name: verdict.verdict for verdict in run.verdicts}}
