"""Prove the library's rules for all types and store the proofs: ``python -m workbench.laws.verification.proofs``."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.check import check
from workbench.laws.theorems.entailment import EFFORT, Facts, Unavailable
from workbench.laws.theorems.goals import why_guarded
from workbench.laws.theorems.prove import attempt
from workbench.laws.theorems.steps import Rejected
from workbench.laws.theorems.store import REASONS, rules_of, theorems, without_proof, write_proofs
from workbench.laws.verification.proving import find_chain as chain_at
from workbench.laws.verification.proving import generic_cases
from workbench.laws.verification.refuting.refute import search
from workbench.rules.pattern import Rule, operators_of
from workbench.rules.verdicts import has_proof, law_of, library, proofs
from workbench.support import deadline

#: The part of the checker's work with which a type must be shown: the solver's work varies from run to run.
SPARE: Final = 8
#: Drawn instances at which a chain is sought if a rule has no generic one.
INSTANCES: Final = 4


def prove_all(stems: Sequence[str], seconds: float, *, new: bool) -> Iterator[tuple[str, str]]:
    """Prove all or ``new`` rules of files, each in ``seconds``; store the proofs, yield the names and the results."""
    for stem in stems:
        known = proofs()
        records = []
        for rule in rules_of(stem):
            old = known.get(rule.name)
            if new and old is not None and old["law"] == law_of(rule) and has_proof(old):
                records.append(old | {"typed": is_typed(rule)})
                continue
            record, result = judged(rule, seconds)
            records.append(record)
            yield rule.name, result
        write_proofs(stem, records)


def is_typed(rule: Rule) -> bool:
    """Return whether a right-hand side is shown to have a type with less work than the checker may do."""
    return not why_guarded(rule, Facts(effort=EFFORT // SPARE))


def judged(rule: Rule, seconds: float) -> tuple[dict[str, Any], str]:
    """Return the record of a rule, and its result in words; a proof that the checker rejects is none.

    If no proof from the definitions is found, a chain of theorems is sought.
    """
    found = attempt(rule, seconds)
    why, detail = found.why, found.detail
    proof, how = found.proof, f"theorem in {found.seconds:.1f} s"
    known = {} if proof is not None else theorems()
    if proof is None:
        chain = find_chain(rule, known, seconds)
        proof, how = (None, "") if chain is None else ({"chain": chain}, "theorem by a chain")
    if proof is not None:
        stored = json.loads(json.dumps(proof)) | {"typed": is_typed(rule)}
        try:
            check(rule, stored, theorems=known)
        except Rejected as error:
            why, detail = "rejected", str(error)
        else:
            return {"rule": rule.name, "law": law_of(rule)} | stored, how
    return without_proof(rule, why, detail), f"{REASONS[why]}: {detail}"


def find_chain(rule: Rule, theorems: Mapping[str, Rule], seconds: float) -> list[Any] | None:
    """Return the links of a proof by chain that the checker accepts, or None if none is found in ``seconds``.

    The proof graph finds a chain of some theorems at an instance of the rule; the checker follows it for all types.
    """
    if rule.each:
        return None
    own = operators_of(rule)
    laws = [t for t in theorems.values() if t.name != rule.name and not t.each and operators_of(t) <= own]
    try:
        with deadline.ending(time.time() + seconds):
            generic = generic_cases(rule, broadcast=False).instances
            for instance in generic or search(rule, INSTANCES).passed:
                links = [
                    [[[step.law, int(not step.forwards), list(step.place)] for step in chain.steps], []]
                    for chain in chain_at(instance, laws) or ()
                ]
                with suppress(Rejected, NotCovered):
                    check(rule, {"chain": links}, theorems=theorems)
                    return links
    except (deadline.OutOfTime, Unavailable):
        pass
    return None


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
