"""Deep models by their distinct layers: equal blocks are saturated once, and every copy gets what was found.

A network is cut into pieces at its repeated blocks. Two neighbouring pieces make a window, in which every value
from outside is an input. Windows that are equal up to their weights are one problem, so a graph of the distinct
windows is saturated instead of the network. An equation that holds for any inputs and any weights holds of every
copy as well: the network's e-graph is the union of the images of the windows' e-graphs. All that rules see of a
weight is compared, its type and the number that all its elements are; so no image says more than was proved.

Rewrites that span more than a window are not in that e-graph. To see whether any would matter, three equal pieces in
a row are saturated too: if they cost less together than by windows, the whole graph is saturated after all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from workbench.egraph import EGraph
from workbench.graph import Builder, Graph
from workbench.graph.graph import numbers_in
from workbench.ops import AttrValue, TensorType, ValueType
from workbench.ops.inputs_and_opaque import NAMED
from workbench.support.orders import postorder

#: A graph with fewer nodes is saturated as a whole.
LEAST_NODES: Final = 400
#: The fewest copies of a block, and the fewest operators of a piece.
COPIES: Final = 4
OPERATORS: Final = 12
#: The largest share of a graph's nodes that the windows and three pieces in a row may have.
SHARE: Final = 0.6

#: A value that a part reads from outside, instead of the name of an operator.
BORDER: Final = ""

#: A part of a graph up to its weights, one row for each node; and its nodes in this order.
Form: TypeAlias = tuple[tuple[Hashable, ...], ...]
Place: TypeAlias = tuple[int, ...]
#: An operator, its attributes and the e-classes that it reads.
Key: TypeAlias = tuple[str, tuple[AttrValue, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A graph that repeats blocks, and a graph that is saturated in its place.

    ``windows`` are the nodes of each window in ``graph`` and its places in ``whole``. ``trial`` divides three pieces
    in a row, which ``graph`` has too, into windows; ``outputs`` are these pieces' outputs, by position.
    """

    whole: Graph
    graph: Graph
    windows: tuple[tuple[Place, tuple[Place, ...]], ...]
    trial: Blocks | None = None
    outputs: tuple[int, ...] = ()

    def __str__(self) -> str:
        places = sum(len(places) for _, places in self.windows)
        return (
            f"equal blocks once: {len(self.windows)} distinct windows of {places}, {len(self.graph)} nodes for "
            f"{len(self.whole)}; three blocks in a row cost no less together than by windows of two, so rewrites "
            f"that span more were not looked for"
        )

    def union(self, egraph: EGraph, numbers: Sequence[int]) -> EGraph:
        """Return the e-graph of the whole; ``numbers`` are equal for nodes of :attr:`graph` that became equal."""
        at = [-1 if i < 0 else int(egraph.eclass[i]) for i in egraph.original.tolist()]
        known = {n: c for n, c in zip(numbers, at, strict=True) if c >= 0}
        classes = [known.get(n, -1) if c < 0 else c for n, c in zip(numbers, at, strict=True)]
        found = _Union(self.whole, egraph)
        for nodes, places in self.windows:
            plan = found.over({classes[i] for i in nodes if classes[i] >= 0})
            for place in places:
                pairs = ((classes[i], there) for i, there in zip(nodes, place, strict=True))
                found.insert(plan, ((c, there) for c, there in pairs if c >= 0))
        return found.egraph()


