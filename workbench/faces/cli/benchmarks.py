"""``workbench bench`` and ``demo``: published networks and real architectures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from workbench.faces.cli.console import Progress, reporting_errors, show_table
from workbench.faces.cli.optimize import run_optimize
from workbench.faces.cli.options import (
    AsJsonOption,
    CostOption,
    OwnCostOption,
    QuietOption,
    RulesOption,
    flag,
    option,
    to_json,
    with_settings,
    writing,
)
from workbench.saturation.limits import Limits
from workbench.support.files import UnwritableOutput, check_writable
from workbench.support.formatting import times


@reporting_errors
@with_settings(Limits, "e_nodes", "seconds", "iterations", "k_multi", "settle")
def bench(
    network: Annotated[
        list[str] | None, typer.Argument(metavar="[NETWORK]...", help="Published networks.")
    ] = None,
    all_: Annotated[bool, flag("--all", "All published networks.")] = False,
    rules: RulesOption = ["default"],  # noqa: B006  (read only; typer wants the value itself)
    cost: CostOption = "analytic",
    json: AsJsonOption = False,
    quiet: QuietOption = False,
    **settings: Any,
) -> None:
    """Run published networks and show the measured figures next to those of the papers."""
    from workbench.studies.benchmarks import benchmarks
    from workbench.studies.benchmarks.run import run_benchmark
    from workbench.studies.benchmarks.whole import whole_call

    if all_ and network:
        raise ValueError(f"--all and {' '.join(network)} contradict each other; leave one out")
    names = benchmarks() if all_ else network
    if not names:
        raise ValueError(f"no network is given; name one, or use --all. There are: {', '.join(benchmarks())}")
    if len(rules) > 1:
        raise ValueError(f"--rules must be given at most once here, got {', '.join(rules)}")
    (chosen,) = rules
    limits = Limits(**settings)
    runs, calls = [], []
    for name in names:
        with Progress(name, quiet=quiet) as progress:
            runs.append(run_benchmark(name, rules=chosen, cost=cost, limits=limits, progress=progress))
            progress("whole call")
            calls.append(whole_call(name, rules=chosen, cost=cost, limits=limits))
    if json:
        figures = [r.summary() | {"whole_call": asdict(c)} for r, c in zip(runs, calls, strict=True)]
        typer.echo(to_json(figures), nl=False)
        return
    headings = ("network", "e-nodes", "e-classes", "it.", "stop", "sat. s", "extr. s", "whole s", "Tensat s",
                "times", "original µs", "tree", "DAG", "exact", "Tensat", "TASO")  # fmt: skip
    table = []
    for r, call in zip(runs, calls, strict=True):
        p = r.published
        theirs = ("–",) * 4
        if p is not None:
            gains = times(1 + p.tensat_speedup / 100), times(1 + p.taso_speedup / 100)
            theirs = (f"{p.tensat_seconds:g}", f"{r.faster:.1f}×", *gains)
        ours = (f"{r.saturation + r.snapshot:.3f}", f"{r.extraction:.3f}", f"{call.seconds:.2f}")
        gained = [times(1 + r.gain(method)) for method in ("tree", "dag", "exact")]
        sizes = (r.e_nodes, r.e_classes, r.iterations, r.stop_reason)
        table.append((r.network, *sizes, *ours, *theirs[:2], f"{r.original:.1f}", *gained, *theirs[2:]))
    show_table(headings, table, right=[i for i in range(1, len(headings)) if i != 4])
    from workbench.costs.model import described
    from workbench.studies.benchmarks.published import SOURCE

    apart = ", ".join(f"{r.network} {r.engine:.2f} + {r.pricing:.2f}" for r in runs)
    typer.echo(
        f"\nGains: original / optimised, {described(runs[0].cost_source)}; those of Tensat and TASO are "
        f"measured: {SOURCE}.\n"
        "times: Tensat's seconds / the workbench's seconds, saturation and extraction only. Excluded: engine "
        f"start + pricing in seconds: {apart}.\n"
        f"whole: optimize() in a fresh process, imports and certificate included: "
        f"{sum(c.seconds for c in calls):.1f} s in total, search {sum(r.search for r in runs):.1f} s."
    )


@reporting_errors
def demo(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="repvgg, mobileone, squeezenet or another real architecture."),
    ] = "repvgg",
    folder: Annotated[Path, option("FOLDER", "Folder of the results.")] = Path("out"),
    cost: OwnCostOption = "cpu",
    time: Annotated[float, option("S", "How long to time.", min=0.001)] = 10.0,
    quiet: QuietOption = False,
) -> None:
    """Optimise a real architecture with generated weights end to end: RepVGG-A0 as trained, or another."""
    import onnx

    from workbench.studies.benchmarks.light import demonstration

    model = demonstration(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableOutput(f"{folder}: {error.strerror}") from None
    source = check_writable(folder / f"{name}.onnx")
    writing(lambda: onnx.save_model(model, str(source)))
    run_optimize(
        source,
        {"cost": cost, "time": True, "time_seconds": time},
        output=folder / f"{name}-optimised.onnx",
        json=folder / f"{name}.json",
        report=folder / f"{name}.html",
        quiet=quiet,
    )
