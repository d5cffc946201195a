"""Two graphs side by side: the scenes, the changes with the rules behind them, and the static face."""

from __future__ import annotations

from collections import Counter
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from workbench.faces.views.graphs import Notes, counted_operators, graph_pane, graph_svg, viewer_data
from workbench.faces.views.markup import details, heading, paragraph, picture, side_by_side, table
from workbench.faces.views.svg import beside, width_of
from workbench.studies.analysis.comparison import MARKS, Comparison, Side
from workbench.support.formatting import microseconds

if TYPE_CHECKING:
    from workbench.optimizer.result import Result
    from workbench.studies.analysis.comparison import Birth


#: Limit on operators in the static table; the others are counted.
MOST_OPERATORS: Final = 60
#: The columns of the table of rules.
RULE_COLUMNS: Final = ("rule", "operators that run", "folded into weights")
#: Limit on rule applications that are listed for one operator.
MOST_LINKS: Final = 12


def side_notes(comparison: Comparison, side: Side) -> Notes:
    """Return the comparison's notes on the nodes of a side; kept nodes have no mark."""
    facts = {}
    for i, (c, mark, birth) in enumerate(zip(side.classes, side.marks, side.births, strict=True)):
        told = [("", f"{mark}: {MARKS[mark]}")]
        if c >= 0:
            told.append((comparison.by, str(c)))
        if birth is not None:
            told += _chain(comparison, side.e_nodes[i])
        facts[i] = told
    return Notes(
        marks={i: mark for i, mark in enumerate(side.marks) if mark != "kept"},
        groups={i: f"{comparison.by} {c}" for i, c in enumerate(side.classes) if c >= 0},
        facts=facts,
        costs={i: cost for i, cost in enumerate(side.costs) if cost > 0},
        source=comparison.cost_source,
    )


