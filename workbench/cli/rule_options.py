"""Which rules the command line asks for: several sets and files together, checked before anything runs."""

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
        help="Rule set, a file.rules, or a file of TASO's or Tensat's; repeatable, all are used.",
    ),
]


def chosen_rules(texts: list[str], *, published: bool = False) -> str | RuleSet:
    """Return the rules that the texts name, together; a single name stays a name.

    With ``published`` another system's rules are taken as they are, unsound ones too. Raise
    FileNotFoundError where a file is missing, and ValueError where two sets call different laws the same.
    """
    for text in texts:
        _check(text)
    if len(texts) == 1 and not published:
        return texts[0]
    from workbench.rules import load_rules, rule_set
    from workbench.rules.ruleset import law_of
    from workbench.stages import rules_of

    whole: RuleSet | None = None
    for text in texts:
        if published:
            found = load_rules(text, strict=False) if Path(text).is_file() else rule_set(text)
        else:
            found = rules_of(text)
        for rule in found if whole is not None else ():
            known = {r.name: r for r in whole.rules} if whole is not None else {}
            if rule.name in known and law_of(known[rule.name]) != law_of(rule):
                raise ValueError(f"--rules: {rule.name!r} of {text} is another law in the sets before it")
        whole = found if whole is None else whole + found
    assert whole is not None
    return whole


def _check(text: str) -> None:
    """Raise FileNotFoundError where a text is the path of a file that is not there."""
    if Path(text).is_file() or not (text.endswith(".rules") or os.sep in text):
        return
    several = [part.strip() for part in text.split(",")]
    hint = f" (repeat the option: {' '.join(f'--rules {part}' for part in several)})" if several[1:] else ""
    raise FileNotFoundError(f"there is no rules file {text}{hint}")
