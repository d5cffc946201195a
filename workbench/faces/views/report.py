"""A result as one self-contained HTML page: no scripts, no network access, embedded pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, cast

from workbench.faces import plots
from workbench.faces.plots.cost import accelerator_size
from workbench.faces.views.compare import changes_html
from workbench.faces.views.markup import details, page_of, paragraph, section, table
from workbench.faces.views.rules import rule_html
from workbench.faces.views.static_html import (
    certificate_lead,
    certificate_words,
    figure,
    growth_figures,
    steps_html,
    summary_html,
)
from workbench.optimizer.result import Optimized
from workbench.run.trace import sizes
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from workbench.devices.ranking import Ranking
    from workbench.kernels.accelerators import Placement
    from workbench.optimizer.result import Result
    from workbench.rules import RuleSet
    from workbench.studies.devices.floors import Floors


def report_html(result: Result, *, title: str | None = None, floors: Floors | None = None) -> str:
    """Return a result as an HTML page: both graphs, rules, timing, certificate, plots, settings.

    ``floors`` are the result's, if they are known; a timed result without them has them computed.
    """
    trace, name = result.trace, title or result.network
    measured = result.measured if isinstance(result, Optimized) else None
    placed = cast("Placement | None", result.placement) if isinstance(result, Optimized) else None
    grown = "Saturation" if isinstance(result, Optimized) else "Search"
    if floors is None and measured is not None and measured.decided and not measured.failure:
        floors = cast("Optimized", result).floors()
    costs = figure(partial(plots.plot_cost_bars, trace), (7.0, 4.2), "cost before and after by operator")
    curve = "cost by iteration: greedy estimates, and the result"
    costs += figure(partial(plots.plot_cost_curve, trace), (7.0, 3.6), curve)
    lead = [] if measured is None else [f"Timed: {measured}."]
    lead.append(f"Predicted: {result.predicted()}.")
    if result.certificate is not None:
        lead.append(certificate_lead(result.certificate))
    packages = [p for p in ("workbench", "egglog", "highspy", "python") if p in result.settings]
    parts = [
        f"<h1>{escape(name)}, optimised</h1>",
        paragraph(", ".join(f"{package} {result.settings[package]}" for package in packages), "source"),
        *(paragraph(line, "lead") for line in lead),
        section("Before and after", changes_html(result)),
        section("Rules that made the result", _rules(result)),
        section("Timing", _measured(measured)),
        *([section("Limits", _limits(floors))] if floors is not None else []),
        *([section("Accelerator", _accelerator(placed))] if placed is not None else []),
        section("Certificate", _certificate(result)),
        section("Cost", costs),
        section(grown, growth_figures(trace, 3.6) + steps_html(trace)),
        section("Stages", summary_html(result)),
        section("Coverage", _coverage(result)),
        section("Settings", _pairs(result.settings.items())),
    ]
    return page_of(name, "\n".join(parts))


def _pairs(pairs: Iterable[tuple[str, Any]]) -> str:
    cells = [(k, v if isinstance(v, str) else json.dumps(v, default=str)) for k, v in pairs]
    return table(("", ""), cells, most=len(cells))


def _measured(measured: Ranking | None) -> str:
    """Return the timings: all against the cleaned original, which is the model as given made fair."""
    if measured is None:
        return paragraph("Nothing was timed: the costs are predictions (leave out --no-time to time).")
    headings = ("", "cost µs", "median µs", "quartiles", "speed-up", "95 % interval")
    named = [("original" if measured.given is None else "original, cleaned", measured.original)]
    named += [
        (f"candidate {i}{', the result' if measured.winner == i - 1 else ''}", one)
        for i, one in enumerate(measured.candidates, 1)
    ]
    if measured.given is not None:
        named.insert(0, ("original as given", measured.given))
    rows: list[tuple[object, ...]] = []
    for name, one in named:
        (low, high), (least, most) = one.quartiles, one.interval
        itself = one is measured.original
        speedup = ("1", "") if itself else (f"{one.speedup:.3f}", f"{least:.3f} to {most:.3f}")
        rows.append((name, f"{one.cost:.1f}", f"{one.median:.1f}", f"{low:.1f} to {high:.1f}", *speedup))
    timed = table(headings, rows, ("", *("number",) * 5), most=len(rows))
    words = [str(measured)]
    if measured.given is not None:
        words.append(f"Cleaning: {measured.cleaning_line()}.")
    elif measured.candidates:
        words.append("Speed-ups are relative to the original; there was nothing to clean in it.")
    said = "".join(paragraph(f"{line[:1].upper()}{line[1:]}") for line in words)
    return said + timed if measured.candidates else said


def _limits(found: Floors) -> str:
    """Return how far the result is from its limits, with its operators under the machine's roof."""
    sentence, text = str(found), "operators by FLOP per byte and rate, under the roof"
    drawn = figure(partial(plots.plot_roofline, found), (7.0, 4.2), text)
    return paragraph(f"{sentence[:1].upper()}{sentence[1:]}.") + drawn


