"""Rules from outside before they are applied: judged, or made sound.

Of rules of one's own, refuted ones are refused and the others get a verdict (:func:`judged`). Of rules of other
systems, proved and tested ones are kept, and those that need a guard get one (:func:`sound_rules`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.verdict import Verdict
from workbench.laws.verification.verify import Verification
from workbench.ops import Trait, with_trait
from workbench.ops.serialization import CannotTravel, definition_of
from workbench.rules.language import parse_rule
from workbench.rules.pattern import Rule, format_rule, operators_of
from workbench.rules.ruleset import RuleSet, read_rules
from workbench.rules.verdicts import TRUSTED, library
from workbench.run.trace import StopReason
from workbench.support.disk_cache import remembered

#: Seconds that judging a file of rules takes at most; rules that are not decided by then stay unknown.
SECONDS: Final = 60.0


class RefutedRules(ValueError):
    """Raised when rules that are to be applied have counterexamples; the message shows them."""


class RefutedRuleKept(UserWarning):
    """The warning that a rule with a counterexample is applied on purpose."""


class _Unfinished(Exception):
    """Raised when the time limit ended a verification: its verdicts are not kept for the next run."""

    def __init__(self, found: tuple[tuple[str, str, str], ...]) -> None:
        super().__init__()
        self.found = found


def judged(rules: RuleSet, *, keep_refuted: bool = False) -> RuleSet:
    """Return a set with the verdicts on its rules; raise RefutedRules if it has wrong ones.

    With ``keep_refuted`` these stay in the set, with a warning for each. Rules that the library has recorded as
    theorems or tested keep that verdict. Verdicts on the others are cached by the laws, and by the definitions of
    the operators that are not built in.
    """
    found = _verdicts([rule for rule in rules if rules.verdict(rule) not in TRUSTED])
    wrong = {name: reason for name, verdict, reason in found if verdict == "refuted"}
    if wrong and not keep_refuted:
        shown = "; ".join(f"{rule} ({reason})" for rule, reason in wrong.items())
        plural, them = ("s", "them") if len(wrong) > 1 else ("", "it")
        raise RefutedRules(
            f"the rules of {rules.name} must hold, got {len(wrong)} refuted rule{plural}: {shown} (try leaving "
            f"{them} out, or keep_refuted=True, --keep-refuted)"
        )
    for name, reason in wrong.items():
        warnings.warn(
            f"rule {name} of {rules.name} is wrong but is applied nevertheless: {reason}. The certificate "
            "rejects a result that it spoils",
            RefutedRuleKept,
            stacklevel=3,
        )
    return replace(rules, verdicts={**rules.verdicts, **{name: verdict for name, verdict, _ in found}})


def _verdicts(rules: Sequence[Rule]) -> tuple[tuple[str, str, str], ...]:
    """Return the name, the verdict and the reason of rules, from the cache or by a verification."""
    if not rules:
        return ()

    def decide() -> tuple[tuple[str, str, str], ...]:
        check = Verification(rules, effort=Effort(chain=0, seconds=SECONDS), name="own rules")
        stop = check.run()
        found = tuple((v.name, v.verdict, v.reason()) for v in check.verdicts)
        if stop is not StopReason.FINISHED:
            raise _Unfinished(found)
        return found

    own = sorted(frozenset[str]().union(*map(operators_of, rules)) & with_trait(Trait.OWN))
    axioms = (library() / "axioms.rules").read_bytes()
    try:
        content: list[str | bytes] = [
            *map(format_rule, rules),
            *(f"{name} {definition_of(name)}" for name in own),
            axioms,
        ]
        return remembered("verdicts", content, decide)
    except CannotTravel:  # an operator whose definition cannot be told from another
        return decide()
    except _Unfinished as unfinished:
        return unfinished.found


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


def sound_rules(source: str | os.PathLike[str] | Sequence[Rule], *, seed: int = 0) -> Sound:
    """Return the sound rules of a file or a set, judged as they are used: operands broadcast.

    A refuted rule that holds in a region is kept with the region as its guard, if the guarded rule
    holds.
    """
    effort = Effort(chain=0)
    if isinstance(source, str | os.PathLike):
        contents = read_rules(source)
        verification = Verification.of(replace(contents, form="rules"), effort=effort, seed=seed)
    else:
        name = getattr(source, "name", "rules")
        verification = Verification(list(source), effort=effort, seed=seed, name=name)
    verification.run()
    verdicts = verification.verdicts
    narrowed = [
        _guarded(v.rule, v.evidence["region"]["condition"])
        for v in verdicts
        if v.rule is not None and v.verdict == "refuted" and "region" in v.evidence
    ]
    again = Verification(narrowed, effort=effort, seed=seed)
    if narrowed:
        again.run()
    sound = {v.name: v for v in (*verdicts, *again.verdicts) if v.verdict in TRUSTED}
    kept = [sound[v.name] for v in verdicts if v.name in sound]
    rules = tuple(v.rule for v in kept if v.rule is not None)
    return Sound(
        RuleSet(f"{verification.name}, sound", rules, {v.name: v.verdict for v in kept}),
        tuple(verdicts),
        tuple(r.name for r in narrowed if r.name in sound),
        tuple(v.name for v in verdicts if v.name not in sound),
    )


def sound_set(source: str | os.PathLike[str]) -> RuleSet:
    """Return the sound rules of a file; they are cached by its content, as judging hundreds takes minutes."""
    content = [Path(source).read_bytes(), (library() / "axioms.rules").read_bytes()]
    return remembered("sound", [Path(source).name, *content], lambda: sound_rules(source).rules)


def _guarded(rule: Rule, text: str) -> Rule:
    """Return a rule under the conditions in a region's text, parsed with the rule that binds their variables."""
    law = str(replace(rule, conditions=(), provenance=()))
    (guarded,) = parse_rule(f"{law} where {text}")
    return replace(rule, conditions=rule.conditions + guarded.conditions)
