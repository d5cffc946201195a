"""The changes of a graph side by side: both graphs, and every change with the rules behind it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from workbench.faces.views.compare import caption, side_notes
from workbench.faces.views.graphs import graph_svg
from workbench.faces.views.markup import paragraph, picture, side_by_side, table
from workbench.faces.views.svg import width_of

if TYPE_CHECKING:
    from workbench.egraph.derivation import Birth
    from workbench.optimizer.result import Result
    from workbench.studies.analysis.comparison import Comparison

#: The signs of the drawings in words.
SIGNS: Final = "− removed (dashed), ≡ rewritten (dotted), + added; the rest was kept."
#: The width in pixels for one of two drawings, and the least scale at which text of 11 pixels is legible.
ROOM, LEGIBLE = 540.0, 0.8
#: The columns of the table of changes.
COLUMNS: Final = ("times", "original", "optimised", "by the rules, in order")
#: Limit on the applications in a chain that are listed.
MOST_LINKS: Final = 8


def changes_html(result: Result) -> str:
    """Return both graphs side by side, and a table of the changes with the rules that made them."""
    if result.graph is result.original:
        said = paragraph("The result is the original: nothing was rewritten.")
        return said + side_by_side(("original", _drawn(graph_svg(result.original), result.original.name)))
    from workbench.optimizer.pipeline import Optimized

    if not isinstance(result, Optimized):
        # A search has no e-graph that relates the operators of the two graphs.
        pictures = [
            (name, _drawn(graph_svg(graph), f"{name}: {len(graph.nodes)} nodes"))
            for name, graph in (("original", result.original), ("optimised", result.graph))
        ]
        return side_by_side(*pictures)
    comparison = result.compare()
    shown = []
    for name, side in (("original", comparison.before), ("optimised", comparison.after)):
        said = caption(name, side)
        shown.append((said, _drawn(graph_svg(side.graph, side_notes(comparison, side)), said)))
    rows = change_rows(comparison)
    changed = table(COLUMNS, rows, ("number", "", "", ""), most=60) if rows else ""
    return paragraph(SIGNS) + side_by_side(*shown) + changed


def _drawn(svg: bytes, text: str) -> str:
    """Return a drawing, reduced to the room if its text stays legible."""
    wide = width_of(svg)
    return picture(svg, text, kind="svg", width=max(min(wide, ROOM), LEGIBLE * wide))


def change_rows(comparison: Comparison) -> list[tuple[Any, ...]]:
    """Return the changes, equal ones counted: times, operators before and after, the rules in order."""
    before, after = comparison.before, comparison.after
    counts: Counter[tuple[str, str, str]] = Counter()
    constant = after.graph.constant()
    for i, node in enumerate(after.graph.nodes):
        if after.marks[i] == "kept" or constant[i]:
            continue
        was = [before.graph.nodes[j].op for j in comparison.partners(i)]
        chain = comparison.chain(i)
        counts[
            ", ".join(dict.fromkeys(was)) or "nothing of the same value",
            f"{node.op}: {node.type}",
            _steps(chain),
        ] += 1
    gone: Counter[str] = Counter()
    folded = before.graph.constant()
    for i, node in enumerate(before.graph.nodes):
        if before.marks[i] == "removed" and not folded[i]:
            gone[f"{node.op}: {node.type}"] += 1
    rows: list[tuple[Any, ...]] = [(n, *change) for change, n in counts.items()]
    return rows + [(n, op, "not computed any more", "") for op, n in gone.items()]


def _steps(chain: tuple[Birth, ...]) -> str:
    """Return the rules of a chain in order, those of equal name in a row once."""
    names: list[str] = []
    for link in chain[-MOST_LINKS:]:
        name = f"{link.rule} (step {link.step})"
        if not names or names[-1] != name:
            names.append(name)
    return ("… → " if len(chain) > MOST_LINKS else "") + " → ".join(names)
