"""Make rules of other systems sound: keep what is proved or tested, guard what holds in a region."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workbench.rules.language import parse_rule
from workbench.rules.pattern import Compare, Rule
from workbench.rules.reading import read_rules
from workbench.rules.ruleset import RuleSet
from workbench.trace import Step
from workbench.verification.evidence import Effort
from workbench.verification.verdict import Verdict
from workbench.verification.verify import Verification


@dataclass(frozen=True, slots=True)
class Sound:
    """Hold what is left of a set of rules: ``rules``, with the verdict on every one of the originals.

    ``guarded`` names those that were refuted and hold under the condition they now carry, ``dropped``
    those that are refuted, unknown, vacuous or no rules.
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
    progress: Callable[[Step], None] | None = None,
) -> Sound:
    """Return the sound rules of a file or a set, judged as they are used: operands broadcast.

    A refuted rule that holds in a region is kept with the region as its guard, where that passes the
    same search.
    """
    effort = Effort(chain=0)
    if isinstance(source, str | os.PathLike):
        contents = read_rules(source)
        verification = Verification.of(replace(contents, form="rules"), effort=effort, seed=seed)
    else:
        name = getattr(source, "name", "rules")
        verification = Verification(list(source), effort=effort, seed=seed, name=name)
    verification.run(progress)
    kept: list[Rule] = []
    guarded: list[str] = []
    dropped: list[str] = []
    for verdict in verification.verdicts:
        if verdict.verdict in ("proved", "tested") and verdict.rule is not None:
            kept.append(verdict.rule)
        elif verdict.rule is not None and "region" in verdict.evidence:
            conditions = _conditions(verdict.evidence["region"]["condition"], verdict.rule)
            kept.append(replace(verdict.rule, conditions=verdict.rule.conditions + conditions))
            guarded.append(verdict.name)
        else:
            dropped.append(verdict.name)
    return Sound(
        RuleSet(f"{verification.name}, sound", tuple(kept)),
        tuple(verification.verdicts),
        tuple(guarded),
        tuple(dropped),
    )


def _conditions(text: str, rule: Rule) -> tuple[Compare, ...]:
    """Return the conditions that a region's text holds, read beside the rule that binds their variables."""
    law = str(replace(rule, conditions=(), provenance=()))
    (guarded,) = parse_rule(f"{law} where {text}")
    return guarded.conditions
