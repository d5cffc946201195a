"""A result as one self-contained HTML page: no scripts, no network access, embedded pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from workbench.optimizer.record import SaturationFigures
from workbench.run.trace import sizes
from workbench.support.numbers import thousands
from workbench.views.faces import figure, graph_html, steps_html, summary_html
from workbench.views.markup import details, page_of, paragraph, section, table

if TYPE_CHECKING:
    from workbench.accelerators import Placement
    from workbench.devices.fastest import Ranking
    from workbench.optimizer.record import RunRecord
    from workbench.optimizer.result import Result
    from workbench.run.trace import Trace


def report_html(result: Result, *, title: str | None = None) -> str:
    """Return a result as an HTML page: figures, plots, rules, coverage, certificate, settings."""
    record, trace = result.record(), result.trace
    name = title or record.network
    way = record.way
    measured = way.measured if isinstance(way, SaturationFigures) else None
    placed = way.placement if isinstance(way, SaturationFigures) else None
    grown = "Saturation" if isinstance(way, SaturationFigures) else "Search"
    parts = [
        f"<h1>{escape(name)}, optimised</h1>",
        paragraph(_provenance(record.settings), "source"),
        summary_html(result),
        *([section("Measured", _measured(measured))] if measured is not None else []),
        *([section("Accelerator", _accelerator(placed))] if placed is not None else []),
        section("Cost", _cost_figures(trace)),
        section(grown, _growth_figures(trace) + steps_html(trace)),
        section("Rules that made the result", _rules(record, trace)),
        section("Graph", details("the optimised graph", graph_html(result.graph))),
        section("Certificate", _certificate(record)),
        section("Coverage", _coverage(record)),
        section("Settings", _pairs(record.settings.items())),
    ]
    return page_of(name, "\n".join(parts))


def _provenance(settings: Mapping[str, Any]) -> str:
    known = ("workbench", "egglog", "highspy", "python")
    return ", ".join(f"{package} {settings[package]}" for package in known if package in settings)


def _pairs(pairs: Iterable[tuple[str, Any]]) -> str:
    cells = [(k, v if isinstance(v, str) else json.dumps(v, default=str)) for k, v in pairs]
    return table(("", ""), cells, most=len(cells))


def _measured(ranking: Ranking) -> str:
    headings = ("", "cost µs", "median µs", "quartiles", "speed-up", "95 % interval")
    rows: list[tuple[object, ...]] = []
    for i, entrant in enumerate((ranking.original, *ranking.candidates)):
        name = f"candidate {i}{', the result' if ranking.winner == i - 1 else ''}" if i else "original"
        (low, high), (least, most) = entrant.quartiles, entrant.interval
        speedup = (f"{entrant.speedup:.3f}", f"{least:.3f} to {most:.3f}") if i else ("", "")
        rows.append(
            (name, f"{entrant.cost:.1f}", f"{entrant.median:.1f}", f"{low:.1f} to {high:.1f}", *speedup)
        )
    timed = table(headings, rows, ("", *("number",) * 5), most=len(rows))
    return paragraph(str(ranking)) + (timed if ranking.candidates else "")


def _accelerator(placement: Placement) -> str:
    from workbench.plots import plot_accelerator_cycles, plot_accelerator_use
    from workbench.plots.accelerator import accelerator_size

    text = "".join(paragraph(line) for line in placement.lines())
    if not placement.layers:
        return text
    rows = [
        (
            layer.name,
            layer.stays,
            thousands(layer.tiling.tiles),
            thousands(layer.tiling.calls),
            thousands(round(layer.tiling.cycles)),
            f"{layer.tiling.utilisation:.1%}",
            f"{layer.tiling.waste:.1%}",
        )
        for layer in placement.layers
    ]
    headings = ("rows × inner × columns", "stays", "tiles", "calls", "cycles", "used", "zeros")
    layers = table(headings, rows, ("", "", *("number",) * 5), most=len(rows))
    size = accelerator_size(placement)
    cycles = figure(lambda ax: plot_accelerator_cycles(placement, ax), size, "cycles by product")
    return (
        text + cycles + figure(lambda ax: plot_accelerator_use(placement, ax), size, "use and waste") + layers
    )


def _cost_figures(trace: Trace) -> str:
    from workbench.plots import plot_cost_bars, plot_cost_curve

    bars = figure(lambda ax: plot_cost_bars(trace, ax), (7.0, 4.2), "cost before and after by operator")
    return bars + figure(
        lambda ax: plot_cost_curve(trace, ax),
        (7.0, 3.6),
        "cost by iteration: greedy estimates, and the result",
    )


def _growth_figures(trace: Trace) -> str:
    from workbench.plots import firing_data, plot_firing, plot_growth
    from workbench.plots.firing import firing_size

    made, kept = sizes(trace)
    grown = figure(lambda ax: plot_growth(trace, ax), (7.0, 3.6), f"{made} and {kept} by step")
    size = firing_size(firing_data(trace))
    return grown + figure(lambda ax: plot_firing(trace, ax), size, f"{made} by rule and step")


def _rules(record: RunRecord, trace: Trace) -> str:
    if not record.rules:
        return "<p>None: nothing cheaper than the original was found.</p>"
    laws = _laws(str(record.settings.get("rules", "")))
    made = dict.fromkeys(record.rules, 0)
    for step in trace:
        for work in step.rules:
            if work.rule in made:
                made[work.rule] += work.e_nodes
    rows = [(r, thousands(made[r]), *laws.get(r, ("", "", ""))) for r in record.rules]
    headings = ("rule", f"{sizes(trace)[0]} made", "status", "provenance", "law")
    return table(headings, rows, ("", "number", "", "", "law"), most=len(rows))


def _laws(set_name: str) -> dict[str, tuple[str, str, str]]:
    from workbench.rules import rule_set

    try:
        records = rule_set(set_name).frame().to_dict("records")
    except (LookupError, OSError, ValueError):
        return {}  # the rules were given as objects: their text is not in the library
    return {r["name"]: (r["status"], r["provenance"], r["law"]) for r in records}


def _certificate(record: RunRecord) -> str:
    certificate = record.certificate
    if certificate is None:
        return "<p>Not requested.</p>"
    text = paragraph(certificate.verdict(), "passed" if certificate.passed else "failed")
    if record.offending:
        text += paragraph(f"Without these rules the result is right: {', '.join(record.offending)}")
    return text + paragraph(certificate.rules_line()) + _pairs(certificate.summary().items())


def _coverage(record: RunRecord) -> str:
    coverage = record.coverage
    if coverage is None:
        return "<p>The graph was not imported from a model: every operator is modelled.</p>"
    rows = [(op, n, "modelled", "") for op, n in coverage.modelled.items()]
    rows += [(op, n, "kept unchanged", reason) for (op, reason), n in coverage.reasons().items()]
    rows += [(op, n, "computed at import", "") for op, n in coverage.constant.items()]
    share = f"<p>{coverage.fraction:.1%} of the operators that run are modelled.</p>"
    headings = ("operator", "nodes", "fate", "reason")
    return share + table(headings, rows, ("", "number", "", ""), most=len(rows))
