"""The library's rule sets, by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from workbench.rules.foreign.reading import load_rules
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import RuleSet
from workbench.rules.verdicts import TRUSTED, library, proof_files, verdict_of
from workbench.support.disk_cache import remembered
from workbench.support.messages import unknown

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


class UnknownRuleSet(LookupError):
    """Raised for an unknown rule set; the message lists the known ones and suggests the nearest."""


def rule_sets() -> list[str]:
    """Return the names of the library's rule sets: the named sets, then one set per file."""
    return [*SETS, *sorted(p.stem for p in library().glob("*.rules"))]


def rule_set(name: str) -> RuleSet:
    """Return a rule set of the library, or of a file if ``name`` ends in ``.rules``.

    Raise :class:`UnknownRuleSet`, which suggests the nearest name, if there is no such set.

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
    raise UnknownRuleSet(
        f"{unknown('rule set', name, rule_sets())}; a path that ends in .rules is read as a file"
    )


def _named(name: str, files: Iterable[Path]) -> tuple[Rule, ...]:
    rules = [r for file in files for r in load_rules(file)]
    left_out = LEFT_OUT.get(name, ())
    # Its present law was tested or is a theorem, and was never refuted.
    return tuple(r for r in rules if r.name not in left_out and verdict_of(r) in TRUSTED)
