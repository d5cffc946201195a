"""``workbench certify``, ``cost`` and ``why-not``: two model files compared, the cost of one, a term it has not."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from workbench.faces.cli.console import FAILED, UNDECIDED, Progress, reporting_errors, show_table, stop
from workbench.faces.cli.options import (
    DIM,
    JSON,
    LEAST,
    MODEL,
    OWN_COST,
    QUIET,
    RULES,
    SIZE,
    argument,
    check_files,
    chosen_rules,
    dimensions,
    flag,
    option,
    with_settings,
    write_json,
)
from workbench.saturation.limits import Limits

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.rules import RuleSet


# -- certify -------------------------------------------------------------------------------------------
@reporting_errors
def certify(
    a: Path = argument(..., "A", "The original, an ONNX file."),
    b: Path = argument(..., "B", "The optimised ONNX file."),
    dim: list[str] = DIM,
    draws: int = option(6, "N", "Inputs to draw.", min=1),
    seed: int = option(0, "N", "Seed of the draws.", min=0),
    seconds: float = option(600.0, "S", "Limit on all work.", min=LEAST),
    run_seconds: float = option(120.0, "S", "Limit on one run.", min=0.001),
    memory: float | None = option(None, "GIB", "Limit on the runtime's memory.", min=0.1, max=65_536),
    repro: Path | None = option(None, "FILE", "Write a small model that shows the difference."),
    json: Path | None = JSON,
    outputs_only: bool = flag("--outputs-only", "Do not compare values inside if the outputs agree."),
    quiet: bool = QUIET,
) -> None:
    """Compare a model with its original; exit with 1 if they differ, with 4 if one cannot tell."""
    check_files([a, b], [json, repro])
    from workbench.certification import certify_files

    with Progress(quiet=quiet) as progress:
        found = certify_files(
            a,
            b,
            dims=dimensions(dim),
            draws=draws,
            seed=seed,
            seconds=seconds,
            run_seconds=run_seconds,
            memory=None if memory is None else int(memory * 2**30),
            repro=repro,
            inside=not outputs_only,
            progress=lambda text: progress("comparison", text),
        )
    write_json(json, found.summary)
    typer.echo(str(found))
    if not found.equal:
        raise typer.Exit(UNDECIDED if found.undecided else FAILED)


# -- check ---------------------------------------------------------------------------------------------
@reporting_errors
def check(
    original: Path = argument(..., "A", "The original, an ONNX file."),
    result: Path = argument(..., "B", "The optimised ONNX file."),
    proof: Path = argument(..., None, "The proof that optimize wrote."),
    dim: list[str] = DIM,
    steps: bool = flag("--steps", "Show the steps."),
) -> None:
    """Check the proof that two models are equal, without a search; exit with 1 if it is not accepted."""
    check_files([original, result, proof])
    from workbench.laws.run_proofs import NotAccepted
    from workbench.laws.run_proofs import check as checked

    try:
        found = checked(original, result, proof, dimensions(dim))
    except NotAccepted as error:
        stop(FAILED, f"not proved: {error}")
    if steps:
        show_table(found.replayed.COLUMNS, found.replayed.rows(), right=[0])
    typer.echo(f"proved: {found}")


# -- cost ----------------------------------------------------------------------------------------------
@reporting_errors
def cost(
    model: Path = MODEL,
    cost: str = OWN_COST,
    dim: list[str] = DIM,
    size: list[str] = SIZE,
    top: int = option(10, "N", "Show the N costliest nodes.", min=1),
    json: Path | None = JSON,
) -> None:
    """Price a model by operator and by node."""
    check_files([model], [json])
    from workbench.costs.model import described
    from workbench.frontends import load_model
    from workbench.studies.analysis.cost_table import cost_table

    graph = load_model(model, dims=dimensions(dim), sizes=dimensions(size, "--size"))
    table = cost_table(graph, cost)
    write_json(json, table.summary)
    show_table(
        ("operator", "nodes", "µs", "share"),
        [
            (op, count, f"{cost:.1f}", f"{share:.1%}")
            for op, count, cost, share in table.operators.to_numpy().tolist()
        ],
        right=[1, 2, 3],
    )
    typer.echo()
    show_table(
        ("node", "µs", "share", "operation"),
        [
            (node, f"{cost:.1f}", f"{share:.1%}", text)
            for node, _, cost, share, text in table.nodes.head(top).to_numpy().tolist()
        ],
        right=[0, 1, 2],
    )
    typer.echo(f"\nsum {table.total:.1f} µs {described(table.source)}")


# -- why-not -------------------------------------------------------------------------------------------
@reporting_errors
@with_settings(Limits, "e_nodes", "seconds", "iterations", "k_multi", "settle")
def why_not(
    model: Path = MODEL,
    target: str = argument(
        ...,
        "TARGET",
        "A term over inputs, weights, outputs and nodes n0, n1, …; a rule's name; or a model file.",
    ),
    equals: str | None = option(None, "TERM", "The term that it should be equal to; by default an output."),
    explain: str | None = option(None, "TERM", "Show the chain of rules from the target to this term."),
    rules: list[str] = RULES,
    more: str = option("all", "NAME", "Rule set in which a missing rule is looked for."),
    dim: list[str] = DIM,
    size: list[str] = SIZE,
    quiet: bool = QUIET,
    **settings: Any,
) -> None:
    """Saturate a model, and say why a term is not in its e-graph."""
    check_files([model])
    from workbench.faces.views.static_html import explanation_text, why_not_text
    from workbench.frontends import load_model
    from workbench.rules import rule_set
    from workbench.saturation import Saturation

    graph = load_model(model, dims=dimensions(dim), sizes=dimensions(size, "--size"))
    with Saturation(graph, _rules(rules), Limits(**settings)) as saturation:
        with Progress(model.name, quiet=quiet) as progress:
            saturation.run(lambda step: progress("saturation", f"{step.e_nodes} e-nodes"))
        if explain is not None:
            typer.echo(explanation_text(saturation.explain(target, explain)))
            return
        read = _target(target)
        typer.echo(why_not_text(saturation.why_not(read, equals=equals, more=rule_set(more))))


def _rules(texts: list[str]) -> RuleSet:
    from workbench.rules import rule_set

    chosen_rules(texts)  # their files exist
    return reduce(add, map(rule_set, texts))


def _target(text: str) -> str | Graph:
    file = Path(text)
    if not file.is_file():
        if file.suffix in (".onnx", ".model"):
            raise FileNotFoundError(f"no such file: {text}")
        return text
    from workbench.frontends import load_model

    return load_model(text)
