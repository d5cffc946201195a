"""``workbench why-not``: why a term is not in the e-graph of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.faces.cli.console import Progress, reporting_errors
from workbench.faces.cli.options import (
    DimOption,
    ModelArgument,
    QuietOption,
    RulesOption,
    check_input,
    chosen_rules,
    dimensions,
    with_settings,
)
from workbench.saturation.limits import Limits

if TYPE_CHECKING:
    from workbench.graph import Graph
    from workbench.rules import RuleSet


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
        str | None,
        typer.Option(metavar="TERM", help="The term that it should be equal to; by default an output."),
    ] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="TERM", help="Show the chain of rules from the target to this term.")
    ] = None,
    rules: RulesOption = ["default"],  # noqa: B006  (read only; typer wants the value itself)
    more: Annotated[
        str, typer.Option(metavar="NAME", help="Rule set in which a missing rule is looked for.")
    ] = "all",
    dim: DimOption = [],  # noqa: B006
    quiet: QuietOption = False,
    **settings: Any,
) -> None:
    """Saturate a model, and say why a term is not in its e-graph."""
    check_input(model)
    from workbench.faces.views.static_html import explanation_text, why_not_text
    from workbench.frontends import load_model
    from workbench.rules import rule_set
    from workbench.saturation import Saturation

    graph = load_model(model, dims=dimensions(dim))
    with Saturation(graph, _rules(rules), Limits(**settings)) as saturation:
        with Progress(model.name, quiet=quiet) as progress:
            saturation.run(lambda step: progress("saturation", f"{step.e_nodes} e-nodes"))
        if explain is not None:
            typer.echo(explanation_text(saturation.explain(target, explain)))
            return
        read = _target(target)
        typer.echo(why_not_text(saturation.why_not(read, equals=equals, more=rule_set(more))))


def _rules(texts: list[str]) -> RuleSet:
    from workbench.rules import RuleSet, rule_set

    chosen = chosen_rules(texts)
    if isinstance(chosen, RuleSet):
        return chosen
    names = [chosen] if isinstance(chosen, str) else chosen
    first, *others = map(rule_set, names)
    for other in others:
        first += other
    return first


def _target(text: str) -> str | Graph:
    file = Path(text)
    if not file.is_file():
        if file.suffix in (".onnx", ".model"):
            raise FileNotFoundError(f"there is no file {text}")
        return text
    from workbench.frontends import load_model

    return load_model(text)
