"""Judge the rule library: every rule proved or tested at length, every axiom exhaustively on small shapes.

Run as ``python -m workbench.verification.library`` it writes what it found beside the rules: a record
(``status.json``) and a table to read (``README.md``). Tests take most of the time: with ``--new`` only what
the record does not know as it is now is tested. With ``--redundant`` it says instead which
axioms follow from the others.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any, Final

from workbench.files import write_atomic
from workbench.ops import TypeMismatch
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import law_of, library, load_rules, statuses
from workbench.saturation import Limits
from workbench.trace import StopReason
from workbench.verification.choices import Enumeration
from workbench.verification.exact import PRIME, Inexact, draw_values
from workbench.verification.instances import all_values, instance_of, options
from workbench.verification.linear import Inconsistent, NotLinear
from workbench.verification.prove import Prover, axioms
from workbench.verification.ranges import range_record
from workbench.verification.refute import Findings, case_of, search
from workbench.verification.spaces import open_space
from workbench.verification.typings import SMALL
from workbench.verification.verdict import Verdict
from workbench.verification.verify import Verification

#: Instances of an axiom after which its enumeration ends.
EXHAUSTING: Final = 6000
#: Those of one family (a stride, an activation, who broadcasts), so that the first do not take them all;
#: assignments of numbers that are tried for them.
FAMILY: Final = 600
ASSIGNMENTS: Final = 1 << 14
#: Random instances of an axiom that is not enumerated whole.
DRAWS: Final = 200
#: Random instances that stand for the proof of a rule that no axiom reaches, and seconds for them.
UNPROVED, PATIENCE = 2000, 600.0


@dataclass(frozen=True, slots=True)
class LawTest:
    """Hold how a law without a proof was tested: instances that agreed, whether they are all small ones."""

    rule: Rule
    instances: int
    exhaustive: bool
    counterexample: str = ""


def exhaust(axiom: Rule, limit: int = EXHAUSTING, seed: int = 0) -> LawTest:
    """Evaluate an axiom on every small instance in exact arithmetic, at most ``limit`` of them.

    Small: extents 1 and 2, kernels up to 2, pads 0 and 1, one or two groups, and so on
    (:data:`~workbench.verification.typings.SMALL`). Axioms whose typing is not linear, of which there are
    more small instances, or hardly any, are tested at random as well: the first instances of an
    enumeration are all alike.
    """
    rng = random.Random(seed)
    walk = Enumeration()
    done, exhaustive = 0, True
    while done < limit:
        try:
            space = open_space(axiom, walk, SMALL)
            free = space.system.free()
            exhaustive &= prod(len(set(options(space, u, SMALL))) for u in free) <= ASSIGNMENTS
            for number, values in enumerate(all_values(space, SMALL, ASSIGNMENTS)):
                if number == FAMILY:
                    exhaustive = False
                    break
                case = case_of(instance_of(space, values))
                drawn = draw_values(case.kind, case.nodes, case.live, rng)
                where = case.differs(case.kind, drawn)
                if where is not None:
                    return LawTest(axiom, done, False, str(instance_of(space, values)))
                done += 1
                if done >= limit:
                    break
        except (Inconsistent, TypeMismatch, Inexact):
            pass
        except NotLinear:
            exhaustive = False
        if not walk.advance():
            break
    else:
        exhaustive = False
    if exhaustive and done >= 40:
        return LawTest(axiom, done, True)
    found = search(axiom, DRAWS, seed=seed)
    return LawTest(axiom, done + len(found.passed), False, _shown(found))


def draw_many(rule: Rule, seed: int = 0) -> LawTest:
    """Evaluate a rule that no axiom reaches on many random instances in exact arithmetic."""
    found = search(rule, UNPROVED, seed=seed, seconds=PATIENCE)
    return LawTest(rule, len(found.passed), False, _shown(found))


def _shown(found: Findings) -> str:
    return "" if found.counterexample is None else str(found.counterexample)


def recorded(rule: Rule) -> LawTest | None:
    """Return how a law was tested according to the record; None where it is new, changed or proved."""
    known = statuses().get(rule.name)
    if known is None or known["law"] != law_of(rule) or known["status"] == "proved":
        return None
    if "exhaustive" not in known and known.get("draws", 0) < UNPROVED:
        return None
    return LawTest(rule, known["draws"], known.get("exhaustive", False), known.get("summary", ""))


def redundant_axioms(rules: Sequence[Rule] | None = None) -> dict[str, int]:
    """Return the axioms that the others prove, and the round in which they do.

    A law that is read both ways counts as one axiom.
    """
    every = list(axioms() if rules is None else rules)
    found: dict[str, int] = {}
    engine = None
    for axiom in every:
        if axiom.name.endswith("-back"):
            continue
        others = [a for a in every if a.name.removesuffix("-back") != axiom.name]
        limits = Limits(e_nodes=20_000, seconds=20.0, iterations=6, k_multi=0)
        prover = Prover([axiom], others, limits, engine=engine)
        if prover.begin():
            idle = 0
            while not prover.pass_over and idle < 3:
                idle = 0 if prover.step() else idle + 1
            proof = prover.proof(0)
            if proof is not None:
                found[axiom.name] = proof.round
        engine = prover.engine
    if engine is not None:
        engine.kill()
    return found


def judge_library(seed: int = 0) -> Verification:
    """Return the verification, run to its end, of every rule of the library that is no axiom."""
    verification = Verification(_library_rules(), name="library", seed=seed)
    verification.run()
    return verification


def _library_rules() -> list[Rule]:
    return [r for f in sorted(library().glob("*.rules")) if f.stem != "axioms" for r in load_rules(f)]


def record(verdict: Verdict) -> dict[str, Any]:
    """Return what is kept of a verdict."""
    kept = ("round", "cases", "all_cases", "axioms", "draws", "error_bound", "reason", "region", "summary")
    known = {k: verdict.evidence[k] for k in kept if k in verdict.evidence}
    return {"status": verdict.verdict, "law": verdict.law} | known


def judge_ranges(rules: Sequence[Rule], pool: ProcessPoolExecutor, *, new: bool = False) -> dict[str, Any]:
    """Return by name what each rule does to the range of 16-bit floats; ``new`` keeps what is recorded."""
    known = statuses()
    found = {
        r.name: known[r.name]["ranges"]
        for r in rules
        if new and known.get(r.name, {}).get("law") == law_of(r) and "ranges" in known[r.name]
    }
    left = [r for r in rules if r.name not in found]
    return found | dict(zip((r.name for r in left), pool.map(range_record, left), strict=True))


def write_ranges(ranges: dict[str, Any], folder: Path) -> None:
    """Write what is known of ranges into a record that is there already."""
    file = folder / "status.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    for name, found in ranges.items():
        if name in data["rules"]:
            data["rules"][name]["ranges"] = found
    write_atomic(file, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def write_status(
    verification: Verification, tests: Sequence[LawTest], folder: Path, ranges: dict[str, Any] | None = None
) -> None:
    """Write the record and the table; each file appears whole or not at all."""
    rules = {v.name: record(v) for v in verification.verdicts}
    for test in tests:
        # An axiom has no verdict beside its test.
        axiom = {"status": "tested", "law": law_of(test.rule), "draws": 0, "exhaustive": test.exhaustive}
        known = rules.get(test.rule.name, axiom) | {"draws": test.instances}
        if test.counterexample:
            known |= {"status": "refuted", "summary": test.counterexample}
        rules[test.rule.name] = known
    for name, found in (ranges or {}).items():
        rules[name]["ranges"] = found
    data = {
        "method": "batch proof on an e-graph from the axioms; instances in exact arithmetic "
        f"(integers modulo {PRIME}, whole numbers, fractions; exponentials to 60 digits)",
        "seed": verification.settings.seed,
        "versions": {"egglog": version("egglog"), "python": platform.python_version()},
        "rules": rules,
    }
    write_atomic(folder / "status.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    write_atomic(folder / "README.md", table(rules, folder))


def table(rules: dict[str, dict[str, Any]], folder: Path) -> str:
    """Return the library as a table in Markdown: each file's rules with status and evidence."""
    counts = {s: sum(r["status"] == s for r in rules.values()) for s in ("proved", "tested", "refuted")}
    lines = [
        "# The rule library",
        "",
        "Written by `python -m workbench.verification.library`, not by hand. "
        f"{len(rules)} rules: " + ", ".join(f"{n} {s}" for s, n in counts.items() if n) + ".",
        "",
        "*proved*: both sides meet in one typed e-graph in every case of the rule's typing, from the axioms "
        "named. *tested*: no axiom reaches it (the reason is given), or it is an axiom itself; no instance "
        "of the number given, in exact arithmetic, refutes it.",
    ]
    for file in sorted(folder.glob("*.rules")):
        lines += ["", f"## {file.name}", "", "| rule | status | evidence | law |", "|---|---|---|---|"]
        for rule in load_rules(file):
            known = rules.get(rule.name)
            if known is not None:
                law = law_of(rule).replace("|", "\\|")
                lines.append(f"| {rule.name} | {known['status']} | {_evidence(known)} | `{law}` |")
    return "\n".join(lines) + "\n"


