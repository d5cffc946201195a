"""The library's folder, and the one verdict on each of its rules.

A verdict has two sources: ``status.json`` has the outcome of the tests of every rule, and ``proofs/`` a checked proof
of many, a file of proofs for every file of rules. Both count only for the law as it was when they were written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from workbench.rules.pattern import Rule, format_rule
from workbench.support.files import data_folder

#: The verdict on a rule whose proof for all extents and ranks was checked.
THEOREM: Final = "theorem"
#: All verdicts: those of rules that may be applied, the strongest first, one for no verdict, and those of rules that
#: may not. ``tested``: many instances agree in exact arithmetic. ``refuted``: an instance differs. ``vacuous``: both
#: sides are the same term. ``rejected``: it is not a rule.
VERDICTS: Final = (THEOREM, "tested", "unknown", "refuted", "vacuous", "rejected")
#: The order in a table: what needs attention comes first.
WORST_FIRST: Final = ("refuted", "rejected", "unknown", "vacuous", "tested", THEOREM)
#: The verdicts on rules that a set of the library has, and that are applied without further judging.
TRUSTED: Final = VERDICTS[:2]


def library() -> Path:
    """Return the folder of the rule library: in the repository, or inside an installed package."""
    return data_folder("rules", "the rule library (*.rules) is")


def proof_files() -> list[Path]:
    """Return the files of the library's proofs."""
    return sorted((library() / "proofs").glob("*.json"))


def statuses() -> dict[str, dict[str, Any]]:
    """Return the record of the library's tests, by the rule's name: status, law, and short evidence."""
    file = library() / "status.json"
    return _read_statuses(file, file.stat().st_mtime_ns) if file.is_file() else {}


@lru_cache(maxsize=2)
def _read_statuses(file: Path, _: int) -> dict[str, dict[str, Any]]:
    return json.loads(file.read_text(encoding="utf-8"))["rules"]


def proofs() -> dict[str, dict[str, Any]]:
    """Return the stored records of proofs, by the rule's name; :mod:`workbench.laws.theorems` writes them."""
    return _read_proofs(tuple((f, f.stat().st_mtime_ns) for f in proof_files()))


@lru_cache(maxsize=2)
def _read_proofs(files: tuple[tuple[Path, int], ...]) -> dict[str, dict[str, Any]]:
    records = [r for f, _ in files for r in json.loads(f.read_text(encoding="utf-8"))]
    return {r["rule"]: r for r in records}


def verdict_of(rule: Rule) -> str:
    """Return the recorded verdict on a rule of the library, and ``unknown`` for any other rule."""
    known = statuses().get(rule.name)
    current = known is not None and known["law"] == law_of(rule)
    return combined(rule, known["status"] if known and current else "unknown")


def combined(rule: Rule, status: str) -> str:
    """Return the verdict on a rule from its stored proof and the outcome of its tests; a counterexample decides."""
    return THEOREM if status in ("tested", "unknown") and is_theorem(rule) else status


def proof_record(rule: Rule) -> dict[str, Any] | None:
    """Return the stored record of a rule's proof, if it is of the rule's law as it is now."""
    found = proofs().get(rule.name)
    return found if found is not None and found["law"] == law_of(rule) else None


def is_theorem(rule: Rule) -> bool:
    """Return whether a proof of a rule for all types is stored."""
    found = proof_record(rule)
    return found is not None and has_proof(found)


def has_proof(record: Mapping[str, Any]) -> bool:
    """Return whether a record has a proof: from the definitions, or by a chain of theorems."""
    return "cases" in record or "chain" in record


def counted(verdicts: Iterable[str], by_axioms: int = 0) -> str:
    """Return the numbers of verdicts as text, in the order of the scale, and how many are tested by axioms.

    >>> counted(["tested", "theorem", "theorem"])
    '2 theorems, 1 tested'
    """
    found = Counter(verdicts)
    more = {THEOREM: "s" * (found[THEOREM] > 1), "tested": f" ({by_axioms} by axioms)" if by_axioms else ""}
    return ", ".join(f"{found[v]} {v}{more.get(v, '')}" for v in VERDICTS if v in found)


def law_of(rule: Rule) -> str:
    """Return a rule's law without name and provenance, which is the subject of a verdict."""
    return format_rule(rule).partition(": ")[2].partition("  @")[0]
