"""Judge the rules of a unit: in exact arithmetic on instances that tiles cut and fill, and by proof.

The definition of a blocked product is tested: a product equals its loop nest. All that follows from it and
the laws of the library is proved: the other orientation, the bias, the activation.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from workbench.kernels.accelerators.rules import law_of_any_unit, unit_rules
from workbench.kernels.accelerators.unit import FUSED, Unit, folder, unit
from workbench.laws.verification import Verification
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.half_precision import range_record
from workbench.laws.verification.proving import axioms
from workbench.laws.verification.verdict import Verdict
from workbench.rules import Rule, parse_rules
from workbench.support.files import write_atomic


def unit_axioms(chosen: Unit) -> tuple[Rule, ...]:
    """Return the axioms by which the rules of a unit are proved: the library's, and the definition of a tile.

    ``product`` itself is not proved by them: it is the definition, which is tested.
    """
    given = ", ".join(f"{name}={value}" for name, value in chosen.attrs.items())
    text = f"product-in-tiles: matmul[act=c](x, y) <=> blocked[{given}, act=c](x, y)\n"
    text += f"bias-in-tiles: add(blocked[{given}](x, y), z) <=> blocked[{given}](x, y, z)\n"
    for act in chosen.activations:
        text += f"{act}-in-tiles: {act}(blocked[{given}](x, y, z)) <=> blocked[{given}, act={act}](x, y, z)\n"
        text += f"{act}-in-tiles-bare: {act}(blocked[{given}](x, y)) <=> blocked[{given}, act={act}](x, y)\n"
    return (*axioms(), *parse_rules(text))


def verify_unit(chosen: Unit, *names: str, draws: int = 200, seed: int = 0) -> list[Verdict]:
    """Return the verdicts on the rules of a unit, or on those of the given names.

    The rules are judged for the same unit with tiles of 4 by 3: small instances are then cut into several
    tiles, the last of them filled. A law names no element type: instances are in float32. Upper limits
    on extents are left out: they keep sums inside the accumulator or spare work, and the laws hold without
    them.
    """
    small = replace(chosen, inner=4, columns=3, rows=2 if chosen.rows else 0)
    if not small.whole:
        small = replace(small, streamed="float32", stationary="float32", accumulator="float32")
    rules = [
        replace(rule, conditions=tuple(c for c in rule.conditions if c.relation != "<="))
        for rule in unit_rules(small)
        if not names or rule.name in names
    ]
    effort = Effort(draws=draws, chain=0)
    run = Verification(rules, axiom_set=unit_axioms(small), effort=effort, seed=seed, name=chosen.name)
    run.run()
    defined = [rule for rule in rules if rule.name == "product"]
    checked = Verification(defined, axiom_set=tuple(axioms()), effort=effort, seed=seed)
    checked.run()
    return [(checked if rule in defined else run)[rule.name] for rule in rules]


def write_verdicts() -> None:
    """Judge the laws of all units, and their range in halves, and write the records."""
    records: dict[str, dict[str, Any]] = {}
    # The laws of a unit depend on the operators that it fuses.
    variants: tuple[dict[str, Any], ...] = (
        {},
        {"bias": False},
        {"bias": False, "activations": ()},
        {"activations": ()},
        {"activations": FUSED},
    )
    for fused in variants:
        single, half = (replace(unit(name), **fused) for name in ("systolic64", "wmma16"))
        halves = unit_rules(half)
        new = [rule.name for rule in halves if law_of_any_unit(rule) not in records]
        for verdict in verify_unit(single, *new) if new else []:
            rule = halves[verdict.name]
            records[law_of_any_unit(rule)] = {
                "status": verdict.verdict,
                "draws": verdict.evidence.get("draws", 0),
                "float16": range_record(rule)["float16"],
            }
    text = json.dumps(dict(sorted(records.items())), indent=1) + "\n"
    write_atomic(folder() / "verdicts.json", text)


if __name__ == "__main__":
    write_verdicts()
