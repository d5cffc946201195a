"""The columnar e-graph: what extraction works on, whoever made it."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from workbench.extraction.collector import collector_paused
from workbench.face import Face
from workbench.ops import AttrValue, ValueType

#: What is known only when the graph runs, however few operands it has.
_GIVEN: Final = frozenset({"input", "opaque", "project"})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EGraph(Face):
    """Hold an e-graph as columns.

    E-node ``i`` applies ``ops[i]`` with attributes ``attrs[i]`` (in the order of the operator's spec)
    to the e-classes ``children[child_start[i]:child_start[i + 1]]`` and belongs to e-class
    ``eclass[i]``. E-classes are numbered from 0; ``types`` gives each one's type (``None`` in
    e-graphs of other programs). ``birth_rule[i]`` is the position in ``rules`` of the rule that made
    the e-node (-1: it stood in the start graph) and ``birth_step[i]`` the step. ``original`` lists
    the e-nodes of the start graph, one per node of it, -1 for a node that is not in the e-graph.
    ``node_names`` and ``class_names`` are the ids of e-nodes and e-classes in the file that the
    e-graph was read from; they are empty where the numbers are the only names.
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
        sizes = np.bincount(self.eclass.astype(np.int64), minlength=1)
        return (
            f"EGraph: {len(self)} e-nodes in {self.n_classes} e-classes, the largest of {sizes.max()}; "
            f"{len(self.roots)} roots"
        )

    def operands(self, node: int) -> np.ndarray:
        """Return the e-classes an e-node reads, in order, repeats included."""
        return self.children[self.child_start[node] : self.child_start[node + 1]]

    def node_name(self, node: int) -> str:
        """Return the id of an e-node in the file it comes from, its number where there is none."""
        return self.node_names[node] if self.node_names else str(node)

    def class_name(self, eclass: int) -> str:
        """Return the id of an e-class in the file it comes from, its number where there is none."""
        return self.class_names[eclass] if self.class_names else str(eclass)

    def members(self) -> list[list[int]]:
        """Return the e-nodes of every e-class, in order of their number."""
        nodes = np.argsort(self.eclass, kind="stable").tolist()
        with collector_paused():
            return [nodes[a:b] for a, b in pairwise(_offsets(self.eclass, self.n_classes))]

    def constant_classes(self) -> np.ndarray:
        """Say for every e-class whether some e-node of it depends on weights alone, or on nothing."""
        arity = np.diff(self.child_start).astype(np.int64)
        # All reads in order of the e-class read: an e-node stands as often as it reads it.
        readers = np.repeat(np.arange(len(self)), arity)[np.argsort(self.children)].tolist()
        offsets = _offsets(self.children, self.n_classes)
        computed = [op not in _GIVEN for op in self.ops]
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
    """Return where each of the numbers below ``count`` begins once the values are sorted, and the end."""
    sizes = np.bincount(values.astype(np.int64, copy=False), minlength=count)
    return [0, *np.cumsum(sizes).tolist()]


def validate(egraph: EGraph) -> None:
    """Raise ValueError where the columns of an e-graph do not fit together.

    What this package makes or reads is consistent; this is for e-graphs built by hand. An e-class
    without an e-node is refused only where the roots lead to it.
    """
    n, classes = len(egraph), egraph.n_classes
    _check_length("attrs", egraph.attrs, n, "one per e-node")
    _check_length("child_start", egraph.child_start, n + 1, "one per e-node and the end")
    _check_length("eclass", egraph.eclass, n, "one per e-node")
    _check_length("types", egraph.types, classes, "one per e-class", optional=True)
    _check_length("birth_rule", egraph.birth_rule, n, "one per e-node", optional=True)
    _check_length("birth_step", egraph.birth_step, n, "one per e-node", optional=True)
    _check_length("node_names", egraph.node_names, n, "one per e-node", optional=True)
    _check_length("class_names", egraph.class_names, classes, "one per e-class", optional=True)
    _check_range("eclass", egraph.eclass, 0, classes, "e-classes")
    _check_range("children", egraph.children, 0, classes, "e-classes")
    _check_range("roots", np.array(egraph.roots, None if egraph.roots else int), 0, classes, "e-classes")
    _check_range("birth_rule", egraph.birth_rule, -1, len(egraph.rules), "rules")
    _check_range("original", egraph.original, -1, n, "e-nodes")
    _check_starts(egraph)
    _check_distinct("node_names", egraph.node_names)
    _check_distinct("class_names", egraph.class_names)
    _check_members(egraph)


def _check_length(name: str, column: Sized, length: int, why: str, *, optional: bool = False) -> None:
    """Raise ValueError for a column of a wrong length, unless it may be left out and is."""
    if len(column) != length and not (optional and len(column) == 0):
        raise ValueError(f"{name} has {len(column)} entries, not {length}: {why}")


def _check_range(name: str, column: np.ndarray, low: int, high: int, what: str) -> None:
    """Raise ValueError where a column holds anything but integers from ``low`` to below ``high``."""
    if not isinstance(column, np.ndarray) or column.ndim != 1 or not np.issubdtype(column.dtype, np.integer):
        found = getattr(column, "dtype", type(column).__name__)
        raise ValueError(f"{name} is no one-dimensional array of integers ({found})")
    wrong = np.flatnonzero((column < low) | (column >= high))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(f"{name}[{i}] is {column[i]}, which is none of the {high} {what}")


def _check_starts(egraph: EGraph) -> None:
    """Raise ValueError where ``child_start`` does not share out the children."""
    _check_range("child_start", egraph.child_start, 0, len(egraph.children) + 1, "places among the children")
    start = egraph.child_start.astype(np.int64)
    if start[0] != 0 or start[-1] != len(egraph.children):
        ends = f"{start[0]} to {start[-1]}"
        raise ValueError(f"child_start runs from {ends}, not from 0 to the {len(egraph.children)} children")
    falls = np.flatnonzero(np.diff(start) < 0)
    if falls.size:
        i = int(falls[0])
        raise ValueError(f"child_start falls from {start[i]} to {start[i + 1]} at e-node {i}")


def _check_distinct(name: str, ids: tuple[str, ...]) -> None:
    """Raise ValueError where two have the same name."""
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    for i, x in enumerate(ids):
        j = first.setdefault(x, i)
        if j < i:
            raise ValueError(f"{name}[{j}] and {name}[{i}] are both {x!r}")


def _check_members(egraph: EGraph) -> None:
    """Raise ValueError for an e-class without an e-node that the roots lead to."""
    empty = np.ones(egraph.n_classes, dtype=bool)
    empty[egraph.eclass] = False
    if not empty[egraph.children].any() and not any(empty[c] for c in egraph.roots):
        return  # the usual case, told without a walk
    members = egraph.members()
    reader = dict.fromkeys(egraph.roots, -1)
    stack = list(reader)
    while stack:
        c = stack.pop()
        if empty[c]:
            why = "is a root" if reader[c] < 0 else f"is read by e-node {egraph.node_name(reader[c])}"
            raise ValueError(f"e-class {egraph.class_name(c)} {why} and has no e-node")
        for i in members[c]:
            for d in egraph.operands(i).tolist():
                if d not in reader:
                    reader[d] = i
                    stack.append(d)
