"""Derivability: which equations and rules given laws imply.

Equations of terms, and rules at drawn instances, are questions to the proof graph. The rules of a set are judged
together, in every case of their typing, by the batch verifier with the laws as axioms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from workbench.graph import GraphBuilder
from workbench.laws.proof_graph import ProofGraph
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.proving.chain import find_chain
from workbench.laws.verification.proving.prove import generic_cases
from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.verdict import Verdict
from workbench.laws.verification.verify import Verification
from workbench.ops import TensorType
from workbench.rules.pattern import (
    App,
    AttrVar,
    Rule,
    Term,
    Var,
    Vector,
    attribute_variables,
    names_in,
    tensor_variables,
)
from workbench.rules.pattern import Literal as Fixed
from workbench.run.display import Face
from workbench.run.trace import Step

if TYPE_CHECKING:
    import pandas as pd

#: Limits on the rounds and the terms of one attempt; an equation that is not derived within them counts as not
#: derivable.
ROUNDS: Final = 4
MOST_TERMS: Final = 20_000
#: Instances at which a rule without a generic one is derived.
INSTANCES: Final = 6


def backwards(rule: Rule) -> Rule | None:
    """Return a law read from right to left, or None if it cannot be read so.

    The right-hand side must bind every variable, and its attributes must be values or variables.

    >>> from workbench.rules import parse_rule
    >>> print(backwards(parse_rule("both: matmul(x, add(y, z)) => add(matmul(x, y), matmul(x, z))")[0]))
    both-back: add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))
    """
    if rule.each or not all(isinstance(t, App) for t in rule.targets):
        return None
    bound = {("tensor", v) for t in rule.targets for v in tensor_variables(t)}
    bound |= {n for t in rule.targets for n in attribute_variables(t)}
    needed = {("tensor", v) for s in rule.sources for v in tensor_variables(s)}
    needed |= {n for s in rule.sources for n in attribute_variables(s)}
    needed |= {n for c in rule.conditions for side in (c.left, c.right) for n in names_in(side)}
    if not needed <= bound or not all(_matchable(t) for t in rule.targets):
        return None
    targets = tuple(t for t in rule.targets if isinstance(t, App))
    return replace(rule, name=f"{rule.name}-back", sources=targets, targets=rule.sources)


def _matchable(term: Term) -> bool:
    if isinstance(term, Var):
        return True
    simple = all(
        isinstance(item, Fixed | AttrVar)
        for _, expr in term.attrs
        for item in (expr.items if isinstance(expr, Vector) else (expr,))
    )
    return simple and all(map(_matchable, term.args))


def both_ways(rules: Sequence[Rule], *, distinct: bool = True) -> list[Rule]:
    """Return laws and, if they can be read so, the laws from right to left.

    Args:
        rules: The laws.
        distinct: Whether names tell laws apart, so that none is added that is there by name.
    """
    names = {r.name for r in rules} if distinct else frozenset()
    found = list(rules)
    for rule in rules:
        back = backwards(rule)
        if back is not None and back.name not in names:
            found.append(back)
    return found


def derivable(
    pairs: Sequence[tuple[Term, Term]],
    types: Mapping[str, TensorType],
    laws: Sequence[Rule],
    *,
    rounds: int = ROUNDS,
) -> list[bool]:
    """Return for each pair of terms whether laws, read both ways, make them equal within the bounds.

    Args:
        pairs: Terms over variables, with fixed attributes.
        types: The types of the variables.
        laws: The laws.
        rounds: Limit on the rounds in which they are applied.
    """
    builder = GraphBuilder()
    leaves = {name: builder.input(name, t.shape, t.dtype) for name, t in types.items()}
    ids = [(_node(builder, leaves, a), _node(builder, leaves, b)) for a, b in pairs]
    graph = ProofGraph(most=MOST_TERMS)
    place = graph.enter(builder.nodes)
    goals = [(place[a], place[b]) for a, b in ids]
    graph.run(laws, goals, rounds=rounds)
    return [graph.equal([goal]) for goal in goals]


def _node(builder: GraphBuilder, leaves: Mapping[str, int], term: Term) -> int:
    if isinstance(term, Var):
        return leaves[term.name]
    attrs = {name: expr.value for name, expr in term.attrs if isinstance(expr, Fixed)}
    return builder.op(term.op, *(_node(builder, leaves, a) for a in term.args), **attrs)


def derived_at_samples(rule: Rule, laws: Sequence[Rule], *, seed: int = 0) -> int:
    """Return the number of drawn instances of a rule if laws imply it at each of them, 0 otherwise.

    A rule with a generic instance is derived there, not here: the result is 0.

    The laws are read in both directions; ``seed`` is the seed of the instances.
    """
    if generic_cases(rule, broadcast=False).instances:
        return 0
    drawn = search(rule, INSTANCES, seed=seed, broadcast=False, corners=()).passed
    return len(drawn) if all(find_chain(i, laws) is not None for i in drawn) else 0


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
