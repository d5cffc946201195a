"""Judge rules of one's own before they are applied: refuted rules are refused, the others get a verdict."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.verify import Verification
from workbench.ops import Trait, with_trait
from workbench.ops.serialization import CannotTravel, definition_of
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule, format_rule, operators_of
from workbench.rules.verdicts import TRUSTED, library
from workbench.run.trace import StopReason
from workbench.support.disk_cache import remembered

#: Seconds that judging a file of rules takes at most; rules that are not decided by then stay unknown.
SECONDS: Final = 60.0


class RefutedRules(ValueError):
    """Raised when rules that are to be applied have counterexamples; the message shows them."""


class RefutedRuleKept(UserWarning):
    """The warning that a rule with a counterexample is applied on purpose."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a rule, its evidence in one line, and its place for messages."""

    verdict: str
    reason: str


class _Unfinished(Exception):
    """Raised when the time limit ended a verification: its verdicts are not kept for the next run."""

    def __init__(self, found: tuple[tuple[str, str, str], ...]) -> None:
        super().__init__()
        self.found = found


def judged(rules: RuleSet, *, keep_refuted: bool = False) -> RuleSet:
    """Return a set with the verdicts on its rules; raise RefutedRules if it has wrong ones.

    Rules that the library has recorded as theorems or tested keep that verdict. Verdicts on the others are
    cached by the laws, and by the definitions of the operators that are not built in.

    Args:
        rules: The rules.
        keep_refuted: Whether refuted rules stay in the set, with a warning for each.
    """
    found = verdicts([rule for rule in rules if rules.verdict(rule) not in TRUSTED])
    wrong = {name: one.reason for name, one in found.items() if one.verdict == "refuted"}
    if wrong and not keep_refuted:
        raise RefutedRules(_refusal(rules.name, wrong))
    for name, reason in wrong.items():
        warnings.warn(
            f"rule {name} of {rules.name} is wrong but is applied nevertheless: {reason}. The certificate "
            "rejects a result that it spoils",
            RefutedRuleKept,
            stacklevel=3,
        )
    return replace(rules, verdicts={**rules.verdicts, **{name: one.verdict for name, one in found.items()}})


def verdicts(rules: Sequence[Rule]) -> dict[str, Judged]:
    """Return the verdicts on rules by name, from the cache or by a verification."""
    if not rules:
        return {}

    def decide() -> tuple[tuple[str, str, str], ...]:
        check = Verification(rules, effort=Effort(chain=0, seconds=SECONDS), name="own rules")
        try:
            stop = check.run()
        finally:
            check.close()
        found = tuple((v.name, v.verdict, v.reason()) for v in check.verdicts)
        if stop is not StopReason.FINISHED:
            raise _Unfinished(found)
        return found

    try:
        found = remembered("verdicts", _content(rules), decide)
    except CannotTravel:  # an operator whose definition cannot be told from another
        found = decide()
    except _Unfinished as unfinished:
        found = unfinished.found
    return {name: Judged(verdict, reason) for name, verdict, reason in found}


def _content(rules: Sequence[Rule]) -> list[str | bytes]:
    """Return everything on which the verdicts depend."""
    own = sorted(frozenset[str]().union(*map(operators_of, rules)) & with_trait(Trait.OWN))
    axioms = (library() / "axioms.rules").read_bytes()
    return [*map(format_rule, rules), *(f"{name} {definition_of(name)}" for name in own), axioms]


def _refusal(name: str, wrong: Mapping[str, str]) -> str:
    shown = "; ".join(f"{rule} ({reason})" for rule, reason in wrong.items())
    plural = "s" if len(wrong) > 1 else ""
    return (
        f"the rules of {name} must hold, got {len(wrong)} refuted rule{plural}: {shown} (try leaving "
        f"{'them' if plural else 'it'} out, or keep_refuted=True, --keep-refuted)"
    )
