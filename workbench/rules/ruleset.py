"""Sets of rules: those of the library, of a file, or of a program."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from workbench.rules.language import RuleSyntaxError, laws
from workbench.rules.pattern import Rule, format_rule
from workbench.rules.verdicts import THEOREM, TRUSTED, law_of, library, proof_files, statuses, verdict_of
from workbench.run.display import Face
from workbench.support.disk_cache import remembered
from workbench.support.messages import UnknownName, nearest
from workbench.support.wings import offered

if TYPE_CHECKING:
    import pandas as pd
    from anywidget import AnyWidget


@dataclass(frozen=True, slots=True)
class RuleSet(Face):
    """Rules in order, with distinct names.

    ``verdicts`` are verdicts by rule name that supplement the library's record, for rules that were judged
    when they were read. If ``weights``, the rules also rewrite terms that depend on weights alone; otherwise
    such terms stay as they are, because they are computed only once. ``in_range`` names rules that are known
    to keep range and accuracy in the 16-bit floats of the models that they match.
    """

    name: str
    rules: tuple[Rule, ...]
    verdicts: Mapping[str, str] = field(default_factory=dict, compare=False)
    weights: bool = True
    in_range: frozenset[str] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        names = [r.name for r in self.rules]
        double = {n for n in names if names.count(n) > 1}
        if double:
            raise ValueError(
                f"rule names in {self.name} must be unique, got several {', '.join(sorted(double))}"
            )

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, name: str | int) -> Rule:
        if isinstance(name, int):
            return self.rules[name]
        for rule in self.rules:
            if rule.name == name:
                return rule
        hint = nearest(name, [r.name for r in self.rules])
        raise KeyError(f"no rule is called {name!r} in {self.name}{hint}")

    def __add__(self, other: Iterable[Rule]) -> RuleSet:
        known = {r.name for r in self.rules}
        more = tuple(r for r in other if r.name not in known)
        if not isinstance(other, RuleSet):
            return replace(self, name=f"{self.name}+more", rules=self.rules + more)
        return replace(
            self,
            name=f"{self.name}+{other.name}",
            rules=self.rules + more,
            verdicts={**other.verdicts, **self.verdicts},
            in_range=self.in_range | other.in_range,
        )

    def verdict(self, rule: Rule) -> str:
        """Return the verdict on a rule of this set, or ``unknown``."""
        recorded, outcome = verdict_of(rule), self.verdicts.get(rule.name)
        return recorded if recorded == THEOREM or outcome is None else outcome

    def select(self, *patterns: str) -> RuleSet:
        """Return the rules whose names match one of the patterns (``conv-*``)."""
        kept = tuple(r for r in self.rules if _matches(r.name, patterns))
        if not kept:
            raise LookupError(f"a pattern must match a rule of {self.name}, got {', '.join(patterns)}")
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
        """Return one row per rule: name, law, kind, provenance, status, and the number of instances."""
        import pandas as pd

        known = statuses()
        columns: dict[str, list[object]] = {
            "name": [r.name for r in self.rules],
            "law": [law_of(r) for r in self.rules],
            "kind": ["multi" if r.multi else "single" for r in self.rules],
            "provenance": [", ".join(r.provenance) for r in self.rules],
            "status": [self.verdict(r) for r in self.rules],
            "draws": [known.get(r.name, {}).get("draws", 0) for r in self.rules],
        }
        return pd.DataFrame(columns)

    def view(self, run: object = None, **known: Any) -> AnyWidget:
        """Return the rules as a browser, which shows the work of each rule in a ``run`` (a result or trace).

        ``known`` are the other arguments of :func:`~workbench.studies.rule_table`: a verification, an ablation.
        Raise ImportError, which names the packages to install, if widgets are not available.
        """
        return offered("rule_table")(self, run, **known).view()

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


# -- files -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Rejected:
    """A law of a file that has no form in the rule language, or that is ``broken``, with the reason."""

    index: int
    name: str
    reason: str
    broken: bool = False


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


def read_rules(path: str | os.PathLike[str]) -> Contents:
    """Read a file of rules law by law; raise :class:`RuleSyntaxError` if the file as a whole is broken."""
    file = Path(path)
    found = _contents(file)
    if not found.rules and not found.rejected:
        raise RuleSyntaxError(f"{file.name}: the file must have at least one rule, got none")
    return found


def _contents(file: Path) -> Contents:
    data = file.read_bytes()
    if file.suffix == ".rules":
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise RuleSyntaxError(
                f"{file.name}, line {line}: rules must be UTF-8 text, got byte 0x{data[error.start]:02x}"
            ) from None
    form = recognise(data)
    if form != "rules":
        known, rejected = offered(f"{form}_rules")(file)
        gone = {r.index for r in rejected}
        places = [i for i in range(len(known) + len(rejected)) if i not in gone]
        return Contents(form, file.stem, tuple(known), tuple(places), tuple(rejected))
    if not data.strip():
        raise RuleSyntaxError(f"{file.name}: the file is empty")
    rules: list[Rule] = []
    indices: list[int] = []
    rejected = []
    for index, (label, found) in enumerate(laws(data.decode("utf-8"), file.name)):
        if isinstance(found, RuleSyntaxError):
            rejected.append(Rejected(index, label, str(found), broken=True))
        else:
            rules += found
            indices += [index] * len(found)
    return Contents(form, file.stem, tuple(rules), tuple(indices), tuple(rejected))


def load_rules(path: str | os.PathLike[str], *, strict: bool = True) -> RuleSet:
    """Read a file of rules: the project's own form, TASO's substitutions, or Tensat's rules or equations.

    The contents of the file determine the form. Raise :class:`~workbench.rules.language.RuleSyntaxError` if
    a law is broken, or if ``strict`` and a law of another system has no form in the rule language;
    otherwise such a law is left out.
    """
    file = Path(path)
    found = _contents(file)
    if broken := [law.reason for law in found.rejected if law.broken]:
        raise RuleSyntaxError(broken[0])
    if strict and (left_out := found.rejected):
        raise RuleSyntaxError(
            f"{file.name}: {len(left_out)} of {len(found.rules) + len(left_out)} laws have no form in the pattern "
            f"language; {left_out[0].name}: {left_out[0].reason} (try strict=False to leave them out)"
        )
    return RuleSet(file.stem, found.rules)


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


# -- the library -----------------------------------------------------------------------------------
_FIRST = (
    "elementwise", "constants", "matmul", "convolution", "fusion", "layout", "transposes", "reductions",
    "recognition", "lookups", "conversions", "quantised", "merge",
)  # fmt: skip
_LAST = ("branches", "movement", "attention")

#: Named sets, with the library's files of which they consist.
SETS: Final[dict[str, tuple[str, ...]]] = {
    "default": (*_FIRST, *_LAST),
    "pairwise": ("elementwise", "matmul", "convolution", "fusion", "layout", "pairs"),
    "tensat-like": ("elementwise", "matmul", "convolution", "fusion", "layout", "ac", "grouping", "pairs"),
    "all": (*_FIRST, "pairs", "ac", "grouping", *_LAST),
}

#: Rules that a set leaves out although its files contain them: its other rules state the same law in a form
#: that is more useful.
LEFT_OUT: Final[dict[str, tuple[str, ...]]] = {
    "default": ("shift-shift", "conv-sums-both", "matmul-sums-both", "merge-groups"),
}


def rule_sets() -> list[str]:
    """Return the names of the library's rule sets: the named sets, then one set per file."""
    return [*SETS, *sorted(p.stem for p in library().glob("*.rules"))]


