"""Sets of rules: those of the library, of a file, or of a program."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.rules.pattern import Rule, format_rule
from workbench.rules.verdicts import THEOREM, as_verdict, statuses, verdict_of
from workbench.run.display import Face
from workbench.support.messages import nearest

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

    def __getitem__(self, name: str) -> Rule:
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
        return recorded if recorded == THEOREM or outcome is None else as_verdict(outcome)

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

    def view(self, run: object = None, **known: Any) -> AnyWidget:
        """Return the rules as a browser, which shows the work of each rule in a ``run`` (a result or trace).

        ``known`` are the other arguments of :func:`~workbench.studies.rule_table`: a verification, an ablation.
        Raise ImportError, which names the packages to install, if widgets are not available.
        """
        # Imported by name, like every view, because rules must not depend on runs.
        table = import_module("workbench.studies.analysis.rule_activity").rule_table(self, run, **known)
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
