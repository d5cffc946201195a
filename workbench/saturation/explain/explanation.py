"""Find the chain of rules between two terms of one e-class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from workbench.graph import Graph
from workbench.graph.dataflow import numbers_in
from workbench.rules.pattern import Rule
from workbench.saturation.explain.egraph_index import Examined
from workbench.saturation.explain.proof_graph import Proofs
from workbench.saturation.explain.report import Explanation, Move
from workbench.saturation.explain.rule_application import Applied, Growth, TooManyTerms, reads

#: Limits on the rounds of growth, and on the matches that are tried and the terms that are compared in one.
ROUNDS: Final = 8
MOST_MATCHES: Final = 4_000
WORK: Final = 100_000


def explain_terms(
    examined: Examined, rules: Sequence[Rule], left: Graph, right: Graph, names: tuple[str, str], eclass: int
) -> Explanation:
    """Return the chain of rules between the first outputs of two graphs.

    Both terms grow by the rules, in both directions, but only to terms that the e-graph represents. They
    meet if the e-graph holds their equality by rules that the limits let apply again.

    Args:
        examined: The e-graph.
        rules: The rules that grew it.
        left: A graph whose first output is the first term.
        right: The same for the second term.
        names: The terms' names in the answer.
        eclass: The e-class of both.
    """
    proofs = Proofs()
    growth = Growth(
        proofs,
        constant=lambda t: examined.constant[examined.held(proofs, t)],
        running=lambda t: examined.running[examined.held(proofs, t)],
        most=20_000,
    )
    a, b = (_entered(growth, graph) for graph in (left, right))
    held: dict[int, int] = {}

    def of(term: int) -> int:
        if term not in held:
            entry = proofs.entries[term]
            operands = tuple([of(i) for i in entry.operands])
            held[term] = examined.known.get((entry.op, entry.attrs, operands), -1)
        return held[term]

    def sound(one: Applied) -> bool:
        return not one.guards and bool(one.pairs) and all(of(x) == of(y) >= 0 for x, y in one.pairs)

    hot = set(range(len(proofs)))
    for _ in range(ROUNDS):
        if proofs.find(a) == proofs.find(b):
            break
        before = len(proofs)
        try:
            if not _grown(growth, rules, hot, sound):
                break
        except TooManyTerms:
            break
        hot = set(range(before, len(proofs)))
        hot.update(t for t in range(before) if proofs.find(t) in {proofs.find(h) for h in hot})
    if proofs.find(a) != proofs.find(b):
        return Explanation(*names, eclass, (), complete=False)
    moves = tuple(
        Move(
            examined.text(proofs, link.before),
            examined.text(proofs, link.after),
            link.because.rule,
            link.forward,
            held=True,
        )
        for link in proofs.chain(a, b)
        if link.because.rule
    )
    return Explanation(*names, eclass, moves)


def _entered(growth: Growth, graph: Graph) -> int:
    """Add the nodes of a graph to the terms; return the term of its first output."""
    place: list[int] = []
    for node in graph.nodes:
        operands = tuple([place[j] for j in node.inputs])
        place.append(growth.proofs.add(node.op, node.attrs, operands, node.type))
    growth.numbers.update({place[i]: value for i, value in numbers_in(graph).items()})
    return place[graph.output_ids[0]]


def _grown(growth: Growth, rules: Sequence[Rule], hot: set[int], sound: Callable[[Applied], bool]) -> bool:
    """Apply rules in both directions near the ``hot`` terms; return whether that changed anything."""
    index = growth.index(WORK)
    near = reads(growth.proofs, {growth.proofs.find(t) for t in hot}, index)
    taken, changed = 0, False
    for rule in rules:
        if rule.each:
            found = [m for p in sorted(near) for m in growth.merges(rule, index, p)]
        else:
            found = [
                growth.apply(rule, places, bound)
                for forward in (True, False)
                for places, bound in growth.matches(rule, index, forward=forward, hot=near)
            ]
        taken += len(found)
        for one in filter(sound, found):
            changed |= growth.record(one)
        if taken > MOST_MATCHES:
            break
    return changed
