"""Laws of the library that matter for a grammar: those whose operators are all in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from workbench.laws.synthesis.grammar import Grammar
from workbench.rules.pattern import Rule, operators_of


def known_to(grammar: Grammar, rules: Iterable[Rule], without: Collection[str] = ()) -> list[Rule]:
    r"""Return the rules whose operators are all in a grammar, in any phase.

    Args:
        grammar: The grammar.
        rules: The rules.
        without: Names of rule files, without their suffix, whose rules are left out.

    >>> from workbench.rules import parse_rules
    >>> rules = parse_rules("twice: relu(relu(x)) => relu(x)\ncommutes: add(x, y) => add(y, x)")
    >>> [r.name for r in known_to(Grammar.of("relu", "matrix: 1"), rules)]
    ['twice']
    """
    operators = {form.op for form in grammar.forms}
    return [
        replace(r, phase="any")
        for r in rules
        if operators_of(r) <= operators and Path(r.file).stem not in without
    ]
