"""The recorded verdicts on the rules of units: those of the laws, which hold for all numbers of a unit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from workbench.kernels.accelerators.reading import folder
from workbench.kernels.accelerators.unit import Unit
from workbench.rules import Rule
from workbench.rules.verdicts import law_of

_TILES: Final = re.compile(r"blocked\[[^\]]*?(?:, act=(\w+))?\]")


def law_of_any_unit(rule: Rule) -> str:
    """Return the law of a rule without the numbers and element types of a unit.

    Upper limits on extents are left out: the law holds without them.
    """
    law = _TILES.sub(lambda found: f"blocked[act={found[1] or 'none'}]", law_of(rule))
    head, where, conditions = law.partition(" where ")
    kept = [c for c in _split(conditions) if not re.fullmatch(r".* <= \d+", c)]
    return f"{head}{where}{', '.join(kept)}" if kept else head


def _split(conditions: str) -> list[str]:
    """Return conditions one by one; commas inside parentheses do not separate them."""
    found, depth, start = [], 0, 0
    for at, sign in enumerate(conditions):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and not depth:
            found.append(conditions[start:at].strip())
            start = at + 1
    return [*found, conditions[start:].strip()] if conditions else []


@lru_cache(maxsize=1)
def _records() -> dict[str, dict[str, Any]]:
    file = folder() / "verdicts.json"
    if not file.is_file():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def recorded(rule: Rule) -> Mapping[str, Any]:
    """Return the record of a unit's rule: its status and its range in float16; empty if there is none."""
    return _records().get(law_of_any_unit(rule), {})


def verdicts_of(rules: Sequence[Rule]) -> dict[str, str]:
    """Return the recorded verdicts on rules by name."""
    found = {rule.name: recorded(rule).get("status") for rule in rules}
    return {name: str(status) for name, status in found.items() if status}


def in_range(unit: Unit, rules: Sequence[Rule]) -> frozenset[str]:
    """Return the names of the rules that are known to keep range and accuracy of a unit's 16-bit floats.

    They were judged for sums in float32 of products of float16.
    """
    if (unit.streamed, unit.stationary, unit.accumulator) != ("float16", "float16", "float32"):
        return frozenset()
    return frozenset(rule.name for rule in rules if recorded(rule).get("float16") == "kept")
