"""Test rules numerically: both sides of a law on many small instances, in float64.

A test refutes or fails to refute; it proves nothing. Run as ``python -m workbench.rules.testing`` it
tests the whole library and writes the outcome beside it.
"""

from __future__ import annotations

import json
import random
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from workbench.ops import TypeMismatch
from workbench.rules.draws import (
    Instance,
    apply,
    draw_type,
    positive_variables,
    satisfies,
    target_attrs,
    value,
)
from workbench.rules.pattern import App, Rule, Term, Var, subterms
from workbench.rules.ruleset import law_of, library, load_rules

#: Relative to the largest entry; float64 rounding stays many orders below, a wrong law far above.
TOLERANCE = 1e-9
#: Fewer instances than this say nothing.
ENOUGH = 40


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """Hold the outcome of a test: ``tested``, ``refuted`` with a counterexample, or ``unknown``."""

    rule: Rule
    status: str
    draws: int
    tries: int
    worst: float
    counterexample: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = f": {self.counterexample}" if self.counterexample else ""
        return f"{self.rule.name} {self.status} ({self.draws} instances, error {self.worst:.1e}){shown}"


def check_rule(rule: Rule, draws: int = 200, seed: int = 0, tries: int = 0) -> RuleCheck:
    """Compare both sides of a rule on ``draws`` instances that type-check.

    Instances whose right-hand side does not type-check, or has another type, are what the compiled
    guard rejects; they do not count. ``tries`` bounds the attempts (default: 400 a draw).
    """
    rng = random.Random(seed * 1_000_003 + zlib.crc32(rule.name.encode()))
    limit = tries or 400 * draws
    done, worst = 0, 0.0
    for attempt in range(limit):
        if done >= draws:
            break
        instance = Instance(rng)
        try:
            pairs = _members(rule, instance) if rule.each else _sides(rule, instance)
        except TypeMismatch:
            continue
        if pairs is None:
            continue
        done += 1
        for left, right in pairs:
            error = _error(left, right)
            worst = max(worst, error)
            if error > TOLERANCE:
                evidence = instance.describe() | {"error": f"{error:.3g}"}
                return RuleCheck(rule, "refuted", done, attempt + 1, worst, evidence)
    return RuleCheck(rule, "tested" if done >= min(ENOUGH, draws) else "unknown", done, limit, worst)


def _error(left: np.ndarray, right: np.ndarray) -> float:
    if not np.array_equal(np.isfinite(left), np.isfinite(right)):
        return float("inf")
    finite = np.isfinite(left)
    if not finite.any():
        return 0.0
    scale = max(1.0, float(np.abs(left[finite]).max()))
    return float(np.abs(left[finite] - right[finite]).max()) / scale


def _fill(instance: Instance, rule: Rule) -> None:
    positive = positive_variables(rule)
    for name, kind in instance.types.items():
        if name in instance.values:
            continue
        generator = np.random.default_rng(instance.rng.getrandbits(32))
        data = generator.standard_normal(kind.shape)
        instance.values[name] = np.abs(data) + 0.1 if name in positive else data


def _sides(rule: Rule, instance: Instance) -> list[tuple[np.ndarray, np.ndarray]] | None:
    for source in rule.sources:
        draw_type(instance, source)
    if not all(satisfies(instance, c) for c in rule.conditions):
        return None
    _fill(instance, rule)
    pairs = []
    for source, target in zip(rule.sources, rule.targets, strict=True):
        left, right = value(instance, source), value(instance, target)
        if left.shape != right.shape:
            return None
        pairs.append((left, right))
    return pairs


def _members(rule: Rule, instance: Instance) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Instantiate an ``each`` rule with two to four members."""
    starred = {t.name for t in subterms(rule.sources[0]) if isinstance(t, Var) and t.starred}
    members: list[dict[str, np.ndarray]] = []
    lefts: list[np.ndarray] = []
    for _ in range(instance.rng.randint(2, 4)):
        for name in starred:
            instance.types.pop(name, None)
            instance.values.pop(name, None)
        draw_type(instance, rule.sources[0])
        if not all(satisfies(instance, c) for c in rule.conditions):
            return None
        _fill(instance, rule)
        members.append({name: instance.values[name] for name in starred})
        lefts.append(value(instance, rule.sources[0]))
    target = rule.targets[0]
    assert isinstance(target, App)
    axis: Any = target_attrs(instance, target)["axis"]
    whole = _merged(target.args[0], instance, members)
    if sum(left.shape[axis] for left in lefts) != whole.shape[axis]:
        return None
    pairs, start = [], 0
    for left in lefts:
        stop = start + left.shape[axis]
        part = apply(target, [whole], {"axis": axis, "start": start, "stop": stop})
        if part.shape != left.shape:
            return None
        pairs.append((left, part))
        start = stop
    return pairs


def _merged(term: Term, instance: Instance, members: list[dict[str, np.ndarray]]) -> np.ndarray:
    if isinstance(term, Var):
        return instance.values[term.name]
    operands: list[np.ndarray] = []
    for arg in term.args:
        if isinstance(arg, Var) and arg.starred:
            operands += [m[arg.name] for m in members]
        else:
            operands.append(_merged(arg, instance, members))
    return apply(term, operands, target_attrs(instance, term))


def check_library(draws: int = 200, seed: int = 0) -> dict[str, RuleCheck]:
    """Test every rule of the library; return the outcomes by rule name."""
    checks: dict[str, RuleCheck] = {}
    for file in sorted(library().glob("*.rules")):
        for rule in load_rules(file):
            checks[rule.name] = check_rule(rule, draws, seed)
    return checks


def write_status(checks: dict[str, RuleCheck], path: Path, draws: int, seed: int) -> None:
    """Write what is known of each rule; the file appears whole or not at all."""
    import platform

    record = {
        "method": f"numpy float64, {draws} instances a rule, relative tolerance {TOLERANCE:g}",
        "seed": seed,
        "versions": {"numpy": np.__version__, "python": platform.python_version()},
        "rules": {
            name: {"status": c.status, "draws": c.draws, "law": law_of(c.rule)}
            | ({"counterexample": c.counterexample} if c.counterexample else {})
            for name, c in checks.items()
        },
    }
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def main() -> None:
    """Test the library and write ``status.json`` beside it."""
    import sys

    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    checks = check_library(draws)
    for check in checks.values():
        if check.status != "tested":
            print(check)
    write_status(checks, library() / "status.json", draws, 0)
    tested = sum(c.status == "tested" for c in checks.values())
    print(f"{tested} of {len(checks)} rules tested and not refuted")


if __name__ == "__main__":
    main()
