"""The library's stored proofs: their records, and checking them again without a search.

There is one file for every file of rules, one line for every rule. A line is a JSON object with the rule's name,
its law and either its proof or the reason why there is none: ``why``, one of :data:`REASONS`, and ``detail``. A
proof is ``cases``, the steps from the definitions, or a ``chain`` of rules that have such a proof;
:mod:`workbench.laws.theorems.check` reads both. ``typed`` says whether the right-hand side of a theorem has a type
whenever the left has one. A proof counts for a rule only if it has the rule's law.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from workbench.laws.pool import mapped
from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.check import Checked, check
from workbench.laws.theorems.entailment import Unavailable, smt
from workbench.laws.theorems.steps import Rejected
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import read_rules
from workbench.rules.verdicts import has_proof, law_of, library, proof_files, proof_record
from workbench.support.files import write_atomic

#: Characters of a detail that are kept.
LONGEST_DETAIL: Final = 200

#: Why a rule has no proof, in words, by the name of the reason.
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
    """Return the name and the detail of the reason why a rule has no proof, or empty texts if there is one."""
    found = proof_record(rule)
    if found is None:
        return "new", ""
    return ("", "") if has_proof(found) else (str(found["why"]), str(found.get("detail", "")))


def why_no_theorem(rule: Rule) -> str:
    """Return in words why a rule has no proof for all types, or an empty text if there is one."""
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


@dataclass(frozen=True, slots=True)
class Recheck:
    """The result of checking a stored proof again: the checked steps, or the reason for its rejection."""

    rule: str
    checked: Checked | None
    reason: str
    seconds: float


def check_library(
    rules: Iterable[Rule], progress: Callable[[Recheck], None] | None = None, *, jobs: int = 1
) -> list[Recheck]:
    """Return the results of checking the stored proofs of rules again without the search, in their order.

    A rule without a stored proof is left out. ``progress`` is called with every result. ``jobs`` is the number of
    processes; with 1 the proofs are checked in this one.
    """
    proved = [(r, record) for r in rules if (record := proof_record(r)) is not None and has_proof(record)]
    found = []
    # Rules that are alike ask the same questions, and are neighbours: each process answers them once.
    check_one = partial(_recheck, {})
    for result in mapped(check_one, proved, jobs):
        found.append(result)
        if progress is not None:
            progress(result)
    return found


def _recheck(asked: dict[tuple[str, ...], bool], proved: tuple[Rule, dict[str, Any]]) -> Recheck:
    rule, record = proved
    started = time.perf_counter()
    try:
        links = theorems() if "chain" in record else {}
        checked = check(rule, record, asked, links)
        for name in checked.theorems:
            # A chain proves as much as the theorems of which it is made.
            check(links[name], proof_record(links[name]) or {}, asked)
        return Recheck(rule.name, checked, "", time.perf_counter() - started)
    except (Rejected, NotCovered, Unavailable) as error:
        return Recheck(rule.name, None, str(error), time.perf_counter() - started)


def every_rule() -> list[Rule]:
    """Return the rules of all files of the library, those that no set has too."""
    return [rule for file in sorted(library().glob("*.rules")) for rule in rules_of(file.stem)]


def unmatched(rules: Iterable[Rule]) -> list[str]:
    """Return in words which rules have no record of a proof or of the lack of one, and which records no rule."""
    laws = Counter((r.name, law_of(r)) for r in rules)
    stored = (r for file in proof_files() for r in json.loads(file.read_text(encoding="utf-8")))
    records = Counter((r["rule"], r["law"]) for r in stored)
    return [
        *(f"{name} has no record of its law" for name, _ in laws - records),
        *(f"a record of {name} is of no law of the library" for name, _ in records - laws),
    ]


def rules_of(stem: str) -> list[Rule]:
    """Return the rules of one file of the library."""
    return list(read_rules(library() / f"{stem}.rules").rules)


def theorems() -> dict[str, Rule]:
    """Return by name the rules of the library with a stored proof from the definitions: links of chains."""
    return {r.name: r for r in every_rule() if "cases" in (proof_record(r) or {})}


def obligations(checked: Checked) -> Iterator[tuple[str, str]]:
    """Yield the solver's questions in a proof, as names and SMT-LIB: each must be unsatisfiable."""
    for n, (facts, goal) in enumerate(checked.obligations):
        yield f"{checked.rule}-{n}.smt2", smt(facts, goal)
