"""The command line: ``workbench optimize | rules | verify | cost | bench | demo``.

Exit codes: 0 done; 1 the certificate failed (the original is written), a rule was refuted, or another
failure; 2 usage or bad input; 3 a result cannot be written; 130 interrupted before there was a result.
Ctrl-C during saturation keeps what is there and goes on with it.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.console import FAILED, INTERRUPTED, OK, Progress, complain, reporting_errors, show_table, stop
from workbench.files import UnwritableOutput, check_writable, write_atomic

if TYPE_CHECKING:
    from workbench.pipeline import Optimized
    from workbench.timing import Timing

app = typer.Typer(
    name="workbench",
    help="Tensor-graph superoptimisation by equality saturation.",
    epilog="Exit codes: 0 done, 1 certificate failed, rule refuted or other failure, 2 usage or bad input, "
    "3 a result cannot be written, 130 interrupted before there was a result.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Extractor(enum.StrEnum):
    """Name the ways to extract."""

    tree = "tree"
    dag = "dag"
    exact = "exact"


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="ONNX file.", show_default=False)]
CostOption = Annotated[
    str, typer.Option(metavar="analytic|cpu|PATH", help="Cost model, or a recorded table.")
]
DimOption = Annotated[
    list[str], typer.Option("--dim", metavar="NAME=VALUE", help="Bind a symbolic dimension; repeatable.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def _version(asked: bool) -> None:
    if asked:
        from workbench import __version__

        typer.echo(f"workbench {__version__}")
        raise typer.Exit(OK)


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


# -- optimize -----------------------------------------------------------------------------------------
@app.command()
@reporting_errors
def optimize(
    model: ModelArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the optimised model here.")
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
    time: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Also time both models in ONNX Runtime.")
    ] = 0.0,
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
        "dims": _dims(dim),
    }
    _optimize(model, settings, output=output, json=json, report=report, time=time, quiet=quiet)


def _optimize(
    model: Path,
    settings: dict[str, Any],
    *,
    output: Path | None,
    json: Path | None,
    report: Path | None,
    time: float,
    quiet: bool,
) -> None:
    _check_input(model)
    places = [p for p in (output, json, report) if p is not None]
    if len({p.resolve() for p in places}) < len(places):
        raise ValueError(f"two results would go to one file: {', '.join(map(str, places))}")
    for place in places:
        check_writable(place)

    from workbench.pipeline import optimize as run
    from workbench.summary import summary_rows

    written: list[str] = []
    timing = None
    with Progress(model.name, quiet=quiet) as progress:
        result = run(model, progress=progress, **settings)
        try:
            if output is not None:
                progress("export")
                _write(lambda: result.save(output))
                written.append(f"{output} ({output.stat().st_size / 2**20:.1f} MiB)")
            if time > 0:
                progress("timing")
                timing = _time(model, result, time, bound=bool(settings.get("dims")))
            if json is not None:
                figures = _figures(result, model, output, timing)
                _write(lambda: write_atomic(json, _json(figures)))
                written.append(str(json))
            if report is not None:
                progress("report")
                from workbench.report import report_html

                page = report_html(result, title=model.name, timing=timing)
                _write(lambda: write_atomic(report, page))
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


def _time(model: Path, result: Optimized, seconds: float, *, bound: bool) -> Timing:
    import onnx

    from workbench.timing import compare

    # A model with dimensions left open is timed as it was bound.
    before = result.original if bound else onnx.load(str(model))
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


# -- verify -------------------------------------------------------------------------------------------
@app.command()
@reporting_errors
def verify(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Rules: ours, TASO's protobuf, Tensat's.", show_default=False),
    ],
    json: Annotated[Path | None, typer.Option(metavar="OUT", help="Write the verdicts as JSON.")] = None,
    show: Annotated[
        str | None, typer.Option(metavar="RULE", help="Show one rule: law, proof or counterexample.")
    ] = None,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Prove each rule by itself too, and print the ratio.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=0.001, metavar="S", help="Limit on the whole.")] = 300.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the search.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Processes.")] = 2,
    quiet: QuietOption = False,
) -> None:
    """Prove or refute rules; exit with 1 if one is refuted."""
    _check_input(file)
    if json is not None:
        check_writable(json)
    from workbench.rules.reading import read_rules
    from workbench.verification.evidence import Effort
    from workbench.verification.verify import Verification

    contents = read_rules(file)
    effort = Effort(seconds=seconds)
    with Progress(file.name, quiet=quiet) as progress:
        verification = Verification.of(contents, effort=effort, seed=seed, jobs=jobs)
        verification.run(lambda step: progress("verification", step.note))
        alone = None
        if one_by_one:
            alone = Verification.of(contents, effort=effort, seed=seed, one_by_one=True)
            alone.run(lambda step: progress("verification", f"one by one: {step.note}"))
    verdicts = verification.verdicts
    if json is not None:
        text = _json([v.record() for v in verdicts])
        _write(lambda: write_atomic(json, text))
    if show is not None:
        verdict = verification[show]
        typer.echo(f"{verdict.name}: {verdict.law}\n{verdict.details()}")
    else:
        rows = [(v.index, v.name, v.verdict, f"{v.seconds:.2f}", v.reason()) for v in verdicts]
        show_table(("rule", "name", "verdict", "seconds", "evidence"), rows, right=[0, 3])
    counts = ", ".join(f"{n} {v}" for v, n in verification.counts.items())
    typer.echo(
        f"\n{len(verdicts)} rules: {counts}; {verification.seconds:.1f} s, "
        f"of them {verification.prove_seconds:.2f} s proving in batch"
    )
    if alone is not None:
        typer.echo(
            f"in the e-graph: batch {verification.egraph_seconds:.2f} s, one by one "
            f"{alone.egraph_seconds:.2f} s, ratio {alone.egraph_seconds / verification.egraph_seconds:.1f}"
        )
    if verification.contradictions:
        names = ", ".join(v.name for v in verification.contradictions)
        stop(FAILED, f"a contradiction in the axioms: {names} proved and refuted")
    if verification.stop_reason is not None and verification.stop_reason.value == "interrupted":
        stop(INTERRUPTED, "interrupted: what is not decided is unknown")
    if verification.counts.get("refuted"):
        raise typer.Exit(FAILED)


# -- rules --------------------------------------------------------------------------------------------
@app.command()
@reporting_errors
def rules(
    name: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="A rule, or a pattern such as 'conv-*'.")
    ] = None,
    set_: Annotated[
        str, typer.Option("--set", metavar="NAME", help="Rule set, or a file.rules.")
    ] = "default",
    sets: Annotated[bool, typer.Option("--sets", help="List the rule sets.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List rules with law, provenance and status."""
    from workbench.rules import rule_set, rule_sets

    if sets:
        counts = [(s, rule_set(s)) for s in rule_sets()]
        table = [(s, len(found), sum(r.multi for r in found)) for s, found in counts]
        if json:
            typer.echo(_json([{"set": s, "rules": n, "multi": m} for s, n, m in table]), nl=False)
        else:
            show_table(("set", "rules", "multi-pattern"), table, right=[1, 2])
        return
    chosen = rule_set(set_)
    if name is not None:
        chosen = chosen.select(name) if any(c in name for c in "*?[") else _one_rule(chosen, name)
    records = chosen.frame().to_dict("records")
    if json:
        typer.echo(_json(records), nl=False)
        return
    headings = ("rule", "status", "provenance", "law")
    show_table(headings, [tuple(r[h if h != "rule" else "name"] for h in headings) for r in records])
    multi = sum(r["kind"] == "multi" for r in records)
    typer.echo(f"{len(records)} rules of {set_}, {multi} of them multi-pattern")


