"""Activity of rules in a run: the steps in which each rule fired, and its share of the best graph."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.laws.theorems.store import chain_of, is_typed, why_no_theorem
from workbench.rules.pattern import Rule, format_condition
from workbench.rules.ruleset import RuleSet
from workbench.rules.verdicts import THEOREM, counted, law_of, statuses, verdict_of
from workbench.run.display import Face
from workbench.run.trace import RuleStep, Trace
from workbench.support.formatting import microseconds, thousands
from workbench.support.messages import nearest

if TYPE_CHECKING:
    import pandas as pd

    from workbench.laws.verification import Verification
    from workbench.optimizer.result import Optimized
    from workbench.saturation import Saturation
    from workbench.studies.analysis.ablation import Ablation


@dataclass(frozen=True, slots=True)
class Contribution:
    """A rule's share of the best graph: its e-nodes, their operators, the steps that made them."""

    rule: str
    e_nodes: int
    operators: Mapping[str, int]
    steps: tuple[int, ...]

    def __str__(self) -> str:
        made = ", ".join(f"{n} {op}" for op, n in self.operators.items())
        return f"{made} in step {', '.join(map(str, self.steps))}"


def contributions(result: Optimized) -> tuple[Contribution, ...]:
    """Return the rules that made e-nodes of the best graph, most productive first.

    The e-nodes' birth records name these rules, so a rule that only prepared a match of another rule is not
    among them; :func:`~workbench.studies.analysis.ablation.ablation` shows whether the result needs a rule. The
    tuple is empty if the original is the result.
    """
    operators: defaultdict[str, list[str]] = defaultdict(list)
    steps: defaultdict[str, set[int]] = defaultdict(set)
    for op, rule, step in _made(result):
        operators[rule].append(op)
        steps[rule].add(step)
    found = (
        Contribution(rule, len(ops), dict(Counter(ops).most_common()), tuple(sorted(steps[rule])))
        for rule, ops in operators.items()
    )
    return tuple(sorted(found, key=lambda c: (-c.e_nodes, c.rule)))


def _made(result: Optimized) -> Iterator[tuple[str, str, int]]:
    """Yield operator, rule and step of each e-node of the best graph that a rule made."""
    egraph = result.egraph
    for i in sorted({int(i) for i in result.solution.choice if i >= 0}) if result.rules else ():
        if egraph.birth_rule[i] >= 0:
            yield egraph.ops[i], egraph.rules[int(egraph.birth_rule[i])], int(egraph.birth_step[i])


def used_by_step(result: Optimized) -> dict[tuple[int, str], int]:
    """Return the e-nodes of the best graph by the step and the rule that made them."""
    return dict(Counter((step, rule) for _, rule, step in _made(result)))


def profile(result: Optimized) -> pd.DataFrame:
    """Return one row per rule that matched: matches, seconds, the e-nodes that it made and that the result uses.

    The e-nodes made are those of the final e-graph; the most productive rule comes first. Without
    ``profile=True`` the seconds are the engine's own, in whole milliseconds.
    """
    frame = result.trace.rule_frame().groupby("rule")[["matches", "seconds", "e_nodes"]].sum()
    used = {c.rule: c.e_nodes for c in contributions(result)}
    frame["used"] = [used.get(rule, 0) for rule in frame.index]
    return frame.sort_values(["e_nodes", "matches"], ascending=False)


def phases(trace: Trace) -> dict[str, float]:
    """Return the seconds of a saturation's iterations by phase, the longest first."""
    found: Counter[str] = Counter()
    for step in trace:
        found.update(step.phases)
    return dict(found.most_common())


