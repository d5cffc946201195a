"""Find members of a merge that need not be computed beside the others.

A rewrite writes one operator in several forms: a convolution, the same with a scale in its kernel, the same
with a shift in its bias. These forms share operands and are therefore members of one group. Merged with one
another, they only compute the same thing twice: whoever reads one of them does not read the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

C = TypeVar("C", bound=Hashable)

#: The largest number of e-classes above a member that are looked at. The forms of an operator meet a few
#: operators above it; a member from which more can be reached is taken as read together with others.
REACH: Final = 64
#: The largest number of e-classes above a member that are tried as the one in which its forms meet.
MEETINGS: Final = 12


@dataclass(frozen=True, slots=True)
class Reader(Generic[C]):
    """An e-node that reads an e-class; if it ``selects``, its elements are elements of its operands."""

    eclass: C
    operands: tuple[C, ...]
    selects: bool = False


Readers = Mapping[C, Sequence[Reader[C]]]


def independent(members: Iterable[C], readers: Readers[C], outputs: Iterable[C]) -> list[C]:
    """Return the members of a group without those that need not be computed beside the rest.

    There are three kinds of these:

    - A member that selects its elements from other members, say as their concat, is had from them.
    - If every way from a member to the outputs leads through others, then whoever takes these from the merged
      operator never reads that member.
    - If all ways from two members lead through an e-class, and no e-node on the way reads both, then an
      extraction needs at most one of them, as it takes one e-node of an e-class. The nearest is kept.

    Args:
        members: The e-classes of the members.
        readers: The e-nodes that read an e-class.
        outputs: The e-classes of the graph's outputs.

    """
    ends = frozenset(outputs)
    kept = dict.fromkeys(members)
    for own in tuple(kept):
        for reader in readers.get(own, ()):
            others = kept.keys() - {reader.eclass}
            if reader.selects and reader.eclass in kept and others.issuperset(reader.operands):
                del kept[reader.eclass]
    for own in tuple(kept):
        if _below(own, kept.keys() - {own}, readers, ends) is not None:
            del kept[own]
    meetings = {own: _meetings(own, kept.keys() - {own}, readers, ends) for own in kept}
    for meeting in dict.fromkeys(m for found in meetings.values() for m in found):
        forms = [own for own in kept if meeting in meetings[own]]
        forms.sort(key=lambda own: len(meetings[own][meeting]))
        for n, own in enumerate(forms):
            nearer = (meetings[f][meeting] for f in forms[:n] if f in kept)
            if any(not _together(meetings[own][meeting], ways, readers) for ways in nearer):
                del kept[own]
    return list(kept)


def _below(own: C, others: set[C], readers: Readers[C], ends: frozenset[C]) -> frozenset[C] | None:
    """Return the e-classes from one up to others; None if an output is reached, or too many e-classes."""
    seen = {own}
    above = [own]
    while above:
        value = above.pop()
        if value in ends or len(seen) > REACH:
            return None
        for reader in readers.get(value, ()):
            if reader.eclass not in seen and reader.eclass not in others:
                seen.add(reader.eclass)
                above.append(reader.eclass)
    return frozenset(seen)


def _meetings(own: C, others: set[C], readers: Readers[C], ends: frozenset[C]) -> dict[C, frozenset[C]]:
    """Return e-classes through which every way from one leads, each with the e-classes below it."""
    found: dict[C, frozenset[C]] = {}
    for meeting in _nearest(own, readers):
        below = _below(own, {meeting, *others}, readers, ends)
        if below is not None:
            found[meeting] = below
    return found


def _nearest(own: C, readers: Readers[C]) -> list[C]:
    """Return the nearest e-classes above one."""
    found = {own: None}
    fresh = [own]
    while fresh and len(found) <= MEETINGS:
        fresh = [r.eclass for value in fresh for r in readers.get(value, ()) if r.eclass not in found]
        found |= dict.fromkeys(fresh)
    return list(found)[1 : MEETINGS + 1]


def _together(first: frozenset[C], second: frozenset[C], readers: Readers[C]) -> bool:
    """Return whether an e-node reads one of some e-classes and another one of others."""
    return any(
        a != b and a in first and b in second
        for value in first
        for reader in readers.get(value, ())
        for a in reader.operands
        for b in reader.operands
    )
