"""Targets of questions: graphs, terms over the names of a graph, and rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from workbench.graph import Graph, GraphBuilder
from workbench.ops import AttrValue, TensorType, TypeMismatch, spec_of
from workbench.rules.expressions import Numbers
from workbench.rules.interpret import arguments, read_attributes
from workbench.rules.pattern import App, Term, Var, tensor_variables
from workbench.support.messages import nearest
from workbench.support.orders import postorder


class TargetError(ValueError):
    """Raised when a target cannot be read: an unknown name, an open attribute, operands that do not fit."""


def names_of(graph: Graph) -> dict[str, int]:
    """Return the names by which a target refers to nodes of a graph.

    They are the names of outputs, inputs and weights, the same with ``_`` for every character that a term
    cannot contain, and ``n0``, ``n1``, … for the nodes by position. The first of two equal names counts.
    """
    found: dict[str, int] = {}
    leaves = [(str(n.attrs[0]), i) for i, n in enumerate(graph.nodes) if n.op in ("input", "weight")]
    for name, i in [*leaves, *graph.outputs]:
        found.setdefault(name, i)
    for name, i in [*leaves, *graph.outputs]:
        found.setdefault(re.sub(r"\W", "_", name), i)
    for i in range(len(graph)):
        found.setdefault(f"n{i}", i)
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
    builder = GraphBuilder(graph.name)
    wanted = [known[name] for name in tensor_variables(term)]
    place = builder.copy(graph, keep=set(postorder(wanted, lambda i: graph.nodes[i].inputs)))
    build = _Build(builder, {name: place[i] for name, i in known.items()})
    try:
        return builder.graph({"target": build.side(term)})
    except (TypeMismatch, KeyError, IndexError) as error:
        said = f"no value for {error}" if isinstance(error, KeyError) else str(error)
        raise TargetError(f"a target must be a well-typed term without open attributes: {said}") from None


class _Build(Numbers):
    """The algebra that builds a term as nodes of a graph."""

    def __init__(self, builder: GraphBuilder, names: Mapping[str, int]) -> None:
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

    def side(self, term: Term) -> int:
        if isinstance(term, Var):
            return self.starred(term.name)[0] if term.starred else self.variable(term.name)
        return self.apply(term, arguments(term, self, self.side), read_attributes(term, self))