def _one_rule(rules: Any, name: str) -> Any:
    from workbench.rules import RuleSet

    return RuleSet(name, (rules[name],))


# -- cost ---------------------------------------------------------------------------------------------
@app.command()
@reporting_errors
def cost(
    model: ModelArgument,
    cost: CostOption = "analytic",
    dim: DimOption = [],  # noqa: B006
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Show this many of the dearest nodes.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Price a model by operator and by node."""
    _check_input(model)
    from workbench.costs.table import cost_table
    from workbench.frontends import load_onnx

    table = cost_table(load_onnx(model, dims=_dims(dim)), cost)
    if json:
        typer.echo(_json(table.summary()), nl=False)
        return
    show_table(
        ("operator", "nodes", "µs", "share"),
        [(r.op, r.count, f"{r.cost:.1f}", f"{r.share:.1%}") for r in table.operators],
        right=[1, 2, 3],
    )
    typer.echo()
    show_table(
        ("node", "µs", "share", "operation"),
        [(n.node, f"{n.cost:.1f}", f"{n.share:.1%}", n.text) for n in table.nodes[:top]],
        right=[0, 1, 2],
    )
    typer.echo(f"\nsum {table.total:.1f} µs, {table.source}")


# -- bench --------------------------------------------------------------------------------------------
@app.command()
@reporting_errors
def bench(
    network: Annotated[
        list[str] | None, typer.Argument(metavar="[NETWORK]...", help="Published networks.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All published networks.")] = False,
    rules: Annotated[str, typer.Option(metavar="NAME", help="Rule set, or a file.rules.")] = "default",
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
    from workbench.saturation import Limits

    names = benchmarks() if all_ else network
    if not names:
        raise ValueError(f"name a network, or --all; there are {', '.join(benchmarks())}")
    limits = Limits(e_nodes, seconds, iterations, k_multi, settle=settle)
    runs = []
    for name in names:
        with Progress(name, quiet=quiet) as progress:
            runs.append(run_benchmark(name, rules=rules, cost=cost, limits=limits, progress=progress))
    if json:
        typer.echo(_json([run.summary() for run in runs]), nl=False)
        return
    headings = ("network", "e-nodes", "e-classes", "it.", "stop", "sat. s", "extr. s", "Tensat s", "times",
                "original µs", "tree", "DAG", "exact", "Tensat", "TASO")  # fmt: skip
    table = []
    for r in runs:
        p = r.published
        theirs = ("–",) * 4
        if p is not None:
            gains = f"{p.tensat_speedup:+.1f}%", f"{p.taso_speedup:+.1f}%"
            theirs = (f"{p.tensat_seconds:g}", f"{r.faster:.1f}×", *gains)
        ours = (f"{r.saturation + r.snapshot:.3f}", f"{r.extraction:.3f}")
        gained = [f"{r.gain(method):+.1%}" for method in ("tree", "dag", "exact")]
        sizes = (r.e_nodes, r.e_classes, r.iterations, r.stop_reason)
        table.append((r.network, *sizes, *ours, *theirs[:2], f"{r.original:.1f}", *gained, *theirs[2:]))
    show_table(headings, table, right=[i for i in range(1, len(headings)) if i != 4])
    from workbench.benchmarks.published import SOURCE

    apart = ", ".join(f"{r.network} {r.engine:.2f} + {r.pricing:.2f}" for r in runs)
    typer.echo(
        f"\nGains: original / optimised − 1 by {runs[0].cost_source}; those of Tensat and TASO are measured "
        f"speed-ups: {SOURCE}.\n"
        f"times: Tensat's seconds / ours. Not among them, engine start + pricing in seconds: {apart}."
    )


# -- demo ---------------------------------------------------------------------------------------------
@app.command()
@reporting_errors
def demo(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A real architecture.")] = "squeezenet",
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results go.")] = Path("out"),
    cost: CostOption = "cpu",
    time: Annotated[float, typer.Option(min=0.001, metavar="S", help="How long to time.")] = 10.0,
    quiet: QuietOption = False,
) -> None:
    """Optimise one of the onnx package's real architectures end to end, weights generated."""
    import onnx

    from workbench.benchmarks.light import light_model

    model = light_model(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableOutput(f"{folder}: {error.strerror}") from None
    source = check_writable(folder / f"{name}.onnx")
    _write(lambda: onnx.save_model(model, str(source)))
    _optimize(
        source,
        {"cost": cost},
        output=folder / f"{name}-optimised.onnx",
        json=folder / f"{name}.json",
        report=folder / f"{name}.html",
        time=time,
        quiet=quiet,
    )


# -- helpers ------------------------------------------------------------------------------------------
def _check_input(model: Path) -> None:
    if not model.exists():
        raise FileNotFoundError(f"there is no file {model}")
    if model.is_dir():
        raise IsADirectoryError(f"{model} is a folder; name the model file in it")


def _dims(texts: list[str]) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value.isdecimal()) or int(value) < 1:
            raise ValueError(f"--dim {text}: NAME=VALUE with a positive whole number is expected")
        found[name] = int(value)
    return found or None


def _json(data: Any) -> str:
    import json
    import math

    def finite(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, dict):
            return {str(k): finite(v) for k, v in value.items()}
        return [finite(v) for v in value] if isinstance(value, list | tuple) else value

    return json.dumps(finite(data), indent=2, ensure_ascii=False, default=str) + "\n"


def _write(action: Any) -> None:
    try:
        action()
    except OSError as error:
        raise UnwritableOutput(str(error)) from error


def main() -> None:
    """Run the command line."""
    app(prog_name="workbench")


if __name__ == "__main__":
    main()
