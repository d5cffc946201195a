"""The library's stored proofs, checked again without a search, and the solver's part in them."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.check import Checked, check
from workbench.laws.theorems.entailment import Unavailable, smt
from workbench.laws.theorems.steps import Rejected
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import read_rules
from workbench.rules.verdicts import has_proof, law_of, library, proof_files, proof_record

#: The number of parts that each process checks of all proofs.
CHUNKS: Final = 4


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
    """Check the stored proofs of rules again, without the search.

    Args:
        rules: The rules; one without a stored proof is left out.
        progress: Called with every result.
        jobs: The number of processes; with 1 the proofs are checked in this one.

    Returns:
        The results in the order of the rules.
    """
    proved = [(r, record) for r in rules if (record := proof_record(r)) is not None and has_proof(record)]
    found = []
    # Rules that are alike ask the same questions, and are neighbours: each process answers them once.
    check_one = partial(_recheck, {})
    with ExitStack() as stack:
        results: Iterator[Recheck] = map(check_one, proved)
        if jobs > 1:
            pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))
            results = stack.enter_context(pool).map(
                check_one, proved, chunksize=max(1, len(proved) // (CHUNKS * jobs))
            )
        for result in results:
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
