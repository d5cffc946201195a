"""A comparison of the original with the optimised graph by e-class: both are terms of one e-graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.egraph.rebuild import eclasses_of
from workbench.graph import Graph
from workbench.ops.inputs_and_opaque import REFERENCES
from workbench.run.display import Face
from workbench.studies.analysis.derivation import Birth, Derivations

if TYPE_CHECKING:
    from workbench.optimizer.result import Optimized

#: The marks of operators and their meanings.
MARKS: Final = {
    "kept": "the same e-node on both sides",
    "rewritten": "the same e-class, another e-node",
    "removed": "an e-class that the optimised graph does not compute",
    "added": "an e-class that the original does not compute",
}


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of the two graphs, with figures by node.

    The figures are its e-class and e-node (-1 if the e-graph has none), its mark, its cost in
    microseconds, and the rule application that made it (None if it is part of the original).
    """

    graph: Graph = field(repr=False)
    classes: tuple[int, ...] = field(repr=False)
    e_nodes: tuple[int, ...] = field(repr=False)
    marks: tuple[str, ...] = field(repr=False)
    costs: tuple[float, ...] = field(repr=False)
    births: tuple[Birth | None, ...] = field(repr=False)

    def counts(self) -> dict[str, int]:
        """Return the number of running operators by mark; operators of weights alone are folded."""
        constant = self.graph.constant()
        running = [
            mark
            for node, mark, folded in zip(self.graph, self.marks, constant, strict=True)
            if not folded and node.op not in REFERENCES
        ]
        return {mark: running.count(mark) for mark in MARKS if mark in running}


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Face):
    """The original and the optimised graph with their operators marked, and the derivations by rules."""

    before: Side
    after: Side
    derivations: Derivations = field(repr=False)
    cost_source: str
    name: str = ""

    def rules(self) -> dict[str, tuple[int, ...]]:
        """Return the operators of the optimised graph by the rule that made them, most productive first."""
        made: dict[str, list[int]] = {}
        for i, birth in enumerate(self.after.births):
            if birth is not None:
                made.setdefault(birth.rule, []).append(i)
        return {r: tuple(made[r]) for r in sorted(made, key=lambda r: (-len(made[r]), r))}

    def partners(self, i: int) -> tuple[int, ...]:
        """Return the operators of the original in the e-class of operator ``i`` of the optimised graph."""
        c = self.after.classes[i]
        return tuple(j for j, d in enumerate(self.before.classes) if d == c >= 0)

    def chain(self, i: int) -> tuple[Birth, ...]:
        """Return the rule applications that led to operator ``i`` of the optimised graph, in order."""
        e_node = self.after.e_nodes[i]
        return self.derivations.chain(e_node) if e_node >= 0 else ()

    def stories(self) -> tuple[tuple[int, tuple[Birth, ...]], ...]:
        """Return the running operators that rules made, each with its chain, the longest chain first.

        Among chains of equal length, the one with more rules comes first, then the one of the costlier
        operator. A chain is left out if all its rules appear in one chain before it.
        """
        constant = self.after.graph.constant()
        chains = {
            i: self.chain(i)
            for i, birth in enumerate(self.after.births)
            if birth is not None and not constant[i]
        }
        rules = {i: {link.rule for link in chain} for i, chain in chains.items()}
        order = sorted(chains, key=lambda i: (-len(chains[i]), -len(rules[i]), -self.after.costs[i], i))
        told: list[int] = []
        for i in order:
            if not any(rules[i] <= rules[j] for j in told):
                told.append(i)
        return tuple((i, chains[i]) for i in told)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "before": self.before.counts(),
            "after": self.after.counts(),
            "cost_before": sum(self.before.costs),
            "cost_after": sum(self.after.costs),
            "cost_source": self.cost_source,
            "rules": {rule: len(made) for rule, made in self.rules().items()},
        }

    def __repr__(self) -> str:
        lines = [f"Comparison of {self.name!r} with its optimised form, by e-class"]
        for what, side in (("original ", self.before), ("optimised", self.after)):
            counts = ", ".join(f"{n} {mark}" for mark, n in side.counts().items())
            lines.append(f"  {what}: {sum(side.costs):.1f} µs; {counts or 'no operators'}")
        rules = [f"{rule} ({len(made)})" for rule, made in self.rules().items()]
        lines.append(f"  rules: {', '.join(rules[:8]) or 'none'}{', …' if len(rules) > 8 else ''}")
        return "\n".join([*lines, f"  costs: {self.cost_source}"])


def compare(optimized: Optimized) -> Comparison:
    """Compare an optimised graph with its original.

    Both are terms of the e-graph that the optimisation grew, so the correspondence is exact: an operator
    with the same e-node is kept; another e-node of the same e-class computes the same value differently.
    """
    egraph, original = optimized.egraph, optimized.original
    nodes_before = tuple(egraph.original.tolist())
    before = (original, tuple(int(egraph.eclass[i]) if i >= 0 else -1 for i in nodes_before), nodes_before)
    if optimized.graph is original:
        after = before
    else:
        classes = eclasses_of(optimized.graph, egraph)
        chosen = optimized.solution.choice
        after = (optimized.graph, classes, tuple(int(chosen[c]) if c >= 0 else -1 for c in classes))
    costs, derivations = optimized.costs, Derivations(egraph, optimized.ruleset)
    return Comparison(
        _side(*before, after[1], after[2], derivations, costs, "removed"),
        _side(*after, before[1], before[2], derivations, costs, "added"),
        derivations,
        optimized.cost_source,
        original.name,
    )


def _side(
    graph: Graph,
    classes: Sequence[int],
    e_nodes: Sequence[int],
    other_classes: Sequence[int],
    other_nodes: Sequence[int],
    derivations: Derivations,
    costs: np.ndarray,
    alone: str,
) -> Side:
    there, same = set(other_classes), set(other_nodes)
    marks, births, prices = [], [], []
    for node, c, i in zip(graph, classes, e_nodes, strict=True):
        kept = node.op == "input" or (i >= 0 and i in same)
        marks.append("kept" if kept else "rewritten" if c >= 0 and c in there else alone)
        births.append(derivations.birth(i) if i >= 0 else None)
        prices.append(float(costs[i]) if i >= 0 else 0.0)
    return Side(graph, tuple(classes), tuple(e_nodes), tuple(marks), tuple(prices), tuple(births))
