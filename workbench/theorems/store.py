"""The library's stored proofs, checked again without the search, and what the solver showed in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from workbench.rules.pattern import Rule
from workbench.theorems.check import Checked, Rejected, check
from workbench.theorems.decide import Unavailable, smt
from workbench.theorems.reading import NotCovered
from workbench.theorems.records import record_of


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
