"""``workbench extract``: the cheapest term of an e-graph from a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from workbench.faces.cli import console, options
from workbench.faces.cli.console import Progress, show_table, stop
from workbench.faces.cli.options import argument, check_files, flag, known_extractor, option, write_json

if TYPE_CHECKING:
    from workbench.egraph import EGraph
    from workbench.extraction import Extraction, Solution
    from workbench.run.trace import Step


def extract(
    file: Path = argument(..., "EGRAPH", "E-graph as egraph-serialize JSON."),
    method: str = option(
        "auto",
        "tree|dag|exact|auto",
        "How to extract; also local, filtered, tensat, tensat-integer, tensat-filtered, and those of "
        "packages.",
        "--extractor",
        "--method",
    ),
    seconds: float = option(60.0, "S", "Limit on all work.", min=options.LEAST),
    memory: float = option(6.0, "GIB", "GiB that each solver's process may use.", min=0.1, max=65_536),
    k: int = option(1, "N", "Number of cheapest terms.", "--k", min=1),
    distance: int = option(1, "N", "With --k, e-classes in which two terms must differ at least.", min=1),
    json: Path | None = options.JSON,
    trace: bool = flag("--trace", "Show the steps."),
    quiet: bool = options.QUIET,
) -> None:
    """Extract the cheapest term of an e-graph, with bound, gap and status."""
    check_files([file], [json])
    from workbench.egraph import load_json
    from workbench.extraction import Extraction, Limit, Status

    began = time.perf_counter()
    egraph, costs = load_json(file)
    left = max(0.05 * seconds, seconds - (time.perf_counter() - began))
    run = Extraction(egraph, costs, known_extractor(method), seconds=left, memory=int(memory * 2**30))
    with Progress(file.name, quiet=quiet) as progress:

        def tell(step: Step) -> None:
            cost, bound = _figure(step.cost, "g"), _figure(step.bound, "g")
            progress("extraction", f"{step.note}: cost {cost}, bound {bound}")

        solution = run.run(tell)
    best = [solution]
    if k > 1 and Limit.INTERRUPTED not in solution.limits:
        from workbench.extraction.alternatives import k_best

        rest = max(0.05 * seconds, seconds - (time.perf_counter() - began))
        known = solution if solution.status is Status.OPTIMAL and solution.scope == "e-graph" else None
        best = k_best(egraph, costs, k, seconds=rest, first=known, distance=distance)
    more = {"best": [chosen(egraph, found) for found in best]} if k > 1 else {}
    write_json(json, lambda: figures(egraph, run, solution) | more)
    if trace:
        steps = [(f"{s.seconds:.3f}", _figure(s.cost), _figure(s.bound), s.note) for s in run.trace]
        show_table(("seconds", "cost", "bound", "step"), steps, right=[0, 1, 2])
    rows = []
    for s in best:
        figured = _figure(s.cost), _figure(s.bound), f"{s.gap:.4%}", s.status.value, s.scope
        rows.append((*figured, f"{s.seconds:.2f}", run.method, s.method))
    headings = ("cost", "bound", "gap", "status", "scope", "seconds", "method", "found by")
    show_table(headings, rows, right=[0, 1, 2, 5])
    for note in solution.notes:
        typer.echo(f"note: {note}")
    if Limit.INTERRUPTED in solution.limits:
        stop(console.INTERRUPTED, "interrupted: the result above is the best one found so far")


def _figure(value: float | None, kind: str = "f") -> str:
    if value is None:
        return "–"
    # Six decimals would leave nothing of a small figure, and print hundreds of digits of a large one.
    short = kind == "f" and (0.0 < abs(value) < 1e-3 or abs(value) >= 1e15)
    return format(value, ".6g" if short else f".6{kind}")


def chosen(egraph: EGraph, solution: Solution) -> dict[str, Any]:
    """Return the cost of a term and the chosen e-node of every selected e-class, by their names."""
    picked = enumerate(solution.choice.tolist())
    return {
        "cost": solution.cost,
        "bound": solution.bound,
        "status": solution.status.value,
        "choice": {egraph.class_name(c): egraph.node_name(i) for c, i in picked if i >= 0},
    }


def figures(egraph: EGraph, run: Extraction, solution: Solution) -> dict[str, Any]:
    """Return the content of the JSON file: the figures, and the chosen e-node of every selected e-class.

    E-classes and e-nodes carry the names of the file they were read from.
    """
    steps = run.trace.frame().round({"seconds": 6}).drop(columns="step").rename(columns={"note": "step"})
    return chosen(egraph, solution) | {
        "gap": solution.gap,
        "seconds": round(solution.seconds, 6),
        "method": run.method,
        "found_by": solution.method,
        "scope": solution.scope,
        "limits": sorted(limit.name.lower() for limit in solution.limits),
        "notes": list(solution.notes),
        "e_nodes": len(egraph),
        "e_classes": egraph.n_classes,
        "roots": [egraph.class_name(r) for r in egraph.roots],
        "trace": steps[["seconds", "cost", "bound", "kind", "step"]].to_dict("records"),
    }
