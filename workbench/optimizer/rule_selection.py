"""The rules that may rewrite a graph in the arithmetic that it has."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from workbench.graph import Graph
from workbench.ops.registry import replacements
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule
from workbench.rules.verdicts import law_of, statuses
from workbench.support.wings import offered


def rules_for(graph: Graph, rules: RuleSet) -> tuple[RuleSet, tuple[str, ...]]:
    """Return the rules that may rewrite a graph, and the names of those left out.

    A graph that computes in float16 or bfloat16 is not rewritten by rules that may overflow or lose
    accuracy if the original does not. Any other graph is rewritten by all rules.
    """
    from workbench.certification.half_precision import short_dtype

    dtype = short_dtype(graph)
    if dtype is None:
        return rules, ()
    kept = tuple(rule for rule in rules if rule.name in rules.in_range or keeps_range(rule, dtype))
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
