"""Ask a saturation: read the target, and collect the facts of the e-graph and of the run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from workbench.egraph.rebuild import eclasses_of
from workbench.graph import Builder, Graph
from workbench.graph.graph import numbers_in
from workbench.laws.explain.egraph_index import Examined
from workbench.laws.explain.report import Explanation, Move, WhyNot
from workbench.laws.explain.search import Run, why_not_graph, why_not_rule
from workbench.laws.proof_graph import Applied, ProofGraph
from workbench.ops import AttrValue, TensorType, TypeMismatch, spec_of
from workbench.rules.interpret import Numbers, read_term
from workbench.rules.language import parse_term
from workbench.rules.pattern import App, Rule, Term, format_term, tensor_variables
from workbench.support.messages import nearest, unknown
from workbench.support.orders import postorder

if TYPE_CHECKING:
    from workbench.saturation.saturation import Saturation

#: Limit on the terms of an explanation.
MOST_TERMS: Final = 20_000

Target = Graph | Term | Rule | str


def ask_why_not(saturation: Saturation, target: Target, equals: str | None, more: Iterable[Rule]) -> WhyNot:
    """Return why a target is not in an e-graph; the arguments are those of :meth:`Saturation.why_not`."""
    examined, more = _examined(saturation), tuple(more)
    rules, weights = tuple(saturation.rules), saturation.engine.program.weights
    run = Run(saturation.graph, rules, more, weights, saturation.stop_reason, *saturation.withheld())
    if isinstance(target, str):
        known = {r.name: r for r in (*more, *rules)}
        if target not in known and re.fullmatch(r"\w+(-\w+)+", target):
            raise TargetError(unknown("rule", target, known, listed=False))
        target = known[target] if target in known else parse_term(target)
    if isinstance(target, Rule):
        if equals is not None:
            raise TargetError(f"a rule is compared with its own matches, got equals={equals!r}")
        return why_not_rule(examined, run, target)
    if isinstance(target, Graph):
        if equals is not None:
            raise TargetError(f"a graph is compared with the outputs of the model, got equals={equals!r}")
        goals = _roots(examined, saturation.graph, target)
        return why_not_graph(examined, run, target, goals, target.name, "the model's outputs")
    graph = graph_of(target, saturation.graph)
    compared = equals if equals is not None else _alike(saturation.graph, graph)
    (goal,) = _classes(examined, graph_of(parse_term(compared), saturation.graph))
    if goal < 0:
        raise TargetError(f"a target must be compared with a term of the e-graph, got {compared}")
    return why_not_graph(examined, run, graph, (goal,), format_term(target), compared)


def ask_explain(saturation: Saturation, left: Target, right: Target) -> Explanation:
    """Return the chain of rules between two terms of one e-class; see :meth:`Saturation.explain`."""
    examined = _examined(saturation)
    graphs, names, classes = [], [], []
    for target in (left, right):
        if isinstance(target, Rule):
            raise TargetError(f"terms must be explained, got the rule {target.name}")
        term = parse_term(target) if isinstance(target, str) else target
        graph = term if isinstance(term, Graph) else graph_of(term, saturation.graph)
        graphs.append(graph)
        names.append(graph.name if isinstance(term, Graph) else format_term(term))
        classes.append(_classes(examined, graph)[0])
    if classes[0] < 0 or classes[0] != classes[1]:
        both = f"{names[0]} and {names[1]}"
        raise TargetError(f"terms must be in one e-class to be explained, got {both} (try why_not)")
    # Both terms grow by the rules, in both directions, but only to terms that the e-graph represents. They
    # meet if the e-graph holds their equality by rules that the limits let apply again.
    grown = ProofGraph(
        constant=lambda t: examined.constant[examined.held(grown, t)],
        running=lambda t: examined.running[examined.held(grown, t)],
        most=MOST_TERMS,
    )
    a, b = (_entered(grown, given) for given in graphs)

    @cache
    def of(term: int) -> int:
        entry = grown.entries[term]
        return examined.known.get((entry.op, entry.attrs, tuple(map(of, entry.inputs))), -1)

    def holds(one: Applied) -> bool:
        return one.holds and all(of(x) == of(y) >= 0 for x, y in one.pairs)

    met = grown.run(tuple(saturation.rules), [(a, b)], holds=holds)
    text = partial(examined.text, grown)
    moves = tuple(Move.of(step, text) for step in grown.chain(a, b) if step.law) if met else ()
    return Explanation(names[0], names[1], classes[0], moves, complete=met)


def _entered(graph: ProofGraph, given: Graph) -> int:
    """Add the nodes of a graph to the terms; return the term of its first output."""
    place = graph.enter(given.nodes)
    graph.numbers.update({place[i]: value for i, value in numbers_in(given).items()})
    return place[given.output_ids[0]]


def _examined(saturation: Saturation) -> Examined:
    """Return the tables of the present e-graph, which are kept until it changes."""
    egraph = saturation.egraph()
    known = saturation.examined
    if not isinstance(known, Examined) or known.egraph is not egraph:
        known = saturation.examined = Examined(egraph)
    return known


def _classes(examined: Examined, graph: Graph) -> tuple[int, ...]:
    classes = eclasses_of(graph, examined.egraph)
    return tuple(classes[i] for i in graph.output_ids)


def _roots(examined: Examined, model: Graph, target: Graph) -> tuple[int, ...]:
    """Return the e-classes that a target's outputs are compared with, found by name or by place."""
    roots = dict(zip((name for name, _ in model.outputs), examined.egraph.roots, strict=True))
    names = [name for name, _ in target.outputs]
    if {*names} <= {*roots}:
        return tuple(roots[name] for name in names)
    if len(names) != len(roots):
        raise TargetError(f"a target must have the {len(roots)} outputs of the model, got {len(names)}")
    return tuple(examined.egraph.roots)


