"""``workbench optimize``, ``demo`` and ``search``: optimise a model end to end, by saturation or TASO's search."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer

from workbench.faces.cli import console, options
from workbench.faces.cli.console import Files, Progress, show_table, stop
from workbench.faces.cli.options import argument, check_files, flag, option, write_text, writing
from workbench.optimizer.settings import Settings
from workbench.run.trace import StopReason

if TYPE_CHECKING:
    from workbench.kernels.codegen.deployment import Deployed
    from workbench.optimizer.result import Optimized, Result
    from workbench.optimizer.summary import Row
    from workbench.studies.devices.floors import Floors
    from workbench.studies.devices.runtime_options import RuntimeOptions


#: Panels of the help.
_LIMITS, _KERNELS = "Limits and measuring", "Kernels"
_SETTINGS = (
    "e_nodes seconds iterations k_multi settle extraction_seconds seed measure measure_on measure_seconds"
)


@options.with_settings(Settings, *_SETTINGS.split(), panel=_LIMITS)
def optimize(
    context: typer.Context,
    model: Path = options.MODEL,
    output: Path | None = option(
        None,
        "FILE",
        "Write the optimised model here: ONNX, or TASO's text as file.model.",
        "--output",
        "-o",
        panel="Files",
    ),
    force: bool = flag("--force", "Let FILE replace the model itself.", panel="Files"),
    rules: list[str] = options.RULES,
    as_published: bool = flag(
        "--as-published", "Use all rules of another system, including unsound ones.", panel="Rules"
    ),
    keep_refuted: bool = options.KEEP_REFUTED,
    composites: list[Path] = option(
        [],
        "FILE",
        "Composites whose laws and kernels take part; repeatable.",
        panel="Rules",
        exists=True,
        dir_okay=False,
    ),
    kernels: bool = flag(
        "--kernels",
        "Write a program with kernels in C, if one is faster; the library lies beside FILE.",
        panel=_KERNELS,
    ),
    error: float = option(
        10.0,
        "X",
        "With --kernels: the result's error is at most X times the original's own.",
        min=0.001,
        panel=_KERNELS,
    ),
    kernel_memory: float | None = option(
        None,
        "MB",
        "With --kernels: the most memory that transformed weights may take.",
        min=0.0,
        panel=_KERNELS,
    ),
    extractor: str = option("exact", "tree|dag|exact|NAME", "How to extract; NAME is one of a package."),
    cost: str = options.OWN_COST,
    accelerator: str | None = option(
        None, "UNIT|FILE.toml", "Cut products into the tiles of a hardware unit; its formulas are the costs."
    ),
    dim: list[str] = options.DIM,
    keep_overridable: bool = flag(
        "--keep-inputs",
        "Keep inputs that have initial values as inputs.",
        "--keep-overridable",
        panel="Sizes",
    ),
    size: list[str] = options.SIZE,
    time: float | None = option(
        None, "S", "Seconds of timing result and original; default 3.", min=0.001, panel=_LIMITS
    ),
    no_time: bool = flag(
        "--no-time", "Time nothing: costs alone decide which graph is written.", panel=_LIMITS
    ),
    runtime_options: bool = flag(
        "--runtime-options",
        "Measure the runtime's options for what is written, and print the lines that set the best.",
        panel=_LIMITS,
    ),
    profile: bool = flag(
        "--profile", "Time every rule, and show what each made and what the result uses of it."
    ),
    json: Path | None = options.JSON,
    report: Path | None = option(None, "FILE.html", "Write a self-contained report.", panel="Files"),
    proof: Path | None = option(
        None, "FILE", "Write the proof, for check; its search ends after --seconds, too.", panel="Files"
    ),
    quiet: bool = options.QUIET,
    **settings: Any,
) -> None:
    """Optimise a model: import, saturate, extract, time, certify, write.

    The original is written if no result is faster on this machine. If --cost names another device, costs
    alone decide.
    """
    if accelerator is not None and cost != "cpu":
        raise ValueError("--cost and --accelerator contradict each other: a unit has costs of its own")
    source: Any = context.get_parameter_source("cost")
    if source.name == "DEFAULT" and accelerator is None and not kernels:
        cost = _cost_there(settings["measure"], settings["measure_on"]) or cost
    if no_time and time is not None:
        raise ValueError("--time and --no-time contradict each other; leave one out")
    used: Any = options.chosen_rules(rules, as_published=as_published)
    if composites:
        from workbench.kernels.composites.define import declared_rules

        used = [*(used if isinstance(used, list) else [used]), *map(declared_rules, composites)]
    chosen = {
        **settings,
        "rules": used,
        "keep_refuted": keep_refuted,
        "extractor": options.known_extractor(extractor),
        **({"cost": cost} if accelerator is None else {"accelerator": accelerator}),
        "dims": options.dimensions(dim),
        "keep_inputs": keep_overridable,
        "sizes": options.dimensions(size, "--size"),
        "profile": profile,
    }
    if no_time:
        chosen["time"] = False
    elif time is not None:
        chosen |= {"time": True, "time_seconds": time}
    if kernels:
        _check_kernels(output, cost, accelerator)
    if not force:
        check_files([model], [output], hint=" (try another name, or --force)")
    bounds = {"error": error, "memory": None if kernel_memory is None else int(kernel_memory * 1e6)}
    places = {"output": output, "json": json, "report": report, "proof": proof}
    _optimise(model, chosen, places, quiet=quiet, kernels=bounds if kernels else None, tune=runtime_options)


def _cost_there(measure: int, target: str) -> str | None:
    """Return the roofline of the GPU on which candidates are timed, which this machine's costs would misjudge."""
    device = target.partition("+")[0].partition(":")[2]
    if not measure or not device.startswith("cuda"):
        return None
    from workbench.devices.device import open_device
    from workbench.studies.devices.spec_io import roofline_of

    return f"analytic:{roofline_of(open_device(device).title)}"


