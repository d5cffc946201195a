"""An e-graph under examination: look-ups of terms, and the names of e-classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from workbench.egraph.egraph import EGraph
from workbench.egraph.rebuild import by_term
from workbench.graph import Node
from workbench.graph.text import format_attr
from workbench.laws.proof_graph import GIVEN, Entry, ProofGraph
from workbench.ops import AttrValue, spec_of
from workbench.ops.inputs_and_opaque import NAMED, RUNTIME
from workbench.support.orders import postorder

#: The operator of a term that stands for an e-class of the examined e-graph; its attribute is the number.
ECLASS: Final = "e-class"
#: Limit on the e-nodes of one e-class that are looked at.
MOST_MEMBERS: Final = 60
#: Depth to which terms are written out.
DEPTH: Final = 3


class Examined:
    """A snapshot of an e-graph with the tables that questions need, each made once."""

    def __init__(self, egraph: EGraph) -> None:
        self.egraph = egraph

    @cached_property
    def known(self) -> dict[tuple[str, tuple[AttrValue, ...], tuple[int, ...]], int]:
        """Return the e-class of every e-node, by operator, attributes and operands."""
        eclass = self.egraph.eclass.tolist()
        return {term: eclass[i] for term, i in by_term(self.egraph).items()}

    @cached_property
    def members(self) -> list[list[int]]:
        """Return the e-nodes of every e-class."""
        return self.egraph.members()

    @cached_property
    def constant(self) -> list[bool]:
        """Return for every e-class whether it has a term of weights alone."""
        return self.egraph.constant_classes().tolist()

    @cached_property
    def running(self) -> list[bool]:
        """Return for every e-class whether it has a term that depends on an input."""
        eclass = self.egraph.eclass.tolist()
        inputs = (eclass[i] for i, op in enumerate(self.egraph.ops) if op in RUNTIME)
        reached = set(postorder(inputs, lambda c: [eclass[i] for i in self.readers[c]]))
        return [c in reached for c in range(self.egraph.n_classes)]

    @cached_property
    def readers(self) -> list[list[int]]:
        """Return the e-nodes that read every e-class."""
        found: list[list[int]] = [[] for _ in range(self.egraph.n_classes)]
        for i in range(len(self.egraph)):
            for c in dict.fromkeys(self.egraph.operands(i).tolist()):
                found[c].append(i)
        return found

    # -- terms of a collection ------------------------------------------------------------------------
    def leaf(self, graph: ProofGraph, eclass: int) -> int:
        """Return the term that stands for an e-class."""
        types = self.egraph.types
        return graph.add(ECLASS, (eclass,), (), types[eclass] if types else None)

    def held(self, graph: ProofGraph, term: int) -> int:
        """Return the e-class of a term, -1 if the e-graph does not represent it."""
        entry = graph.entries[term]
        if entry.op == ECLASS:
            return int(entry.attrs[0])  # type: ignore[arg-type]
        operands = tuple([self.held(graph, i) for i in entry.inputs])
        return -1 if -1 in operands else self.known.get((entry.op, entry.attrs, operands), -1)

    def bring(self, graph: ProofGraph, eclass: int, *, only: Sequence[int] | None = None) -> None:
        """Add the e-nodes of an e-class, over its operands' e-classes, to a collection."""
        leaf = self.leaf(graph, eclass)
        egraph = self.egraph
        for i in self.members[eclass][:MOST_MEMBERS] if only is None else only:
            operands = tuple([self.leaf(graph, c) for c in egraph.operands(i).tolist()])
            term = graph.add(egraph.ops[i], egraph.attrs[i], operands, graph.entries[leaf].type)
            graph.union(term, leaf, GIVEN)

    # -- text -----------------------------------------------------------------------------------------
    def text(self, graph: ProofGraph, term: int, depth: int = DEPTH) -> str:
        """Return a term as text; deeper subterms are left out."""
        entry = graph.entries[term]
        if entry.op == ECLASS:
            return self.class_text(int(entry.attrs[0]), depth)  # type: ignore[arg-type]
        if depth == 0 and entry.inputs:
            return "…"
        return written(entry.op, entry.attrs, [self.text(graph, i, depth - 1) for i in entry.inputs])

    def class_text(self, eclass: int, depth: int = DEPTH) -> str:
        """Return the oldest term of an e-class as text."""
        egraph = self.egraph
        i = min(self.members[eclass], key=lambda i: (len(egraph.operands(i)) > 0, i))
        operands = egraph.operands(i).tolist()
        if depth <= 0 and operands:
            return "…"
        return written(egraph.ops[i], egraph.attrs[i], [self.class_text(c, depth - 1) for c in operands])


def written(op: str, attrs: Sequence[AttrValue], operands: Sequence[str]) -> str:
    """Return an application as rules write it: attributes that have their defaults are left out."""
    if op in NAMED:
        return str(attrs[0])
    given = [
        f"{attr.name}={format_attr(value)}"
        for attr, value in zip(spec_of(op).attrs, attrs, strict=True)
        if attr.default is None or attr.default != value
    ]
    inside = f"[{', '.join(given)}]" if given else ""
    return f"{op}{inside}({', '.join(operands)})"


def text_of(nodes: Sequence[Node | Entry], root: int, names: Mapping[int, str]) -> str:
    """Return a ground term as text in the rule language; ``names`` are those of nodes that are not written out."""
    if root in names:
        return names[root]
    node = nodes[root]
    return written(node.op, node.attrs, [text_of(nodes, i, names) for i in node.inputs])
