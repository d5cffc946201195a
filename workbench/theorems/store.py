"""Stored proofs: one file for every file of rules, one line for every rule.

A line is a JSON object with the rule's name, its law and either its proof (``cases``, which
:mod:`workbench.theorems.check` reads) or the reason why there is none. A proof counts for a rule only if it
has the rule's law.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from workbench.rules.pattern import Rule
from workbench.rules.status import law_of, library
from workbench.support.files import write_atomic
from workbench.theorems.check import Checked, Rejected, check
from workbench.theorems.decide import Unavailable, smt
from workbench.theorems.reading import NotCovered

#: The verdict on a rule whose proof for all types was checked.
THEOREM = "theorem"
#: Characters of a reason that are kept.
LONGEST_REASON = 200


def folder() -> Path:
    """Return the folder of the library's proofs."""
    return library() / "proofs"


def read_proofs() -> dict[str, dict[str, Any]]:
    """Return the stored records of the library, by the rule's name."""
    files = sorted(folder().glob("*.json"))
    return _read(tuple((f, f.stat().st_mtime_ns) for f in files))


@lru_cache(maxsize=2)
def _read(files: tuple[tuple[Path, int], ...]) -> dict[str, dict[str, Any]]:
    records = [r for f, _ in files for r in json.loads(f.read_text(encoding="utf-8"))]
    return {r["rule"]: r for r in records}


def record_of(rule: Rule) -> dict[str, Any] | None:
    """Return the stored record of a rule, if it is of the rule's law as it is now."""
    found = read_proofs().get(rule.name)
    return found if found is not None and found["law"] == law_of(rule) else None


def is_theorem(rule: Rule) -> bool:
    """Return whether a proof of a rule for all types is stored; :func:`check_library` checks it."""
    found = record_of(rule)
    return found is not None and "cases" in found


def why_no_theorem(rule: Rule) -> str:
    """Return why there is no proof of a rule for all types, or an empty text if there is one."""
    found = record_of(rule)
    if found is None:
        return "no proof was sought"
    return str(found.get("reason", ""))


def write_proofs(stem: str, records: Iterable[dict[str, Any]]) -> Path:
    """Write the records of one file of rules, a line for each."""
    path = folder() / f"{stem}.json"
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps(r, separators=(",", ":"), ensure_ascii=True) for r in records]
    write_atomic(path, ("[\n" + ",\n".join(lines) + "\n]\n").encode())
    return path


def short(reason: str) -> str:
    """Return a reason in few words."""
    return reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 1] + "…"


@dataclass(frozen=True, slots=True)
class Recheck:
    """The result of checking a stored proof again: what was checked, or why it was rejected."""

    rule: str
    checked: Checked | None
    reason: str
    seconds: float


def check_library(rules: Iterable[Rule], progress: Callable[[Recheck], None] | None = None) -> list[Recheck]:
    """Check the stored proofs of rules again, without the search.

    A rule without a stored proof is left out.
    """
    found = []
    for rule in rules:
        record = record_of(rule)
        if record is None or "cases" not in record:
            continue
        started = time.perf_counter()
        try:
            result = Recheck(rule.name, check(rule, record), "", time.perf_counter() - started)
        except (Rejected, NotCovered, Unavailable) as error:
            result = Recheck(rule.name, None, str(error), time.perf_counter() - started)
        found.append(result)
        if progress is not None:
            progress(result)
    return found


def obligations(checked: Checked) -> Iterator[tuple[str, str]]:
    """Yield what the solver met in a proof, as names and SMT-LIB: each must be unsatisfiable."""
    for n, (facts, goal) in enumerate(checked.obligations):
        yield f"{checked.rule}-{n}.smt2", smt(facts, goal)
