"""``workbench search``: optimise a model with TASO's search instead of saturation, for comparison."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

from workbench.faces.cli.console import Files, Progress, finish, reporting_errors
from workbench.faces.cli.options import (
    DimOption,
    KeepOption,
    ModelArgument,
    OwnCostOption,
    QuietOption,
    check_input,
    check_results,
    chosen_rules,
    dimensions,
    option,
)


class SearchMode(enum.StrEnum):
    """The modes of the search."""

    sound = "sound"
    taso_release = "taso-release"
    tensat_fork = "tensat-fork"


@reporting_errors
def search(
    model: ModelArgument,
    output: Annotated[
        Path | None, option("FILE", "Write the optimised model here.", "--output", "-o")
    ] = None,
    mode: Annotated[
        SearchMode, option("sound|taso-release|tensat-fork", "How to search.")
    ] = SearchMode.sound,
    rules: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Rule set or file; modes other than sound need TASO's graph_subst.pb; repeatable, all are used.",
        ),
    ] = None,
    keep_refuted: KeepOption = False,
    alpha: Annotated[float, option("A", "Drop graphs costing over A times the best.", min=1.0)] = 1.05,
    budget: Annotated[int, option("N", "Number of graphs to expand.", min=0)] = 100,
    cost: OwnCostOption = "cpu",
    seconds: Annotated[float, option("S", "Limit on the search.", min=0.001)] = 600.0,
    seed: Annotated[int, option("N", "Seed of the certificate's inputs.", min=0)] = 0,
    dim: DimOption = [],  # noqa: B006  (read only; typer wants the value itself)
    json: Annotated[Path | None, option("FILE", "Write the figures as JSON.")] = None,
    report: Annotated[Path | None, option("FILE.html", "Write a self-contained page.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Optimise a model with TASO's backtracking search, as a baseline."""
    check_input(model)
    check_results((output, json, report))
    check_results((json, report), keep=[model])

    from workbench.optimizer.summary import summary_rows
    from workbench.studies.search.optimize import search_optimize

    with Progress(model.name, quiet=quiet) as progress:
        result = search_optimize(
            model,
            rules=chosen_rules(rules) if rules else None,
            cost=cost,
            alpha=alpha,
            budget=budget,
            mode=mode.value,
            seconds=seconds,
            seed=seed,
            keep_refuted=keep_refuted,
            dims=dimensions(dim),
            progress=progress,
        )
        files = Files(result)
        files.model(output)
        files.json(json, result.summary)
        files.report(report, model.name)
    rows = summary_rows(result, written=files.written)
    interrupted = "interrupted: the result above is the best one found before the interrupt"
    finish(result, model.name, rows, interrupted=interrupted, kept=output is not None)
