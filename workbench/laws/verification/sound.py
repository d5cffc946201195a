"""Make rules of other systems sound: keep proved and tested ones, add a guard to those that need one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.verdict import Verdict
from workbench.laws.verification.verify import Verification
from workbench.rules.language import parse_rule
from workbench.rules.pattern import Compare, Rule
from workbench.rules.ruleset import RuleSet, read_rules
from workbench.run.trace import Step


@dataclass(frozen=True, slots=True)
class Sound:
    """The sound rules of a set, with the verdicts on all original rules.

    ``guarded`` names the rules that were refuted but hold under the condition that they now carry.
    ``dropped`` names those that are refuted, unknown or vacuous, or that are not rules.
    """

    rules: RuleSet
    verdicts: tuple[Verdict, ...]
    guarded: tuple[str, ...]
    dropped: tuple[str, ...]

    def __repr__(self) -> str:
        return (
            f"{self.rules.name}: {len(self.rules)} of {len(self.verdicts)} rules are sound, "
            f"{len(self.guarded)} of them under a further condition; dropped: "
            f"{', '.join(self.dropped) or 'none'}"
        )


def sound_rules(
    source: str | os.PathLike[str] | Sequence[Rule],
    *,
    seed: int = 0,
    jobs: int = 1,
    progress: Callable[[Step], None] | None = None,
) -> Sound:
    """Return the sound rules of a file or a set, judged as they are used: operands broadcast.

    A refuted rule that holds in a region is kept with the region as its guard, if the guarded rule is
    proved or tested.

    Args:
        source: A file of rules, or the rules.
        seed: Seed of the random instances.
        jobs: Number of processes, as in :class:`~workbench.laws.verification.verify.Verification`.
        progress: Callback after every step.
    """
    effort = Effort(chain=0)
    if isinstance(source, str | os.PathLike):
        contents = read_rules(source)
        verification = Verification.of(replace(contents, form="rules"), effort=effort, seed=seed, jobs=jobs)
    else:
        name = getattr(source, "name", "rules")
        verification = Verification(list(source), effort=effort, seed=seed, jobs=jobs, name=name)
    verification.run(progress)
    verdicts = verification.verdicts
    narrowed = [_guarded(v.rule, v.evidence["region"]["condition"]) for v in verdicts if _regional(v)]
    again = Verification(narrowed, effort=effort, seed=seed, jobs=jobs)
    if narrowed:
        again.run(progress)
    sound = {v.name: v for v in (*verdicts, *again.verdicts) if v.verdict in ("proved", "tested")}
    kept = [sound[v.name] for v in verdicts if v.name in sound]
    return Sound(
        RuleSet(
            f"{verification.name}, sound",
            tuple(v.rule for v in kept if v.rule is not None),
            {v.name: v.verdict for v in kept},
        ),
        tuple(verdicts),
        tuple(r.name for r in narrowed if r.name in sound),
        tuple(v.name for v in verdicts if v.name not in sound),
    )


def _regional(verdict: Verdict) -> bool:
    return verdict.rule is not None and verdict.verdict == "refuted" and "region" in verdict.evidence


def _guarded(rule: Rule | None, condition: str) -> Rule:
    assert rule is not None
    return replace(rule, conditions=rule.conditions + _conditions(condition, rule))


def _conditions(text: str, rule: Rule) -> tuple[Compare, ...]:
    """Return the conditions in a region's text, parsed together with the rule that binds their variables."""
    law = str(replace(rule, conditions=(), provenance=()))
    (guarded,) = parse_rule(f"{law} where {text}")
    return guarded.conditions
