"""``workbench bench`` and ``demo``: published networks and real architectures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.optimize import run_optimize
from workbench.cli.options import CostOption, OwnCostOption, QuietOption, to_json, writing
from workbench.cli.rule_options import RulesOption
from workbench.console import Progress, reporting_errors, show_table
from workbench.files import UnwritableOutput, check_writable
from workbench.units import times


@reporting_errors
def bench(
    network: Annotated[
        list[str] | None, typer.Argument(metavar="[NETWORK]...", help="Published networks.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All published networks.")] = False,
    rules: RulesOption = ["default"],  # noqa: B006  (read only; typer wants the value itself)
    cost: CostOption = "analytic",
    e_nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Limit on e-nodes.")] = 50_000,
    seconds: Annotated[float, typer.Option(min=0.001, metavar="S", help="Limit on saturation.")] = 60.0,
    iterations: Annotated[int, typer.Option(min=1, metavar="N", help="Limit on iterations.")] = 15,
    k_multi: Annotated[
        int, typer.Option(min=0, metavar="N", help="Iterations with multi-pattern rules.")
    ] = 1,
    settle: Annotated[
        int, typer.Option(min=0, metavar="N", help="Iterations before the multi-pattern ones.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Run published networks and show the papers' figures beside ours."""
    from workbench.benchmarks import benchmarks
    from workbench.benchmarks.run import run_benchmark
    from workbench.benchmarks.whole import whole_call
    from workbench.saturation import Limits

    names = benchmarks() if all_ else network
    if not names:
        raise ValueError(f"name a network, or --all; there are {', '.join(benchmarks())}")
    if len(rules) > 1:
        raise ValueError(f"--rules is given once here, not as {', '.join(rules)}")
    (chosen,) = rules
    limits = Limits(e_nodes, seconds, iterations, k_multi, settle=settle)
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
    from workbench.benchmarks.published import SOURCE
    from workbench.costs.described import described

    apart = ", ".join(f"{r.network} {r.engine:.2f} + {r.pricing:.2f}" for r in runs)
    typer.echo(
        f"\nGains: original / optimised, {described(runs[0].cost_source)}; those of Tensat and TASO are "
        f"measured: {SOURCE}.\n"
        "times: Tensat's seconds / ours of saturation and extraction. Not among them, engine start + pricing "
        f"in seconds: {apart}.\n"
        f"whole: optimize() in a fresh process, imports and certificate included: "
        f"{sum(c.seconds for c in calls):.1f} s in all, search {sum(r.search for r in runs):.1f} s."
    )


@reporting_errors
def demo(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="repvgg, mobileone, squeezenet or another real architecture."),
    ] = "repvgg",
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results go.")] = Path("out"),
    cost: OwnCostOption = "cpu",
    time: Annotated[float, typer.Option(min=0.001, metavar="S", help="How long to time.")] = 10.0,
    quiet: QuietOption = False,
) -> None:
    """Optimise a real architecture end to end, weights generated: RepVGG-A0 as it is trained, or another."""
    import onnx

    from workbench.benchmarks.demonstration import demonstration

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
