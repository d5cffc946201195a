"""``workbench certify``, ``cost`` and ``why-not``: two model files compared, the cost of one, a term it has not."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.faces.cli.console import FAILED, UNDECIDED, Progress, reporting_errors, show_table, stop
from workbench.faces.cli.options import (
    DimOption,
    JsonOption,
    LimitOption,
    ModelArgument,
    OwnCostOption,
    QuietOption,
    RulesOption,
    SizeOption,
    check_input,
    check_results,
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
    a: Annotated[Path, typer.Argument(metavar="A", help="The original, an ONNX file.", show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", help="The optimised ONNX file.", show_default=False)],
    dim: DimOption = [],  # noqa: B006
    draws: Annotated[int, option("N", "Inputs to draw.", min=1)] = 6,
    seed: Annotated[int, option("N", "Seed of the draws.", min=0)] = 0,
    seconds: LimitOption = 600.0,
    run_seconds: Annotated[float, option("S", "Limit on one run.", min=0.001)] = 120.0,
    memory: Annotated[
        float | None, option("GIB", "Limit on the runtime's memory.", min=0.1, max=65_536)
    ] = None,
    repro: Annotated[Path | None, option("FILE", "Write a small model that shows the difference.")] = None,
    json: JsonOption = None,
    outputs_only: Annotated[
        bool, flag("--outputs-only", "Do not compare values inside if the outputs agree.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Compare a model with its original; exit with 1 if they differ, with 4 if one cannot tell."""
    for file in (a, b):
        check_input(file)
    check_results([json, repro], keep=[a, b])
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
    original: Annotated[
        Path, typer.Argument(metavar="A", help="The original, an ONNX file.", show_default=False)
    ],
    result: Annotated[Path, typer.Argument(metavar="B", help="The optimised ONNX file.", show_default=False)],
    proof: Annotated[Path, typer.Argument(help="The proof that optimize wrote.", show_default=False)],
    dim: DimOption = [],  # noqa: B006
    steps: Annotated[bool, flag("--steps", "Show the steps.")] = False,
) -> None:
    """Check the proof that two models are equal, without a search; exit with 1 if it is not accepted."""
    for file in (original, result, proof):
        check_input(file)
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
    model: ModelArgument,
    cost: OwnCostOption = "cpu",
    dim: DimOption = [],  # noqa: B006
    size: SizeOption = [],  # noqa: B006
    top: Annotated[int, option("N", "Show the N costliest nodes.", min=1)] = 10,
    json: JsonOption = None,
) -> None:
    """Price a model by operator and by node."""
    check_input(model)
    check_results([json], keep=[model])
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
    model: ModelArgument,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A term over inputs, weights, outputs and nodes n0, n1, …; a rule's name; or a model file.",
            show_default=False,
        ),
    ],
    equals: Annotated[
        str | None, option("TERM", "The term that it should be equal to; by default an output.")
    ] = None,
    explain: Annotated[
        str | None, option("TERM", "Show the chain of rules from the target to this term.")
    ] = None,
    rules: RulesOption = ["default"],  # noqa: B006  (read only; typer wants the value itself)
    more: Annotated[str, option("NAME", "Rule set in which a missing rule is looked for.")] = "all",
    dim: DimOption = [],  # noqa: B006
    size: SizeOption = [],  # noqa: B006
    quiet: QuietOption = False,
    **settings: Any,
) -> None:
    """Saturate a model, and say why a term is not in its e-graph."""
    check_input(model)
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
