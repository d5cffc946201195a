"""Prove the library's rules for all types and store the proofs: ``python -m workbench.theorems.library``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from workbench.rules.foreign.reading import read_rules
from workbench.rules.pattern import Rule
from workbench.rules.status import law_of, library
from workbench.theorems.check import Rejected, check
from workbench.theorems.prove import attempt
from workbench.theorems.records import REASONS, read_proofs, without_proof, write_proofs


def prove_all(stems: Sequence[str], seconds: float, *, new: bool) -> Iterator[tuple[str, str]]:
    """Prove the rules of files and store what is found; yield each rule's name and its result.

    Args:
        stems: The names of the files.
        seconds: The limit on the time for a rule.
        new: Whether rules that have a stored proof are left as they are.
    """
    for stem in stems:
        known = read_proofs()
        records = []
        for rule in rules_of(stem):
            old = known.get(rule.name)
            if new and old is not None and old["law"] == law_of(rule) and "cases" in old:
                records.append(old)
                continue
            record, result = judged(rule, seconds)
            records.append(record)
            yield rule.name, result
        write_proofs(stem, records)


def rules_of(stem: str) -> list[Rule]:
    """Return the rules of one file of the library."""
    return list(read_rules(library() / f"{stem}.rules").rules)


def judged(rule: Rule, seconds: float) -> tuple[dict[str, Any], str]:
    """Return the record of a rule, and its result in words; a proof that the checker rejects is none."""
    found = attempt(rule, seconds)
    why, detail = found.why, found.detail
    if found.proof is not None:
        stored = json.loads(json.dumps(found.proof))
        try:
            check(rule, stored)
        except Rejected as error:
            why, detail = "rejected", str(error)
        else:
            return {"rule": rule.name, "law": law_of(rule)} | stored, f"theorem in {found.seconds:.1f} s"
    return without_proof(rule, why, detail), f"{REASONS[why]}: {detail}"


def main() -> None:
    """Prove the library's rules."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("files", nargs="*", help="names of files of rules, all by default")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit on the time for a rule")
    parser.add_argument("--new", action="store_true", help="only rules without a stored proof")
    given = parser.parse_args()
    stems = given.files or sorted(p.stem for p in library().glob("*.rules"))
    for name, result in prove_all(stems, given.seconds, new=given.new):
        print(f"{name}: {result}", flush=True)


if __name__ == "__main__":
    main()
