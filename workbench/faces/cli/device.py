"""``workbench device``: list operators to measure, measure them on a device, record its cost table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from workbench.faces.cli import options
from workbench.faces.cli.console import Progress, command, show_table
from workbench.faces.cli.options import argument, check_files, flag, option, write_json
from workbench.optimizer.settings import Settings
from workbench.saturation.limits import Limits
from workbench.support.files import check_writable, write_atomic

if TYPE_CHECKING:
    from workbench.graph import Graph

app = typer.Typer(
    name="device",
    help="Measure operators and graphs on a device; the device needs only torch and numpy.",
    **options.APPLICATION,
)


@command(app)
@options.with_settings(Limits, "e_nodes", "seconds", "iterations", "k_multi", "settle")
def instances(
    output: Path = option(..., "FILE", "Write here.", "--output", "-o"),
    network: list[str] | None = argument(None, "NETWORK", "Networks or ONNX files (all networks)."),
    rules: str = option("default", "NAME", "Rule set, or a file.rules."),
    quiet: bool = options.QUIET,
    **settings: Any,
) -> None:
    """List the distinct operator instances of saturated networks as a spec to measure."""
    check_writable(output)
    from workbench.rules import rule_set
    from workbench.studies.benchmarks import benchmarks
    from workbench.studies.devices.instances import saturated_instances
    from workbench.studies.devices.spec_io import Spec, write_spec

    limits, named = Limits(**settings), {name: _graph(name) for name in network or benchmarks()}
    with Progress(quiet=quiet) as progress:
        found = saturated_instances(named, rules=rule_set(rules), limits=limits, progress=progress)
    about = {"networks": dict(found.counts), "rules": rules, **settings}
    write_spec(output, Spec(found.instances, about=about))
    show_table(("network", "instances"), list(found.counts.items()), right=[1])
    for op, count in sorted(found.unmeasured.items()):
        typer.echo(f"left out, no torch form: {count} of {op}")
    typer.echo(f"\n{len(found.instances)} distinct instances in {output}")


@command(app)
@options.with_settings(Settings, "seconds", "k_multi")
def graphs(
    output: Path = option(..., "FILE", "Write here.", "--output", "-o"),
    network: list[str] = argument(..., "NETWORK", "Networks or ONNX files."),
    also: list[str] = option([], "LABEL=FILE", "Another graph of the same function; repeatable."),
    rules: str = option("default", "NAME", "Rule set, or a file.rules."),
    cost: str = options.COST,
    search: bool = flag("--search", "Add the result of TASO's search."),
    quiet: bool = options.QUIET,
    **settings: Any,
) -> None:
    """Write networks and their optimised graphs as a spec of graphs to time."""
    check_writable(output)
    if also and len(network) != 1:
        raise ValueError(
            f"--also must come with exactly one network, got {len(network)} (its graphs are timed against it)"
        )
    from workbench.optimizer.pipeline import optimize
    from workbench.studies.devices.spec_io import GraphEntry, Spec, write_spec
    from workbench.studies.search.optimize import search_optimize

    entries = []
    for name in network:
        graph = _graph(name)
        entries.append(GraphEntry(name, "original", graph))
        with Progress(name, quiet=quiet) as progress:
            result = optimize(graph, rules=rules, cost=cost, progress=progress, **settings)
        if result.graph is graph:
            typer.echo(f"{name}: nothing cheaper was found")
        else:
            entries.append(GraphEntry(name, "optimised", result.graph))
        if search:
            with Progress(name, quiet=quiet) as progress:
                limit = settings["seconds"]
                rival = search_optimize(graph, rules=rules, cost=cost, seconds=limit, progress=progress)
            if rival.graph is graph:
                typer.echo(f"{name}: TASO's search found nothing cheaper")
            else:
                entries.append(GraphEntry(name, "TASO's search", rival.graph))
    for text in also:
        label, equals, file = text.partition("=")
        if not (label and equals and file):
            raise ValueError(f"--also must be LABEL=FILE, got {text}")
        entries.append(GraphEntry(network[0], label, _graph(file)))
    about = {"rules": rules, "cost": cost, "k_multi": settings["k_multi"]}
    write_spec(output, Spec(graphs=tuple(entries), about=about))
    typer.echo(f"{len(entries)} graphs in {output}")


@app.command(
    cls=options.GroupedCommand,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def measure(context: typer.Context) -> None:
    """Measure a spec on this machine: SPEC.json RESULTS.json [--device cuda]; --help shows all options."""
    from workbench.studies.devices.measure import main

    raise typer.Exit(main(context.args))


@command(app)
def record(
    results: list[Path] = argument(..., "RESULTS.json", "Files of `measure`."),
    output: Path | None = option(None, "FILE|FOLDER", "Default: results/costs/.", "--output", "-o"),
) -> None:
    """Make the recorded cost table of a device from its measurements."""
    check_files(results)
    from workbench.studies.devices.spec_io import record_table

    target, merged = record_table(results, output)
    typer.echo(f"{len(merged.measured)} instances of {merged.device['device']} in {target}")
    methods = Counter(merged.methods.get(key, "") for key in merged.measured)
    if len(methods) > 1:
        named = [f"{n} by {_METHODS.get(m, m or 'another method')}" for m, n in methods.most_common()]
        typer.echo(", ".join(named))
    for key, reason in list(merged.failures.items())[:10]:
        typer.echo(f"not measured: {key}: {reason}")
    if len(merged.failures) > 10:
        typer.echo(f"… {len(merged.failures)} not measured in total")


@command(app)
def show(
    results: list[Path] = argument(..., "RESULTS.json", "Files of `measure`."),
    output: Path | None = option(None, "FILE.md", "Write the tables here, too.", "--output", "-o"),
) -> None:
    """Show the measured latency of graphs, next to the sum of their operators."""
    from workbench.studies.devices.spec_io import read_results
    from workbench.studies.experiments.tables import lines

    check_files(results)
    head = ["group", "graph", "run by", "median µs", "quartiles", "speed-up", "operators µs", "ratio", "note"]
    written = ["# Latency of graphs", _LATENCY_NOTES]
    for path in results:
        found = read_results(path)
        rows = [_latency_row(row) for row in found.latency]
        title = f"{found.device.get('device')}, {found.protocol.get('caches')} caches"
        show_table(head, rows, title=title, right=[3, 4, 5, 6, 7])
        made = ", ".join(f"{k} {v}" for k, v in sorted(found.device.items()) if k != "device")
        written += [f"## {title}", made, lines(head, rows)]
    if output is not None:
        write_atomic(output, "\n\n".join(written) + "\n")


@command(app)
def peak(
    threads: int = option(1, "N", "Threads of a run."),
    json: Path | None = options.JSON,
) -> None:
    """Measure the limits of this machine: products, and bandwidths of the caches and of memory; kept once measured."""
    from workbench.studies.devices.floors import peak as limits

    found = limits(threads, anew=True)
    write_json(json, found.summary)
    typer.echo(str(found))


#: How a message says by which method instances were measured.
_METHODS: Final = {
    "graph": "recorded graphs",
    "events": "events, which count launches",
    "clock": "the clock",
    "view": "no run, as views",
}

_LATENCY_NOTES: Final = """\
Made by `workbench device show -o`. All graphs of a group run in alternation on the same inputs.
*Speed-up* is relative to the group's first graph, run in the same way: the median of the rounds'
ratios, and its 95 % interval. *Operators µs* is the sum of a graph's operators, each measured alone;
*ratio* is the graph's median time divided by that sum."""


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
    from workbench.studies.benchmarks import benchmark

    if name.endswith(".onnx") or Path(name).is_file():
        check_files([Path(name)])
        from workbench.frontends import load_onnx

        return load_onnx(name)
    return benchmark(name)