def _alike(model: Graph, target: Graph) -> str:
    """Return the name of the first output whose type a term has."""
    wanted = next(iter(target.output_types.values()))
    if (i := next((i for i in model.output_ids if model.nodes[i].type == wanted), None)) is not None:
        return f"n{i}"
    raise TargetError(
        f"a term must have the type of an output, got {wanted} (name a term to compare it with: equals=… in "
        "Python, --equals on the command line, a == b in a view)"
    )


class TargetError(ValueError):
    """Raised when a target cannot be read: an unknown name, an open attribute, operands that do not fit."""


def names_of(graph: Graph) -> dict[str, int]:
    """Return the names by which a target refers to nodes of a graph.

    They are the names of outputs, inputs and weights, the same with ``_`` for every character that a term
    cannot contain, and ``n0``, ``n1``, … for the nodes by position. The first of two equal names counts.
    """
    found: dict[str, int] = {}
    leaves = [(str(n.attrs[0]), i) for i, n in enumerate(graph.nodes) if n.op in ("input", "weight")]
    named = [*leaves, *graph.outputs]
    plain = [(re.sub(r"\W", "_", name), i) for name, i in named]
    for name, i in [*named, *plain, *((f"n{i}", i) for i in range(len(graph)))]:
        found.setdefault(name, i)
    return found


def listed(graph: Graph, most: int = 12) -> str:
    """Return the first names of a graph that a message shows, and ``n0 … `` for its nodes."""
    names = list(
        dict.fromkeys(re.sub(r"\W", "_", n) for n in names_of(graph) if not re.fullmatch(r"n\d+", n))
    )
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more, f"n0 … n{len(graph) - 1}"])


def graph_of(term: Term, graph: Graph) -> Graph:
    """Return a term as a graph whose one output is called ``target``.

    The term's variables are names of :func:`names_of`. Raise :class:`TargetError` for an unknown name, an
    attribute that has no value, and operands that do not fit.
    """
    known = names_of(graph)
    for name in tensor_variables(term):
        if name not in known:
            raise TargetError(
                f"a name in a target must be an input, a weight or an output of {graph.name}, got {name!r}"
                f"{nearest(name, known) or f'. There are: {listed(graph)}'}"
            )
    builder = Builder(graph.name)
    wanted = [known[name] for name in tensor_variables(term)]
    place = builder.copy(graph, keep=set(postorder(wanted, lambda i: graph.nodes[i].inputs)))
    build = _Build(builder, {name: place[i] for name, i in known.items()})
    try:
        return builder.graph({"target": read_term(term, build)})
    except (TypeMismatch, KeyError, IndexError) as error:
        said = f"no value for {error}" if isinstance(error, KeyError) else str(error)
        raise TargetError(f"a target must be a well-typed term without open attributes: {said}") from None


class _Build(Numbers):
    """The algebra that builds a term as nodes of a graph."""

    def __init__(self, builder: Builder, names: Mapping[str, int]) -> None:
        self.builder, self.names = builder, names

    def attribute(self, name: str) -> AttrValue:
        raise KeyError(name)

    def of_row(self, row: str, name: str) -> AttrValue | None:
        raise KeyError(row)

    def kind(self, name: str) -> TensorType:
        return self.builder.type(self.names[name])

    def variable(self, name: str) -> int:
        return self.names[name]

    def starred(self, name: str) -> list[int]:
        raise TypeMismatch(f"{name}* stands for several tensors")

    def apply(self, term: App, operands: list[int], attrs: dict[str, Any]) -> int:
        return self.builder.apply(term.op, operands, spec_of(term.op).pack(attrs))
