"""The static face of every public object: a summary, tables, embedded pictures, certificates and answers in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from workbench.faces import plots
from workbench.faces.plots.saturation import firing_size
from workbench.faces.views.compare import comparison_html
from workbench.faces.views.egraphs import Known, egraph_html
from workbench.faces.views.graphs import graph_svg
from workbench.faces.views.markup import (
    aligned,
    details,
    heading,
    page_of,
    pairs,
    paragraph,
    picture,
    preformatted,
    table,
)
from workbench.faces.views.rules import rule_html, rule_table_html
from workbench.faces.views.runs import runs_html, runs_page
from workbench.faces.views.svg import beside
from workbench.graph.text import format_attr
from workbench.rules.verdicts import WORST_FIRST
from workbench.run.trace import sizes
from workbench.studies.analysis.rule_activity import rule_table
from workbench.studies.experiments.stored_runs import StoredRuns
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.certification.certificate import Certificate
    from workbench.extraction.extract import Extraction
    from workbench.extraction.result import Solution
    from workbench.graph import Graph
    from workbench.laws.explain.report import Explanation, Move, Tried, WhyNot
    from workbench.laws.proof_graph import Guard
    from workbench.laws.run_proofs.checking import Accepted
    from workbench.laws.synthesis import Coverage, Synthesis
    from workbench.laws.verification import Verdict, Verification
    from workbench.optimizer.result import Optimized, Result
    from workbench.run.trace import Trace
    from workbench.studies.analysis.ablation import Ablation
    from workbench.studies.search import BacktrackingSearch
    from workbench.studies.search.optimize import Searched


#: The headings of a chain of rules.
_MOVES: Final = ("before", "after", "rule", "read")
#: Limit on the names of outputs in a sentence.
MOST_NAMES = 6


def certificate_lead(certificate: Certificate) -> str:
    """Return the outcome in one sentence."""
    if certificate.passed and not certificate.regions:
        return "The result computes what the original computes: nothing was rewritten."
    if certificate.passed:
        return "The optimised graph computes what the original computes, on every input that was tried."
    return f"The certificate failed: {certificate.reason}. The original stays."


def certificate_words(certificate: Certificate) -> list[tuple[str, str]]:
    """Return the compared values, the way of comparing and the outcome, as names and sentences."""
    names = ", ".join(certificate.outputs[:MOST_NAMES])
    more = len(certificate.outputs) - MOST_NAMES
    limits = "This is evidence on random inputs, not a proof for all inputs."
    if set(certificate.rules.values()) == {"theorem"}:
        limits += " Every rule behind this result is a theorem, for all extents and ranks."
    differ = [] if certificate.evidence is None else [("where they differ", str(certificate.evidence))]
    return [
        ("rewritten parts", _parts(certificate)),
        ("whole models", _whole(certificate)),
        ("outputs", names + (f" and {more} more" if more > 0 else "")),
        *differ,
        ("rounding", certificate.rounding_line()),
        ("rules", certificate.rules_line()),
        ("what it means", limits),
    ]


def _parts(certificate: Certificate) -> str:
    if not certificate.regions:
        return "none: the two graphs are the same"
    count = _count(certificate.regions, "part")
    if certificate.distinct not in (0, certificate.regions):
        count += f" ({thousands(certificate.distinct)} of them compared, the others are like one of these)"
    return (
        f"{count}, each on {_count(certificate.draws, 'random input')} in {certificate.arithmetic}, "
        f"seed {certificate.seed}: the largest relative error is {certificate.error:.1e}, "
        f"at most {certificate.tolerance:.0e} is allowed"
    )


def _whole(certificate: Certificate) -> str:
    if not certificate.whole_ran:
        return f"not run: {certificate.whole}" if certificate.whole else "not run"
    by = certificate.whole
    if certificate.lacking:
        by = f"numpy, because ONNX Runtime has no kernel for {', '.join(certificate.lacking)}"
    return (
        f"both ran once as saved, in {by}: the outputs differ by at most "
        f"{certificate.deployed_error:.1e} of their largest entry, at most "
        f"{certificate.deployed_tolerance:.0e} is allowed"
    )


def _count(count: int, name: str) -> str:
    return f"{thousands(count)} {name}{'' if count == 1 else 's'}"


def why_not_text(answer: WhyNot) -> str:
    """Return the answer to a question in lines of text."""
    lines = [f"{answer.target}: {_answer_verdict(answer)}", *(f"  {line}" for line in _reasons(answer))]
    if answer.parts:
        lines.append("  the largest parts that are represented:")
        lines += [f"    {p.term} (e-class {p.eclass})" for p in answer.parts]
    if answer.chain:
        lines.append("  a chain of rules from the e-graph to the target:")
        lines += [f"    {line}" for line in map(move_text, answer.chain)]
    if answer.tried:
        lines.append("  rules that match at the missing equality:")
        lines += [f"    {t.rule}: {_outcome(t)}" for t in answer.tried]
    return "\n".join(lines)


def explanation_text(explanation: Explanation) -> str:
    """Return the chain between two terms in lines of text."""
    place = "" if explanation.eclass is None else f" (e-class {explanation.eclass})"
    lines = [f"{explanation.left} = {explanation.right}{place}"]
    return "\n".join([*lines, *(f"  {line}" for line in _chain(explanation))])


def move_text(move: Move) -> str:
    """Return one step of a chain as text."""
    rule = move.rule + ("" if move.forward else ", read backward")
    missing = "" if move.held else "  [missing]"
    return f"{move.before} = {move.after} by {rule}{missing}"


def why_not_html(answer: WhyNot) -> str:
    """Return the answer to a question as HTML."""
    parts = [heading(f"Why not {answer.target}?", _answer_verdict(answer))]
    parts += [paragraph(line) for line in _reasons(answer)]
    if answer.chain:
        moves = [(*_move(m), "yes" if m.held else "no") for m in answer.chain]
        parts.append(table((*_MOVES, "in the e-graph"), moves))
    if answer.parts:
        largest = [(p.term, p.operators, p.eclass) for p in answer.parts]
        parts.append(details("the largest parts", table(("part", "operators", "e-class"), largest)))
    if answer.tried:
        outcomes = table(("rule", "outcome"), [(t.rule, _outcome(t)) for t in answer.tried])
        parts.append(details("rules that match there", outcomes))
    return "".join(parts)


def explanation_html(explanation: Explanation) -> str:
    """Return the chain between two terms as HTML."""
    place = "" if explanation.eclass is None else f"e-class {explanation.eclass}"
    title = heading(f"{explanation.left} = {explanation.right}", place)
    if not explanation.moves:
        return title + "".join(map(paragraph, _chain(explanation)))
    return title + table(_MOVES, [_move(m) for m in explanation.moves])


def proof_html(accepted: Accepted) -> str:
    """Return an accepted proof as HTML: its sentence, both graphs, and its steps."""
    shown = accepted.replayed
    drawn, regions = beside(*map(graph_svg, shown.graphs)), shown.regions()
    return (
        heading("Proof", _count(len(shown.proof.steps), "step"))
        + paragraph(f"{accepted}.")
        + picture(drawn, "the original on the left, the result on the right")
        + table(("region", "what was rewritten"), [(n, str(r)) for n, r in enumerate(regions, 1)])
        + table(shown.REGIONS, shown.by_region(regions))
    )


def _move(move: Move) -> tuple[str, str, str, str]:
    return move.before, move.after, move.rule, "forward" if move.forward else "backward"


def _chain(explanation: Explanation) -> Iterable[str]:
    if explanation.moves:
        return map(move_text, explanation.moves)
    if explanation.complete:
        return ["both are the same term"]
    return ["no chain was found within the limits of the search"]


def _answer_verdict(answer: WhyNot) -> str:
    if answer.represented:
        return f"represented, equal to {answer.compared}"
    if answer.elsewhere:
        return f"in the e-graph, but not equal to {answer.compared}; {answer.cause.value}"
    return f"not in the e-graph; {answer.cause.value}"


def _reasons(answer: WhyNot) -> Iterable[str]:
    if answer.missing is not None:
        gap = answer.missing
        yield f"the first missing equality: {gap.present} = {gap.wanted} (e-class {gap.eclass})"
    if answer.rule and not answer.represented:
        yield f"the rule for it: {answer.rule}"
    for guard in answer.guards:
        yield f"the guard: {_guard(guard)}"
    if not answer.represented and answer.stop_reason is not None:
        yield f"the saturation stopped because: {answer.stop_reason.value}"
    elif not answer.represented:
        yield "the saturation is not finished"


def _guard(guard: Guard) -> str:
    if guard.left is None or guard.right is None:
        return f"{guard.condition} does not hold"
    return f"{guard.condition} does not hold: {format_attr(guard.left)} and {format_attr(guard.right)}"


def _outcome(tried: Tried) -> str:
    more = "; ".join(filter(None, [*map(_guard, tried.guards), tried.misfit]))
    return tried.outcome.value + (f": {more}" if more else "")


def static_html(thing: object) -> str:
    """Return the static face of an object; raise TypeError if its class has none."""
    for kind in type(thing).__mro__:
        face = _FACES.get(kind.__name__)
        if face is not None:
            return aligned(face(thing))
    raise TypeError(f"thing must be an object with a static face, got {type(thing).__name__}")


def page(thing: object) -> str:
    """Return an object as a complete HTML page: its static face, or all data of stored runs."""
    if isinstance(thing, StoredRuns):
        return runs_page(thing)
    title = f"{type(thing).__name__} {getattr(thing, 'name', '')}".strip()
    return page_of(title, static_html(thing))


# -- graphs -----------------------------------------------------------------------------------------
def graph_html(graph: Graph) -> str:
    """Return a graph as a picture, with its operators, inputs and outputs."""
    counts = sorted(graph.operators().items(), key=lambda item: (-item[1], item[0]))
    ends = [(graph.nodes[i].attr("name"), graph.nodes[i].type, "input") for i in graph.inputs]
    ends += [(name, graph.nodes[i].type, "output") for name, i in graph.outputs]
    return (
        heading(f"Graph {graph.name}", f"{len(graph.nodes)} nodes, {len(graph.weights)} weights")
        + picture(graph_svg(graph), f"{graph.name}: {len(graph.nodes)} nodes")
        + details("operators", table(("operator", "count"), counts))
        + details("inputs and outputs", table(("name", "type", ""), ends))
    )


# -- traces -----------------------------------------------------------------------------------------
def figure(draw: Callable[[Axes], object], size: tuple[float, float], text: str) -> str:
    """Return a figure of ``size`` inches as a picture with an alternative text."""
    if not find_spec("matplotlib"):
        return paragraph(f"No plot of {text}: matplotlib is not installed (tamago-workbench[plots]).")
    return picture(plots.figure_svg(draw, size), text)


def growth_figures(trace: Trace, height: float) -> str:
    """Return the figures of the sizes, in a height in inches, and of the rules, if any fired."""
    made, kept = sizes(trace)
    grown = figure(partial(plots.plot_growth, trace), (7.0, height), f"{made} and {kept} by step")
    if any(step.rules for step in trace):
        size = firing_size(plots.firing_data(trace))
        grown += figure(partial(plots.plot_firing, trace), size, f"{made} by rule and step")
    return grown


def _trace(trace: Trace) -> str:
    kind = str(trace.meta.get("kind", "saturation"))
    text = heading(f"Trace of {kind}", f"{len(trace)} steps")
    if kind == "extraction":
        text += figure(partial(plots.plot_gap, trace), (7.0, 3.4), "cost and bound over time")
    else:
        text += growth_figures(trace, 3.4)
        if any(step.cost is not None for step in trace):
            text += figure(partial(plots.plot_cost_curve, trace), (7.0, 3.2), "best cost by step")
    return text + steps_html(trace) + details("settings", pairs(trace.meta.items()))


def steps_html(trace: Trace) -> str:
    """Return the steps of a trace as a table that opens on a click."""
    rows = []
    for s in trace:
        made, kept = thousands(s.e_nodes), thousands(s.e_classes)
        costs = ("" if value is None else f"{value:.6g}" for value in (s.cost, s.bound))
        rows.append((s.index, f"{s.seconds:.3f}", made, kept, *costs, s.note))
    return details("steps", table(("step", "seconds", *sizes(trace), "cost", "bound", ""), rows, most=100))


def _search(search: BacktrackingSearch) -> str:
    note = f"{search.mode}, alpha {search.alpha:g}, budget {search.budget}: {_state(search)}"
    return heading(f"Backtracking search of {search.graph.name}", note) + _trace(search.trace)


def _state(stepwise: Any) -> str:
    reason = stepwise.stop_reason
    return "not finished" if reason is None else str(reason.value)


# -- extraction -------------------------------------------------------------------------------------
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
    from workbench.laws.verification.verdict import verdict_counts

    rows = [(v.index, v.name, v.verdict, f"{v.seconds:.2f}", v.reason()) for v in verification.verdicts]
    rows.sort(key=lambda row: (WORST_FIRST.index(row[2]), row[0]))
    note = f"{verdict_counts(verification.verdicts)}; {_state(verification)}, {verification.seconds:.1f} s"
    headings = ("rule", "name", "verdict", "seconds", "evidence")
    return heading(f"Verification of {verification.name}", note) + table(headings, rows)


def _synthesis(synthesis: Synthesis) -> str:
    laws = {law.rule: law for law in (*synthesis.laws, *synthesis.joint)}
    rows = [(r.name, laws[r].verdict.law, laws[r].verdict.short) for r in synthesis.rules]
    funnel = synthesis.funnel()
    numbers = [tuple(str(cell) for cell in row) for row in funnel.to_numpy()]
    note = f"{len(rows)} laws; {_state(synthesis)}, {synthesis.seconds:.1f} s"
    return (
        heading(f"Synthesis from {synthesis.grammar.name}", note)
        + table(("law", "equation", "evidence"), rows)
        + details("terms, classes, candidates", table(tuple(funnel.columns), numbers))
    )


def _coverage(coverage: Coverage) -> str:
    frame = coverage.frame()
    return heading("Coverage", repr(coverage)) + table(list(frame.columns), frame.itertuples(index=False))


def _verdict(verdict: Verdict) -> str:
    law = preformatted(f"{verdict.law}\n\n{verdict.details()}")
    return heading(f"{verdict.name}: {verdict.verdict}") + law


def _certificate(certificate: Certificate) -> str:
    if certificate.files:
        return heading("Certificate", " and ".join(certificate.files)) + preformatted(str(certificate))
    rows = [(name, f"{error:.1e}") for name, error in certificate.errors.items()]
    return (
        heading("Certificate", certificate.verdict())
        + details("in words", pairs(certificate_words(certificate)), open_=True)
        + details("relative error by output", table(("output", "error"), rows))
        + details("rules that fired", table(("rule", "verdict"), certificate.rules.items()))
    )


def _optimized(result: Optimized) -> str:
    time = figure(partial(plots.plot_stages, result), (7.0, 2.0), "seconds by stage")
    return (
        heading(f"{result.original.name}, optimised")
        + summary_html(result)
        + details("where the time went", time)
        + details("original and optimised", comparison_html(result.compare()))
        + details("how it was found", _trace(result.trace))
    )


def summary_html(result: Result) -> str:
    """Return the summary of a result as a table, one row per stage."""
    from workbench.optimizer.summary import summary_rows

    rows = summary_rows(result)
    cells = [(r.what, "" if r.seconds is None else f"{r.seconds:.3f}", r.figures) for r in rows]
    return table(("stage", "seconds", "figures"), cells, ("", "number", ""))


def _ablation(ablation: Ablation) -> str:
    said = heading(f"Ablation of {ablation.graph.name}", _state(ablation))
    if ablation.best is None:
        return said
    rows = [
        (r.rule, f"{r.cost:.6g}", f"{r.loss:+.2f} %", r.instead, r.stop_reason, f"{r.seconds:.2f}")
        for r in ablation.frame().itertuples()
    ]
    size, draw = (7.0, 1.5 + 0.36 * max(2, min(20, len(rows)))), partial(plots.plot_ablation, ablation)
    drawn = figure(draw, size, "best cost without each rule") if rows else ""
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
    "EGraph": lambda egraph: egraph_html(Known(egraph)),
    "Comparison": comparison_html,
    "Rule": rule_html,
    "RuleSet": lambda rules: rule_table_html(rule_table(rules)),
    "RuleTable": rule_table_html,
    "Ablation": _ablation,
    "Trace": _trace,
    "Saturation": lambda run: heading("Saturation", _state(run)) + _trace(run.trace),
    "Solution": lambda found: heading("Solution", found.status.value) + pairs(_solution_pairs(found)),
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
    "Accepted": proof_html,
    "StoredRuns": runs_html,
}
