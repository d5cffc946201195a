"""The option ``--rules``: several rule sets and files together, checked before anything runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from workbench.optimizer.rule_selection import Rules
    from workbench.rules import RuleSet

RulesOption = Annotated[
    list[str],
    typer.Option(
        "--rules",
        metavar="NAME",
        help="Rule set, a file.rules, or a TASO or Tensat file; repeatable, all are used.",
    ),
]


KeepOption = Annotated[
    bool, typer.Option("--keep-refuted", help="Apply refuted rules of a file.rules too, with a warning.")
]


CompositesOption = Annotated[
    list[Path],
    typer.Option(
        "--composites",
        metavar="FILE",
        help="Composites whose laws and kernels take part; repeatable.",
        exists=True,
        dir_okay=False,
    ),
]


def chosen_rules(texts: list[str], *, as_published: bool = False) -> str | list[str] | RuleSet:
    """Return the rules that the texts name for :func:`workbench.optimize`: one name, several, or a set.

    With ``as_published`` all rules of another system are used, including unsound ones. Raise
    FileNotFoundError if a file is missing, and ValueError if two sets then give one name to different laws.
    """
    for text in texts:
        _check(text)
    if as_published:
        from workbench.optimizer.rule_selection import published, union

        return union([published(text) for text in texts])
    return texts[0] if len(texts) == 1 else texts


def _check(text: str) -> None:
    """Raise FileNotFoundError if a text is the path of a missing file."""
    if Path(text).is_file() or not (text.endswith(".rules") or os.sep in text):
        return
    several = [part.strip() for part in text.split(",")]
    hint = f" (repeat the option: {' '.join(f'--rules {part}' for part in several)})" if several[1:] else ""
    raise FileNotFoundError(f"there is no rules file {text}{hint}")


def with_composites(rules: str | list[str] | RuleSet, files: Sequence[Path]) -> Rules:
    """Return rules with the laws of the composites of files, which become operators.

    Raise NotationError or RefutedRules (both ValueErrors) if a file cannot be read or a law is wrong.
    """
    if not files:
        return rules
    from workbench.kernels.composites.declared import declared_rules

    given: list[str | RuleSet] = [*rules] if isinstance(rules, list) else [rules]
    return [*given, *map(declared_rules, files)]
