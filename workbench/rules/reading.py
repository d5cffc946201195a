"""Read a file of rules whatever its form, law by law: what cannot be a rule is said beside the rest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from workbench.rules.foreign import Rejected
from workbench.rules.language import RuleSyntaxError, parse_rule
from workbench.rules.lines import law_lines
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import RuleSet, recognise


@dataclass(frozen=True, slots=True)
class Contents:
    """Hold what a file of rules holds.

    ``form`` is ``rules``, ``taso``, ``tensat`` or ``equations``; ``indices`` are the rules' places in
    the file, from 0 (a law read both ways has one place); ``rejected`` are the laws that are no rules.
    """

    form: str
    name: str
    rules: tuple[Rule, ...]
    indices: tuple[int, ...]
    rejected: tuple[Rejected, ...]

    @property
    def foreign(self) -> bool:
        """Say whether the rules come from a system in which element-wise operands broadcast unseen."""
        return self.form != "rules"

    def rule_set(self) -> RuleSet:
        """Return the rules as a set."""
        return RuleSet(self.name, self.rules)


def read_rules(path: str | os.PathLike[str]) -> Contents:
    """Read a file of rules; raise :class:`RuleSyntaxError` where the file as a whole is broken."""
    file = Path(path)
    data = file.read_bytes()
    form = recognise(data)
    if form == "rules":
        return _ours(file, data)
    if form == "taso":
        from workbench.rules.taso_file import read_taso as read
    elif form == "tensat":
        from workbench.rules.tensat_file import read_tensat as read
    else:
        from workbench.rules.tensat_file import read_equations as read
    rules, rejected = read(file, tolerant=True)
    gone = {r.index for r in rejected}
    places = [i for i in range(len(rules) + len(rejected)) if i not in gone]
    return Contents(form, file.stem, tuple(rules), tuple(places), tuple(rejected))


def _ours(file: Path, data: bytes) -> Contents:
    if not data.strip():
        raise RuleSyntaxError(f"{file.name}: the file is empty")
    rules: list[Rule] = []
    indices: list[int] = []
    rejected: list[Rejected] = []
    names: set[str] = set()
    for index, (number, line) in enumerate(law_lines(data.decode("utf-8"))):
        label = line.partition(":")[0].strip()
        try:
            found = parse_rule(line, file=file.name, line=number)
        except RuleSyntaxError as error:
            rejected.append(Rejected(index, label, str(error)))
            continue
        double = [r.name for r in found if r.name in names]
        if double:
            place = f"{file.name}, line {number}"
            rejected.append(Rejected(index, label, f"{place}: a second rule is called {double[0]}"))
            continue
        names.update(r.name for r in found)
        rules += found
        indices += [index] * len(found)
    if not rules and not rejected:
        raise RuleSyntaxError(f"{file.name}: there is no rule in it")
    return Contents("rules", file.stem, tuple(rules), tuple(indices), tuple(rejected))
