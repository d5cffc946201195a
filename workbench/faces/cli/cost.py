"""``workbench cost``: the cost of a model, by operator and by node."""

from __future__ import annotations

from typing import Annotated

import typer

from workbench.faces.cli.console import reporting_errors, show_table
from workbench.faces.cli.options import (
    DimOption,
    ModelArgument,
    OwnCostOption,
    check_input,
    dimensions,
    to_json,
)


@reporting_errors
def cost(
    model: ModelArgument,
    cost: OwnCostOption = "cpu",
    dim: DimOption = [],  # noqa: B006
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Show the N costliest nodes.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Price a model by operator and by node."""
    check_input(model)
    from workbench.costs.model import described
    from workbench.costs.table import cost_table
    from workbench.frontends import load_model

    table = cost_table(load_model(model, dims=dimensions(dim)), cost)
    if json:
        typer.echo(to_json(table.summary()), nl=False)
        return
    show_table(
        ("operator", "nodes", "µs", "share"),
        [(r.op, r.count, f"{r.cost:.1f}", f"{r.share:.1%}") for r in table.operators],
        right=[1, 2, 3],
    )
    typer.echo()
    show_table(
        ("node", "µs", "share", "operation"),
        [(n.node, f"{n.cost:.1f}", f"{n.share:.1%}", n.text) for n in table.nodes[:top]],
        right=[0, 1, 2],
    )
    typer.echo(f"\nsum {table.total:.1f} µs {described(table.source)}")