def blocks_of(graph: Graph) -> Blocks | None:
    """Return the repeated blocks of a graph, or None if saturating them once would not pay."""
    if len(graph) < LEAST_NODES:
        return None
    constant, live, numbers = graph.constant(), graph.reachable(), numbers_in(graph)
    order = [i for i, node in enumerate(graph.nodes) if live[i] and not constant[i] and node.op not in NAMED]
    alike: dict[Hashable, int] = {}
    looks = [
        (n.op, n.attrs, n.type, *(graph.nodes[j].type for j in n.inputs))
        for n in map(graph.nodes.__getitem__, order)
    ]
    labels = np.array([alike.setdefault(look, len(alike)) for look in looks])
    cuts = [0, *_cuts(labels), len(order)]
    pieces = [order[a:b] for a, b in pairwise(cuts) if a < b]

    def part(first: int, last: int) -> tuple[Form, Place]:
        return _form(graph, [i for p in pieces[first : last + 1] for i in p], constant, numbers)

    kinds = [part(k, k)[0] for k in range(len(pieces))]
    groups: dict[Form, list[Place]] = {}
    for k in range(len(pieces) - 1):
        form, nodes = part(k, k + 1)
        groups.setdefault(form, []).append(nodes)
    rows = {kinds[k]: k for k in range(len(kinds) - 2) if kinds[k] == kinds[k + 1] == kinds[k + 2]}
    tried = [(*part(k, k + 2), k) for k in rows.values()]
    if not tried or sum(map(len, (*groups, *(form for form, *_ in tried)))) > SHARE * sum(live):
        return None
    made = _built(graph, constant, [*groups.items(), *((form, [nodes]) for form, nodes, _ in tried)])
    if made is None:
        return None
    windows, outputs, of_two = dict(zip(groups, made.windows, strict=False)), [], []
    for (own, _), (_, nodes, k) in zip(made.windows[len(groups) :], tried, strict=True):
        there, inside = dict(zip(nodes, own, strict=True)), set(own)
        outputs += [n for n, i in enumerate(made.graph.output_ids) if i in inside]
        for form, place in (part(k, k + 1), part(k + 1, k + 2)):
            of_two.append((windows[form][0], (tuple(there[i] for i in place),)))
    trial = Blocks(made.graph, made.graph, tuple(of_two))
    return replace(made, windows=tuple(windows.values()), trial=trial, outputs=tuple(outputs))


