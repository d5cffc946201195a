"""The verification study: prove all rules of a set in one e-graph, or each in its own e-graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from workbench.studies.experiments import config, tables
from workbench.studies.experiments.plan import Plan, Record, Run

if TYPE_CHECKING:
    import pandas as pd

#: The modes of verification: all rules in one e-graph, or each rule in its own e-graph.
MODES: Final = ("batch", "one-by-one")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationStudy(config.Study):
    """A study that verifies every set of rules in every mode.

    ``rules`` are sets of the library or files, as in a study of optimisation. ``batch`` proves all
    rules of a file in one e-graph, ``one-by-one`` proves each rule in its own e-graph. ``seconds``
    limits a run, ``e_nodes`` and ``rounds`` limit an e-graph, as in :class:`workbench.laws.verification.Effort`.
    """

    KIND: ClassVar[str] = "verification"

    rules: config.Names
    modes: config.Names = MODES
    seconds: PositiveFloat = 600.0
    e_nodes: PositiveInt = 30_000
    rounds: PositiveInt = 10
    grace: NonNegativeFloat = 120.0

    def __post_init__(self) -> None:
        config.check_names("modes", "mode of verification", self.modes, MODES)
        for rules in self.rules:
            config.check_rules(rules)


def make_plan(study: VerificationStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, one set of rules after another; paths in the study are relative to ``home``."""
    settings = {"seconds": study.seconds, "e_nodes": study.e_nodes, "rounds": study.rounds}
    runs = []
    for text in study.rules:
        (where, rules, absent), name = config.resource(text, home), subject(text)
        given: dict[str, Any] = {"absent": absent, "order": where, "columns": {"rules": name}}
        runs += [
            Run(name, mode, {"rules": rules, "mode": mode, **settings}, study.seconds, **given)
            for mode in study.modes
        ]
    return Plan.of(study, folder, verify_one, runs)


def subject(rules: str) -> str:
    """Return the name of a set of rules in the study: a set's own name, or a file's with its folder's.

    >>> subject("default"), subject("${SHARED}/data/taso/graph_subst.pb")
    ('default', 'taso/graph_subst')
    """
    if not config.is_file_name(rules):
        return rules
    file = Path(rules)
    return "/".join([*(p for p in (file.parent.name,) if p and "$" not in p and p != ".."), file.stem])