def _chain(comparison: Comparison, e_node: int) -> list[tuple[str, str]]:
    """Return the rule applications that led to an e-node as facts, in order."""
    assert comparison.derivations is not None
    egraph = comparison.derivations.egraph
    links = comparison.derivations.chain(e_node)
    told = []
    for k, link in enumerate(links[-MOST_LINKS:]):
        of = counted_operators(Counter(egraph.ops[i] for i in link.sources).items())
        made = f"{link.rule}{f': {of}' if of else ''} → {egraph.ops[link.node]}"
        told.append(("" if k else "made by", f"step {link.step}: {made}"))
    if len(links) > MOST_LINKS:
        told.insert(1, ("", f"after {len(links) - MOST_LINKS} more rules"))
    return told


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Return the data of the viewer: both graphs with marks; operators of one e-class or value correspond."""
    panes = [graph_pane(side.graph, notes, title=said) for said, side, notes in _sides(comparison)]
    by_rules = comparison.derivations is not None
    rows = [list(row) for row in rules_of(comparison)]
    title = f"{' and '.join(comparison.sides)}, by {comparison.by}"
    return viewer_data(
        f"{comparison.name}: {title}" if by_rules else title,
        panes,
        legend={m: MARKS[m] for m in ("removed", "rewritten", "added")},
        table={"columns": list(RULE_COLUMNS), "rows": rows} if by_rules else None,
        unit="µs",
    )


def _sides(comparison: Comparison) -> list[tuple[str, Side, Notes]]:
    """Return both sides with captions, which have the cost and the numbers of operators by mark, and notes."""
    found = []
    for what, side in zip(comparison.sides, (comparison.before, comparison.after), strict=True):
        counts = ", ".join(f"{n} {mark}" for mark, n in side.counts().items())
        said = f"{what}: {microseconds(sum(side.costs))}; {counts}"
        found.append((said, side, side_notes(comparison, side)))
    return found


def rules_of(comparison: Comparison) -> list[tuple[str, int, int]]:
    """Return, by rule, the number of operators it made: those that run, and those of weights alone."""
    constant = comparison.after.graph.constant()
    counts = {rule: Counter(bool(constant[i]) for i in made) for rule, made in comparison.rules().items()}
    return [(rule, count[False], count[True]) for rule, count in counts.items()]


def comparison_html(comparison: Comparison) -> str:
    """Return the static face: figures, both graphs, and the operators that each rule made."""
    captions, sides, notes = zip(*_sides(comparison), strict=True)
    drawn = beside(*(graph_svg(side.graph, note) for side, note in zip(sides, notes, strict=True)))
    rules = rules_of(comparison)
    return (
        heading(f"Comparison of {comparison.name}", f"by {comparison.by}; {comparison.cost_source}; {SIGNS}")
        + f"<p>{escape(' → '.join(captions))}</p>"
        + picture(drawn, f"{comparison.name}, on the left {captions[0]}; on the right {captions[1]}")
        + f"<p>rules: {escape(', '.join(rule for rule, *_ in rules) or 'none')}</p>"
        + details("operators made by each rule", table(RULE_COLUMNS, rules))
        + details("changes", _changes(comparison))
    )


#: The signs of the drawings in words.
SIGNS: Final = "− removed (dashed), ≡ rewritten (dotted), + added; the rest was kept"
#: The width in pixels for one of two drawings, and the least scale at which text of 11 pixels is legible.
ROOM, LEGIBLE = 540.0, 0.8
#: The columns of the table of changes.
COLUMNS: Final = ("times", "original", "optimised", "by the rules, in order")
#: Limit on the applications in a chain that are listed.
MOST_CHAIN_LINKS: Final = 8


def changes_html(result: Result) -> str:
    """Return both graphs side by side, and a table of the changes with the rules that made them."""
    if result.graph is result.original:
        said = paragraph("The result is the original: nothing was rewritten.")
        return said + side_by_side(("original", _drawn(graph_svg(result.original), result.original.name)))
    from workbench.optimizer.result import Optimized

    if not isinstance(result, Optimized):
        # A search has no e-graph that relates the operators of the two graphs.
        graphs = {"original": result.original, "optimised": result.graph}.items()
        return side_by_side(*((n, _drawn(graph_svg(g), f"{n}: {len(g.nodes)} nodes")) for n, g in graphs))
    comparison = result.compare()
    shown = [(said, _drawn(graph_svg(side.graph, notes), said)) for said, side, notes in _sides(comparison)]
    return paragraph(f"{SIGNS}.") + side_by_side(*shown) + _changes(comparison)


def _changes(comparison: Comparison) -> str:
    rows = change_rows(comparison)
    return table(COLUMNS, rows, ("number", "", "", ""), most=MOST_OPERATORS) if rows else ""


def _drawn(svg: bytes, text: str) -> str:
    """Return a drawing, reduced to the room if its text stays legible."""
    wide = width_of(svg)
    return picture(svg, text, width=max(min(wide, ROOM), LEGIBLE * wide))


def change_rows(comparison: Comparison) -> list[tuple[Any, ...]]:
    """Return the changes, equal ones counted: times, operators before and after, the rules in order."""
    before, after = comparison.before, comparison.after
    counts: Counter[tuple[str, str, str]] = Counter()
    constant = after.graph.constant()
    for i, node in enumerate(after.graph.nodes):
        if after.marks[i] == "kept" or constant[i]:
            continue
        was = dict.fromkeys(before.graph.nodes[j].op for j in comparison.partners(i))
        named = ", ".join(was) or "nothing of the same value"
        counts[named, f"{node.op}: {node.type}", _steps(comparison.chain(i))] += 1
    marked = zip(before.graph.nodes, before.marks, before.graph.constant(), strict=True)
    gone = Counter(f"{n.op}: {n.type}" for n, mark, weights in marked if mark == "removed" and not weights)
    rows: list[tuple[Any, ...]] = [(n, *change) for change, n in counts.items()]
    return rows + [(n, op, "not computed any more", "") for op, n in gone.items()]


def _steps(chain: tuple[Birth, ...]) -> str:
    """Return the rules of a chain in order, those of equal name in a row once."""
    every = (f"{link.rule} (step {link.step})" for link in chain[-MOST_CHAIN_LINKS:])
    names = [name for name, _ in groupby(every)]
    return ("… → " if len(chain) > MOST_CHAIN_LINKS else "") + " → ".join(names)