def _check_kernels(output: Path | None, cost: str, accelerator: str | None) -> None:
    """Check what ``--kernels`` needs: an ONNX file to write, the costs of this machine, a C compiler."""
    from workbench.kernels.codegen.compiler import build_from, compiler

    if output is None or output.suffix != ".onnx":
        raise ValueError(f"--kernels needs --output FILE.onnx, got {'none' if output is None else output}")
    if cost not in ("cpu", "analytic") or accelerator is not None:
        given = cost if accelerator is None else accelerator
        raise ValueError(f"--kernels needs the costs of this machine, got {given} (try --cost cpu)")
    compiler(build_from())


def _optimise(
    model: Path,
    settings: dict[str, Any],
    places: Mapping[str, Path | None],
    *,
    quiet: bool,
    kernels: dict[str, Any] | None = None,
    tune: bool = False,
) -> None:
    """Optimise a model, write its results to ``places`` and print the figures of each stage.

    ``kernels`` are the bounds on a program with kernels in C, which is written if it is faster. With ``tune`` the
    options of the runtime are measured for the file that is written, or for the model.
    """
    output, json, report, proof = map(places.get, ("output", "json", "report", "proof"))
    check_files([model], [json, report, proof])
    check_files([], [output, json, report, proof])
    if proof is not None and (output is None or output.suffix != ".onnx" or kernels is not None):
        raise ValueError("--proof needs --output FILE.onnx, without --kernels")

    from workbench.saturation.process import warm

    warm()  # the engine's process starts while the rest is imported
    from workbench.optimizer.pipeline import optimize as run
    from workbench.optimizer.summary import Row, summary_rows
    from workbench.studies.devices.runtime_options import runtime_options

    program: Deployed | None = None
    limits: Floors | None = None
    found: RuntimeOptions | None = None
    spent, unproved = 0.0, ""
    with Progress(model.name, quiet=quiet) as progress:
        result = run(model, progress=progress, **settings)
        files = Files(result)
        try:
            if kernels is not None:
                progress("kernels")
                began = perf_counter()
                from workbench.kernels.codegen.deployment import with_kernels

                timed = settings.get("time", True)
                program = with_kernels(result, cost=settings["cost"], time=timed, **kernels)
                spent = perf_counter() - began
                if program.plan is None and settings.get("measure") and settings.get("measure_on") == "c":
                    # It was the fastest with kernels, which says nothing of it without them.
                    result = files.result = replace(result, graph=result.original)
            faster = program is not None and program.plan is not None
            ranking = result.measured
            if not faster and ranking is not None and ranking.decided and not ranking.failure:
                progress("limits")
                limits = result.floors()
            if output is not None:
                progress("export")
            if output is not None and program is not None and faster:
                from workbench.kernels.codegen.partitioned import library_beside

                writing(lambda: program.save(output))
                files.written.append(f"{output} and {library_beside(output).name}")
            else:
                files.model(output)
            if proof is not None:
                unproved = _proved(result, model, output, proof, files)
            if tune:
                progress("runtime options")
                shapes = {name: t.shape for name, t in result.original.input_types.items()}
                found = runtime_options(output or model, shapes=shapes)
            more = {"kernels": program, "limits": limits, "runtime_options": found}
            files.json(json, lambda: _figures(result, model, output, more))
            if report is not None:
                progress("report")
            files.report(report, model.name, limits)
        except KeyboardInterrupt:
            stop(console.INTERRUPTED, f"interrupted; written so far: {', '.join(files.written) or 'nothing'}")

    rows = list(summary_rows(result, written=files.written or ["nothing: no -o FILE was given"]))
    if program is not None:
        rows.insert([r.what for r in rows].index("written"), Row("kernels", spent, str(program)))
    others = {"limits": limits, "options": found}
    rows += [Row(name, None, str(thing)) for name, thing in others.items() if thing is not None]
    interrupted = "interrupted: the result above comes from the e-graph as it was at the interrupt"
    if settings.get("profile"):
        _show_profile(result)
    _finish(result, model.name, rows, interrupted=interrupted, kept=output is not None)
    if found is not None and found.best.lines:
        typer.echo(f"\n{found.code()}")
    if unproved:
        stop(console.FAILED, f"no proof was found: {unproved}")