def _cuts(labels: np.ndarray) -> list[int]:
    """Return the places between the copies of blocks in which labels repeat."""
    covered = length = first = 0
    for period in range(1, len(labels) // COPIES + 1):
        differ = np.flatnonzero(labels[period:] != labels[:-period])
        edges = np.array([-1, *differ, len(labels) - period])
        k = int(np.argmax(np.diff(edges)))
        run = int(edges[k + 1] - edges[k] - 1)
        # A multiple of a period covers no more, apart from remainders.
        if run >= (COPIES - 1) * period and run + period > covered * 1.1:
            covered, length, first = run + period, period, int(edges[k]) + 1
    if not covered:
        return []
    length *= max(1, min(-(-OPERATORS // length), covered // COPIES // length))
    cuts = list(range(first, first + covered + 1, length))
    return [*_cuts(labels[:first]), *cuts, *(cuts[-1] + k for k in _cuts(labels[cuts[-1] :]))]


def _form(
    graph: Graph, part: Sequence[int], constant: Sequence[bool], numbers: Mapping[int, float]
) -> tuple[Form, Place]:
    """Return a part up to its weights, and its nodes in order, with what it reads and the weights' operators."""
    inside = set(part)
    nodes = postorder(part, lambda i: graph.nodes[i].inputs if i in inside or constant[i] else ())
    place = {i: k for k, i in enumerate(nodes)}
    rows: list[tuple[Hashable, ...]] = []
    for i in nodes:
        node = graph.nodes[i]
        if not constant[i] and i not in inside:
            rows.append((BORDER, node.type))
        elif node.op in NAMED:
            rows.append((node.op, node.type, repr(numbers.get(i))))
        else:
            rows.append((node.op, node.type, node.attrs, tuple(place[j] for j in node.inputs)))
    return tuple(rows), tuple(nodes)


def _built(
    graph: Graph, constant: Sequence[bool], groups: Iterable[tuple[Form, Sequence[Place]]]
) -> Blocks | None:
    """Return the graph with one part of each form, at the first of its places; None if a part reads a tuple."""
    builder = Builder(graph.name)
    builder.opaques = dict(graph.opaques)
    ends, outputs, windows = set(graph.output_ids), {}, []
    for number, (form, places) in enumerate(groups):
        made: dict[int, int] = {}
        for (op, *_), i in zip(form, places[0], strict=True):
            node, name = graph.nodes[i], f"{number}:{i}"
            if op in NAMED:
                builder.weights[name] = graph.weights[str(node.attrs[0])]
                made[i] = builder.apply(node.op, (), (name,))
            elif op != BORDER:
                made[i] = builder.apply(node.op, [made[j] for j in node.inputs], node.attrs)
            elif isinstance(node.type, TensorType):
                made[i] = builder.input(name, node.type.shape, node.type.dtype)
            else:
                return None
        own = {i for (op, *_), i in zip(form, places[0], strict=True) if op != BORDER and not constant[i]}
        for i in sorted(own):
            if isinstance(graph.nodes[i].type, TensorType) and (
                i in ends or not own.issuperset(graph.readers[i])
            ):
                outputs[f"{number}:{i}"] = made[i]
        windows.append((tuple(made[i] for i in places[0]), tuple(places)))
    found = builder.graph(outputs)
    return Blocks(graph, found, tuple(windows)) if len(found) == len(builder.nodes) else None


#: An e-node: operator, attributes, e-classes read, own e-class, rule and step of birth.
_ENode: TypeAlias = tuple[str, tuple[AttrValue, ...], Sequence[int], int, int, int]


class _Union:
    """An e-graph that begins as a graph and grows by images of another e-graph."""

    def __init__(self, whole: Graph, given: EGraph) -> None:
        self.whole, self.given = whole, given
        self.parent = list(range(len(whole)))
        self.types: list[ValueType | None] = [node.type for node in whole.nodes]
        #: The e-class, rule and step of birth of every e-node.
        self.rows: dict[Key, tuple[int, int, int]] = {}
        nodes = [(node.op, node.attrs, node.inputs, i, -1, 0) for i, node in enumerate(whole.nodes)]
        self.insert(nodes, ((i, i) for i in range(len(whole))))

    def find(self, c: int) -> int:
        """Return the e-class that one has become."""
        while self.parent[c] != c:
            self.parent[c] = c = self.parent[self.parent[c]]
        return c

    def unite(self, a: int, b: int) -> None:
        """Make two e-classes one."""
        a, b = sorted((self.find(a), self.find(b)))
        self.parent[b] = a

    def over(self, known: Iterable[int]) -> list[_ENode]:
        """Return the given e-graph's e-nodes of all terms over known e-classes, operands first, without leaves."""
        given, seen = self.given, set(known)
        plan: list[_ENode] = []
        left = [(i, given.operands(i).tolist()) for i in range(len(given)) if given.ops[i] not in NAMED]
        while ready := [(i, read) for i, read in left if seen.issuperset(read)]:
            left = [(i, read) for i, read in left if not seen.issuperset(read)]
            for i, read in ready:
                born = int(given.birth_rule[i]), int(given.birth_step[i])
                plan.append((given.ops[i], given.attrs[i], read, int(given.eclass[i]), *born))
                seen.add(int(given.eclass[i]))
        return plan

    def insert(self, plan: Iterable[_ENode], images: Iterable[tuple[int, int]]) -> None:
        """Add e-nodes, whose e-classes are those of the images, or new ones."""
        image: dict[int, int] = {}
        for c, there in images:
            self.unite(image.setdefault(c, there), there)
        for op, attrs, read, c, rule, step in plan:
            key = (op, attrs, tuple(self.find(image[d]) for d in read))
            known = self.rows.get(key)
            if c not in image and known is None:
                image[c] = len(self.parent)
                self.parent.append(image[c])
                self.types.append(self.given.types[c])
            if known is None:
                self.rows[key] = (image[c], rule, step)
            else:
                self.unite(known[0], image.setdefault(c, known[0]))

    def egraph(self) -> EGraph:
        """Return the e-graph, in which equal operators on equal operands are one e-node."""
        grown = True
        while grown:
            grown, rows = False, self.rows
            self.rows = {}
            for (op, attrs, read), (c, rule, step) in rows.items():
                key, c = (op, attrs, tuple(map(self.find, read))), self.find(c)
                known = self.rows.get(key)
                if known is None or step < known[2]:
                    self.rows[key] = (c, rule, step)
                if known is not None and self.find(known[0]) != c:
                    self.unite(known[0], c)
                    grown = True
        rows = {key: row for key, row in self.rows.items() if row[0] not in key[2]}
        keys = sorted(rows, key=lambda key: rows[key][2])
        place = {key: i for i, key in enumerate(keys)}
        classes = {c: n for n, c in enumerate(dict.fromkeys(rows[key][0] for key in keys))}
        operands = [[classes[d] for d in key[2]] for key in keys]
        originals = ((node.op, node.attrs, tuple(map(self.find, node.inputs))) for node in self.whole.nodes)
        return EGraph(
            ops=tuple(key[0] for key in keys),
            attrs=tuple(key[1] for key in keys),
            child_start=np.cumsum([0, *map(len, operands)]),
            children=np.array([d for row in operands for d in row], dtype=np.int64),
            eclass=np.array([classes[rows[key][0]] for key in keys], dtype=np.int64),
            n_classes=len(classes),
            roots=tuple(classes[self.find(i)] for i in self.whole.output_ids),
            types=tuple(self.types[c] for c in classes),
            rules=self.given.rules,
            birth_rule=np.array([rows[key][1] for key in keys], dtype=np.int32),
            birth_step=np.array([rows[key][2] for key in keys], dtype=np.int32),
            original=np.array([place.get(key, -1) for key in originals], dtype=np.int32),
        )
