"""Rewrite rules: a text language, sets of rules, and the library."""

from workbench.rules.language import RuleSyntaxError, format_rule, parse_rule, parse_rules
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import RuleSet, UnknownRuleSet, load_rules, rule_set, rule_sets

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
