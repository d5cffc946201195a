"""Rewrite rules: a text language, sets of rules, and the library.

The engine's process imports this package for the patterns alone, so other names are imported on first use.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.rules.language import RuleSyntaxError, parse_rule, parse_rules
    from workbench.rules.pattern import Rule, format_rule
    from workbench.rules.ruleset import RuleSet, load_rules, rule_set, rule_sets


__all__ = [
    "Rule",
    "RuleSet",
    "RuleSyntaxError",
    "format_rule",
    "load_rules",
    "parse_rule",
    "parse_rules",
    "rule_set",
    "rule_sets",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Rule": ".pattern",
        "RuleSet": ".ruleset",
        "RuleSyntaxError": ".language",
        "format_rule": ".pattern",
        "load_rules": ".ruleset",
        "parse_rule": ".language",
        "parse_rules": ".language",
        "rule_set": ".ruleset",
        "rule_sets": ".ruleset",
    },
)
