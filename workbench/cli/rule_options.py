"""The option ``--rules``: several rule sets and files together, checked before anything runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from workbench.rules import RuleSet

RulesOption = Annotated[
    list[str],
    typer.Option(
        "--rules",
        metavar="NAME",
        help="Rule set, a file.rules, or a TASO or Tensat file; repeatable, all are used.",
    ),
]


def chosen_rules(texts: list[str], *, published: bool = False) -> str | RuleSet:
    """Return the union of the rule sets that the texts name; a single name is returned unchanged.

    With ``published`` all rules of another system are used, including unsound ones. Raise
    FileNotFoundError if a file is missing, and ValueError if two sets give one name to different laws.
    """
    for text in texts:
        _check(text)
    if len(texts) == 1 and not published:
        return texts[0]
    from workbench.optimizer.stages import rules_of
    from workbench.rules import load_rules, rule_set
    from workbench.rules.status import law_of

    whole: RuleSet | None = None
    for text in texts:
        if published:
            found = load_rules(text, strict=False) if Path(text).is_file() else rule_set(text)
        else:
            found = rules_of(text)
        for rule in found if whole is not None else ():
            known = {r.name: r for r in whole.rules} if whole is not None else {}
            if rule.name in known and law_of(known[rule.name]) != law_of(rule):
                raise ValueError(
                    f"--rules: {rule.name!r} must be the same law in all rule sets, "
                    f"but {text} and a set before it differ"
                )
        whole = found if whole is None else whole + found
    assert whole is not None
    return whole


def _check(text: str) -> None:
    """Raise FileNotFoundError if a text is the path of a missing file."""
    if Path(text).is_file() or not (text.endswith(".rules") or os.sep in text):
        return
    several = [part.strip() for part in text.split(",")]
    hint = f" (repeat the option: {' '.join(f'--rules {part}' for part in several)})" if several[1:] else ""
    raise FileNotFoundError(f"there is no rules file {text}{hint}")
