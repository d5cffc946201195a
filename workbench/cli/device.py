"""``workbench device``: what a device has to measure, measuring it, and the cost table that comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from workbench.cli.options import CostOption, QuietOption, check_input
from workbench.console import Progress, reporting_errors, show_table
from workbench.files import check_writable

if TYPE_CHECKING:
    from workbench.graph import Graph

app = typer.Typer(
    name="device",
    help="Measure operators and graphs on a device: a machine with torch and numpy is enough for it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

OutputOption = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Write here.")]
RulesOption = Annotated[str, typer.Option(metavar="NAME", help="Rule set, or a file.rules.")]
ResultsArgument = Annotated[
    list[Path], typer.Argument(metavar="RESULTS.json...", help="What measuring wrote.", show_default=False)
]


@app.command()
@reporting_errors
def instances(
    output: OutputOption,
    network: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NETWORK]...", help="Networks or ONNX files (all networks)."),
    ] = None,
    rules: RulesOption = "default",
    e_nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Limit on e-nodes.")] = 50_000,
    seconds: Annotated[float, typer.Option(min=0.001, metavar="S", help="Limit on saturation.")] = 60.0,
    iterations: Annotated[int, typer.Option(min=1, metavar="N", help="Limit on iterations.")] = 15,
    k_multi: Annotated[
        int, typer.Option(min=0, metavar="N", help="Iterations with multi-pattern rules.")
    ] = 1,
    settle: Annotated[
        int, typer.Option(min=0, metavar="N", help="Iterations before the multi-pattern ones.")
    ] = 4,
    quiet: QuietOption = False,
) -> None:
    """List the distinct operator instances of saturated networks as a spec to measure."""
    check_writable(output)
    from workbench.benchmarks import benchmarks
    from workbench.devices.exchange import Spec, write_spec
    from workbench.devices.instances import saturated_instances
    from workbench.rules import rule_set
    from workbench.saturation import Limits

    names = network or benchmarks()
    limits = Limits(e_nodes, seconds, iterations, k_multi, settle=settle)
    with Progress(quiet=quiet) as progress:
        found = saturated_instances(
            {name: _graph(name) for name in names},
            rules=rule_set(rules),
            limits=limits,
            progress=progress,
        )
    about = {"networks": dict(found.counts), "rules": rules, "e_nodes": e_nodes, "seconds": seconds}
    write_spec(
        output,
        Spec(found.instances, about=about | {"iterations": iterations, "k_multi": k_multi, "settle": settle}),
    )
    show_table(("network", "instances"), list(found.counts.items()), right=[1])
    for op, count in sorted(found.unmeasured.items()):
        typer.echo(f"left out, no torch form: {count} of {op}")
    typer.echo(f"\n{len(found)} distinct instances in {output}")


@app.command()
@reporting_errors
def graphs(
    output: OutputOption,
    network: Annotated[
        list[str], typer.Argument(metavar="NETWORK...", help="Networks or ONNX files.", show_default=False)
    ],
    also: Annotated[
        list[str], typer.Option(metavar="LABEL=FILE", help="Another graph of the same function; repeatable.")
    ] = [],  # noqa: B006  (read only)
    rules: RulesOption = "default",
    cost: CostOption = "analytic",
    seconds: Annotated[float, typer.Option(min=0.001, metavar="S", help="Limit on saturation.")] = 60.0,
    k_multi: Annotated[
        int, typer.Option(min=0, metavar="N", help="Iterations with multi-pattern rules.")
    ] = 1,
    search: Annotated[bool, typer.Option("--search", help="Also what TASO's search finds.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Write networks, and what optimising makes of them, as a spec of graphs to time."""
    check_writable(output)
    if also and len(network) != 1:
        raise ValueError("--also goes with one network: its graphs are timed against that one")
    from workbench.devices.exchange import GraphEntry, Spec, write_spec
    from workbench.pipeline import optimize
    from workbench.search.optimize import search_optimize

    entries = []
    for name in network:
        graph = _graph(name)
        entries.append(GraphEntry(name, "original", graph))
        with Progress(name, quiet=quiet) as progress:
            result = optimize(
                graph, rules=rules, cost=cost, seconds=seconds, k_multi=k_multi, progress=progress
            )
        if result.graph is graph:
            typer.echo(f"{name}: nothing cheaper was found")
        else:
            entries.append(GraphEntry(name, "optimised", result.graph))
        if search:
            with Progress(name, quiet=quiet) as progress:
                rival = search_optimize(graph, rules=rules, cost=cost, seconds=seconds, progress=progress)
            if rival.graph is graph:
                typer.echo(f"{name}: TASO's search found nothing cheaper")
            else:
                entries.append(GraphEntry(name, "TASO's search", rival.graph))
    for text in also:
        label, equals, file = text.partition("=")
        if not (label and equals and file):
            raise ValueError(f"--also {text}: LABEL=FILE is expected")
        entries.append(GraphEntry(network[0], label, _graph(file)))
    write_spec(output, Spec(graphs=tuple(entries), about={"rules": rules, "cost": cost, "k_multi": k_multi}))
    typer.echo(f"{len(entries)} graphs in {output}")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def measure(context: typer.Context) -> None:
    """Measure a spec on this machine: SPEC.json RESULTS.json [--device cuda]; --help has the rest."""
    from workbench.devices.measure import main

    raise typer.Exit(main(context.args))