def _accelerator(placement: Placement) -> str:
    text = "".join(paragraph(line) for line in placement.lines())
    if not placement.layers:
        return text
    rows = []
    for layer in placement.layers:
        t = layer.tiling
        counts = (thousands(n) for n in (t.tiles, t.calls, round(t.cycles)))
        rows.append((layer.name, layer.stays, *counts, f"{t.utilisation:.1%}", f"{t.waste:.1%}"))
    headings = ("rows × inner × columns", "stays", "tiles", "calls", "cycles", "used", "zeros")
    layers = table(headings, rows, ("", "", *("number",) * 5), most=len(rows))
    size = accelerator_size(placement)
    cycles = figure(partial(plots.plot_accelerator_cycles, placement), size, "cycles by product")
    use = figure(partial(plots.plot_accelerator_use, placement), size, "use and waste")
    return text + cycles + use + layers


def _rules(result: Result) -> str:
    if not result.rules:
        return "<p>None: nothing cheaper than the original was found.</p>"
    made = dict.fromkeys(result.rules, 0)
    for step in result.trace:
        for work in step.rules:
            if work.rule in made:
                made[work.rule] += work.e_nodes
    laws = _laws(result, str(result.settings.get("rules", "")))
    frame = {} if laws is None else {r["name"]: r for r in laws.frame().to_dict("records")}
    columns = ("status", "provenance", "law")
    rows = [(r, thousands(made[r]), *(frame.get(r, {}).get(c, "") for c in columns)) for r in result.rules]
    headings = ("rule", f"{sizes(result.trace)[0]} made", *columns)
    text = table(headings, rows, ("", "number", "", "", "law"), most=len(rows))
    if laws is not None:
        known = {rule.name: rule for rule in laws}
        for name in filter(known.__contains__, result.rules):
            text += details(f"{name}: both sides", rule_html(known[name]))
    return text


def _laws(result: Result, set_name: str) -> RuleSet | None:
    """Return the rules of a run: those that it kept, or the set of that name; None if neither is known."""
    from workbench.rules import rule_set

    if isinstance(result, Optimized):
        return result.ruleset
    try:
        return rule_set(set_name)
    except (LookupError, OSError, ValueError):
        return None  # the rules were given as objects: their text is not in the library


def _certificate(record: Result) -> str:
    certificate = record.certificate
    if certificate is None:
        return "<p>Not requested.</p>"
    text = paragraph(certificate_lead(certificate), "passed" if certificate.passed else "failed")
    if record.offending:
        text += paragraph(f"Without these rules the result is right: {', '.join(record.offending)}")
    return text + _pairs(certificate_words(certificate))


def _coverage(record: Result) -> str:
    coverage = record.coverage
    if coverage is None:
        return "<p>The graph was not imported from a model: every operator is modelled.</p>"
    rows = [(op, n, "modelled", "") for op, n in coverage.modelled.items()]
    rows += [(op, n, "kept unchanged", reason) for (op, reason), n in coverage.reasons().items()]
    rows += [(op, n, "computed at import", "") for op, n in coverage.constant.items()]
    share = f"<p>{coverage.fraction:.1%} of the operators that run are modelled.</p>"
    headings = ("operator", "nodes", "fate", "reason")
    return share + table(headings, rows, ("", "number", "", ""), most=len(rows))
