"""The verdict on a rule, and the evidence for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.rules.pattern import Rule
from workbench.rules.verdicts import THEOREM, counted, law_of
from workbench.run.display import Face


@dataclass(frozen=True, slots=True)
class Verdict(Face):
    """The verdict on one rule, one of :data:`workbench.rules.verdicts.VERDICTS`.

    ``theorem``: a proof for all types was found. ``tested``: a stated number of instances agree; if
    ``by_axioms``, both sides also meet in an e-graph, in every case of the rule's typing. ``refuted``: the sides
    of an instance differ in exact arithmetic. ``unknown``: too few instances. ``vacuous``: both sides are the
    same term. ``rejected``: it is not a rule. ``index`` is the rule's place in its file; ``evidence`` is plain
    data.
    """

    index: int
    name: str
    verdict: str
    seconds: float
    evidence: dict[str, Any] = field(default_factory=dict)
    rule: Rule | None = None

    @property
    def law(self) -> str:
        """Return the law as text."""
        return "" if self.rule is None else law_of(self.rule)

    @property
    def by_axioms(self) -> bool:
        """Return whether a tested rule follows from axioms in its cases, as Tensat's and TASO's verifiers ask."""
        return self.verdict == "tested" and "cases" in self.evidence

    @property
    def short(self) -> str:
        """Return the verdict in a word or two for a list: it says which tested rules follow from axioms."""
        return "by axioms" if self.by_axioms else self.verdict

    @property
    def complete(self) -> bool:
        """Return whether a proof has a case for every alternative of the rule's typing."""
        return bool(self.evidence.get("all_cases"))

    @property
    def contradiction(self) -> bool:
        """Return whether a rule was proved at instances that miss one that refutes it, or by a wrong axiom."""
        return "contradiction" in self.evidence

    def record(self) -> dict[str, Any]:
        """Return the verdict as plain data, ready for JSON."""
        return {
            "rule": self.index,
            "name": self.name,
            "verdict": self.verdict,
            "all_cases": self.complete if self.verdict == THEOREM or self.by_axioms else None,
            "seconds": round(self.seconds, 6),
            "law": self.law,
            "evidence": self.evidence,
        }

    def reason(self) -> str:
        """Return the evidence in one line."""
        known = self.evidence
        if self.contradiction:
            return f"{known['contradiction']}, refuted at another: {known['summary']}"
        if self.verdict == THEOREM:
            return f"for all sizes, {known['theorem']} cases; {known['draws']} instances" + _apart(known)
        if self.by_axioms:
            text = f"by axioms in {known['cases']} cases{'' if self.complete else ' (a sample)'}"
            text += f", round {known['round']}"
            if known.get("axioms"):
                text += ": " + ", ".join(known["axioms"])
            return text + _apart(known)
        if self.verdict == "refuted":
            text = str(known["summary"])
            region = known.get("region")
            return text + (f"; holds where {region['condition']}" if region else "") + _apart(known)
        if self.verdict == "tested":
            bound = known.get("error_bound")
            shown = f", error ≤ {bound:.1e} each" if bound else ""
            if known.get("floating"):
                near = known["floating"]["tolerance"]
                shown = f" in float64 within {near:.0e}, the weakest evidence"
            return f"{known['draws']} instances{shown}; not by axioms: {known['reason']}" + _apart(known)
        return str(known.get("reason", ""))

    def details(self) -> str:
        """Return the evidence in full: the chain of terms, or the counterexample's tensors and values."""
        lines = [f"{self.verdict}: {self.reason()}"]
        lines += ["\n  ".join(chain) for chain in self.evidence.get("chain") or []]
        example = self.evidence.get("counterexample")
        if example:
            lines += [f"  {n} {x['shape']} = {x['data']}" for n, x in example["inputs"].items()]
            lines += [f"  {name} = {value}" for name, value in example["settings"].items()]
            lines.append(f"  left   {example['left_term']} = {example['left']}")
            lines.append(f"  right  {example['right_term']} = {example['right']}")
            lines.append(f"  differ at {example['index']} of output {example['output']}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{self.name} {self.verdict}: {self.reason()}"


def verdict_counts(verdicts: Sequence[Verdict], theorems: Collection[str] = ()) -> str:
    """Return the numbers of verdicts as text; rules named in ``theorems`` have a stored proof."""
    derived = sum(v.by_axioms and v.name not in theorems for v in verdicts)
    return counted((THEOREM if v.name in theorems else v.verdict for v in verdicts), derived)


def _apart(known: dict[str, Any]) -> str:
    apart = known.get("broadcasting")
    if not apart or apart["verdict"] == "holds":
        return ""
    return f"; with broadcasting operands {apart['verdict']}: {apart['summary']}"
