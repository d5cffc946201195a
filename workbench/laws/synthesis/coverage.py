"""Which rules given laws imply: derived with a chain of terms, not derived, or refuted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from workbench.laws.synthesis.derivation import both_ways, derived_at_samples
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.verdict import Verdict
from workbench.laws.verification.verify import Verification
from workbench.rules.pattern import Rule
from workbench.run.display import Face
from workbench.run.trace import Step

if TYPE_CHECKING:
    import pandas as pd

#: The meaning of a verdict under given laws.
MEANING: Final = {"proved": "derived", "refuted": "refuted", "vacuous": "derived"}
#: The limits by default: rounds, e-nodes and passes of the e-graph in which rules are derived.
EFFORT: Final = Effort(
    draws=24, region=0, e_nodes=60_000, rounds=10, passes=4, chain=0, models=0, seconds=600.0
)


@dataclass(slots=True)
class Coverage(Face):
    """The rules of a set that given laws imply.

    A rule is *derived* if both sides meet in an e-graph that only the laws grow, read in both directions, in
    every case of the rule's typing. If its typing has no generic case, they must meet at drawn instances, of
    which ``sampled`` has the number by the name of the rule. A rule with a counterexample is *refuted*. The
    others are *not derived* within the limits of ``effort``.

    Args:
        rules: The rules.
        laws: The laws.
        effort: The limits; with ``chain`` above 0, each derivation is explained by a chain of terms.
        seed: Seed of the search for counterexamples.
        progress: Callback after every step.

    """

    rules: Sequence[Rule]
    laws: Sequence[Rule]
    effort: Effort = EFFORT
    seed: int = 0
    progress: Callable[[Step], None] | None = None
    verdicts: tuple[Verdict, ...] = field(init=False)
    seconds: float = field(init=False, default=0.0)
    sampled: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        check = Verification(
            list(self.rules), axiom_set=both_ways(self.laws), effort=self.effort, seed=self.seed, apart=True
        )
        try:
            check.run(self.progress)
        finally:
            check.close()
        self.verdicts = tuple(check.verdicts)
        for verdict, rule in zip(self.verdicts, self.rules, strict=True):
            if verdict.verdict not in MEANING:
                count = derived_at_samples(rule, self.laws, seed=self.seed)
                self.sampled |= {verdict.name: count} if count else {}
        self.seconds = check.seconds

    def outcome(self, verdict: Verdict) -> str:
        """Return ``derived``, ``refuted`` or ``not derived``."""
        return MEANING.get(verdict.verdict, "derived" if verdict.name in self.sampled else "not derived")

    def named(self, outcome: str) -> list[str]:
        """Return the names of the rules with an outcome."""
        return [v.name for v in self.verdicts if self.outcome(v) == outcome]

    @property
    def derived(self) -> list[str]:
        """Return the names of the rules that the laws imply."""
        return self.named("derived")

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of rules per outcome."""
        return {o: len(self.named(o)) for o in ("derived", "not derived", "refuted")}

    @property
    def used(self) -> list[str]:
        """Return the names of the laws that the derivations use, in the order of the laws.

        They are known if the effort has a ``chain`` above 0.
        """
        names = {name.removesuffix("-back") for v in self.verdicts for name in v.evidence.get("axioms", ())}
        return [r.name for r in self.laws if r.name in names]

    def frame(self) -> pd.DataFrame:
        """Return one row per rule: name, outcome, law, and the chain of terms or the counterexample."""
        import pandas as pd

        rows = []
        for verdict in self.verdicts:
            chains = verdict.evidence.get("chain") or []
            evidence = "; ".join(" ".join(c) for c in chains) or str(verdict.evidence.get("summary", ""))
            if verdict.name in self.sampled:
                evidence = f"at {self.sampled[verdict.name]} drawn instances"
            rows.append((verdict.name, self.outcome(verdict), verdict.law, evidence))
        return pd.DataFrame(rows, columns=["rule", "outcome", "law", "evidence"])

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"{len(self.verdicts)} rules from {len(self.laws)} laws: {counts['derived']} derived, "
            f"{counts['not derived']} not derived, {counts['refuted']} refuted, {self.seconds:.1f} s"
        )
