"""``workbench rules``, ``verify`` and ``synthesise``: the rule library, the judging of rules, new laws."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from workbench.faces.cli import console, options
from workbench.faces.cli.console import Progress, show_table, stop
from workbench.faces.cli.options import argument, check_files, flag, option, write_json, write_text, writing
from workbench.run.trace import StopReason
from workbench.support.files import write_atomic

if TYPE_CHECKING:
    from workbench.laws.synthesis.synthesis import Synthesis
    from workbench.laws.verification.verify import Verification
    from workbench.rules.ruleset import Contents


#: Seconds in which ``workbench verify`` seeks a proof for all types of each rule, before all other proofs.
KERNEL: Final = 1.0


def rules(
    name: str | None = argument(None, "RULE", "A rule, or a pattern such as 'conv-*'."),
    set_: str = option("default", "NAME", "Rule set, or a file.rules.", "--set"),
    sets: bool = flag("--sets", "List the rule sets."),
    json: Path | None = options.JSON,
) -> None:
    """List rules with law, provenance and status."""
    check_files([], [json])
    from workbench.rules import RuleSet, rule_set, rule_sets
    from workbench.rules.verdicts import counted

    if sets:
        counts = [(s, rule_set(s)) for s in rule_sets()]
        table = [(s, len(found), sum(r.multi for r in found)) for s, found in counts]
        write_json(json, lambda: [{"set": s, "rules": n, "multi-pattern": m} for s, n, m in table])
        show_table(("set", "rules", "multi-pattern"), table, right=[1, 2])
        return
    chosen = rule_set(set_)
    if name is not None:
        chosen = chosen.select(name) if any(c in name for c in "*?[") else RuleSet(name, (chosen[name],))
    records = chosen.frame().to_dict("records")
    write_json(json, lambda: records)
    headings = ("rule", "status", "provenance", "law")
    show_table(headings, [tuple(r[h if h != "rule" else "name"] for h in headings) for r in records])
    multi = sum(r["kind"] == "multi" for r in records)
    known = counted(r["status"] for r in records)
    typer.echo(f"{len(records)} rules of {set_}, {multi} of them multi-pattern: {known}")


def check_theorems(smt: Path | None, *, jobs: int, quiet: bool) -> None:
    """Check all stored proofs; exit with 1 if one is rejected, or if rules and records do not match.

    The obligations that the solver met are written to the folder ``smt``, if one is given, as SMT-LIB.
    """
    from workbench.laws.theorems import store
    from workbench.laws.theorems.entailment import solver
    from workbench.rules.ruleset import rule_set

    if solver() is None:
        stop(console.BAD_INPUT, "proofs are checked with z3, which is not installed (try workbench[proofs])")
    rules = store.every_rule()
    started = time.perf_counter()
    with Progress("proofs", quiet=quiet) as progress:
        found = store.check_library(rules, lambda r: progress("checked", r.rule), jobs=jobs)
    seconds = time.perf_counter() - started
    if smt is not None:
        smt.mkdir(parents=True, exist_ok=True)
        for result in found:
            for name, text in store.obligations(result.checked) if result.checked is not None else ():
                write_atomic(smt / name, text)
    stored = {f.rule for f in found}
    without = [(r.name, store.why_no_theorem(r)) for r in rules if r.name not in stored]
    if not quiet:
        show_table(("rule", "no theorem because"), without)
    default = {r.name for r in rule_set("default")}
    theorems = {r.rule for r in found if r.checked is not None}
    typer.echo(
        f"\n{len(found)} stored proofs checked, {len(without)} rules have none; "
        f"{len(theorems)} of {len(rules)} rules are theorems, "
        f"{len(theorems & default)} of the {len(default)} default ones; "
        f"{sum(bool(r.checked.theorems) for r in found if r.checked)} by a chain of others; "
        f"{sum(store.is_typed(r) for r in rules if r.name in theorems)} right sides are typed if left ones are, "
        "the engine guards the others; "
        f"{sum(len(r.checked.obligations) for r in found if r.checked)} obligations, {seconds:.1f} s"
    )
    wrong = [f"{r.rule}: {r.reason}" for r in found if r.checked is None] + store.unmatched(rules)
    if wrong:
        stop(console.FAILED, "rejected: " + "; ".join(wrong))


def verify(
    file: Path | None = argument(None, "FILE", "A file.rules, or a TASO or Tensat file."),
    json: Path | None = options.JSON,
    show: str | None = option(None, "RULE", "Show one rule: law, proof or counterexample."),
    one_by_one: bool = flag("--one-by-one", "Also prove each rule by itself, and print the ratio."),
    seconds: float = option(300.0, "S", "Limit on all work.", min=options.LEAST),
    seed: int = option(0, "N", "Seed of the search.", min=0),
    jobs: int = option(2, "N", "Processes.", "--jobs", "-j", min=1),
    check: bool = flag("--check", "Check the library's stored proofs for all types again."),
    smt: Path | None = option(None, "DIR", "With --check: write the solver's results as SMT-LIB."),
    quiet: bool = options.QUIET,
) -> None:
    """Prove or refute rules; exit with 1 if one is refuted, with 2 if one cannot be read."""
    if check:
        check_theorems(smt, jobs=jobs, quiet=quiet)
        return
    if file is None:
        stop(
            console.BAD_INPUT,
            "a file of rules must be given, got none (try --check for the library's stored proofs)",
        )
    check_files([file], [json])
    from workbench.laws.verification.evidence import Effort
    from workbench.laws.verification.verify import Verification
    from workbench.rules.ruleset import read_rules
    from workbench.rules.verdicts import is_theorem

    # A signal to end must end the processes too: they have work that may take minutes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(console.INTERRUPTED))
    contents = read_rules(file)
    known = {r.name for r in contents.rules} | {r.name for r in contents.rejected}
    if show is not None and show not in known:
        stop(console.BAD_INPUT, f"{file}: unknown rule {show!r}; without --show all rules are listed")
    # A proof for all types has no chain of axioms to show, and is sought for each rule by itself.
    effort = Effort(seconds=seconds, kernel=0.0 if show or one_by_one else KERNEL)
    with Progress(file.name, quiet=quiet) as progress:
        verification = Verification.of(contents, effort=effort, seed=seed, jobs=jobs)
        verification.run(lambda step: progress("verification", step.note))
        alone = None
        if one_by_one:
            alone = Verification.of(contents, effort=effort, seed=seed, one_by_one=True)
            alone.run(lambda step: progress("verification", f"one by one: {step.note}"))
    theorems = {r.name for r in contents.rules if is_theorem(r)}
    write_json(json, lambda: [v.record() | {"theorem": v.name in theorems} for v in verification.verdicts])
    _print(verification, theorems, show, alone)
    _end(verification, contents, file)


def _print(
    verification: Verification, theorems: set[str], show: str | None, alone: Verification | None
) -> None:
    """Print the verdicts, or one rule, and the figures of the run; ``alone`` judged each rule by itself."""
    from workbench.laws.verification.verdict import verdict_counts
    from workbench.rules.verdicts import THEOREM

    verdicts = verification.verdicts
    if show is not None:
        verdict = verification[show]
        typer.echo(f"{verdict.name}: {verdict.law}\n{verdict.details()}")
    else:
        rows = []
        for v in verdicts:
            known = THEOREM if v.name in theorems else v.verdict
            rows.append((v.index, v.name, known, f"{v.seconds:.2f}", v.reason()))
        show_table(("rule", "name", "verdict", "seconds", "evidence"), rows, right=[0, 3])
    typer.echo(
        f"\n{len(verdicts)} rules: {verdict_counts(verdicts, theorems)}; {verification.seconds:.1f} s, "
        f"of which {verification.prove_seconds:.2f} s proving in batch"
    )
    if alone is not None:
        batch, single = verification.egraph_seconds, alone.egraph_seconds
        ratio = f", ratio {single / batch:.1f}" if batch else ""
        typer.echo(f"in the e-graph: batch {batch:.2f} s, one by one {single:.2f} s{ratio}")


def _end(verification: Verification, contents: Contents, file: Path) -> None:
    """End the command with the exit code that a run calls for."""
    if verification.contradictions:
        names = ", ".join(v.name for v in verification.contradictions)
        both = "derived from axioms in some cases and refuted in another"
        stop(console.FAILED, f"{both}, so these or an axiom are wrong: {names}")
    if verification.stop_reason is StopReason.INTERRUPTED:
        stop(console.INTERRUPTED, "interrupted: rules without a decision are listed as unknown")
    if contents.rejected and not contents.rules:
        many = len(contents.rejected)
        stop(console.BAD_INPUT, f"{file.name}: none of its {many} laws can be read as a rule")
    if verification.counts.get("refuted"):
        raise typer.Exit(console.FAILED)
    if contents.rejected and file.suffix == ".rules":
        # Other systems' files have laws that cannot be read here; in a file of our own it is a mistake.
        laws = "1 law" if len(contents.rejected) == 1 else f"{len(contents.rejected)} laws"
        stop(console.BAD_INPUT, f"{file.name}: {laws} cannot be read as a rule")


def synthesise(
    grammar: Path = argument(..., "GRAMMAR", "A YAML file: operators, operands, size."),
    output: Path | None = option(None, "OUT", "Write the laws as a file of rules.", "--output", "-o"),
    known: list[str] = option([], "SET", "Leave out laws that this rule set or file implies; repeatable."),
    against: list[Path] = option([], "FILE", "Report which rules of this file the laws imply; repeatable."),
    size: int | None = option(None, "N", "Operators in a term; by default the grammar's.", min=1),
    seconds: float = option(600.0, "S", "Limit on all work.", min=options.LEAST),
    seed: int = option(0, "N", "Seed of the values.", min=0),
    jobs: int = option(1, "N", "Processes.", "--jobs", "-j", min=1),
    scheduler: str | None = option(
        None, "tcp://HOST:PORT", "Evaluate shards of the terms on a Dask cluster."
    ),
    journal: Path | None = option(
        None, "FILE", "Keep verdicts here; a run that was ended continues from there."
    ),
    trace: Path | None = option(None, "OUT", "Write the steps as JSON, for plots and the stepper."),
    json: Path | None = options.JSON,
    quiet: bool = options.QUIET,
) -> None:
    """Find the laws of the operators of a grammar, verified and without those that the others imply."""
    check_files([grammar, *against], [output, trace, json, journal])
    from workbench.laws.synthesis.grammar import read_grammar
    from workbench.laws.synthesis.shards import processes
    from workbench.laws.synthesis.synthesis import Synthesis, rules_text
    from workbench.rules.ruleset import read_rules, rule_set
    from workbench.studies.experiments.pool import cluster_mapper

    whole = read_grammar(grammar)
    terms = whole if size is None else whole.with_operators(size)
    targets = [(file, read_rules(file)) for file in against]
    given = [rule for name in known for rule in rule_set(name)]
    limits: Any = {"seconds": seconds, "seed": seed, "jobs": jobs, "journal": journal}
    with (
        Progress(grammar.name, quiet=quiet) as progress,
        processes(jobs) if scheduler is None else cluster_mapper(scheduler) as mapper,
    ):
        synthesis = Synthesis(terms, given, mapper=mapper, **limits)
        synthesis.run(lambda step: progress("synthesis", step.note))
    if output is not None:
        write_text(output, rules_text(synthesis))
    if trace is not None:
        writing(lambda: synthesis.trace.save(trace))
    laws = {law.rule: law.verdict for law in (*synthesis.laws, *synthesis.joint)}
    rows = [(r.name, laws[r].law, laws[r].verdict) for r in synthesis.rules]
    show_table(("law", "equation", "verdict"), rows)
    typer.echo()
    funnel = synthesis.funnel()
    show_table(tuple(funnel.columns), map(tuple, funnel.to_numpy()), right=range(len(funnel.columns)))
    typer.echo(f"\n{synthesis!r}")
    covered = _covered(synthesis, targets, seed, quiet)
    figures = {
        "meta": synthesis.trace.meta,
        "laws": [verdict.record() for verdict in laws.values()],
        "funnel": funnel.to_dict("records"),
        "covers": covered,
    }
    write_json(json, lambda: figures)
    if synthesis.stop_reason is StopReason.INTERRUPTED:
        stop(console.INTERRUPTED, "interrupted: the laws found so far were kept")


def _covered(
    synthesis: Synthesis, targets: Sequence[tuple[Path, Contents]], seed: int, quiet: bool
) -> dict[str, list[dict[Hashable, Any]]]:
    """Print which rules of some files the laws imply, and return one record per rule by file."""
    covered = {}
    for file, contents in targets:
        with Progress(file.name, quiet=quiet) as progress:
            found = synthesis.covers(contents.rules, seed=seed, progress=partial(progress, "derivation"))
        covered[str(file)] = found.frame().to_dict("records")
        typer.echo(f"\n{file}: {found!r}")
        for outcome in ("not derived", "refuted"):
            if names := found.named(outcome):
                typer.echo(f"{outcome}: {', '.join(names)}")
    return covered
