"""Judge the rule library: test every rule, at length if it is not a theorem.

Run as ``python -m workbench.laws.verification.library`` it writes its results to the folder of the rules: a record
(``status.json``) and a table for readers (``README.md``). The batch prover decides no rule of the library: a rule is
a theorem by its stored proof (:mod:`workbench.laws.verification.proofs` seeks it and runs first), or it is tested.
``--new`` tests only laws that are new or have changed since the record.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from workbench.laws.pool import processes
from workbench.laws.theorems.store import why_no_theorem
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.half_precision import range_record
from workbench.laws.verification.refuting.exact_arithmetic import PRIME
from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.verdict import Verdict
from workbench.laws.verification.verify import Verification
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import LEFT_OUT, SETS, load_rules
from workbench.rules.verdicts import VERDICTS, combined, is_theorem, law_of, library, statuses
from workbench.run.trace import StopReason
from workbench.support.files import write_atomic

#: Random instances of a rule that is not a theorem, and seconds for them.
UNPROVED_DRAWS: Final = 2000
MAX_TEST_SECONDS: Final = 600.0
#: Seconds in which every rule of the library must be judged.
MAX_LIBRARY_SECONDS: Final = 3600.0


def draw_many(rule: Rule) -> dict[str, Any]:
    """Return the record of a rule that is not a theorem, from many random instances in exact arithmetic."""
    found = search(rule, UNPROVED_DRAWS, seconds=MAX_TEST_SECONDS)
    refuted = {"status": "refuted", "summary": str(found.counterexample)}
    return {"draws": len(found.passed)} | ({} if found.counterexample is None else refuted)


def judge_library(*, new: bool = False) -> Verification:
    """Return the completed verification of every rule of the library, or of those that are ``new``."""
    rules = _library_rules()
    if new:
        rules = [r for r in rules if not _is_recorded(r)]
    verification = Verification(
        rules, axiom_set=(), name="library", effort=Effort(seconds=MAX_LIBRARY_SECONDS)
    )
    verification.run()
    return verification


def _library_rules() -> list[Rule]:
    return [r for f in sorted(library().glob("*.rules")) for r in load_rules(f)]


def record(verdict: Verdict) -> dict[str, Any]:
    """Return the part of a verdict that is recorded."""
    kept = ("draws", "error_bound", "region", "summary")
    known = {k: verdict.evidence[k] for k in kept if k in verdict.evidence}
    return {"status": verdict.verdict, "law": verdict.law} | known


def _is_recorded(rule: Rule) -> bool:
    """Return whether a law is recorded as it is now, tested at length if it is not a theorem."""
    known = statuses().get(rule.name, {})
    tested = known.get("law") == law_of(rule) and known["status"] == "tested"
    return tested and (is_theorem(rule) or known["draws"] >= UNPROVED_DRAWS)


def judge_ranges(rules: Sequence[Rule], pool: Executor, *, new: bool = False) -> dict[str, Any]:
    """Return by rule name the effect on the range of 16-bit floats; with ``new`` recorded ones are reused."""
    known = statuses()
    rules = [r for r in rules if r.file != "axioms.rules"]  # no set has them
    found = {
        r.name: known[r.name]["ranges"]
        for r in rules
        if new and known.get(r.name, {}).get("law") == law_of(r) and "ranges" in known[r.name]
    }
    left = [r for r in rules if r.name not in found]
    return found | dict(zip((r.name for r in left), pool.map(range_record, left), strict=True))


def write_status(verification: Verification, more: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Write the record and the table; each file is written completely or not at all.

    The verdicts come with ``more`` facts by the name of the rule: tests of those that are not theorems, and ranges.
    """
    ruleset = _library_rules()
    known = {r.name: statuses()[r.name] for r in ruleset if _is_recorded(r)}
    known |= {v.name: record(v) for v in verification.verdicts}
    rules = {r.name: known.pop(r.name) for r in ruleset if r.name in known} | known  # as the files have them
    for name, found in more.items():
        rules[name] = {**rules[name], **found}
    data = {
        "method": "instances in exact arithmetic "
        f"(integers modulo {PRIME}, whole numbers, fractions; exponentials to 60 digits)",
        "seed": verification.settings.seed,
        "versions": {"egglog": version("egglog"), "python": platform.python_version()},
        "rules": rules,
    }
    write_atomic(folder / "status.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    write_atomic(folder / "README.md", table(rules, folder))


def table(rules: dict[str, dict[str, Any]], folder: Path) -> str:
    """Return the library as a table in Markdown: each file's rules with status and evidence."""
    every = [
        rule for file in sorted(folder.glob("*.rules")) for rule in load_rules(file) if rule.name in rules
    ]
    known = {rule.name: combined(rule, rules[rule.name]["status"]) for rule in every}
    counts = Counter(known.values())
    lines = [
        "# The rule library",
        "",
        "Written by `python -m workbench.laws.verification.library`, not by hand. "
        f"{len(known)} rules: " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v]) + ".",
        "",
        "A *theorem* is proved for all extents and ranks, from definitions of the operators (`rules/kernel.md` says "
        "how). *tested*: such a proof is missing (the reason is given), and none of the given number of instances "
        "refutes the rule in exact arithmetic. `results/library/redundancy.md` says which default rules follow from "
        "the others.",
        "",
        '<div class="filter"></div>',  # the documentation puts a box here that filters the rows
    ]
    for file in sorted(folder.glob("*.rules")):
        own = [rule for rule in load_rules(file) if rule.name in known]
        sets = [f"`{file.stem}`"]
        for name in (name for name, stems in SETS.items() if file.stem in stems):
            left_out = [f"`{rule.name}`" for rule in own if rule.name in LEFT_OUT.get(name, ())]
            sets.append(f"`{name}`" + f" (without {' and '.join(left_out)})" * bool(left_out))
        lines += ["", f"## {file.name}", "", f"Rule sets: {', '.join(sets)}.", ""]
        lines += ["| rule | verdict | law | conditions | evidence |", "|---|---|---|---|---|"]
        for rule in own:
            parts = law_of(rule).replace("|", "\\|").partition(" where ")
            law, conditions = (f"`{part}`" * bool(part) for part in parts[::2])
            evidence = _evidence(rule, rules[rule.name])
            lines.append(f"| {rule.name} | {known[rule.name]} | {law} | {conditions} | {evidence} |")
    return "\n".join(lines) + "\n"


