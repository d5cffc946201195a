"""The columnar e-graph: the input of extraction, from any engine or file."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from workbench.ops import AttrValue, ValueType
from workbench.ops.inputs_and_opaque import NAMED, RUNTIME
from workbench.run.display import Face
from workbench.support.machine import collector_paused

if TYPE_CHECKING:
    import graphviz
    import networkx as nx

#: E-nodes up to which a drawing can be read, and Graphviz places it in seconds.
MOST_E_NODES: Final = 2000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EGraph(Face):
    """An e-graph stored as columns.

    E-node ``i`` applies ``ops[i]`` with attributes ``attrs[i]`` (in the order of the operator's spec)
    to the e-classes ``children[child_start[i]:child_start[i + 1]]`` and belongs to e-class
    ``eclass[i]``. E-classes are numbered from 0; ``types`` gives the type of each (``None`` in
    e-graphs of other programs). ``birth_rule[i]`` is the position in ``rules`` of the rule that created
    the e-node (-1 if it was in the start graph) and ``birth_step[i]`` the step. ``original`` lists the
    e-node of each node of the start graph, -1 for a node that is not in the e-graph. ``node_names`` and
    ``class_names`` are the ids of e-nodes and e-classes in the file that the e-graph was read from; they
    are empty if the numbers are the only names.
    """

    ops: tuple[str, ...]
    attrs: tuple[tuple[AttrValue, ...], ...]
    child_start: np.ndarray
    children: np.ndarray
    eclass: np.ndarray
    n_classes: int
    roots: tuple[int, ...]
    types: tuple[ValueType | None, ...] = ()
    rules: tuple[str, ...] = ()
    birth_rule: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    birth_step: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    original: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    node_names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ops)

    def __repr__(self) -> str:
        most = np.bincount(self.eclass.astype(np.int64), minlength=1).max()
        classes = f"{self.n_classes} e-classes, the largest of {most}"
        return f"EGraph: {len(self)} e-nodes in {classes}; {len(self.roots)} roots"

    def to_dot(self, *, most: int = MOST_E_NODES) -> graphviz.Source:
        """Return a drawing: a frame per e-class, an arrow per operand; raise ValueError above ``most`` e-nodes."""
        from workbench.graph.text import dot_source, quoted

        if len(self) > most:
            raise ValueError(
                f"an e-graph must have at most {most} e-nodes to be drawn, got {len(self)} "
                "(try view(), which shows a part of it, or most=…)"
            )
        members, roots = self.members(), set(self.roots)
        lines = []
        for c, nodes in enumerate(members):
            title = self.class_name(c) + (f" : {self.types[c]}" if self.types and self.types[c] else "")
            lines += [f"subgraph cluster_{c} {{", f"label={quoted(title)}; style=dashed; fontsize=9"]
            lines += ["penwidth=2"] if c in roots else []
            for i in nodes:
                shown = [str(value) for value in self.attrs[i]] if self.ops[i] in NAMED else []
                lines.append(f"n{i} [label={quoted(' '.join([self.ops[i], *shown]))}]")
            lines.append("}")
        for i in range(len(self)):
            # An arrow ends at a frame: it is drawn to an e-node in it and clipped there.
            lines += [f"n{i} -> n{members[c][0]} [lhead=cluster_{c}]" for c in self.operands(i).tolist()]
        return dot_source("egraph", lines)

    def to_networkx(self) -> nx.MultiDiGraph[tuple[str, int]]:
        """Return the e-graph as a networkx graph of e-classes ``("class", c)`` and e-nodes ``("node", i)``.

        An edge leads from an e-class to each of its e-nodes, and from an e-node to each operand's e-class, with the
        operand's ``position``. An e-class has its ``type`` and whether it is a ``root``, an e-node its ``op`` and
        ``attrs``.
        """
        import networkx as nx

        found: nx.MultiDiGraph[tuple[str, int]] = nx.MultiDiGraph()
        roots, kinds = set(self.roots), self.types or (None,) * self.n_classes
        for c in range(self.n_classes):
            found.add_node(("class", c), type=kinds[c], root=c in roots)
        for i, (op, attrs) in enumerate(zip(self.ops, self.attrs, strict=True)):
            found.add_node(("node", i), op=op, attrs=attrs)
            found.add_edge(("class", int(self.eclass[i])), ("node", i))
            for k, c in enumerate(self.operands(i).tolist()):
                found.add_edge(("node", i), ("class", c), position=k)
        return found

    def operands(self, node: int) -> np.ndarray:
        """Return the e-classes an e-node reads, in order, repeats included."""
        return self.children[self.child_start[node] : self.child_start[node + 1]]

    def node_name(self, node: int) -> str:
        """Return the id of an e-node in the file that it comes from, or its number."""
        return self.node_names[node] if self.node_names else str(node)

    def class_name(self, eclass: int) -> str:
        """Return the id of an e-class in the file that it comes from, or its number."""
        return self.class_names[eclass] if self.class_names else str(eclass)

    def members(self) -> list[list[int]]:
        """Return the e-nodes of every e-class, in order of their number."""
        nodes = np.argsort(self.eclass, kind="stable").tolist()
        with collector_paused():
            return [nodes[a:b] for a, b in pairwise(_offsets(self.eclass, self.n_classes))]

    def constant_classes(self) -> np.ndarray:
        """Return for every e-class whether one of its e-nodes depends on weights alone, or on nothing."""
        arity = np.diff(self.child_start).astype(np.int64)
        # All reads in order of the e-class read: an e-node occurs once for every time that it reads it.
        readers = np.repeat(np.arange(len(self)), arity)[np.argsort(self.children)].tolist()
        offsets = _offsets(self.children, self.n_classes)
        computed = [op not in RUNTIME for op in self.ops]
        waiting, eclass = arity.tolist(), self.eclass.tolist()
        constant = [False] * self.n_classes
        queue = [eclass[i] for i in np.flatnonzero(arity == 0).tolist() if computed[i]]
        while queue:
            c = queue.pop()
            if constant[c]:
                continue
            constant[c] = True
            for i in readers[offsets[c] : offsets[c + 1]]:
                waiting[i] -= 1
                if waiting[i] == 0 and computed[i]:
                    queue.append(eclass[i])
        return np.array(constant, dtype=bool)


def _offsets(values: np.ndarray, count: int) -> list[int]:
    """Return the offset of each number below ``count`` in the sorted values, followed by the end."""
    sizes = np.bincount(values.astype(np.int64, copy=False), minlength=count)
    return [0, *np.cumsum(sizes).tolist()]


def validate(egraph: EGraph) -> None:
    """Raise ValueError if columns of an e-graph built by hand are inconsistent, or a reachable e-class is empty."""
    n, classes = len(egraph), egraph.n_classes
    _check_length("attrs", egraph.attrs, n, "one per e-node")
    _check_length("child_start", egraph.child_start, n + 1, "one per e-node and the end")
    _check_length("eclass", egraph.eclass, n, "one per e-node")
    for name in ("types", "class_names"):
        _check_length(name, getattr(egraph, name), classes, "one per e-class", optional=True)
    for name in ("birth_rule", "birth_step", "node_names"):
        _check_length(name, getattr(egraph, name), n, "one per e-node", optional=True)
    _check_range("eclass", egraph.eclass, 0, classes, "e-classes")
    _check_range("children", egraph.children, 0, classes, "e-classes")
    _check_range("roots", np.array(egraph.roots, None if egraph.roots else int), 0, classes, "e-classes")
    _check_range("birth_rule", egraph.birth_rule, -1, len(egraph.rules), "rules")
    _check_range("original", egraph.original, -1, n, "e-nodes")
    _check_range("child_start", egraph.child_start, 0, len(egraph.children) + 1, "places among the children")
    start = egraph.child_start.astype(np.int64)
    if start[0] != 0 or start[-1] != len(egraph.children):
        ends = f"{start[0]} to {start[-1]}"
        raise ValueError(f"child_start must run from 0 to {len(egraph.children)} (all children), got {ends}")
    falls = np.flatnonzero(np.diff(start) < 0)
    if falls.size:
        i = int(falls[0])
        raise ValueError(f"child_start must not fall, got {start[i]}, then {start[i + 1]} at e-node {i}")
    for name, ids in (("node_names", egraph.node_names), ("class_names", egraph.class_names)):
        first: dict[str, int] = {}
        for i, x in enumerate(ids):
            if (j := first.setdefault(x, i)) < i:
                raise ValueError(f"{name} must be distinct, got {x!r} at both {j} and {i}")
    _check_members(egraph)


def _check_length(name: str, column: Sized, length: int, why: str, *, optional: bool = False) -> None:
    """Raise ValueError for a column of the wrong length; an optional column may be empty."""
    if len(column) != length and not (optional and len(column) == 0):
        raise ValueError(f"{name} must have {length} entries ({why}), got {len(column)}")


def _check_range(name: str, column: np.ndarray, low: int, high: int, what: str) -> None:
    """Raise ValueError unless a column holds only integers from ``low`` to below ``high``."""
    if not isinstance(column, np.ndarray) or column.ndim != 1 or not np.issubdtype(column.dtype, np.integer):
        found = getattr(column, "dtype", type(column).__name__)
        raise ValueError(f"{name} must be a one-dimensional array of integers, got {found}")
    wrong = np.flatnonzero((column < low) | (column >= high))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(f"{name}[{i}] must be from {low} to {high - 1} ({high} {what}), got {column[i]}")


def _check_members(egraph: EGraph) -> None:
    """Raise ValueError for a reachable e-class without an e-node."""
    empty = np.ones(egraph.n_classes, dtype=bool)
    empty[egraph.eclass] = False
    if not empty[egraph.children].any() and not any(empty[c] for c in egraph.roots):
        return  # the usual case, decided without a walk
    members = egraph.members()
    reader = dict.fromkeys(egraph.roots, -1)
    stack = list(reader)
    while stack:
        c = stack.pop()
        if empty[c]:
            why = "is a root" if reader[c] < 0 else f"is read by e-node {egraph.node_name(reader[c])}"
            raise ValueError(f"e-class {egraph.class_name(c)} {why} but has no e-node")
        for i in members[c]:
            for d in egraph.operands(i).tolist():
                if d not in reader:
                    reader[d] = i
                    stack.append(d)
