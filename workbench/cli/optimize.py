"""``workbench optimize``: the whole way from a model to a better one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.options import (
    CostOption,
    DimOption,
    Extractor,
    ModelArgument,
    QuietOption,
    SizeOption,
    check_input,
    dimensions,
    to_json,
    writing,
)
from workbench.console import FAILED, INTERRUPTED, Progress, complain, reporting_errors, show_table, stop
from workbench.files import check_writable, write_atomic

if TYPE_CHECKING:
    from workbench.pipeline import Optimized
    from workbench.timing import Timing


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
    rules: Annotated[
        str, typer.Option(metavar="NAME", help="Rule set, a file.rules, or a file of TASO's or Tensat's.")
    ] = "default",
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Use another system's rules as they are, unsound ones too.")
    ] = False,
    extractor: Annotated[
        Extractor, typer.Option(metavar="tree|dag|exact", help="How to extract.")
    ] = Extractor.exact,
    cost: CostOption = "analytic",
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
        float, typer.Option(min=0.0, metavar="S", help="Also time both models in ONNX Runtime.")
    ] = 0.0,
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
    """Optimise a model: import, saturate, extract, certify, write."""
    settings = {
        "rules": _published(rules) if as_published else rules,
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
    }
    run_optimize(model, settings, output=output, json=json, report=report, time=time, quiet=quiet)


def run_optimize(
    model: Path,
    settings: dict[str, Any],
    *,
    output: Path | None,
    json: Path | None,
    report: Path | None,
    time: float,
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
    timing = None
    with Progress(model.name, quiet=quiet) as progress:
        result = run(model, progress=progress, **settings)
        try:
            if output is not None:
                progress("export")
                writing(lambda: result.save(output))
                lacking = ", the format has no data of weights" if is_taso_model(output) else ""
                written.append(f"{output} ({output.stat().st_size / 2**20:.1f} MiB{lacking})")
            if time > 0:
                progress("timing")
                bound = bool(settings.get("dims")) or result.dynamic is not None
                timing = timed(model, result, time, bound=bound)
            if json is not None:
                figures = _figures(result, model, output, timing)
                writing(lambda: write_atomic(json, to_json(figures)))
                written.append(str(json))
            if report is not None:
                progress("report")
                from workbench.report import report_html

                page = report_html(result, title=model.name, timing=timing)
                writing(lambda: write_atomic(report, page))
                written.append(str(report))
        except KeyboardInterrupt:
            stop(INTERRUPTED, f"interrupted; what was written: {', '.join(written) or 'nothing'}")

    rows = summary_rows(result, written=written, timing=timing)
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


def timed(model: Path, result: Optimized, seconds: float, *, bound: bool) -> Timing:
    """Time the original against the result in ONNX Runtime."""
    import onnx

    from workbench.frontends.model_file import is_taso_model
    from workbench.timing import compare

    # A model with dimensions left open is timed as it was bound, another format's as ONNX.
    before = result.original if bound or is_taso_model(model) else onnx.load(str(model))
    return compare(before, result.graph, seconds=seconds)


def _figures(result: Optimized, model: Path, output: Path | None, timing: Timing | None) -> dict[str, Any]:
    found = result.coverage
    return result.summary() | {
        "model": str(model),
        "output": None if output is None else str(output),
        "timing": None if timing is None else timing.summary(),
        "coverage": {"modelled": found.modelled, "opaque": found.opaque, "constant": found.constant},
    }


def _published(rules: str) -> Any:
    from workbench.rules import load_rules, rule_set

    return load_rules(rules, strict=False) if Path(rules).is_file() else rule_set(rules)
