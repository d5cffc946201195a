"""Sets of rules: the library's, a file's, or one's own."""

from __future__ import annotations

import difflib
import fnmatch
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.face import Face
from workbench.remembered import remembered
from workbench.rules.language import RuleSyntaxError, format_rule, parse_rules
from workbench.rules.pattern import Rule

if TYPE_CHECKING:
    import pandas as pd

#: Named sets made of the library's files.
SETS: Final[dict[str, tuple[str, ...]]] = {
    "default": ("elementwise", "matmul", "convolution", "fusion", "layout", "merge", "branches"),
    "pairwise": ("elementwise", "matmul", "convolution", "fusion", "layout", "pairs"),
    "tensat-like": ("elementwise", "matmul", "convolution", "fusion", "layout", "ac", "grouping", "pairs"),
    "all": (
        "elementwise",
        "matmul",
        "convolution",
        "fusion",
        "layout",
        "merge",
        "pairs",
        "ac",
        "grouping",
        "branches",
    ),
}

#: Rules of a set's files that it leaves out: others of its rules state the same law where it is of use.
LEFT_OUT: Final[dict[str, tuple[str, ...]]] = {
    "default": ("shift-shift", "conv-sums-both", "matmul-sums-both", "merge-groups"),
}


class UnknownRuleSet(LookupError):
    """Say which rule sets there are, and which is nearest to the one asked for."""


@dataclass(frozen=True, slots=True)
class RuleSet(Face):
    """Hold rules in order, by distinct names.

    ``verdicts`` names what is known of them beyond the record of the library: they were judged when they
    were read. ``weights`` says that they are to rewrite what depends on weights alone, too; without that
    weight-only terms are left as they are made, for they are computed once.
    """

    name: str
    rules: tuple[Rule, ...]
    verdicts: Mapping[str, str] = field(default_factory=dict, compare=False)
    weights: bool = True

    def __post_init__(self) -> None:
        names = [r.name for r in self.rules]
        double = {n for n in names if names.count(n) > 1}
        if double:
            raise ValueError(f"rule set {self.name}: {', '.join(sorted(double))} more than once")

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, name: str) -> Rule:
        for rule in self.rules:
            if rule.name == name:
                return rule
        near = difflib.get_close_matches(name, [r.name for r in self.rules], 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise KeyError(f"no rule is called {name!r} in {self.name}{hint}")

    def __add__(self, other: Iterable[Rule]) -> RuleSet:
        known = {r.name for r in self.rules}
        more = tuple(r for r in other if r.name not in known)
        name = f"{self.name}+{getattr(other, 'name', 'more')}"
        return RuleSet(
            name, self.rules + more, {**getattr(other, "verdicts", {}), **self.verdicts}, self.weights
        )

    def verdict(self, rule: Rule) -> str:
        """Return the verdict on a rule of this set, ``unknown`` where there is none."""
        return self.verdicts.get(rule.name) or verdict_of(rule)

    def select(self, *patterns: str) -> RuleSet:
        """Return the rules whose names match one of the patterns (``conv-*``)."""
        kept = tuple(r for r in self.rules if _matches(r.name, patterns))
        if not kept:
            raise LookupError(f"no rule of {self.name} matches {', '.join(patterns)}")
        return replace(self, name=f"{self.name}[{', '.join(patterns)}]", rules=kept)

    def without(self, *patterns: str) -> RuleSet:
        """Return the rules whose names match none of the patterns."""
        kept = tuple(r for r in self.rules if not _matches(r.name, patterns))
        return replace(self, name=f"{self.name} without {', '.join(patterns)}", rules=kept)

    @property
    def single(self) -> RuleSet:
        """Return the rules that rewrite one root."""
        kept = tuple(r for r in self.rules if not r.multi)
        return replace(self, name=f"{self.name}, single", rules=kept)

    @property
    def multi(self) -> RuleSet:
        """Return the rules that rewrite several roots at once."""
        kept = tuple(r for r in self.rules if r.multi)
        return replace(self, name=f"{self.name}, multi", rules=kept)

    def frame(self) -> pd.DataFrame:
        """Return one row per rule: name, law, kind, provenance, status and how that is known."""
        import pandas as pd

        known = statuses()
        rows = []
        for rule in self.rules:
            law = format_rule(rule).partition(": ")[2].partition("  @")[0]
            record = known.get(rule.name, {})
            rows.append(
                (
                    rule.name,
                    law,
                    "multi" if rule.multi else "single",
                    ", ".join(rule.provenance),
                    self.verdict(rule),
                    record.get("draws", 0),
                )
            )
        columns = ["name", "law", "kind", "provenance", "status", "draws"]
        return pd.DataFrame(rows, columns=columns)

    def view(self, run: Any = None, **known: Any) -> Any:
        """Return the rules as a browser, which says what each did in a ``run``: a result or a trace.

        ``known`` is what :func:`~workbench.activity.rule_table` takes besides: a verification, an ablation.
        Raise ImportError, with what to install, where widgets are not installed.
        """
        # By name, as every face: rules know nothing of runs.
        table = import_module("workbench.activity").rule_table(self, run, **known)
        return table.view()

    def __repr__(self) -> str:
        multi = len(self.multi) if any(r.multi for r in self.rules) else 0
        lines = [f"RuleSet {self.name!r}: {len(self.rules)} rules, {multi} multi-pattern"]
        for rule in self.rules[:8]:
            text = format_rule(rule).partition("  @")[0]
            lines.append("  " + (text if len(text) <= 100 else text[:97] + "…"))
        if len(self.rules) > 8:
            lines.append(f"  … {len(self.rules) - 8} more")
        return "\n".join(lines)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, p) for p in patterns)


