"""``workbench certify``, ``check``, ``cost``, ``why-not``, ``show`` and ``diff``: models compared, priced, drawn."""

from __future__ import annotations

import tempfile
import webbrowser
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from workbench.faces.cli import console, options
from workbench.faces.cli.console import Progress, show_table, stop
from workbench.faces.cli.options import argument, check_files, dimensions, flag, option, write_json
from workbench.saturation.limits import Limits

if TYPE_CHECKING:
    from workbench.graph import Graph


def certify(
    a: Path = argument(..., "A", "The original, an ONNX file."),
    b: Path = argument(..., "B", "The optimised ONNX file."),
    dim: list[str] = options.DIM,
    draws: int = option(6, "N", "Inputs to draw.", min=1),
    seed: int = option(0, "N", "Seed of the draws.", min=0),
    seconds: float = option(600.0, "S", "Limit on all work.", min=options.LEAST),
    run_seconds: float = option(120.0, "S", "Limit on one run.", min=0.001),
    memory: float | None = option(None, "GIB", "Limit on the runtime's memory.", min=0.1, max=65_536),
    repro: Path | None = option(None, "FILE", "Write a small model that shows the difference."),
    json: Path | None = options.JSON,
    outputs_only: bool = flag("--outputs-only", "Do not compare values inside if the outputs agree."),
    quiet: bool = options.QUIET,
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
        raise typer.Exit(console.UNDECIDED if found.undecided else console.FAILED)


def check(
    original: Path = argument(..., "A", "The original, an ONNX file."),
    result: Path = argument(..., "B", "The optimised ONNX file."),
    proof: Path = argument(..., None, "The proof that optimize wrote."),
    dim: list[str] = options.DIM,
    steps: bool = flag("--steps", "Show the steps."),
) -> None:
    """Check the proof that two models are equal, without a search; exit with 1 if it is not accepted."""
    check_files([original, result, proof])
    from workbench.laws.run_proofs import NotAccepted
    from workbench.laws.run_proofs import check as checked

    try:
        found = checked(original, result, proof, dimensions(dim))
    except NotAccepted as error:
        stop(console.FAILED, f"not proved: {error}")
    if steps:
        show_table(found.replayed.COLUMNS, found.replayed.rows(), right=[0])
    typer.echo(f"proved: {found}")


def cost(
    model: Path = options.MODEL,
    cost: str = options.OWN_COST,
    dim: list[str] = options.DIM,
    size: list[str] = options.SIZE,
    top: int = option(10, "N", "Show the N costliest nodes.", min=1),
    json: Path | None = options.JSON,
) -> None:
    """Price a model by operator and by node."""
    check_files([model], [json])
    from workbench.costs.model import described
    from workbench.frontends import load_model
    from workbench.studies.analysis.cost_table import cost_table

    table = cost_table(load_model(model, dims=dimensions(dim), sizes=dimensions(size, "--size")), cost)
    write_json(json, table.summary)
    operators, nodes = table.operators.to_numpy().tolist(), table.nodes.head(top).to_numpy().tolist()
    rows = [(op, count, f"{cost:.1f}", f"{share:.1%}") for op, count, cost, share in operators]
    show_table(("operator", "nodes", "µs", "share"), rows, right=[1, 2, 3])
    typer.echo()
    rows = [(node, f"{cost:.1f}", f"{share:.1%}", text) for node, _, cost, share, text in nodes]
    show_table(("node", "µs", "share", "operation"), rows, right=[0, 1, 2])
    typer.echo(f"\nsum {table.total:.1f} µs {described(table.source)}")


@options.with_settings(Limits, "e_nodes", "seconds", "iterations", "k_multi", "settle")
def why_not(
    model: Path = options.MODEL,
    target: str = argument(
        ...,
        "TARGET",
        "A term over inputs, weights, outputs and nodes n0, n1, …; a rule's name; or a model file.",
    ),
    equals: str | None = option(None, "TERM", "The term that it should be equal to; by default an output."),
    explain: str | None = option(None, "TERM", "Show the chain of rules from the target to this term."),
    rules: list[str] = options.RULES,
    more: str = option("all", "NAME", "Rule set in which a missing rule is looked for."),
    dim: list[str] = options.DIM,
    size: list[str] = options.SIZE,
    quiet: bool = options.QUIET,
    **settings: Any,
) -> None:
    """Saturate a model, and say why a term is not in its e-graph."""
    check_files([model])
    from workbench.faces.views.static_html import explanation_text, why_not_text
    from workbench.frontends import load_model
    from workbench.rules import rule_set
    from workbench.saturation import Saturation

    graph = load_model(model, dims=dimensions(dim), sizes=dimensions(size, "--size"))
    options.chosen_rules(rules)  # their files exist
    with Saturation(graph, reduce(add, map(rule_set, rules)), Limits(**settings)) as saturation:
        with Progress(model.name, quiet=quiet) as progress:
            saturation.run(lambda step: progress("saturation", f"{step.e_nodes} e-nodes"))
        if explain is not None:
            typer.echo(explanation_text(saturation.explain(target, explain)))
            return
        typer.echo(why_not_text(saturation.why_not(_target(target), equals=equals, more=rule_set(more))))


def _target(text: str) -> str | Graph:
    file = Path(text)
    if not file.is_file():
        if file.suffix in (".onnx", ".model"):
            raise FileNotFoundError(f"no such file: {text}")
        return text
    from workbench.frontends import load_model

    return load_model(text)


def show(
    file: Path = argument(
        ..., "FILE", "A model (ONNX, TASO's file.model), or an e-graph (egraph-serialize JSON, also gzipped)."
    ),
    output: Path | None = options.PAGE,
    dim: list[str] = options.DIM,
    size: list[str] = options.SIZE,
) -> None:
    """Open a model or an e-graph as a page that stands alone."""
    check_files([file], [output])
    from workbench.faces.views import whole_page

    if {".json"} & {*file.suffixes}:
        from workbench.egraph import load_json

        egraph, costs = load_json(file)
        page = whole_page(egraph, costs=costs)
    else:
        from workbench.frontends import load_model

        page = whole_page(load_model(file, dims=dimensions(dim), sizes=dimensions(size, "--size")))
    typer.echo(str(_opened(page, output, file.stem)))


def diff(
    a: Path = argument(..., "A", "The first model."),
    b: Path = argument(..., "B", "The second model."),
    output: Path | None = options.PAGE,
    dim: list[str] = options.DIM,
    size: list[str] = options.SIZE,
    seed: int = option(0, "N", "Seed of the inputs.", min=0),
) -> None:
    """Open two models side by side as a page; operators are related by equal values, not by names."""
    check_files([a, b], [output])
    from workbench.faces.views import whole_page
    from workbench.studies.analysis.diff import diff as compared

    found = compared(a, b, dims=dimensions(dim), sizes=dimensions(size, "--size"), seed=seed)
    typer.echo(str(found))
    typer.echo(str(_opened(whole_page(found), output, f"{a.stem}-{b.stem}")))


def _opened(page: str, output: Path | None, name: str) -> Path:
    """Write a page, open it if no file was named for it, and return its place."""
    place = output or Path(tempfile.mkdtemp(prefix="workbench-")) / f"{name}.html"
    options.write_text(place, page)
    if output is None:
        webbrowser.open(place.as_uri())
    return place
