"""``workbench optimize``: the whole way from a model to a better one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.options import (
    DimOption,
    Extractor,
    ModelArgument,
    OwnCostOption,
    QuietOption,
    SizeOption,
    check_input,
    dimensions,
    to_json,
    writing,
)
from workbench.cli.rule_options import RulesOption, chosen_rules
from workbench.console import FAILED, INTERRUPTED, Progress, complain, reporting_errors, show_table, stop
from workbench.files import check_writable, write_atomic

if TYPE_CHECKING:
    from workbench.pipeline import Optimized


@reporting_errors
def optimize(
    model: ModelArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the optimised model here: ONNX, or TASO's text as file.model.",
        ),
    ] = None,
    rules: RulesOption = ["default"],  # noqa: B006  (read only; typer wants the value itself)
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Use another system's rules as they are, unsound ones too.")
    ] = False,
    extractor: Annotated[
        Extractor, typer.Option(metavar="tree|dag|exact", help="How to extract.")
    ] = Extractor.exact,
    cost: OwnCostOption = "cpu",
    e_nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Limit on e-nodes.")] = 50_000,
    seconds: Annotated[
        float, typer.Option(min=0.001, metavar="S", help="Limit on saturation, and on extraction.")
    ] = 60.0,
    iterations: Annotated[int, typer.Option(min=1, metavar="N", help="Limit on iterations.")] = 15,
    k_multi: Annotated[
        int, typer.Option(min=0, metavar="N", help="Iterations with multi-pattern rules.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the certificate's inputs.")] = 0,
    dim: DimOption = [],  # noqa: B006  (read only; typer wants the value itself)
    keep_overridable: Annotated[
        bool, typer.Option("--keep-overridable", help="Keep inputs that have initial values as inputs.")
    ] = False,
    size: SizeOption = [],  # noqa: B006
    time: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="S", help="Time result and original for so long; default 3."),
    ] = None,
    no_time: Annotated[
        bool, typer.Option("--no-time", help="Time nothing: costs alone decide what is written.")
    ] = False,
    measure: Annotated[
        int, typer.Option(min=0, metavar="K", help="Time the K best results and keep the fastest.")
    ] = 0,
    measure_on: Annotated[
        str,
        typer.Option(
            metavar="TARGET", help="Where: onnxruntime, torch, torch+compile, torch:cuda, torch:cuda+graph."
        ),
    ] = "onnxruntime",
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the figures as JSON.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a self-contained report.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Optimise a model: import, saturate, extract, time, certify, write.

    What is written is the original where no result is faster on this machine. With --cost of another device
    costs alone decide.
    """
    settings = {
        "rules": chosen_rules(rules, published=as_published),
        "extractor": extractor.value,
        "cost": cost,
        "e_nodes": e_nodes,
        "seconds": seconds,
        "iterations": iterations,
        "k_multi": k_multi,
        "seed": seed,
        "measure": measure,
        "measure_on": measure_on,
        "dims": dimensions(dim),
        "keep_inputs": keep_overridable,
        "sizes": dimensions(size, "--size"),
        **timing_settings(time, no_time),
    }
    run_optimize(model, settings, output=output, json=json, report=report, quiet=quiet)


def timing_settings(seconds: float | None, none: bool) -> dict[str, Any]:
    """Return what ``--time S`` and ``--no-time`` ask for; raise ValueError where they contradict."""
    if none and seconds is not None:
        raise ValueError("--time and --no-time contradict each other: leave one out")
    if none:
        return {"time": False}
    return {} if seconds is None else {"time": True, "time_seconds": seconds}


def run_optimize(
    model: Path,
    settings: dict[str, Any],
    *,
    output: Path | None,
    json: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    """Optimise a model, write what is asked for, print the figures stage by stage."""
    check_input(model)
    places = [p for p in (output, json, report) if p is not None]
    if len({p.resolve() for p in places}) < len(places):
        raise ValueError(f"two results would go to one file: {', '.join(map(str, places))}")
    for place in places:
        check_writable(place)

    from workbench.frontends.model_file import is_taso_model
    from workbench.saturation.process import warm

    warm()  # the engine's process starts while the rest is imported
    from workbench.pipeline import optimize as run
    from workbench.summary import summary_rows

    written: list[str] = []
    with Progress(model.name, quiet=quiet) as progress:
        result = run(model, progress=progress, **settings)
        try:
            if output is not None:
                progress("export")
                writing(lambda: result.save(output))
                lacking = ", the format has no data of weights" if is_taso_model(output) else ""
                written.append(f"{output} ({output.stat().st_size / 2**20:.1f} MiB{lacking})")
            if json is not None:
                figures = _figures(result, model, output)
                writing(lambda: write_atomic(json, to_json(figures)))
                written.append(str(json))
            if report is not None:
                progress("report")
                from workbench.report import report_html

                page = report_html(result, title=model.name)
                writing(lambda: write_atomic(report, page))
                written.append(str(report))
        except KeyboardInterrupt:
            stop(INTERRUPTED, f"interrupted; what was written: {', '.join(written) or 'nothing'}")

    rows = summary_rows(result, written=written)
    show_table(
        ("stage", "seconds", "figures"),
        [(r.what, "" if r.seconds is None else f"{r.seconds:.3f}", r.figures) for r in rows],
        title=f"{model.name}",
        right=[1],
    )
    if result.stop_reason.value == "interrupted":
        complain("interrupted: the result above comes from what the saturation had reached")
    if result.certificate is not None and not result.certificate.passed:
        blamed = ", ".join(result.offending) or "no single rule"
        kept = "; the original was written" if output is not None else ""
        stop(FAILED, f"the certificate failed ({blamed}): the original stays{kept}")


def _figures(result: Optimized, model: Path, output: Path | None) -> dict[str, Any]:
    found = result.coverage
    timing = None if result.measured is None else result.measured.timing()
    return result.summary() | {
        "model": str(model),
        "output": None if output is None else str(output),
        "timing": None if timing is None else timing.summary(),
        "coverage": {"modelled": found.modelled, "opaque": found.opaque, "constant": found.constant},
    }
