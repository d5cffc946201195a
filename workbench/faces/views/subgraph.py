"""The part of an e-graph that a picture shows: below the roots, around an e-class, or opened."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from workbench.egraph.egraph import EGraph

#: Limit on e-nodes in a picture; the others are counted, and their e-classes are in the table.
MOST_E_NODES: Final = 200
#: Limits on the e-nodes of one e-class in a picture, and of one that was opened.
MOST_MEMBERS, MOST_OPENED = 8, 40
#: Limit on the hops around an e-class.
MOST_HOPS: Final = 6


@dataclass(frozen=True, slots=True)
class Part:
    """A choice of e-classes.

    ``focus`` is the e-class from which the picture starts, None for the roots. With ``hops``, the picture
    shows the e-classes that ``focus`` reads and its readers, at most ``hops`` steps away. The e-classes in
    ``opened`` show all their e-nodes and all operands. ``most`` limits the e-nodes, not counting those that
    were opened.
    """

    focus: int | None = None
    hops: int | None = None
    opened: tuple[int, ...] = ()
    most: int = MOST_E_NODES

    def with_opened(self, eclass: int) -> Part:
        """Return the part with one more e-class opened."""
        return replace(self, opened=tuple(dict.fromkeys((*self.opened, eclass))))

    def around(self, eclass: int, hops: int | None = None) -> Part:
        """Return the part around an e-class, with nothing opened."""
        return replace(self, focus=eclass, hops=None if hops is None else min(hops, MOST_HOPS), opened=())

    def centre(self) -> str:
        """Return the start of the part in words."""
        if self.focus is None:
            return "starting from the roots"
        if self.hops is None:
            return f"starting from e-class {self.focus}"
        return f"at most {self.hops} hop{'' if self.hops == 1 else 's'} from e-class {self.focus}"


@dataclass(frozen=True, slots=True)
class Selection:
    """The shown e-nodes by e-class, and the e-classes of weights that appear in their readers' labels."""

    shown: dict[int, list[int]]
    labels: set[int]

    @property
    def count(self) -> int:
        """Return the number of e-nodes in the picture, with those in labels."""
        return sum(map(len, self.shown.values())) + len(self.labels)


def selection(egraph: EGraph, part: Part, choice: np.ndarray | None = None) -> Selection:
    """Return the e-nodes of a part of an e-graph; the extracted term (``choice``) comes first.

    In an e-class the extracted e-node comes first, then those of the start graph, then the others by birth.
    """
    members = egraph.members()

    def inside(c: int, most: int) -> list[int]:
        taken = int(choice[c]) if choice is not None else -1
        return sorted(members[c], key=lambda i: (i != taken, i))[:most]

    found = Selection({}, set())
    each = min(MOST_MEMBERS, max(3, part.most // 12))
    budget = part.most
    ring = part.focus is not None and part.hops is not None
    queue: deque[int] = deque(egraph.roots if part.focus is None else [part.focus])
    if part.focus is not None and part.hops is not None:
        queue = deque(_ring(egraph, part.focus, part.hops))
    later: deque[int] = deque()
    while queue or later:
        c = queue.popleft() if queue else later.popleft()
        if c in found.shown:
            continue
        if _in_label(egraph, members[c]) and c != part.focus:
            found.labels.add(c)
            continue
        chosen = inside(c, each)
        if len(chosen) > budget and found.shown:
            continue
        budget -= len(chosen)
        found.shown[c] = chosen
        if ring:
            continue
        taken = int(choice[c]) if choice is not None else -1
        for i in chosen:
            # Operands of the extracted term come before other operands.
            (queue if i == taken or taken < 0 else later).extend(egraph.operands(i).tolist())
    for c in part.opened:
        found.shown[c] = inside(c, MOST_OPENED)
        for d in _operands(egraph, found.shown[c]):
            if _in_label(egraph, members[d]):
                found.labels.add(d)
            elif d not in found.shown:
                found.shown[d] = inside(d, 3)
    return found


def _operands(egraph: EGraph, e_nodes: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(d for i in e_nodes for d in egraph.operands(i).tolist()))


def _in_label(egraph: EGraph, members: list[int]) -> bool:
    """Return whether an e-class is a weight, which its readers' labels name."""
    return len(members) == 1 and egraph.ops[members[0]] == "weight"


def _ring(egraph: EGraph, focus: int, hops: int) -> list[int]:
    """Return the e-classes at most ``hops`` steps from one, nearest first, along operands and readers."""
    reader = egraph.eclass[np.repeat(np.arange(len(egraph)), np.diff(egraph.child_start))]
    seen = {focus: None}
    near = [focus]
    for _ in range(hops):
        found: list[int] = []
        for c in near:
            found += egraph.children[reader == c].tolist()
            found += reader[egraph.children == c].tolist()
        near = [d for d in dict.fromkeys(found) if d not in seen]
        seen |= dict.fromkeys(near)
        if len(seen) > 10 * MOST_E_NODES:
            break
    return list(seen)
