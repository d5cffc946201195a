"""Rewrite rules: a text language, sets of rules, and the library.

The engine's process imports this package for the patterns alone: the rest is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.rules.language import RuleSyntaxError, format_rule, parse_rule, parse_rules
    from workbench.rules.pattern import Rule
    from workbench.rules.ruleset import RuleSet, UnknownRuleSet, load_rules, rule_set, rule_sets

_HOMES = {
    "Rule": "pattern",
    "RuleSet": "ruleset",
    "RuleSyntaxError": "language",
    "UnknownRuleSet": "ruleset",
    "format_rule": "language",
    "load_rules": "ruleset",
    "parse_rule": "language",
    "parse_rules": "language",
    "rule_set": "ruleset",
    "rule_sets": "ruleset",
}

__all__ = [
    "Rule",
    "RuleSet",
    "RuleSyntaxError",
    "UnknownRuleSet",
    "format_rule",
    "load_rules",
    "parse_rule",
    "parse_rules",
    "rule_set",
    "rule_sets",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
