"""``workbench synthesise``: find the laws of the operators of a grammar."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.faces.cli.console import INTERRUPTED, Progress, reporting_errors, show_table, stop
from workbench.faces.cli.options import (
    JobsOption,
    LimitOption,
    QuietOption,
    check_input,
    check_results,
    option,
    write_json,
    writing,
)
from workbench.run.trace import StopReason
from workbench.support.files import write_atomic

if TYPE_CHECKING:
    from workbench.laws.synthesis.grammar import Grammar
    from workbench.laws.synthesis.synthesis import Synthesis
    from workbench.rules.ruleset import Contents


@reporting_errors
def synthesise(
    grammar: Annotated[
        Path,
        typer.Argument(metavar="GRAMMAR", help="A YAML file: operators, operands, size.", show_default=False),
    ],
    output: Annotated[
        Path | None, option("OUT", "Write the laws as a file of rules.", "--output", "-o")
    ] = None,
    known: Annotated[
        list[str] | None, option("SET", "Leave out laws that this rule set or file implies; repeatable.")
    ] = None,
    against: Annotated[
        list[Path] | None, option("FILE", "Report which rules of this file the laws imply; repeatable.")
    ] = None,
    size: Annotated[int | None, option("N", "Operators in a term; by default the grammar's.", min=1)] = None,
    seconds: LimitOption = 600.0,
    seed: Annotated[int, option("N", "Seed of the values.", min=0)] = 0,
    jobs: JobsOption = 1,
    scheduler: Annotated[
        str | None, option("tcp://HOST:PORT", "Evaluate shards of the terms on a Dask cluster.")
    ] = None,
    journal: Annotated[
        Path | None, option("FILE", "Keep verdicts here; a run that was ended continues from there.")
    ] = None,
    trace: Annotated[
        Path | None, option("OUT", "Write the steps as JSON, for plots and the stepper.")
    ] = None,
    json: Annotated[Path | None, option("OUT", "Write laws, counts and coverage as JSON.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Find the laws of the operators of a grammar, verified and without those that the others imply."""
    check_input(grammar)
    for file in against or ():
        check_input(file)
    check_results([output, trace, json, journal], keep=[grammar, *(against or ())])
    from workbench.laws.synthesis.grammar import read_grammar
    from workbench.laws.synthesis.writing import rules_text
    from workbench.rules.ruleset import read_rules

    whole = read_grammar(grammar)
    terms = whole if size is None else whole.with_operators(size)
    targets = [(file, read_rules(file)) for file in against or ()]
    limits = {"seconds": seconds, "seed": seed, "jobs": jobs, "journal": journal}
    with Progress(grammar.name, quiet=quiet) as progress:
        synthesis = _synthesised(terms, known or (), scheduler, progress, limits)
    if output is not None:
        writing(lambda: write_atomic(output, rules_text(synthesis)))
    if trace is not None:
        writing(lambda: synthesis.trace.save(trace))
    laws = {law.rule: law.verdict for law in (*synthesis.laws, *synthesis.joint)}
    _show(synthesis, [(r.name, laws[r].law, laws[r].verdict) for r in synthesis.rules])
    covered = _covered(synthesis, targets, seed, quiet)
    write_json(
        json,
        lambda: {
            "meta": synthesis.trace.meta,
            "laws": [verdict.record() for verdict in laws.values()],
            "funnel": synthesis.funnel().to_dict("records"),
            "covers": covered,
        },
    )
    if synthesis.stop_reason is StopReason.INTERRUPTED:
        stop(INTERRUPTED, "interrupted: the laws found so far were kept")


def _synthesised(
    terms: Grammar,
    known: Sequence[str],
    scheduler: str | None,
    progress: Progress,
    settings: Mapping[str, Any],
) -> Synthesis:
    """Return a synthesis that has run, here or on a cluster."""
    from workbench.laws.synthesis.shards import processes
    from workbench.laws.synthesis.synthesis import Synthesis
    from workbench.rules import rule_set
    from workbench.studies.experiments.pool import cluster_mapper

    given = [rule for name in known for rule in rule_set(name)]
    with processes(settings["jobs"]) if scheduler is None else cluster_mapper(scheduler) as mapper:
        synthesis = Synthesis(terms, given, mapper=mapper, **settings)
        synthesis.run(lambda step: progress("synthesis", step.note))
    return synthesis


def _show(synthesis: Synthesis, laws: Sequence[tuple[str, str, str]]) -> None:
    """Print the table of laws and the funnel."""
    show_table(("law", "equation", "verdict"), laws)
    typer.echo()
    funnel = synthesis.funnel()
    show_table(
        tuple(funnel.columns), [tuple(row) for row in funnel.to_numpy()], right=range(len(funnel.columns))
    )
    typer.echo(f"\n{synthesis!r}")


def _covered(
    synthesis: Synthesis, targets: Sequence[tuple[Path, Contents]], seed: int, quiet: bool
) -> dict[str, list[dict[Hashable, Any]]]:
    """Print which rules of some files the laws imply, and return one record per rule by file."""
    covered = {}
    for file, contents in targets:
        with Progress(file.name, quiet=quiet) as progress:
            found = synthesis.covers(
                contents.rules, seed=seed, progress=lambda step: progress("derivation", step.note)
            )
        covered[str(file)] = found.frame().to_dict("records")
        typer.echo(f"\n{file}: {found!r}")
        for outcome in ("not derived", "refuted"):
            names = found.named(outcome)
            if names:
                typer.echo(f"{outcome}: {', '.join(names)}")
    return covered
