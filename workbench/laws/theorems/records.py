"""Records of proofs: one file for every file of rules, one line for every rule.

A line is a JSON object with the rule's name, its law and either its proof or the reason why there is none:
``why``, one of :data:`REASONS`, and ``detail``. A proof is ``cases``, the steps from the definitions, or a
``chain`` of rules that have such a proof; :mod:`workbench.laws.theorems.check` reads both. ``typed`` says whether
the right-hand side of a theorem has a type whenever the left has one. A proof counts for a rule only if it
has the rule's law.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from workbench.rules.pattern import Rule
from workbench.rules.verdicts import has_proof, law_of, library, proof_record
from workbench.support.files import write_atomic

#: Characters of a detail that are kept.
LONGEST_DETAIL: Final = 200

#: Why there is no proof of a rule, in words, by the name of the reason.
REASONS: Final[Mapping[str, str]] = {
    "open": "the search ends with terms of one side that equal none of the other",
    "time": "the search ran out of time",
    "uncovered": "the kernel does not cover",
    "divisor": "something divides that is not known to be positive",
    "partial": "the right side may have no value where the left has one:",
    "never": "the rule never applies",
    "rejected": "the checker rejected the proof that was found",
    "solver": "no SMT solver is installed",
    "new": "no proof was sought",
}


def is_typed(rule: Rule) -> bool:
    """Return whether it is proved that the right-hand side of a theorem has a type whenever the left has one.

    The engine checks the type of every other right-hand side where the rule fires.
    """
    found = proof_record(rule)
    return found is not None and bool(found.get("typed"))


def chain_of(rule: Rule) -> tuple[str, ...]:
    """Return the names of the theorems in the chain that proves a rule, each once; none for other proofs."""
    links = (link for both in (proof_record(rule) or {}).get("chain", ()) for side in both for link in side)
    return tuple(dict.fromkeys(str(name) for name, *_ in links))


def reason_of(rule: Rule) -> tuple[str, str]:
    """Return the name and the detail of the reason why there is no proof, or empty texts if there is one."""
    found = proof_record(rule)
    if found is None:
        return "new", ""
    return ("", "") if has_proof(found) else (str(found["why"]), str(found.get("detail", "")))


def why_no_theorem(rule: Rule) -> str:
    """Return in words why there is no proof of a rule for all types, or an empty text if there is one."""
    why, detail = reason_of(rule)
    if not why:
        return ""
    return f"{REASONS[why]} {detail}" if why in ("uncovered", "partial") else REASONS[why]


def without_proof(rule: Rule, why: str, detail: str) -> dict[str, Any]:
    """Return the record of a rule without a proof."""
    kept = detail if len(detail) <= LONGEST_DETAIL else detail[: LONGEST_DETAIL - 1] + "…"
    return {"rule": rule.name, "law": law_of(rule), "why": why} | ({"detail": kept} if kept else {})


def write_proofs(stem: str, records: Iterable[dict[str, Any]]) -> Path:
    """Write the records of one file of rules, a line for each."""
    path = library() / "proofs" / f"{stem}.json"
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps(r, separators=(",", ":"), ensure_ascii=True) for r in records]
    write_atomic(path, ("[\n" + ",\n".join(lines) + "\n]\n").encode())
    return path
