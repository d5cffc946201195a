"""Read a file of rules in any known form, law by law; laws that cannot be rules are reported separately."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from workbench.rules.foreign.vocabulary import Rejected
from workbench.rules.language import RuleSyntaxError, law_lines, parse_rule, parse_rules
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import RuleSet


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a file of rules.

    ``form`` is ``rules``, ``taso``, ``tensat`` or ``equations``. ``indices`` are the rules' places in the
    file, from 0; a law read in both directions has one place. ``rejected`` are the laws that are not rules.
    """

    form: str
    name: str
    rules: tuple[Rule, ...]
    indices: tuple[int, ...]
    rejected: tuple[Rejected, ...]

    @property
    def foreign(self) -> bool:
        """Return whether the rules come from a system that broadcasts element-wise operands implicitly."""
        return self.form != "rules"

    def rule_set(self) -> RuleSet:
        """Return the rules as a set."""
        return RuleSet(self.name, self.rules)


def read_rules(path: str | os.PathLike[str]) -> Contents:
    """Read a file of rules; raise :class:`RuleSyntaxError` if the file as a whole is broken."""
    file = Path(path)
    data = file.read_bytes()
    form = _form(file, data)
    if form == "rules":
        return _ours(file, data)
    if form == "taso":
        from workbench.rules.foreign.taso_file import read_taso as read
    elif form == "tensat":
        from workbench.rules.foreign.tensat_file import read_tensat as read
    else:
        from workbench.rules.foreign.tensat_file import read_equations as read
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
            reason = f"{place}: rule names must be unique, got a second {double[0]}"
            rejected.append(Rejected(index, label, reason))
            continue
        names.update(r.name for r in found)
        rules += found
        indices += [index] * len(found)
    if not rules and not rejected:
        raise RuleSyntaxError(f"{file.name}: the file must have at least one rule, got none")
    return Contents("rules", file.stem, tuple(rules), tuple(indices), tuple(rejected))


def load_rules(path: str | os.PathLike[str], *, strict: bool = True) -> RuleSet:
    """Read a file of rules: the project's own form, TASO's substitutions, or Tensat's rules or equations.

    The contents of the file determine the form. Raise :class:`~workbench.rules.language.RuleSyntaxError` if
    the file is broken, or if ``strict`` and a law of another system has no form in the rule language;
    otherwise such a law is left out.
    """
    file = Path(path)
    data = file.read_bytes()
    form = _form(file, data)
    if form == "taso":
        from workbench.rules.foreign.taso_file import load_taso

        return load_taso(file, strict=strict)
    if form in ("tensat", "equations"):
        from workbench.rules.foreign.tensat_file import load_equations, load_tensat

        return load_tensat(file, strict=strict) if form == "tensat" else load_equations(file, strict=strict)
    if not data.strip():
        raise RuleSyntaxError(f"{file.name}: the file is empty")
    return RuleSet(file.stem, tuple(parse_rules(data.decode("utf-8"), file.name)))


def _form(file: Path, data: bytes) -> str:
    """Return the form of a file; raise RuleSyntaxError if it has the extension of text but is not UTF-8."""
    if file.suffix == ".rules":
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise RuleSyntaxError(
                f"{file.name}, line {line}: rules must be UTF-8 text, got byte 0x{data[error.start]:02x}"
            ) from None
    return recognise(data)


def recognise(data: bytes) -> str:
    """Return the form of a file of rules: ``rules``, ``taso``, ``tensat`` or ``equations``.

    >>> recognise(b"(relu ?x)=>?x")
    'tensat'
    """
    # Protobuf's tags and small numbers are control characters, which do not occur in text.
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "taso"
    if re.search(r"[\x00-\x08\x0e-\x1f]", text):
        return "taso"
    law = next((line for line in text.splitlines() if line.split("#", 1)[0].strip()), "").strip()
    if re.match(r"[A-Za-z0-9_-]+\s*:", law):
        return "rules"
    if re.match(r"[(?]", law):
        return "tensat"
    return "equations" if re.match(r"\w+(\(.*\))?==", law) else "rules"
