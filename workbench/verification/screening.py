"""A quick look for counterexamples to one's own rules, before they are applied."""

from __future__ import annotations

import time
import warnings

from workbench.rules import RuleSet
from workbench.verification.evidence import Effort, Settings, screen


class RefutedRule(UserWarning):
    """Warned of when a rule that is about to be applied has a counterexample."""


def refuted(rules: RuleSet, *, seed: int = 0, seconds: float = 10.0) -> dict[str, str]:
    """Return the rules of a set with a counterexample among the first instances, and that in one line.

    Rules that are known as proved or tested are not looked at; ``seconds`` bound the search.
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
    """Warn of every rule of a set that has a counterexample; it is applied all the same."""
    for name, reason in refuted(rules).items():
        warnings.warn(
            f"rule {name} of {rules.name} is wrong and applied all the same: {reason}. A result that it "
            "spoils does not pass the certificate; leave the rule out",
            RefutedRule,
            stacklevel=3,
        )
