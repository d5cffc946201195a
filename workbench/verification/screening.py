"""A quick search for counterexamples to a user's rules before they are applied."""

from __future__ import annotations

import time
import warnings

from workbench.rules import RuleSet
from workbench.verification.evidence import Effort, Settings, screen


class RefutedRule(UserWarning):
    """The warning that a rule that is about to be applied has a counterexample."""


def refuted(rules: RuleSet, *, seed: int = 0, seconds: float = 10.0) -> dict[str, str]:
    """Return the rules of a set that have a counterexample among the first instances, each with a summary.

    Rules that are recorded as proved or tested are skipped. The search takes at most ``seconds``.
    """
    settings = Settings(Effort(seconds=seconds, chain=0), apart=False, seed=seed)
    began, found = time.perf_counter(), {}
    for rule in rules:
        if rules.verdict(rule) in ("proved", "tested"):
            continue
        if time.perf_counter() - began > seconds:
            break
        counterexample = screen(settings, rule).counterexample
        if counterexample is not None:
            found[rule.name] = str(counterexample)
    return found


def warn_of_refuted(rules: RuleSet) -> None:
    """Warn of every rule of a set that has a counterexample; the rule is applied nevertheless."""
    for name, reason in refuted(rules).items():
        warnings.warn(
            f"rule {name} of {rules.name} is wrong but is applied nevertheless: {reason}. The certificate "
            "rejects a result that it spoils (try leaving the rule out)",
            RefutedRule,
            stacklevel=3,
        )