@app.command()
@reporting_errors
def record(
    results: ResultsArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE|FOLDER", help="Default: results/costs/.")
    ] = None,
) -> None:
    """Make the recorded cost table of a device from what was measured on it."""
    for path in results:
        check_input(path)
    from workbench.devices.record import record_table

    target, merged = record_table(results, output)
    typer.echo(f"{len(merged.measured)} instances of {merged.device['device']} in {target}")
    for key, reason in list(merged.failures.items())[:10]:
        typer.echo(f"not measured: {key}: {reason}")
    if len(merged.failures) > 10:
        typer.echo(f"… {len(merged.failures)} not measured in all")


@app.command()
@reporting_errors
def show(
    results: ResultsArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.md", help="Write the tables here, too.")
    ] = None,
) -> None:
    """Show the latency of graphs that was measured, and the sum of their operators beside it."""
    from workbench.devices.exchange import read_results
    from workbench.experiments.markdown import lines
    from workbench.files import write_atomic

    written = ["# Latency of graphs", "\n".join(_LATENCY_NOTES)]
    for path in results:
        check_input(path)
        found = read_results(path)
        rows = [_latency_row(row) for row in found.latency]
        title = f"{found.device.get('device')}, {found.protocol.get('caches')} caches"
        show_table(_LATENCY, rows, title=title, right=[3, 4, 5, 6, 7])
        made = ", ".join(f"{k} {v}" for k, v in sorted(found.device.items()) if k != "device")
        written += [f"## {title}", made, lines(_LATENCY, rows)]
    if output is not None:
        write_atomic(output, "\n\n".join(written) + "\n")


_LATENCY: Final = (
    "group",
    "graph",
    "run by",
    "median µs",
    "quartiles",
    "speed-up",
    "operators µs",
    "ratio",
    "note",
)

_LATENCY_NOTES: Final = (
    "Made by `workbench device show -o`. All graphs of a group run in alternation on the same inputs.",
    "*Speed-up* is over the group's first graph in the same way of running: the median of the rounds'",
    "ratios, and its 95 % interval. *Operators µs* is the sum of a graph's operators measured alone,",
    "*ratio* what the graph takes over that sum.",
)


def _latency_row(row: dict[str, Any]) -> tuple[str, ...]:
    named = (row["group"], row["label"], row["mode"])
    if "skipped" in row:
        return (*named, *("–",) * 5, row["skipped"])
    low, high = row["quartiles_us"]
    speedup, total = "–", row.get("operators_us")
    if "speedup" in row:
        speedup = "{:.3f} ({:.3f}–{:.3f})".format(row["speedup"], *row["interval"])
    sums = ("–", "–") if total is None else (f"{total:.1f}", f"{row['ratio']:.2f}")
    note = f"differs by {row['difference']:.1e}" if row["difference"] > 1e-3 else ""
    return (*named, f"{row['median_us']:.1f}", f"{low:.1f}–{high:.1f}", speedup, *sums, note)


def _graph(name: str) -> Graph:
    from workbench.benchmarks import benchmark

    if name.endswith(".onnx") or Path(name).is_file():
        check_input(Path(name))
        from workbench.frontends import load_onnx

        return load_onnx(name)
    return benchmark(name)
