"""A result as one HTML page that needs nothing else: no script, no network, pictures embedded."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from workbench.summary import summary_rows
from workbench.units import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.devices.fastest import Ranking
    from workbench.pipeline import Optimized

_CSS = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.source { color: #777; margin-top: 0; }
table { border-collapse: collapse; } th, td { text-align: left; padding: 0.2rem 1rem 0.2rem 0;
  vertical-align: top; border-bottom: 1px solid #8884; } td.number { text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
code, td.law { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } img { max-width: 100%; background: white; }
.passed { color: #007a55; } .failed { color: #c0392b; font-weight: bold; }
"""


def report_html(result: Optimized, *, title: str | None = None) -> str:
    """Return a result as an HTML page: figures, plots, rules, coverage, certificate, settings."""
    name = title or result.original.name
    parts = [
        f"<h1>{escape(name)}, optimised</h1>",
        f'<p class="source">{escape(_provenance(result))}</p>',
        _summary(result),
        *([_section("Measured", _measured(result.measured))] if result.measured is not None else []),
        _section("Cost", _figures(result, _cost_figures(result))),
        _section("Saturation", _figures(result, _saturation_figures(result))),
        _section("Rules that made the result", _rules(result)),
        _section("Certificate", _certificate(result)),
        _section("Coverage", _coverage(result)),
        _section("Settings", _pairs(result.settings.items())),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>'
        f"<style>{_CSS}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _provenance(result: Optimized) -> str:
    known = result.settings
    versions = [f"{p} {known[p]}" for p in ("workbench", "egglog", "highspy", "python") if p in known]
    return ", ".join(versions)


def _section(heading: str, body: str) -> str:
    return f"<h2>{escape(heading)}</h2>\n{body}"


def table_html(headings: Sequence[str], rows: Iterable[Sequence[object]], classes: Sequence[str] = ()) -> str:
    """Return an HTML table; ``classes`` are the columns' CSS classes, and every text is escaped."""
    kinds = [f' class="{c}"' if c else "" for c in classes] or [""] * len(headings)
    head = "".join(f"<th>{escape(h)}</th>" for h in headings)
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{escape(str(c))}</td>" for k, c in zip(kinds, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _pairs(pairs: Iterable[tuple[str, Any]]) -> str:
    return table_html(
        ("", ""), [(k, v if isinstance(v, str) else json.dumps(v, default=str)) for k, v in pairs]
    )


def _summary(result: Optimized) -> str:
    rows = summary_rows(result)
    cells = [(r.what, "" if r.seconds is None else f"{r.seconds:.3f}", r.figures) for r in rows]
    return table_html(("stage", "seconds", "figures"), cells, ("", "number", ""))


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
    table = table_html(headings, rows, ("", *("number",) * 5))
    return f"<p>{escape(str(ranking))}</p>{table if ranking.candidates else ''}"


Figure = tuple[str, Callable[["Axes"], object], tuple[float, float]]


def _cost_figures(result: Optimized) -> list[Figure]:
    from workbench.plots import plot_cost_bars, plot_cost_curve

    trace = result.trace
    return [
        ("cost before and after by operator", lambda ax: plot_cost_bars(trace, ax), (7.0, 4.2)),
        ("best cost known by iteration", lambda ax: plot_cost_curve(trace, ax), (7.0, 3.6)),
    ]


def _saturation_figures(result: Optimized) -> list[Figure]:
    from workbench.plots import firing_data, plot_firing, plot_growth
    from workbench.plots.firing import firing_size

    trace = result.trace
    return [
        ("growth of the e-graph", lambda ax: plot_growth(trace, ax), (7.0, 3.6)),
        (
            "e-nodes made by rule and iteration",
            lambda ax: plot_firing(trace, ax),
            firing_size(firing_data(trace)),
        ),
    ]


def _figures(result: Optimized, figures: Iterable[Figure]) -> str:
    from workbench.plots import figure_png

    parts = []
    for text, draw, size in figures:
        data = base64.b64encode(figure_png(draw, size)).decode()
        parts.append(f'<figure><img alt="{escape(text)}" src="data:image/png;base64,{data}"></figure>')
    return "\n".join(parts)


def _rules(result: Optimized) -> str:
    if not result.rules:
        return "<p>None: nothing cheaper than the original was found.</p>"
    laws = _laws(str(result.settings.get("rules", "")))
    made = dict.fromkeys(result.rules, 0)
    for step in result.trace:
        for record in step.rules:
            if record.rule in made:
                made[record.rule] += record.e_nodes
    rows = [(r, thousands(made[r]), *laws.get(r, ("", "", ""))) for r in result.rules]
    headings = ("rule", "e-nodes made", "status", "provenance", "law")
    return table_html(headings, rows, ("", "number", "", "", "law"))


def _laws(set_name: str) -> dict[str, tuple[str, str, str]]:
    from workbench.rules import rule_set

    try:
        records = rule_set(set_name).frame().to_dict("records")
    except (LookupError, OSError, ValueError):
        return {}  # the rules were given as objects: their text is not in the library
    return {r["name"]: (r["status"], r["provenance"], r["law"]) for r in records}


def _certificate(result: Optimized) -> str:
    certificate = result.certificate
    if certificate is None:
        return "<p>Not asked for.</p>"
    kind = "passed" if certificate.passed else "failed"
    text = f'<p class="{kind}">{escape(certificate.verdict())}</p>'
    if result.offending:
        text += f"<p>Without these rules the result is right: {escape(', '.join(result.offending))}</p>"
    text += f"<p>{escape(certificate.rules_line())}</p>"
    return text + _pairs(certificate.summary().items())


def _coverage(result: Optimized) -> str:
    coverage = result.coverage
    if coverage is None:
        return "<p>The graph was not imported from a model: every operator is modelled.</p>"
    rows = [(op, n, "modelled", "") for op, n in coverage.modelled.items()]
    rows += [(op, n, "kept as it came", reason) for (op, reason), n in coverage.reasons().items()]
    rows += [(op, n, "computed at import", "") for op, n in coverage.constant.items()]
    share = f"<p>{coverage.fraction:.1%} of the operators that run are modelled.</p>"
    return share + table_html(("operator", "nodes", "fate", "reason"), rows, ("", "number", "", ""))