def library() -> Path:
    """Return the folder of the rule library: in the repository, or inside an installed package."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_rules", package.parent / "rules"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError("the rule library (*.rules) is missing from this installation")


def load_rules(path: str | os.PathLike[str], *, strict: bool = True) -> RuleSet:
    """Read a file of rules: ours, TASO's substitutions, Tensat's rules or its verifier's equations.

    Which it is, its content says. Raise :class:`~workbench.rules.language.RuleSyntaxError` where it is
    wrong, and where a law of another system has no form in our language unless ``strict`` is off.
    """
    file = Path(path)
    data = file.read_bytes()
    form = recognise(data)
    if form == "taso":
        from workbench.rules.taso_file import load_taso

        return load_taso(file, strict=strict)
    if form in ("tensat", "equations"):
        from workbench.rules.tensat_file import load_equations, load_tensat

        return load_tensat(file, strict=strict) if form == "tensat" else load_equations(file, strict=strict)
    if not data.strip():
        raise RuleSyntaxError(f"{file.name}: the file is empty")
    return RuleSet(file.stem, tuple(parse_rules(data.decode("utf-8"), file.name)))


def recognise(data: bytes) -> str:
    """Say which form a file of rules has: ``rules``, ``taso``, ``tensat`` or ``equations``.

    >>> recognise(b"(relu ?x)=>?x")
    'tensat'
    """
    # Protobuf's tags and small numbers are control characters, which no text has.
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


def rule_sets() -> list[str]:
    """Return the names of the library's rule sets: the named ones, then one per file."""
    return [*SETS, *sorted(p.stem for p in library().glob("*.rules"))]


def rule_set(name: str) -> RuleSet:
    """Return a rule set of the library, or of a file where ``name`` ends in ``.rules``.

    Raise :class:`UnknownRuleSet` with the nearest name.

    >>> len(rule_set("merge").single)
    0
    """
    if name.endswith(".rules"):
        return load_rules(name)
    if name in SETS:
        files = [library() / f"{stem}.rules" for stem in SETS[name]]
        given = [f.read_bytes() for f in (*files, library() / "status.json") if f.is_file()]
        kept = remembered("rules", [name, *given], lambda: _named(name, files))
        return RuleSet(name, kept, weights=name != "default")
    file = library() / f"{name}.rules"
    if file.is_file():
        return load_rules(file)
    near = difflib.get_close_matches(name, rule_sets(), 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UnknownRuleSet(
        f"no rule set is called {name!r}{hint} There are: {', '.join(rule_sets())}; "
        "a path that ends in .rules is read as a file"
    )


def _named(name: str, files: Iterable[Path]) -> tuple[Rule, ...]:
    rules = [r for file in files for r in load_rules(file)]
    left_out = LEFT_OUT.get(name, ())
    return tuple(r for r in rules if r.name not in left_out and _trusted(r))


def statuses() -> dict[str, dict[str, Any]]:
    """Return what is known of the library's rules, by name: status, law, and the evidence in short."""
    file = library() / "status.json"
    return _read_statuses(file, file.stat().st_mtime_ns) if file.is_file() else {}


@lru_cache(maxsize=2)
def _read_statuses(file: Path, _: int) -> dict[str, dict[str, Any]]:
    record: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rules"]
    return record


def verdict_of(rule: Rule) -> str:
    """Return the verdict on a rule, by what is known of the library: ``unknown`` for any other rule."""
    known = statuses().get(rule.name)
    return str(known["status"]) if known is not None and known["law"] == law_of(rule) else "unknown"


def _trusted(rule: Rule) -> bool:
    # A rule is used by default only when tested (or proved) as it stands, and never refuted.
    return verdict_of(rule) in ("tested", "proved")


def law_of(rule: Rule) -> str:
    """Return a rule's law without name and provenance: what a status is about."""
    return format_rule(rule).partition(": ")[2].partition("  @")[0]
