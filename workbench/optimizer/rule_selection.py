"""The rules that a user asks for: names, files, rules, or several of them together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from workbench.graph import Graph
from workbench.ops.registry import replacements
from workbench.rules import RuleSet, load_rules, rule_set
from workbench.rules.pattern import Rule
from workbench.rules.verdicts import law_of, statuses
from workbench.support.wings import offered

#: The name of a rule set, the path of a file, a set, a rule, or several of them.
Rules: TypeAlias = "str | os.PathLike[str] | RuleSet | Rule | Sequence[Rules]"


def rules_of(rules: Rules, *, keep_refuted: bool = False) -> RuleSet:
    """Return rules as a set: by name, from a file, given, or the union of several.

    The rules of a ``.rules`` file are judged before they are used. Of another system's file the sound rules
    are used.

    Args:
        rules: The rules.
        keep_refuted: Whether refuted rules of a ``.rules`` file are used nevertheless, with a warning.

    Raises:
        UnknownName: (a LookupError) if there is no set of a name.
        RefutedRules: (a ValueError) if a ``.rules`` file has refuted rules.
        ValueError: If two of the sets give one name to different laws.
    """
    if isinstance(rules, RuleSet):
        return rules
    if isinstance(rules, str | os.PathLike):
        return _named(os.fspath(rules), keep_refuted)
    if isinstance(rules, Rule):
        return RuleSet(rules.name, (rules,), weights=False)
    if not isinstance(rules, Iterable):
        raise TypeError(f"rules must be names, files or rules, got {rules!r}")
    given: list[Rules] = list(rules)
    if all(isinstance(rule, Rule) for rule in given):
        return RuleSet("given", tuple(r for r in given if isinstance(r, Rule)), weights=False)
    return union([rules_of(part, keep_refuted=keep_refuted) for part in given])


def union(sets: Sequence[RuleSet]) -> RuleSet:
    """Return several sets as one; terms of weights alone are rewritten if all of the sets rewrite them.

    Raise ValueError if two of them give one name to different laws.
    """
    whole, *others = sets
    known = {rule.name: (rule, whole) for rule in whole}
    for other in others:
        for rule in other:
            first, place = known.setdefault(rule.name, (rule, other))
            if law_of(first) != law_of(rule):
                raise ValueError(
                    f"{rule.name!r} must be the same law in all rule sets, but those of {place.name} and "
                    f"{other.name} differ"
                )
        whole = whole + other
    return replace(whole, weights=all(one.weights for one in sets))


def published(rules: str) -> RuleSet:
    """Return all rules of a file as they are, including unsound ones, or a set of the library by name."""
    return load_rules(rules, strict=False) if Path(rules).is_file() else rule_set(rules)


def rules_for(graph: Graph, rules: RuleSet) -> tuple[RuleSet, tuple[str, ...]]:
    """Return the rules that may rewrite a graph, and the names of those left out.

    A graph that computes in float16 or bfloat16 is not rewritten by rules that may overflow or lose
    accuracy if the original does not. Any other graph is rewritten by all rules.
    """
    from workbench.certification.half_precision import short_dtype

    dtype = short_dtype(graph)
    return (rules, ()) if dtype is None else _in_range(rules, dtype)


def _in_range(rules: RuleSet, dtype: str) -> tuple[RuleSet, tuple[str, ...]]:
    """Return the rules that keep range and accuracy in a 16-bit type, and the names of the others."""
    known = rules.in_range
    kept = tuple(rule for rule in rules if rule.name in known or keeps_range(rule, dtype))
    names = {rule.name for rule in kept}
    return replace(rules, rules=kept), tuple(rule.name for rule in rules if rule.name not in names)


def keeps_range(rule: Rule, dtype: str) -> bool:
    """Return whether a rule keeps range and accuracy in a 16-bit type, by the record or by judging it now."""
    known = statuses().get(rule.name, {})
    if known.get("law") == law_of(rule) and dtype in known.get("ranges", {}):
        return bool(known["ranges"][dtype] == "kept")
    return _judged(rule, dtype, replacements())


@lru_cache(maxsize=4096)
def _judged(rule: Rule, dtype: str, replaced: int) -> bool:
    return offered("judge_range")(rule, dtype) is None


def _named(name: str, keep_refuted: bool) -> RuleSet:
    if not name.endswith(".rules") and Path(name).is_file():
        return replace(offered("sound_rules")(name).rules, name=name)
    found = replace(rule_set(name), name=name)
    if name.endswith(".rules"):
        found = offered("judged_rules")(found, keep_refuted=keep_refuted)
    return found
