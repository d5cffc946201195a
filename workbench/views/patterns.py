"""Rules as drawings: both sides as small graphs, what goes and what comes set apart."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.rules.language import format_expr
from workbench.rules.pattern import App, Rule, Term, Var, subterms
from workbench.views.scene import FAMILIES, family_of

#: What only the left side has goes, what only the right side has comes: border and line tell them apart.
GOES: Final = {"color": "#C8553D", "style": "filled,rounded,dashed", "penwidth": "1.6"}
COMES: Final = {"color": "#00796B", "penwidth": "2.2"}
#: Roots are what a match is replaced by; this is written beside them.
_CAPTIONS: Final = ("what is matched", "what it becomes")


@dataclass(slots=True)
class Side:
    """Hold one side of a rule as a graph: equal terms are one node, operands come before readers.

    An edge says which operand it is where its reader has more than two.
    """

    terms: list[Term] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)


def side_of(roots: tuple[Term, ...]) -> Side:
    """Return the graph of one side's terms."""
    side = Side()
    numbers: dict[Term, int] = {}
    for root in roots:
        for term in subterms(root):
            if term in numbers:
                continue
            numbers[term] = len(side.terms)
            side.terms.append(term)
            if isinstance(term, App):
                several = len(term.args) > 2
                side.edges += [
                    (numbers[arg], numbers[term], str(k) if several else "")
                    for k, arg in enumerate(term.args, 1)
                ]
        side.roots.append(numbers[root])
    return side


def term_label(term: Term, width: int = 26) -> str:
    """Return what stands on a node: a variable's name, or an operator with its attributes below."""
    if isinstance(term, Var):
        return term.name + ("*" if term.starred else "")
    inside = [f"{name}={format_expr(expr)}" for name, expr in term.attrs]
    if term.row is not None:
        inside.append(f"…{term.row}")
    return "\n".join([term.op, *textwrap.wrap(", ".join(inside), width, break_long_words=False)])


def rule_svg(rule: Rule) -> bytes | None:
    """Return both sides of a rule as one SVG drawing, or None where Graphviz is not installed.

    What the right side does not keep is dashed, what it adds has a thick border; several roots are
    numbered. The background is white, so that it can be read on a dark page.
    """
    try:
        import pygraphviz
    except ImportError:
        return None
    sides = (side_of(rule.sources), side_of(rule.targets))
    kept = set(sides[0].terms) & set(sides[1].terms)
    drawing: Any = pygraphviz.AGraph(directed=True, strict=False)
    drawing.graph_attr.update(
        rankdir="TB", nodesep="0.18", ranksep="0.28", ordering="in", bgcolor="white", fontname="Helvetica",
        fontsize="10", fontcolor="#555555", pad="0.08",
    )  # fmt: skip
    drawing.node_attr.update(
        shape="box", style="filled,rounded", fontname="Helvetica", fontsize="10", margin="0.08,0.03",
        height="0.2", color="#777777",
    )  # fmt: skip
    drawing.edge_attr.update(
        arrowsize="0.55", color="#666666", fontsize="7", fontcolor="#555555", fontname="Helvetica"
    )
    for at, side in enumerate(sides):
        names = [f"{'lr'[at]}{i}" for i in range(len(side.terms))]
        for i, term in enumerate(side.terms):
            look: dict[str, str] = {"fillcolor": _fill(term)}
            if isinstance(term, Var):
                look |= {"shape": "ellipse", "height": "0.2", "width": "0.3"}
                look |= {"peripheries": "2"} if term.starred else {}
            elif term not in kept:
                look |= GOES if at == 0 else COMES
            drawing.add_node(names[i], label=term_label(term), **look)
        for source, target, place in side.edges:
            numbered = {"headlabel": place, "labeldistance": "1.3"} if place else {}
            drawing.add_edge(names[source], names[target], **numbered)
        ends = []
        for k, root in enumerate(side.roots):
            text = "each of k" if rule.each else "result" if len(side.roots) == 1 else f"result {k + 1}"
            ends.append(f"{'lr'[at]}end{k}")
            drawing.add_node(
                ends[-1], label=text, shape="plaintext", style="", fontcolor="#555555", height="0.1"
            )
            drawing.add_edge(names[root], ends[-1], arrowhead="none", style="dotted")
        drawing.add_subgraph(
            [*names, *ends], name=f"cluster{at}", label=_CAPTIONS[at], style="rounded", color="#CCCCCC"
        )
    return smaller(bytes(drawing.draw(format="svg", prog="dot")))


def _fill(term: Term) -> str:
    return "#ffffff" if isinstance(term, Var) else FAMILIES[family_of(term.op)]


def smaller(svg: bytes) -> bytes:
    """Return Graphviz's SVG without what no browser needs: names, comments, digits, repeated fonts."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<title>.*?</title>", "", text, flags=re.DOTALL)
    text = re.sub(r' (?:id|class|xml:space|xmlns:xlink)="[^"]*"', "", text)
    text = text.replace(' font-family="Helvetica,sans-Serif"', "").replace(' font-size="10.00"', "")
    text = text.replace("<svg ", '<svg font-family="Helvetica,Arial,sans-serif" font-size="10" ', 1)
    text = re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), text)
    # Groups carried the names; what is left of them is the first one, which places the rest.
    text = text.replace("<g>", "").replace("</g>", "").replace("</svg>", "</g></svg>")
    return re.sub(r">\s+<", "><", text).strip().encode()
