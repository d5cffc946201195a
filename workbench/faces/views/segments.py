"""Repeated layers of a graph: cut where few values cross, compared by structure, and joined into runs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workbench.graph.graph import Graph

#: Numbers of values that may cross a cut between segments: 1 in a chain, 2 in a cell that reads its two
#: predecessors.
WIDTHS: Final = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive nodes between two cuts.

    Segments with the same ``kind`` have the same operators, types, weights' types and inner wiring.
    The segment is number ``repeat`` of a run of ``repeats`` equal ones; ``repeats`` is 1 outside of runs.
    """

    nodes: tuple[int, ...]
    kind: int
    repeat: int = 0
    repeats: int = 1


def segments(
    graph: Graph, nodes: Sequence[int], marks: Mapping[int, Hashable] | None = None
) -> tuple[Segment, ...]:
    """Return the nodes, operands first, in segments; the repetitions of a run are one segment each.

    ``nodes`` are the nodes to be segmented; the others (weights, inputs, values computed from weights)
    belong to their readers. Nodes with different ``marks`` count as different. Of the allowed numbers of
    values that cross a cut, the one with the fewest segments is chosen.
    """
    best: tuple[Segment, ...] = tuple(Segment((i,), k) for k, i in enumerate(nodes))
    for width in WIDTHS:
        found = _runs(_pieces(graph, nodes, width), graph, marks or {})
        if len(found) < len(best):
            best = found
    return best


def _pieces(graph: Graph, nodes: Sequence[int], width: int) -> list[tuple[int, ...]]:
    """Return the nodes, cut after every node at which at most ``width`` values cross."""
    place = {i: k for k, i in enumerate(nodes)}
    last = dict(place)
    for i in nodes:
        for j in graph.nodes[i].inputs:
            if j in last:
                last[j] = max(last[j], place[i])
    ends: dict[int, int] = {}
    for i in nodes:
        ends[last[i]] = ends.get(last[i], 0) + 1
    pieces, piece, live = [], [], 0
    for k, i in enumerate(nodes):
        piece.append(i)
        # A value that nothing reads (an output) does not cross a cut.
        live += 1 - ends.get(k, 0)
        if live <= width:
            pieces.append(tuple(piece))
            piece = []
    return pieces + ([tuple(piece)] if piece else [])


def _kind(
    graph: Graph, piece: tuple[int, ...], folded: Sequence[bool], marks: Mapping[int, Hashable]
) -> Hashable:
    place = {i: k for k, i in enumerate(piece)}
    key = []
    for i in piece:
        node = graph.nodes[i]
        # The start of a slice distinguishes the steps of an unrolled loop, but not their function.
        attrs = () if node.op in ("slice", "opaque") else node.attrs
        operands = tuple(place[j] if j in place else (folded[j], graph.nodes[j].type) for j in node.inputs)
        key.append((node.op, attrs, node.type, operands, marks.get(i)))
    return tuple(key)


def _runs(
    pieces: Sequence[tuple[int, ...]], graph: Graph, marks: Mapping[int, Hashable]
) -> tuple[Segment, ...]:
    """Join pieces that repeat consecutively; the nodes of other pieces stay single."""
    numbers: dict[Hashable, int] = {}
    folded = graph.constant()
    kinds = [numbers.setdefault(_kind(graph, piece, folded, marks), len(numbers)) for piece in pieces]
    found: list[Segment] = []
    joined: dict[tuple[int, ...], int] = {}
    k = 0
    while k < len(pieces):
        period, count = _best_run(kinds, pieces, k)
        if count < 2:
            found += [Segment((i,), -1) for i in pieces[k]]
            k += 1
            continue
        kind = joined.setdefault(tuple(kinds[k : k + period]), len(joined))
        for repeat in range(count):
            inside = pieces[k + repeat * period : k + (repeat + 1) * period]
            found.append(Segment(tuple(i for piece in inside for i in piece), kind, repeat, count))
        k += period * count
    return tuple(found)


def _best_run(kinds: Sequence[int], pieces: Sequence[tuple[int, ...]], k: int) -> tuple[int, int]:
    """Return the period and count of the run starting at ``k`` that saves the most nodes."""
    best, saved = (1, 1), 0
    for period in range(1, (len(kinds) - k) // 2 + 1):
        size = sum(len(pieces[k + p]) for p in range(period))
        count = 1
        while kinds[k : k + period] == kinds[k + count * period : k + (count + 1) * period]:
            count += 1
        # The gain is the number of nodes that need not be drawn; on a tie the shorter period wins.
        gain = (count - 1) * size
        if count > 1 and size > 1 and gain > saved:
            best, saved = (period, count), gain
    return best