@dataclass(frozen=True, slots=True)
class RuleActivity:
    """A rule with its verdict and evidence, and its activity in the run by step, if there is one.

    ``counterexample`` is the smallest one of a refuted rule. ``without`` is the best cost without the
    rule in microseconds, or None if no ablation has left it out.
    """

    rule: Rule
    verdict: str
    evidence: str = ""
    counterexample: str = ""
    firings: Mapping[int, RuleStep] = field(default_factory=dict)
    contribution: Contribution | None = None
    without: float | None = None

    @property
    def law(self) -> str:
        """Return the law as text."""
        return law_of(self.rule)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Return the rule's conditions as texts."""
        return tuple(map(format_condition, self.rule.conditions))

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the name of the rule's file and the kinds of the rule."""
        rule = self.rule
        found = [rule.file.removesuffix(".rules")] if rule.file else []
        found += ["any number"] if rule.each else ["multi-pattern"] if rule.multi else []
        found += ["context"] if rule.contextual else []
        found += ["conditional"] if rule.conditions else []
        return tuple(found)

    @property
    def matches(self) -> int:
        """Return the number of the rule's matches."""
        return sum(f.matches for f in self.firings.values())

    @property
    def e_nodes(self) -> int:
        """Return the number of e-nodes that the rule made."""
        return sum(f.e_nodes for f in self.firings.values())

    @property
    def seconds(self) -> float:
        """Return the rule's seconds; the engine's clock counts whole milliseconds."""
        return sum(f.seconds for f in self.firings.values())

    @property
    def fired(self) -> bool:
        """Return whether the rule matched or made an e-node."""
        return bool(self.firings)

    @property
    def span(self) -> tuple[int, int] | None:
        """Return the first and the last step in which the rule fired, or None."""
        return (min(self.firings), max(self.firings)) if self.firings else None