def rule_set(name: str) -> RuleSet:
    """Return a rule set of the library, or of a file if ``name`` ends in ``.rules``.

    Raise :class:`~workbench.support.messages.UnknownName`, which suggests the nearest name, if there is no such
    set.

    >>> len(rule_set("merge").single)
    0
    """
    if name.endswith(".rules"):
        return load_rules(name)
    if name in SETS:
        files = [library() / f"{stem}.rules" for stem in SETS[name]]
        given = [f.read_bytes() for f in (*files, library() / "status.json", *proof_files()) if f.is_file()]
        kept = remembered("rules", [name, *given], lambda: _named(name, files))
        return RuleSet(name, kept, weights=name != "default")
    file = library() / f"{name}.rules"
    if file.is_file():
        return load_rules(file)
    raise UnknownName("rule set", name, rule_sets(), also="; a path that ends in .rules is read as a file")


def _named(name: str, files: Iterable[Path]) -> tuple[Rule, ...]:
    rules = (r for file in files for r in load_rules(file) if r.name not in LEFT_OUT.get(name, ()))
    # Its present law was tested or is a theorem, and was never refuted.
    return tuple(r for r in rules if verdict_of(r) in TRUSTED)


# -- what a user asks for ---------------------------------------------------------------------------
#: The name of a rule set, the path of a file, a set, a rule, or several of them.
Rules: TypeAlias = "str | os.PathLike[str] | RuleSet | Rule | Sequence[Rules]"


def rules_of(rules: Rules, *, keep_refuted: bool = False) -> RuleSet:
    """Return rules as a set: by name, from a file, given, or the union of several.

    The rules of a ``.rules`` file are judged before they are used; with ``keep_refuted`` refuted ones are used
    nevertheless, with a warning. Of another system's file the sound rules are used.

    Raises:
        UnknownName: (a LookupError) if there is no set of a name.
        RefutedRules: (a ValueError) if a ``.rules`` file has refuted rules.
        ValueError: If two of the sets give one name to different laws.
    """
    if isinstance(rules, RuleSet):
        return rules
    if isinstance(rules, str | os.PathLike):
        name = os.fspath(rules)
        if name.endswith(".rules"):
            return offered("judged_rules")(replace(rule_set(name), name=name), keep_refuted=keep_refuted)
        return replace(offered("sound_set")(name) if Path(name).is_file() else rule_set(name), name=name)
    if isinstance(rules, Rule):
        return RuleSet(rules.name, (rules,), weights=False)
    if not isinstance(rules, Iterable):
        raise TypeError(f"rules must be names, files or rules, got {rules!r}")
    given: list[Rules] = list(rules)
    own = tuple(r for r in given if isinstance(r, Rule))
    if len(own) == len(given):
        return RuleSet("given", own, weights=False)
    return union([rules_of(part, keep_refuted=keep_refuted) for part in given])


def union(sets: Sequence[RuleSet]) -> RuleSet:
    """Return several sets as one; terms of weights alone are rewritten if all of the sets rewrite them.

    Raise ValueError if two of them give one name to different laws.
    """
    whole, *others = sets
    known = {rule.name: (rule, whole) for rule in whole}
    for other in others:
        for rule in other:
            first, place = known.setdefault(rule.name, (rule, other))
            if law_of(first) != law_of(rule):
                raise ValueError(
                    f"{rule.name!r} must be the same law in all rule sets, but those of {place.name} and "
                    f"{other.name} differ"
                )
        whole = whole + other
    return replace(whole, weights=all(one.weights for one in sets))


def published(rules: str) -> RuleSet:
    """Return all rules of a file as they are, including unsound ones, or a set of the library by name."""
    return load_rules(rules, strict=False) if Path(rules).is_file() else rule_set(rules)
