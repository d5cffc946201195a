"""A small e-graph that remembers why any two of its terms are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workbench.ops import AttrValue, ValueType

#: The operator of a term that stands for an e-class of the examined e-graph; its attribute is the number.
ECLASS: Final = "e-class"
#: Limit on the links of a chain.
LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Entry:
    """A term: an operator, its attributes, the numbers of its operands, and its type."""

    op: str
    attrs: tuple[AttrValue, ...]
    operands: tuple[int, ...]
    type: ValueType | None


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that does not hold, with the values of its two sides.

    A restriction to useful cases, such as ``constant(x)``, and a type rule compare no values: ``left`` and
    ``right`` are None.
    """

    condition: str
    left: AttrValue | None = None
    right: AttrValue | None = None


@dataclass(frozen=True, slots=True)
class Because:
    """The reason of an equality: a rule, and its guards that do not hold.

    Without a rule, the examined e-graph holds the equality.
    """

    rule: str = ""
    guards: tuple[Guard, ...] = ()


HELD: Final = Because()
_CONGRUENT: Final = Because("congruent")


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a chain: a part before and after it, and its reason.

    ``forward`` says whether the rule was read from left to right.
    """

    before: int
    after: int
    because: Because
    forward: bool


class Proofs:
    """Terms, the equalities between them, and the reason of each.

    Equal terms share a number. Equality is closed under congruence: operators of equal operands are equal.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._known: dict[tuple[str, tuple[AttrValue, ...], tuple[int, ...]], int] = {}
        self._parent: list[int] = []
        self._size: list[int] = []
        self._readers: list[list[int]] = []
        # Edges of the trees of reasons: the term above, the reason, and the left-hand side of the two.
        self._edge: list[tuple[int, Because, int] | None] = []
        self._canonical: dict[tuple[str, tuple[AttrValue, ...], tuple[int, ...]], int] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, term: int) -> int:
        """Return the number that stands for all terms equal to a term."""
        parent = self._parent
        while parent[term] != term:
            parent[term] = parent[parent[term]]
            term = parent[term]
        return term

    def has(self, op: str, attrs: tuple[AttrValue, ...], operands: tuple[int, ...]) -> bool:
        """Return whether a term, or one equal to it by congruence, is known."""
        return (op, attrs, tuple([self.find(i) for i in operands])) in self._canonical

    def add(
        self, op: str, attrs: tuple[AttrValue, ...], operands: tuple[int, ...], type: ValueType | None
    ) -> int:
        """Return the number of a term, which is new unless the same term is known.

        Args:
            op: The operator.
            attrs: Its attributes in declared order.
            operands: The numbers of its operands.
            type: The type of its result, if that is known.
        """
        key = (op, attrs, operands)
        known = self._known.get(key)
        if known is not None:
            return known
        number = len(self.entries)
        self.entries.append(Entry(op, attrs, operands, type))
        self._known[key] = number
        self._parent.append(number)
        self._size.append(1)
        self._readers.append([])
        self._edge.append(None)
        for i in dict.fromkeys(map(self.find, operands)):
            self._readers[i].append(number)
        same = self._canonical.setdefault(self._signature(number), number)
        if same != number:
            self.union(same, number, _CONGRUENT)
        return number

    def _signature(self, term: int) -> tuple[str, tuple[AttrValue, ...], tuple[int, ...]]:
        entry = self.entries[term]
        return entry.op, entry.attrs, tuple([self.find(i) for i in entry.operands])

    def union(self, a: int, b: int, because: Because) -> bool:
        """Make two terms equal for a reason; return whether that is new.

        A rule's left-hand side is ``a``, its right-hand side ``b``.
        """
        waiting = [(a, b, because)]
        changed = False
        while waiting:
            a, b, because = waiting.pop()
            left, right = self.find(a), self.find(b)
            if left == right:
                continue
            changed = True
            self._reroot(a)
            self._edge[a] = (b, because, a)
            if self._size[left] > self._size[right]:
                left, right = right, left
            self._parent[left] = right
            self._size[right] += self._size[left]
            moved, self._readers[left] = self._readers[left], []
            for reader in moved:
                same = self._canonical.setdefault(self._signature(reader), reader)
                if self.find(same) != self.find(reader):
                    waiting.append((same, reader, _CONGRUENT))
            self._readers[right] += moved
        return changed

    def _reroot(self, term: int) -> None:
        """Turn the edges between a term and the root of its tree of reasons around."""
        edge, self._edge[term] = self._edge[term], None
        while edge is not None:
            above, because, left = edge
            following, self._edge[above] = self._edge[above], (term, because, left)
            term, edge = above, following

    def classes(self) -> dict[int, dict[str, list[int]]]:
        """Return the distinct terms of every set of equal terms, by operator."""
        found: dict[int, dict[str, list[int]]] = {}
        seen: set[tuple[str, tuple[AttrValue, ...], tuple[int, ...]]] = set()
        for i, entry in enumerate(self.entries):
            signature = self._signature(i)
            if signature not in seen:
                seen.add(signature)
                found.setdefault(self.find(i), {}).setdefault(entry.op, []).append(i)
        return found

    # -- reasons --------------------------------------------------------------------------------------
    def chain(self, a: int, b: int) -> list[Link]:
        """Return the links from a term to an equal one, at most :data:`LONGEST` of them.

        A link rewrites one part of the term. Raise ValueError if the terms are not equal.
        """
        if self.find(a) != self.find(b):
            raise ValueError("terms must be equal to have a chain of reasons")
        links: list[Link] = []
        stack: list[Link | tuple[int, int]] = [(a, b)]
        while stack and len(links) < LONGEST:
            item = stack.pop()
            if isinstance(item, tuple):
                stack += reversed(self._path(*item))
            elif item.because is not _CONGRUENT:
                links.append(item)
            else:
                sides = (self.entries[item.before].operands, self.entries[item.after].operands)
                pairs = dict.fromkeys(zip(*sides, strict=True))
                stack += [(x, y) for x, y in reversed(pairs) if x != y]
        return links

    def _path(self, a: int, b: int) -> list[Link]:
        """Return the links of the tree of reasons between two terms."""
        up = [a]
        while (edge := self._edge[up[-1]]) is not None:
            up.append(edge[0])
        place = {term: i for i, term in enumerate(up)}
        down: list[Link] = []
        while b not in place:
            edge = self._edge[b]
            assert edge is not None
            down.append(Link(edge[0], b, edge[1], edge[0] == edge[2]))
            b = edge[0]
        links: list[Link] = []
        for term in up[: place[b]]:
            edge = self._edge[term]
            assert edge is not None
            links.append(Link(term, edge[0], edge[1], term == edge[2]))
        return links + down[::-1]