def _evidence(known: dict[str, Any]) -> str:
    if known["status"] == "proved":
        by = ", ".join(known.get("axioms") or ["the axioms"])
        return f"round {known['round']}, {known['cases']} cases; by {by}"
    if "exhaustive" in known:
        return f"{known['draws']} instances" + (", all small ones" if known["exhaustive"] else "")
    return f"{known.get('draws', 0)} instances; {known.get('reason') or known.get('summary', '')}"


def _tested(
    how: Callable[[Rule], LawTest], rules: Sequence[Rule], pool: ProcessPoolExecutor, new: bool
) -> list[LawTest]:
    """Return the tests of rules in their order; with ``new`` those that the record has stay as they are."""
    tests = {r.name: recorded(r) if new else None for r in rules}
    found = {t.rule.name: t for t in pool.map(how, [r for r in rules if tests[r.name] is None])}
    return [found[name] if test is None else test for name, test in tests.items()]


def main() -> None:
    """Judge the library and write the outcome beside it, or list redundant axioms."""
    parser = argparse.ArgumentParser(description="Judge the rule library.")
    parser.add_argument("--redundant", action="store_true", help="say which axioms follow from the others")
    parser.add_argument("--new", action="store_true", help="test only what is new or changed")
    parser.add_argument("--ranges", action="store_true", help="judge the ranges in 16-bit floats alone")
    chosen = parser.parse_args()
    began = time.perf_counter()
    if chosen.redundant:
        for name, index in redundant_axioms().items():
            print(f"{name}: follows from the others in round {index}")
    elif chosen.ranges:
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            ranges = judge_ranges(_library_rules(), pool, new=chosen.new)
        write_ranges(ranges, library())
        for name, found in ranges.items():
            for dtype, outcome in found.items():
                if outcome != "kept":
                    print(f"{name}, {dtype}: {outcome}")
    else:
        verification = judge_library()
        if verification.stop_reason is not StopReason.FINISHED:
            sys.exit(
                f"{verification!r}\nNothing is written: not every rule was judged. Try a quieter machine."
            )
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            unproved = [v.rule for v in verification.verdicts if v.verdict == "tested" and v.rule is not None]
            tests = _tested(exhaust, list(axioms()), pool, chosen.new) + _tested(
                draw_many, unproved, pool, chosen.new
            )
            ranges = judge_ranges(_library_rules(), pool, new=chosen.new)
        write_status(verification, tests, library(), ranges)
        for verdict in verification.verdicts:
            if verdict.verdict != "proved":
                print(verdict)
        refuted = [t for t in tests if t.counterexample]
        print(f"{verification!r}\n{len(axioms())} axioms; tests refuted {len(refuted)}")
    print(f"{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
