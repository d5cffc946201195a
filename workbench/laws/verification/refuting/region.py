"""Find the region in which a refuted rule holds: a condition that excludes every failed instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from workbench.laws.verification.instances.ground import Instance
from workbench.laws.verification.refuting.refute import Findings, search
from workbench.rules.interpret import holds
from workbench.rules.pattern import (
    Arith,
    AttrVar,
    Compare,
    DimOf,
    Literal,
    RankOf,
    Rule,
    Var,
    applications,
    format_condition,
    tensor_variables,
)

#: A condition counts only if at least this many instances passed under it.
ENOUGH: Final = 12


@dataclass(frozen=True, slots=True)
class Region:
    """A condition under which a rule was not refuted, and the rule with that condition as its guard."""

    conditions: tuple[Compare, ...]
    rule: Rule
    draws: int

    def __str__(self) -> str:
        return ", ".join(map(format_condition, self.conditions))


def find_region(
    rule: Rule, findings: Findings, *, broadcast: bool, draws: int = 60, seed: int = 0
) -> Region | None:
    """Return the widest of the tried conditions that excludes all failures, or None.

    Conditions on attributes come before those on extents, and single conditions before pairs. Ties are
    broken by the number of instances that passed. The rule with the condition is searched again for
    counterexamples, so that the region is tested as well as any rule.

    Args:
        rule: The refuted rule.
        findings: Its passed and failed instances.
        broadcast: Whether element-wise operands may broadcast.
        draws: Instances that the guarded rule must pass.
        seed: Seed of the random instances.
    """
    candidates = [
        (guard, rank, _under(guard, findings.passed))
        for guard, rank in dict(_guards(rule, findings.failed + findings.passed)).items()
    ]
    useful = [c for c in candidates if c[2] >= ENOUGH]
    excluding = [c for c in useful if not _under(c[0], findings.failed)]
    partial = [c for c in useful if 0 < _under(c[0], findings.failed) < len(findings.failed)]
    pairs = []
    for one, two in combinations(sorted(partial, key=lambda c: (c[1], -c[2]))[:30], 2):
        guard = tuple(dict.fromkeys(one[0] + two[0]))
        count = 0 if _under(guard, findings.failed) else _under(guard, findings.passed)
        if count >= ENOUGH:
            pairs.append((guard, one[1] + two[1] + 1, count))
    for guard, _, _ in sorted(excluding + pairs, key=lambda c: (c[1], -c[2]))[:4]:
        guarded = replace(rule, conditions=rule.conditions + guard)
        again = search(guarded, draws, seed=seed + 1, broadcast=broadcast)
        if again.counterexample is None and len(again.passed) >= draws:
            return Region(guard, guarded, len(again.passed))
    return None


def _under(guard: Sequence[Compare], instances: Sequence[Instance]) -> int:
    """Return how many instances meet a guard."""
    values = [(i.attrs.__getitem__, i.types.__getitem__) for i in instances]
    return sum(all(holds(c, *value) for c in guard) for value in values)


def _guards(rule: Rule, instances: Sequence[Instance]) -> Iterator[tuple[tuple[Compare, ...], int]]:
    """Yield conditions that may separate failing from passing instances, and a rank (0: most natural)."""
    if rule.each or not instances:
        return
    for name, value in instances[0].attrs.items():
        if isinstance(value, int | tuple) and not isinstance(value, bool):
            yield (Compare("=", AttrVar(name), Literal(1)),), 0
            yield (Compare("=", AttrVar(name), Literal(0)),), 2
    convs: list[tuple[str, str]] = []
    for term in applications(*rule.sources):
        groups = dict(term.attrs).get("groups")
        if term.op == "conv2d" and isinstance(term.args[1], Var) and isinstance(groups, AttrVar):
            convs.append((term.args[1].name, groups.name))
    for (w, g), (v, h) in combinations(convs, 2):  # equal output channels per group: O / G = P / H
        left = Arith("*", DimOf(w, -4), AttrVar(h))
        yield (Compare("=", left, Arith("*", DimOf(v, -4), AttrVar(g))),), 1
    variables = tensor_variables(*rule.sources)
    for one, two in combinations(variables, 2):
        extents = [Compare("=", DimOf(one, axis), DimOf(two, axis)) for axis in range(-1, -5, -1)]
        yield (Compare("=", RankOf(one), RankOf(two)), *extents), 2
        yield from (((extent,), 3) for extent in extents)
    for variable in variables:
        for axis in range(-1, -5, -1):
            yield (Compare("=", DimOf(variable, axis), Literal(1)),), 4