def _proved(result: Optimized, model: Path, output: Path | None, proof: Path, files: Files) -> str:
    """Write the proof of a result; return why there is none, or an empty text."""
    from workbench.laws.run_proofs import prove
    from workbench.laws.run_proofs.proving import NotProved

    try:
        found = prove(result, model, output)
    except NotProved as error:
        return str(error)
    write_text(proof, found.text())
    files.written.append(f"{proof} ({len(found.steps)} steps)")
    return ""


def _show_profile(result: Optimized) -> None:
    """Print the saturation by phase and by rule."""
    from workbench.studies.analysis.rule_activity import phases, profile

    rows = [(f"{seconds:.3f}", phase) for phase, seconds in phases(result.trace).items()]
    show_table(("seconds", "phase"), rows, title="Iterations of the saturation by phase", right=[0])
    by_rule = profile(result)
    table = [(f"{r.seconds:.3f}", r.matches, r.e_nodes, r.used, r.Index) for r in by_rule.itertuples()]
    headings = ("seconds", "matches", "e-nodes", "in the result", "rule")
    show_table(headings, table, title="Rules, the most productive first", right=[0, 1, 2, 3])


def _figures(result: Optimized, model: Path, output: Path | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a result, and the summaries of what else was made."""
    found = result.coverage
    timing = None if result.measured is None else result.measured.timing()
    return result.summary() | {
        "model": str(model),
        "output": None if output is None else str(output),
        "timing": None if timing is None else timing.summary(),
        "coverage": {"modelled": found.modelled, "opaque": found.opaque, "constant": found.constant},
        **{name: thing.summary() for name, thing in more.items() if thing is not None},
    }


def demo(
    name: str = argument("repvgg", "NAME", "repvgg, mobileone, squeezenet or another real architecture."),
    folder: Path = option(Path("out"), "FOLDER", "Folder of the results."),
    cost: str = options.OWN_COST,
    time: float = option(10.0, "S", "How long to time.", min=0.001),
    quiet: bool = options.QUIET,
) -> None:
    """Optimise a real architecture with generated weights end to end: RepVGG-A0 in its training form, or another."""
    import onnx

    from workbench.studies.benchmarks.light import demonstration

    model = demonstration(name)
    source = options.place_of_result(folder / f"{name}.onnx")
    writing(lambda: onnx.save_model(model, str(source)))
    results = {"output": f"{name}-optimised.onnx", "json": f"{name}.json", "report": f"{name}.html"}
    places = {kind: folder / file for kind, file in results.items()}
    _optimise(source, {"cost": cost, "time": True, "time_seconds": time}, places, quiet=quiet)


class SearchMode(enum.StrEnum):
    """The modes of the search."""

    sound = "sound"
    taso_release = "taso-release"
    tensat_fork = "tensat-fork"


def search(
    model: Path = options.MODEL,
    output: Path | None = option(None, "FILE", "Write the optimised model here.", "--output", "-o"),
    mode: SearchMode = option(SearchMode.sound, "sound|taso-release|tensat-fork", "How to search."),
    rules: list[str] | None = option(
        None,
        "NAME",
        "Rule set or file; modes other than sound need TASO's graph_subst.pb; repeatable, all are used.",
    ),
    keep_refuted: bool = options.KEEP_REFUTED,
    alpha: float = option(1.05, "A", "Drop graphs costing over A times the best.", min=1.0),
    budget: int = option(100, "N", "Number of graphs to expand.", min=0),
    cost: str = options.OWN_COST,
    seconds: float = option(600.0, "S", "Limit on the search.", min=0.001),
    seed: int = option(0, "N", "Seed of the certificate's inputs.", min=0),
    dim: list[str] = options.DIM,
    json: Path | None = options.JSON,
    report: Path | None = option(None, "FILE.html", "Write a self-contained page."),
    quiet: bool = options.QUIET,
) -> None:
    """Optimise a model with TASO's backtracking search, as a baseline."""
    check_files([model], [output, json, report])

    from workbench.optimizer.summary import summary_rows
    from workbench.studies.search.optimize import search_optimize

    with Progress(model.name, quiet=quiet) as progress:
        result = search_optimize(
            model,
            rules=options.chosen_rules(rules) if rules else None,
            cost=cost,
            alpha=alpha,
            budget=budget,
            mode=mode.value,
            seconds=seconds,
            seed=seed,
            keep_refuted=keep_refuted,
            dims=options.dimensions(dim),
            progress=progress,
        )
        files = Files(result)
        files.model(output)
        files.json(json, result.summary)
        files.report(report, model.name)
    rows = summary_rows(result, written=files.written)
    interrupted = "interrupted: the result above is the best one found before the interrupt"
    _finish(result, model.name, rows, interrupted=interrupted, kept=output is not None)


def _finish(result: Result, title: str, rows: Iterable[Row], *, interrupted: str, kept: bool) -> None:
    """Print the table of stages, then end the command with 1 if the certificate failed.

    ``interrupted`` is the message if the run was interrupted; ``kept`` is whether the original was written.
    """
    cells = [(r.what, "" if r.seconds is None else f"{r.seconds:.3f}", r.figures) for r in rows]
    show_table(("stage", "seconds", "figures"), cells, title=title, right=[1])
    if result.stop_reason is StopReason.INTERRUPTED:
        console.complain(interrupted)
    if result.certificate is not None and not result.certificate.passed:
        blamed = ", ".join(result.offending) or "no single rule"
        also = "; the original was written" if kept else ""
        stop(console.FAILED, f"the certificate failed ({blamed}): the original stays{also}")
