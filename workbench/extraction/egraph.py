"""The columnar e-graph: what extraction works on, whoever made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from workbench.ops import AttrValue, ValueType

#: What is known only when the graph runs, however few operands it has.
_GIVEN: Final = frozenset({"input", "opaque", "project"})


@dataclass(frozen=True, slots=True, eq=False)
class EGraph:
    """Hold an e-graph as columns.

    E-node ``i`` applies ``ops[i]`` with attributes ``attrs[i]`` (in the order of the operator's spec)
    to the e-classes ``children[child_start[i]:child_start[i + 1]]`` and belongs to e-class
    ``eclass[i]``. E-classes are numbered from 0; ``types`` gives each one's type (``None`` in
    e-graphs of other programs). ``birth_rule[i]`` is the position in ``rules`` of the rule that made
    the e-node (-1: it stood in the start graph) and ``birth_step[i]`` the step. ``original`` lists
    the e-nodes of the start graph, one per node of it, -1 for a node that is not in the e-graph.
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

    def __len__(self) -> int:
        return len(self.ops)

    def operands(self, node: int) -> np.ndarray:
        """Return the e-classes an e-node reads, in order, repeats included."""
        return self.children[self.child_start[node] : self.child_start[node + 1]]

    def members(self) -> list[list[int]]:
        """Return the e-nodes of every e-class, in order of their number."""
        result: list[list[int]] = [[] for _ in range(self.n_classes)]
        for i, c in enumerate(self.eclass.tolist()):
            result[c].append(i)
        return result

    def constant_classes(self) -> np.ndarray:
        """Say for every e-class whether some e-node of it depends on weights alone, or on nothing."""
        waiting = np.diff(self.child_start).tolist()
        readers: list[list[int]] = [[] for _ in range(self.n_classes)]
        start, children = self.child_start.tolist(), self.children.tolist()
        for i in range(len(self.ops)):
            for c in children[start[i] : start[i + 1]]:
                readers[c].append(i)
        constant = np.zeros(self.n_classes, dtype=bool)
        eclass = self.eclass.tolist()
        queue = [eclass[i] for i, op in enumerate(self.ops) if not waiting[i] and op not in _GIVEN]
        while queue:
            c = queue.pop()
            if constant[c]:
                continue
            constant[c] = True
            for i in readers[c]:
                waiting[i] -= 1
                if waiting[i] == 0 and self.ops[i] not in _GIVEN:
                    queue.append(eclass[i])
        return constant
