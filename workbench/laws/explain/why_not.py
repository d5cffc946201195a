"""Find out why a graph, a term, or the right-hand side of a rule is not in an e-graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workbench.egraph.rebuild import eclasses_of
from workbench.graph import Graph
from workbench.graph.dataflow import numbers_in
from workbench.laws.explain.egraph_index import Examined, written
from workbench.laws.explain.report import Cause, Represented, WhyNot
from workbench.laws.explain.search import MOST_NEW, WORK, Asking, Run
from workbench.laws.matching import compiled, depth
from workbench.laws.proof_graph import Applied, Index
from workbench.ops.inputs_and_opaque import NAMED
from workbench.rules.interpret import is_number
from workbench.rules.pattern import App, Rule, applications, format_term, subterms

#: Limit on the matches of a rule that are examined when a rule is the target.
MOST_PLACES: Final = 20


def why_not_graph(
    examined: Examined, run: Run, target: Graph, equals: Sequence[int], name: str, compared: str
) -> WhyNot:
    """Return why the outputs of a graph are not equal to e-classes.

    Args:
        examined: The e-graph.
        run: The saturation that made it.
        target: The graph; its inputs and weights are found by name.
        equals: The e-class that each output should be in.
        name: The target's name in the answer.
        compared: The name of the term that the target is compared with.
    """
    classes = eclasses_of(target, examined.egraph)
    wrong = [k for k, (i, c) in enumerate(zip(target.output_ids, equals, strict=True)) if classes[i] != c]
    if not wrong:
        return WhyNot(name, compared, Cause.REPRESENTED, stop_reason=run.stop_reason)
    output, goal = target.output_ids[wrong[0]], equals[wrong[0]]
    asking = Asking(examined, run)
    place: list[int] = []
    for node, c in zip(target.nodes, classes, strict=True):
        if c >= 0:
            place.append(examined.leaf(asking.graph, c))
        else:
            operands = tuple([place[j] for j in node.inputs])
            place.append(asking.graph.add(node.op, node.attrs, operands, node.type))
    numbers = numbers_in(target)
    asking.graph.numbers.update({place[i]: value for i, value in numbers.items()})
    parts = _parts(target, classes, output)
    known = WhyNot(name, compared, Cause.UNKNOWN, classes[output] >= 0, parts)
    return asking.answer(place[output], goal, known, [c for c in classes if c >= 0])


def why_not_rule(examined: Examined, run: Run, rule: Rule) -> WhyNot:
    """Return why the right-hand side of a rule is not equal to a match of its left-hand side.

    Every match is examined until one is found whose right-hand side is missing.
    """
    target = "; ".join(map(format_term, rule.targets))
    asking = Asking(examined, run)
    found = 0
    source = rule.sources[0]
    for c in asking.classes_with(source.op):
        asking.bring_below(c, depth(source) - 1)
    index = Index(asking.graph, WORK)
    hot = {asking.graph.find(examined.leaf(asking.graph, c)) for c in asking.classes_with(source.op)}
    asking.graph.most = len(asking.graph) + MOST_NEW
    missing: Applied | None = None
    for applied in asking.graph.applications(rule, index, hot, backward=False):
        found += 1
        held = bool(applied.pairs) and all(asking.held_equal(a, b) for a, b in applied.pairs)
        # A place at which every guard holds says more than one at which some guard does not.
        if not held and (missing is None or (missing.guards and not applied.guards and applied.pairs)):
            missing = applied
        if found >= MOST_PLACES and missing is not None:
            break
    if missing is not None:
        return asking.single(rule, missing, target)
    cause = Cause.REPRESENTED if found else Cause.NO_MATCH
    parts = () if found else _matched_parts(asking, rule)
    compared = f"matches of {rule.name}"
    return WhyNot(target, compared, cause, parts=parts, rule=rule.name, stop_reason=run.stop_reason)


def _matched_parts(asking: Asking, rule: Rule) -> tuple[Represented, ...]:
    """Return the largest parts of a rule's left-hand side that match something."""
    found: list[Represented] = []
    covered: set[int] = set()
    for source in rule.sources:
        for part in sorted(applications(source), key=lambda t: -_size(t)):
            if id(part) in covered:
                continue
            for c in asking.classes_with(part.op):
                asking.bring_below(c, depth(part) - 1)
            index = Index(asking.graph, WORK)
            places = index.by_op.get(part.op, [])
            pattern = compiled(part, is_number)
            index.begin()
            at = next((p for p in places if index.at(pattern, p)), None)
            if at is not None:
                covered.update(id(t) for t in subterms(part))
                eclass = asking.examined.held(asking.graph, at)
                found.append(Represented(format_term(part), _size(part), eclass))
    return tuple(found)


def _size(term: App) -> int:
    return sum(1 for _ in applications(term))


def _parts(target: Graph, classes: Sequence[int], output: int) -> tuple[Represented, ...]:
    """Return the largest represented parts below an output, each with at least one operator."""
    found: dict[int, Represented] = {}
    sizes: dict[int, set[int]] = {}
    for i, node in enumerate(target.nodes):
        own = set() if node.op in NAMED else {i}
        sizes[i] = own.union(*(sizes[j] for j in node.inputs))
    stack, seen = [output], set()
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if classes[i] < 0:
            stack += target.nodes[i].inputs
        elif sizes[i]:
            # Represented by the target's own term, which need not be the oldest of the e-class.
            found[i] = Represented(_text(target, i), len(sizes[i]), classes[i])
    return tuple(sorted(found.values(), key=lambda part: -part.operators))


def _text(graph: Graph, i: int, depth: int = 3) -> str:
    node = graph.nodes[i]
    if depth == 0 and node.inputs:
        return "…"
    return written(node.op, node.attrs, [_text(graph, j, depth - 1) for j in node.inputs])
