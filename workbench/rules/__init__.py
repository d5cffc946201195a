"""Rewrite rules: a text language, sets of rules, and the library.

The engine's process imports this package for the patterns alone, so other names are imported on first use.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.rules.language import RuleSyntaxError as RuleSyntaxError
    from workbench.rules.language import parse_rule as parse_rule
    from workbench.rules.language import parse_rules as parse_rules
    from workbench.rules.pattern import Rule as Rule
    from workbench.rules.pattern import format_rule as format_rule
    from workbench.rules.ruleset import RuleSet as RuleSet
    from workbench.rules.ruleset import load_rules as load_rules
    from workbench.rules.ruleset import read_rules as read_rules
    from workbench.rules.ruleset import rule_set as rule_set
    from workbench.rules.ruleset import rule_sets as rule_sets
    from workbench.rules.verdicts import proof_record as proof_record

__getattr__, __all__ = door(
    __name__,
    {
        "language": "RuleSyntaxError parse_rule parse_rules",
        "pattern": "Rule format_rule",
        "ruleset": "RuleSet load_rules read_rules rule_set rule_sets",
        "verdicts": "proof_record",
    },
)