@dataclass(frozen=True, slots=True)
class RuleTable(Face):
    """The rules of a set in order, with verdicts and activity in a run called ``run``; ``best`` is its cost in µs."""

    name: str
    rows: tuple[RuleActivity, ...]
    run: str = ""
    best: float | None = None
    cost_source: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> RuleActivity:
        named = {row.rule.name: row for row in self.rows}
        if name not in named:
            raise KeyError(f"no rule is called {name!r} in {self.name}{nearest(name, named)}")
        return named[name]

    @property
    def fired(self) -> tuple[RuleActivity, ...]:
        """Return the rules that fired: by their share of the best graph, then by matches, largest first."""

        def key(row: RuleActivity) -> tuple[int, int, str]:
            given = 0 if row.contribution is None else row.contribution.e_nodes
            return -given, 0 if given else -row.matches, row.rule.name

        return tuple(sorted((r for r in self.rows if r.fired), key=key))

    def summary(self) -> str:
        """Return the counts in one line."""
        parts = [f"{len(self)} rules", counted(row.verdict for row in self.rows)]
        if self.run:
            once = sum(row.matches == 1 for row in self.rows)
            made = sum(row.contribution is not None for row in self.rows)
            parts.append(f"{len(self.fired)} fired in {self.run} ({once} matched once)")
            parts.append(f"{made} made the best graph")
        return ", ".join(parts)

    def frame(self) -> pd.DataFrame:
        """Return one row per rule; the columns of a run's figures are empty without a run."""
        import pandas as pd

        rows = [
            {
                "name": r.rule.name,
                "law": r.law,
                "tags": ", ".join(r.tags),
                "provenance": ", ".join(r.rule.provenance),
                "conditions": ", ".join(r.conditions),
                **{name: getattr(r, name) for name in ("verdict", "evidence", "counterexample")},
                **{
                    name: getattr(r, name) if self.run else None for name in ("matches", "seconds", "e_nodes")
                },
                "first": r.span[0] if r.span else None,
                "last": r.span[1] if r.span else None,
                "contributed": r.contribution.e_nodes if r.contribution else 0 if self.run else None,
                "cost_without": r.without,
            }
            for r in self.rows
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        lines = [f"RuleTable {self.name!r}: {self.summary()}"]
        shown = (self.fired or self.rows)[:9]
        for row in shown:
            text = f"  {row.rule.name}: {row.verdict}"
            if row.fired:
                text += f", {thousands(row.matches)} matches, {thousands(row.e_nodes)} e-nodes"
            if row.contribution is not None:
                text += f", in the best graph: {row.contribution}"
            if row.without is not None:
                text += f"; without it {microseconds(row.without)}"
            lines.append(text if len(text) <= 110 else text[:109] + "…")
        left = (len(self.fired) or len(self)) - len(shown)
        return "\n".join([*lines, f"  … {left} more"] if left else lines)


def rule_table(
    rules: RuleSet | Iterable[Rule],
    run: Optimized | Saturation | Trace | None = None,
    *,
    verification: Verification | None = None,
    ablation: Ablation | None = None,
) -> RuleTable:
    """Return a table of rules with their verdicts and their activity in a run.

    Args:
        rules: A rule set, or rules.
        run: A result, a saturation or a trace; None for no run, or for the best result of ``ablation``.
        verification: A verification with verdicts and full counterexamples, used instead of the library's
            record.
        ablation: An ablation with the best costs without a rule.

    Raises:
        TypeError: ``run`` is not a run.
    """
    chosen = rules if isinstance(rules, RuleSet) else RuleSet("given", tuple(rules))
    if run is None and ablation is not None:
        run = ablation.best
    trace = getattr(run, "trace", run)
    if trace is not None and not isinstance(trace, Trace):
        raise TypeError(f"run must be a result, a saturation or a trace, got {type(run).__name__}")
    fired: dict[str, dict[int, RuleStep]] = {}
    for step in trace or ():
        for r in step.rules:
            if r.matches or r.e_nodes:
                fired.setdefault(r.rule, {})[step.index] = r
    result: Any = run
    given = {c.rule: c for c in contributions(result)} if hasattr(run, "cost_after") else {}
    without = {} if ablation is None else {row.rule: row.cost for row in ablation.rows}
    judged = {} if verification is None else {v.name: v for v in verification.verdicts}
    rows = []
    for rule in chosen:
        name = rule.name
        if name in judged:
            verdict = judged[name]
            details = verdict.details() if verdict.verdict == "refuted" else ""
            known = verdict.verdict, verdict.reason(), details
        else:
            known = _recorded(chosen, rule)
        rows.append(RuleActivity(rule, *known, fired.get(name, {}), given.get(name), without.get(name)))
    meta: Mapping[str, Any] = {} if trace is None else trace.meta
    name = "" if trace is None else str(meta.get("graph") or "the run")
    return RuleTable(chosen.name, tuple(rows), name, meta.get("cost_after"), str(meta.get("cost_source", "")))


def _recorded(rules: RuleSet, rule: Rule) -> tuple[str, str, str]:
    """Return the verdict, evidence and counterexample from the library's record."""
    verdict = rules.verdict(rule)
    known = statuses().get(rule.name, {})
    if verdict_of(rule) != verdict:
        return verdict, "judged when the rule was read", ""
    if verdict == "unknown" and known.get("law") != law_of(rule):
        return verdict, "not in the library's record; workbench.laws.Verification judges it", ""
    if verdict == THEOREM:
        how = f"by a chain of {', '.join(links)}; " if (links := chain_of(rule)) else ""
        right = "always has a type" if is_typed(rule) else "is checked where the rule fires"
        text = f"proved for all extents and ranks; {how}the right-hand side {right}; {evidence(known)}"
        return verdict, text, str(known.get("summary", ""))
    return verdict, f"{evidence(known)}; no theorem: {why_no_theorem(rule)}", str(known.get("summary", ""))


def evidence(known: Mapping[str, Any]) -> str:
    """Return the evidence in a record of the library as one line.

    >>> evidence({"status": "tested", "draws": 24, "exhaustive": True})
    '24 instances agree, all small ones'
    """
    if known.get("status") == "refuted":
        region = known.get("region")
        return "differs on an instance" + (f"; holds where {region['condition']}" if region else "")
    text = f"{thousands(known.get('draws', 0))} instances agree"
    return text + (", all small ones" if known.get("exhaustive") else "")