def _evidence(rule: Rule, known: dict[str, Any]) -> str:
    text = f"{known.get('draws', 0)} instances" + (", all small ones" if known.get("exhaustive") else "")
    return "; ".join(filter(None, (text, known.get("summary", ""), why_no_theorem(rule))))


def main() -> None:
    """Judge the library and write the outcome to its folder."""
    parser = argparse.ArgumentParser(description="Judge the rule library.")
    parser.add_argument("--new", action="store_true", help="test only new and changed laws")
    chosen = parser.parse_args()
    began = time.perf_counter()
    verification = judge_library(new=chosen.new)
    if verification.stop_reason is not StopReason.FINISHED:
        sys.exit(f"{verification!r}\nNothing is written: every rule must be judged (try a quieter machine).")
    with processes() as pool:
        tested = [v.rule for v in verification.verdicts if v.verdict == "tested" and v.rule is not None]
        unproved = [rule for rule in tested if not is_theorem(rule)]
        tests = dict(zip([r.name for r in unproved], pool.map(draw_many, unproved), strict=True))
        ranges = judge_ranges(_library_rules(), pool, new=chosen.new)
    with_ranges = {name: {**tests.get(name, {}), "ranges": found} for name, found in ranges.items()}
    write_status(verification, tests | with_ranges, library())
    for verdict in verification.verdicts:
        if verdict.verdict != "tested":
            print(verdict)
    refuted = sum("status" in test for test in tests.values())
    print(f"{verification!r}\ntests refuted {refuted}")
    print(f"{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
