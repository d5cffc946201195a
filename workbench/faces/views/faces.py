"""The static face of every public object: a summary, tables, and embedded pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from workbench.faces.views.certificates import certificate_words
from workbench.faces.views.compare import comparison_html
from workbench.faces.views.egraphs import Known, egraph_html
from workbench.faces.views.graphs import graph_svg
from workbench.faces.views.markup import (
    aligned,
    details,
    heading,
    page_of,
    pairs,
    picture,
    preformatted,
    table,
)
from workbench.faces.views.rules import rule_html, rule_set_html, rule_table_html
from workbench.faces.views.why_not import explanation_html, why_not_html
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.certification.certificate import Certificate
    from workbench.extraction.extract import Extraction
    from workbench.extraction.solution import Solution
    from workbench.graph import Graph
    from workbench.laws.synthesis import Coverage, Synthesis
    from workbench.laws.verification import Verdict, Verification
    from workbench.optimizer.pipeline import Optimized
    from workbench.optimizer.result import Result
    from workbench.run.trace import Trace
    from workbench.saturation import Saturation
    from workbench.studies.analysis.ablation import Ablation
    from workbench.studies.search import BacktrackingSearch
    from workbench.studies.search.optimize import Searched


def static_html(thing: object) -> str:
    """Return the static face of an object; raise TypeError if its class has none."""
    for kind in type(thing).__mro__:
        face = _FACES.get(kind.__name__)
        if face is not None:
            return aligned(face(thing))
    raise TypeError(f"thing must be an object with a static face, got {type(thing).__name__}")


def page(thing: object) -> str:
    """Return the static face of an object as a complete HTML page."""
    title = f"{type(thing).__name__} {getattr(thing, 'name', '')}".strip()
    return page_of(title, static_html(thing))


# -- graphs -----------------------------------------------------------------------------------------
def graph_html(graph: Graph) -> str:
    """Return a graph as a picture, with its operators, inputs and outputs."""
    counts = sorted(graph.operators().items(), key=lambda item: (-item[1], item[0]))
    ends = [(graph.nodes[i].attr("name"), graph.nodes[i].type, "input") for i in graph.inputs]
    ends += [(name, graph.nodes[i].type, "output") for name, i in graph.outputs]
    shown = picture(graph_svg(graph), f"{graph.name}: {len(graph.nodes)} nodes", kind="svg")
    return (
        heading(f"Graph {graph.name}", f"{len(graph.nodes)} nodes, {len(graph.weights)} weights")
        + shown
        + details("operators", table(("operator", "count"), counts))
        + details("inputs and outputs", table(("name", "type", ""), ends))
    )


# -- traces -----------------------------------------------------------------------------------------
def figure(draw: Callable[[Axes], object], size: tuple[float, float], text: str) -> str:
    """Return a figure as a picture; ``size`` is in inches, ``text`` its alternative text."""
    from workbench.faces.plots import figure_svg

    return picture(figure_svg(draw, size), text, kind="svg")


def _trace(trace: Trace) -> str:
    from workbench.faces.plots import plot_cost_curve, plot_firing, plot_gap, plot_growth
    from workbench.faces.plots.firing import firing_data, firing_size
    from workbench.run.trace import sizes

    kind = str(trace.meta.get("kind", "saturation"))
    parts = [heading(f"Trace of {kind}", f"{len(trace)} steps")]
    if kind == "extraction":
        parts.append(figure(lambda ax: plot_gap(trace, ax), (7.0, 3.4), "cost and bound over time"))
    else:
        made, kept = sizes(trace)
        parts.append(figure(lambda ax: plot_growth(trace, ax), (7.0, 3.4), f"{made} and {kept} by step"))
        if any(step.rules for step in trace):
            size = firing_size(firing_data(trace))
            parts.append(figure(lambda ax: plot_firing(trace, ax), size, f"{made} by rule and step"))
        if any(step.cost is not None for step in trace):
            parts.append(figure(lambda ax: plot_cost_curve(trace, ax), (7.0, 3.2), "best cost by step"))
    parts += [steps_html(trace), details("settings", pairs((k, v) for k, v in trace.meta.items()))]
    return "".join(parts)


def steps_html(trace: Trace) -> str:
    """Return the steps of a trace as a table that opens on a click."""
    rows = [
        (
            s.index,
            f"{s.seconds:.3f}",
            thousands(s.e_nodes),
            thousands(s.e_classes),
            "" if s.cost is None else f"{s.cost:.6g}",
            "" if s.bound is None else f"{s.bound:.6g}",
            s.note,
        )
        for s in trace
    ]
    from workbench.run.trace import sizes

    headings = ("step", "seconds", *sizes(trace), "cost", "bound", "")
    return details("steps", table(headings, rows, most=100))


def _saturation(saturation: Saturation) -> str:
    return heading("Saturation", _state(saturation)) + _trace(saturation.trace)


def _search(search: BacktrackingSearch) -> str:
    note = f"{search.mode}, alpha {search.alpha:g}, budget {search.budget}: {_state(search)}"
    return heading(f"Backtracking search of {search.graph.name}", note) + _trace(search.trace)


def _state(stepwise: Any) -> str:
    reason = stepwise.stop_reason
    return "not finished" if reason is None else str(reason.value)


# -- extraction -------------------------------------------------------------------------------------
def _solution(solution: Solution) -> str:
    return heading("Solution", solution.status.value) + pairs(_solution_pairs(solution))


def _solution_pairs(solution: Solution) -> Iterable[tuple[str, object]]:
    yield "cost", f"{solution.cost:.6g}"
    yield "bound", f"{solution.bound:.6g}"
    yield "gap", f"{solution.gap:.2%}"
    yield "status", f"{solution.status.value}, on the {solution.scope}"
    yield "found by", solution.method
    yield "e-classes built", int((solution.choice >= 0).sum())
    if solution.notes:
        yield "notes", "; ".join(solution.notes)


def _extraction(extraction: Extraction) -> str:
    known = "" if extraction.solution is None else pairs(_solution_pairs(extraction.solution))
    note = f"{extraction.method}, {thousands(len(extraction.egraph))} e-nodes: {_state(extraction)}"
    return heading("Extraction", note) + known + _trace(extraction.trace)


# -- verification -----------------------------------------------------------------------------------
def _verification(verification: Verification) -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in verification.counts.items())
    rows = [(v.index, v.name, v.verdict, f"{v.seconds:.2f}", v.reason()) for v in verification.verdicts]
    order = {"refuted": 0, "rejected": 1, "unknown": 2, "vacuous": 3, "tested": 4, "proved": 5, "theorem": 6}
    rows.sort(key=lambda row: (order[row[2]], row[0]))
    note = f"{counts}; {_state(verification)}, {verification.seconds:.1f} s"
    return heading(f"Verification of {verification.name}", note) + table(
        ("rule", "name", "verdict", "seconds", "evidence"), rows
    )


def _synthesis(synthesis: Synthesis) -> str:
    laws = {law.rule: law for law in (*synthesis.laws, *synthesis.joint)}
    rows = [(r.name, laws[r].verdict.law, laws[r].verdict.verdict) for r in synthesis.rules]
    funnel = synthesis.funnel()
    numbers = [tuple(str(cell) for cell in row) for row in funnel.to_numpy()]
    note = f"{len(rows)} laws; {_state(synthesis)}, {synthesis.seconds:.1f} s"
    return (
        heading(f"Synthesis from {synthesis.grammar.name}", note)
        + table(("law", "equation", "verdict"), rows)
        + details("terms, classes, candidates", table(tuple(funnel.columns), numbers))
    )


def _coverage(coverage: Coverage) -> str:
    frame = coverage.frame()
    return heading("Coverage", repr(coverage)) + table(
        tuple(frame.columns), list(frame.itertuples(index=False))
    )


def _verdict(verdict: Verdict) -> str:
    shown = preformatted(f"{verdict.law}\n\n{verdict.details()}")
    return heading(f"{verdict.name}: {verdict.verdict}") + shown


def _certificate(certificate: Certificate) -> str:
    rows = [(name, f"{error:.1e}") for name, error in certificate.errors.items()]
    verdicts = list(certificate.rules.items())
    return (
        heading("Certificate", certificate.verdict())
        + details("in words", pairs(certificate_words(certificate)), open_=True)
        + details("relative error by output", table(("output", "error"), rows))
        + details("rules that fired", table(("rule", "verdict"), verdicts))
    )


def _optimized(result: Optimized) -> str:
    return (
        heading(f"{result.original.name}, optimised")
        + summary_html(result)
        + details("where the time went", _stages(result))
        + details("original and optimised", comparison_html(result.compare()))
        + details("how it was found", _trace(result.trace))
    )


def summary_html(result: Result) -> str:
    """Return the summary of a result as a table, one row per stage."""
    from workbench.optimizer.summary import summary_rows

    cells = [
        (r.what, "" if r.seconds is None else f"{r.seconds:.3f}", r.figures) for r in summary_rows(result)
    ]
    return table(("stage", "seconds", "figures"), cells, ("", "number", ""))


def _stages(result: Optimized) -> str:
    from workbench.faces.plots import plot_stages

    return figure(lambda ax: plot_stages(result, ax), (7.0, 2.0), "seconds by stage")


def _ablation(ablation: Ablation) -> str:
    said = heading(f"Ablation of {ablation.graph.name}", _state(ablation))
    if ablation.best is None:
        return said
    from workbench.faces.plots import plot_ablation

    frame = ablation.frame()
    rows = [
        (r.rule, f"{r.cost:.6g}", f"{r.loss:+.2f} %", r.instead, r.stop_reason, f"{r.seconds:.2f}")
        for r in frame.itertuples()
    ]
    size = (7.0, 1.5 + 0.36 * max(2, min(20, len(rows))))
    drawn = (
        figure(lambda ax: plot_ablation(ablation, ax), size, "best cost without each rule") if rows else ""
    )
    caution = f"<p>{ablation.caution}</p>" if ablation.caution else ""
    headings = ("without", "best cost in µs", "change", "made by instead", "stopped", "seconds")
    return said + preformatted(repr(ablation).partition("\n")[0]) + drawn + table(headings, rows) + caution


def _searched(result: Searched) -> str:
    return (
        heading(f"{result.original.name}, optimised by search")
        + summary_html(result)
        + details("the optimised graph", graph_html(result.graph))
        + details("how it was found", _trace(result.trace))
    )


#: Faces by the name of the class, so that a look-up imports nothing.
_FACES: dict[str, Callable[[Any], str]] = {
    "Graph": graph_html,
    "EGraph": lambda egraph: egraph_html(Known.of(egraph)),
    "Comparison": comparison_html,
    "Rule": rule_html,
    "RuleSet": rule_set_html,
    "RuleTable": rule_table_html,
    "Ablation": _ablation,
    "Trace": _trace,
    "Saturation": _saturation,
    "Solution": _solution,
    "Extraction": _extraction,
    "Verification": _verification,
    "Verdict": _verdict,
    "Synthesis": _synthesis,
    "Coverage": _coverage,
    "Certificate": _certificate,
    "Optimized": _optimized,
    "BacktrackingSearch": _search,
    "Searched": _searched,
    "WhyNot": why_not_html,
    "Explanation": explanation_html,
}
