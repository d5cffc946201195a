"""``workbench verify --check``: check the library's stored proofs for all types."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from workbench.faces.cli.console import BAD_INPUT, FAILED, Progress, show_table, stop
from workbench.support.files import write_atomic


def check_theorems(smt: Path | None, *, jobs: int, quiet: bool) -> None:
    """Check all stored proofs; exit with 1 if one is rejected.

    Args:
        smt: The folder for the obligations that the solver met, as SMT-LIB, or None.
        jobs: The number of processes.
        quiet: Whether nothing is shown while it works.
    """
    from workbench.laws.theorems.entailment import solver
    from workbench.laws.theorems.records import is_typed, why_no_theorem
    from workbench.laws.theorems.store import check_library, obligations
    from workbench.rules.library import rule_set

    if solver() is None:
        stop(BAD_INPUT, "proofs are checked with z3, which is not installed (try workbench[proofs])")
    rules = list(rule_set("all"))
    started = time.perf_counter()
    with Progress("proofs", quiet=quiet) as progress:
        found = check_library(rules, lambda r: progress("checked", r.rule), jobs=jobs)
    seconds = time.perf_counter() - started
    if smt is not None:
        smt.mkdir(parents=True, exist_ok=True)
        for result in found:
            if result.checked is not None:
                for name, text in obligations(result.checked):
                    write_atomic(smt / name, text)
    rejected = [r for r in found if r.checked is None]
    without = [(r.name, why_no_theorem(r)) for r in rules if r.name not in {f.rule for f in found}]
    if not quiet:
        show_table(("rule", "no theorem because"), without)
    default = {r.name for r in rule_set("default")}
    theorems = {r.rule for r in found if r.checked is not None}
    typer.echo(
        f"\n{len(theorems)} of {len(rules)} rules are theorems, "
        f"{len(theorems & default)} of the {len(default)} default ones; "
        f"{sum(bool(r.checked.theorems) for r in found if r.checked)} by a chain of others; "
        f"{sum(is_typed(r) for r in rules if r.name in theorems)} right sides are typed if left ones are, "
        "the engine guards the others; "
        f"{sum(len(r.checked.obligations) for r in found if r.checked)} obligations, {seconds:.1f} s"
    )
    if rejected:
        stop(FAILED, "rejected: " + "; ".join(f"{r.rule}: {r.reason}" for r in rejected))
