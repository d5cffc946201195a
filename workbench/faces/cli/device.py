"""``workbench device``: list operators to measure, measure them on a device, record its cost table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from workbench.faces.cli import options
from workbench.faces.cli.console import Progress, command, show_table
from workbench.faces.cli.options import argument, check_files, option, write_json
from workbench.saturation.limits import Limits
from workbench.support.files import check_writable

if TYPE_CHECKING:
    from workbench.graph import Graph

app = typer.Typer(
    name="device",
    help="Measure operators on a device; the device needs only torch and numpy.",
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


def _graph(name: str) -> Graph:
    from workbench.studies.benchmarks import benchmark

    if name.endswith(".onnx") or Path(name).is_file():
        check_files([Path(name)])
        from workbench.frontends import load_onnx

        return load_onnx(name)
    return benchmark(name)
