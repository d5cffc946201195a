"""Rules as drawings: both sides as small graphs, with removed and added operators marked."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Final

from workbench.faces.views.layout import lay_out
from workbench.faces.views.scene import Box, Cluster, Edge, Scene, family_of
from workbench.faces.views.svg import svg
from workbench.rules.pattern import App, Rule, Term, Var, format_expr, subterms

#: The captions of the frames of both sides.
CAPTIONS: Final = ("matched pattern", "replacement")


@dataclass(slots=True)
class Side:
    """One side of a rule as a graph: equal terms are one node, and operands come before readers.

    An edge is (operand, reader, label); the label is the operand's number if the reader has more than two.
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
    """Return the label of a node: a variable's name, or an operator with its attributes below."""
    if isinstance(term, Var):
        return term.name + ("*" if term.starred else "")
    inside = [f"{name}={format_expr(expr)}" for name, expr in term.attrs]
    if term.row is not None:
        inside.append(f"…{term.row}")
    return "\n".join([term.op, *textwrap.wrap(", ".join(inside), width, break_long_words=False)])


def rule_scene(rule: Rule) -> Scene:
    """Return both sides of a rule as one scene with two frames.

    Operators of the left side that the right side lacks are marked as removed, new ones of the right side as
    added. Several roots are numbered.
    """
    sides = (side_of(rule.sources), side_of(rule.targets))
    kept = set(sides[0].terms) & set(sides[1].terms)
    boxes: list[Box] = []
    edges: list[Edge] = []
    for at, side in enumerate(sides):
        frame = CAPTIONS[at]
        for i, term in enumerate(side.terms):
            changed = isinstance(term, App) and term not in kept
            mark = ("removed", "added")[at] if changed else ""
            family = "input" if isinstance(term, Var) else family_of(term.op)
            lines = tuple(term_label(term).split("\n"))
            boxes.append(Box(f"{at}.{i}", lines, family, mark, cluster=frame))
        edges += [Edge(f"{at}.{i}", f"{at}.{j}", place=place) for i, j, place in side.edges]
        for k, root in enumerate(side.roots):
            text = "each of k" if rule.each else "result" if len(side.roots) == 1 else f"result {k + 1}"
            boxes.append(Box(f"{at}.end{k}", (text,), "view", "stub", cluster=frame))
            edges.append(Edge(f"{at}.{root}", f"{at}.end{k}"))
    return Scene(rule.name, tuple(boxes), tuple(edges), tuple(Cluster(name, name) for name in CAPTIONS))


def rule_svg(rule: Rule) -> bytes:
    """Return both sides of a rule as one drawing with a white background, readable on dark pages too."""
    scene = rule_scene(rule)
    return svg(scene, lay_out(scene))