def outcome(record: Record) -> str:
    """Return the outcome of a verification in one line."""
    row = record["row"]
    return (
        f"{row['by_axioms']} of {row['count']} by axioms, {row['refuted']} refuted, "
        f"{row['e_graph_seconds']:.2f} s in the e-graph, {row['seconds']:.2f} s"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def verify_one(study: VerificationStudy, given: Run) -> Record:
    """Decide rules once and return the figures with the trace."""
    from workbench.laws.verification import Effort, Verification
    from workbench.rules import rule_set
    from workbench.rules.ruleset import read_rules

    rules = given.order
    effort = Effort(seconds=study.seconds, e_nodes=study.e_nodes, rounds=study.rounds)
    options: dict[str, Any] = {"effort": effort, "seed": given.seed}
    options["one_by_one"] = given.method == "one-by-one"
    if config.is_file_name(rules):
        run = Verification.of(read_rules(rules), **options)
    else:
        run = Verification(tuple(rule_set(rules)), name=rules, **options)
    with contextlib.closing(run):
        reason = run.run()
    row = {
        "count": len(run.verdicts),
        **{name: run.counts.get(name, 0) for name in ("tested", "refuted", "unknown", "rejected")},
        "by_axioms": sum(verdict.by_axioms for verdict in run.verdicts),
        "contradictions": len(run.contradictions),
        "e_graph_seconds": round(run.egraph_seconds, 4),
        "proving_seconds": round(run.prove_seconds, 4),
        "seconds": round(run.seconds, 4),
        # With one e-graph per rule the trace has the size of the last one only.
        "e_nodes": None if run.one_by_one else max((step.e_nodes for step in run.trace), default=0),
    }
    verdicts = {verdict.name: verdict.short for verdict in run.verdicts}
    ended = {"status": reason.value, "stop_reason": reason.value}
    return {"row": row, **ended, "result": {"verdicts": verdicts}, "trace": run.trace}


COLUMNS: Final = (
    "rules", "method", "repeat", "count", "tested", "by_axioms", "refuted", "unknown", "rejected",
    "contradictions", "e_graph_seconds", "proving_seconds", "seconds", "e_nodes", "status", "failed", "notes",
)  # fmt: skip

#: The figure in Tensat's README for its verifier, which proves in batch.
PUBLISHED_RATIO: Final = (
    "Tensat's README reports about 30 times faster for its own verifier, on unnamed hardware"
)


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    return tables.run_table(records, COLUMNS, [*COLUMNS[2:10], "e_nodes"])


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: seconds side by side, verdicts, and rules with differing verdicts."""
    described = tables.about(
        records,
        ", one row per run.",
        "*In the e-graph*: the seconds of loading terms and applying axioms, in which the two modes differ. "
        "*Proving* adds the generic instances of every rule, which both modes need. *Whole* adds the search "
        "for counterexamples and the explanations.",
    )
    parts = ["# Verification: all rules in one e-graph, or each in its own", described]
    parts += ["## Seconds", _seconds(frame), "## Verdicts", _verdicts(frame)]
    differing = "\n".join(_differing(records)) or "None: every rule has the same evidence in both modes."
    parts += ["## Rules whose evidence depends on the mode", differing, *tables.missing(plan)]
    return "\n\n".join(parts) + "\n"


def _seconds(frame: pd.DataFrame) -> str:
    rows = []
    for rules, group in frame.groupby("rules", sort=False):
        means = group.groupby("method", sort=False)[["e_graph_seconds", "proving_seconds", "seconds"]].mean()
        cells: list[str] = []
        for column in means.columns:
            batch, single = (float(means[column].get(mode, float("nan"))) for mode in MODES)
            ratio = f"{single / batch:.1f}×" if batch > 0 and single == single else ""
            cells += [tables.seconds_text(batch), tables.seconds_text(single), ratio]
        count = group["count"].dropna()
        rows.append([str(rules), str(count.iloc[0]) if len(count) else "", *cells])
    head = ["rules", "number"]
    for stage in ("in the e-graph", "proving", "whole"):
        head += [f"{stage}: batch", "one by one", "ratio"]
    return tables.lines(head, rows) + f"\n\nPublished, for orientation: {PUBLISHED_RATIO}."


def _verdicts(frame: pd.DataFrame) -> str:
    names = ["tested", "by_axioms", "refuted", "unknown", "rejected", "contradictions"]
    rows = []
    for row in frame.to_dict("records"):
        counts = [tables.cell(row[name]) for name in [*names, "e_nodes"]]
        method = str(row["method"]) + tables.repeat_text(row["repeat"])
        rows.append([str(row["rules"]), method, *counts, str(row["status"])])
    names[1] = "of them by axioms"
    return tables.lines(["rules", "mode", *names, "largest e-graph (e-nodes)", "ended by"], rows)


def _differing(records: Sequence[Record]) -> list[str]:
    """Return one line per rule that axioms decide in one run on its file and not in another."""
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    for record in records:
        row, result = record["row"], record["result"]
        if not record["failed"]:
            found.setdefault(row["rules"], {})[f"{row['method']} {row['repeat']}"] = result["verdicts"]
    said = []
    for rules, ways in found.items():
        for name in dict.fromkeys(name for verdicts in ways.values() for name in verdicts):
            judged = {way.rpartition(" ")[0]: verdicts.get(name, "–") for way, verdicts in ways.items()}
            if len(set(judged.values())) > 1:
                said.append(f"- {rules}, {name}: " + ", ".join(f"{v} ({way})" for way, v in judged.items()))
    return said
