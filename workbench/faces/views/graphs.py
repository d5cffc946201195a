"""Graphs as scenes: one box per operator, weights in their readers' boxes, repeated layers folded; data of viewers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from workbench.faces.views.scene import (
    AT_ONCE,
    COLOURS,
    MARKS,
    Box,
    Edge,
    Layout,
    Scene,
    cut,
    family_of,
    lay_out,
)
from workbench.faces.views.svg import path_of, svg
from workbench.graph import Graph
from workbench.ops import Trait, spec_of
from workbench.ops.inputs_and_opaque import NAMED
from workbench.support.deadline import OutOfTime
from workbench.support.formatting import microseconds, thousands

if TYPE_CHECKING:
    from workbench.costs.model import CostModel


# -- repeated layers -----------------------------------------------------------------------------------
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
    single = tuple(Segment((i,), k) for k, i in enumerate(nodes))
    joined = (_runs(_pieces(graph, nodes, width), graph, marks or {}) for width in WIDTHS)
    return min(single, *joined, key=len)


def _pieces(graph: Graph, nodes: Sequence[int], width: int) -> list[tuple[int, ...]]:
    """Return the nodes, cut after every node at which at most ``width`` values cross."""
    place = {i: k for k, i in enumerate(nodes)}
    last = dict(place)
    for i in nodes:
        for j in graph.nodes[i].inputs:
            if j in last:
                last[j] = max(last[j], place[i])
    ends = Counter(last[i] for i in nodes)
    pieces, piece, live = [], [], 0
    for k, i in enumerate(nodes):
        piece.append(i)
        # A value that nothing reads (an output) does not cross a cut.
        live += 1 - ends[k]
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
        else:
            kind = joined.setdefault(tuple(kinds[k : k + period]), len(joined))
            for repeat, at in enumerate(range(k, k + period * count, period)):
                inside = tuple(chain.from_iterable(pieces[at : at + period]))
                found.append(Segment(inside, kind, repeat, count))
        k += period * count
    return tuple(found)


def _best_run(kinds: Sequence[int], pieces: Sequence[tuple[int, ...]], k: int) -> tuple[int, int]:
    """Return the period and count of the run starting at ``k`` that saves the most nodes."""
    best, saved, size = (1, 1), 0, 0
    for period in range(1, (len(kinds) - k) // 2 + 1):
        size += len(pieces[k + period - 1])
        count = 1
        while kinds[k : k + period] == kinds[k + count * period : k + (count + 1) * period]:
            count += 1
        # The gain is the number of nodes that need not be drawn; on a tie the shorter period wins.
        gain = (count - 1) * size
        if count > 1 and size > 1 and gain > saved:
            best, saved = (period, count), gain
    return best


# -- scenes --------------------------------------------------------------------------------------------
#: Limit on boxes: larger pictures are not readable.
MOST_BOXES: Final = 160
#: Number of boxes up to which layers stay unfolded.
EASY: Final = 60


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes on a graph's nodes, by node.

    ``marks`` are names of :data:`~workbench.faces.views.scene.MARKS`. Nodes with the same name in ``groups``
    correspond to each other, in other graphs too. ``facts`` are further names and values. ``costs`` are in
    microseconds, from ``source``.
    """

    marks: Mapping[int, str] = field(default_factory=dict)
    groups: Mapping[int, str] = field(default_factory=dict)
    facts: Mapping[int, Sequence[tuple[str, str]]] = field(default_factory=dict)
    costs: Mapping[int, float] = field(default_factory=dict)
    source: str = ""


def shown_nodes(graph: Graph) -> list[int]:
    """Return the nodes that are drawn: inputs, operators that depend on inputs, and outputs.

    Weights, and values computed from weights alone, appear in their readers' labels.
    """
    folded, outputs = graph.constant(), set(graph.output_ids)
    shown = [
        i for i, node in enumerate(graph.nodes) if node.op != "input" and (not folded[i] or i in outputs)
    ]
    return [*graph.inputs, *shown]


def node_lines(graph: Graph, i: int, folded: Sequence[bool]) -> tuple[str, ...]:
    """Return a node's label: operator, result type, and the types of the weights it reads.

    ``folded`` is :meth:`~workbench.graph.Graph.constant`.
    """
    node = graph.nodes[i]
    title = str(node.attr("name")) if node.op == "input" else node.op
    if node.op == "opaque":
        title = graph.opaques[str(node.attrs[0])].op_type
    elif node.named_attrs().get("act", "none") != "none":
        title += f" + {node.attr('act')}"
    read = [graph.nodes[j] for j in node.inputs if folded[j]]
    weights = [f"{'weight' if w.op == 'weight' else 'computed'} {w.type}" for w in read]
    if len(weights) > 4:
        weights[3:] = [f"{len(weights) - 3} more weights"]
    return tuple(map(cut, (title, str(node.type), *weights)))


#: No notes.
PLAIN: Final = Notes()


def whole_scene(graph: Graph, notes: Notes = PLAIN, *, most: int | None = None) -> Scene:
    """Return a scene of all operators, or of the first ``most`` with a note on their number."""
    nodes = shown_nodes(graph)
    kept = nodes if most is None else nodes[:most]
    note = "" if len(kept) == len(nodes) else f"{len(kept)} of {thousands(len(nodes))} operators shown"
    boxes, edges = _parts(graph, kept, notes)
    ends = [(name, i) for name, i in graph.outputs if i in set(kept)]
    boxes += [_output(name, k) for k, (name, _) in enumerate(ends)]
    edges += [Edge(str(i), f"out{k}") for k, (_, i) in enumerate(ends)]
    return Scene(graph.name, tuple(boxes), tuple(edges), note=note)


def folded_scene(graph: Graph, notes: Notes = PLAIN) -> Scene:
    """Return a scene in which every repetition of a layer is one box, which opens the layer's own scene."""
    nodes = [i for i in shown_nodes(graph) if graph.nodes[i].op != "input"]
    found = segments(graph, nodes, notes.marks)
    folded = graph.constant()
    home = {i: str(i) for i in graph.inputs}
    boxes, _ = _parts(graph, list(graph.inputs), notes)
    levels: dict[str, Scene] = {}
    for segment in found:
        if segment.repeats == 1:
            (i,) = segment.nodes
            home[i] = str(i)
            boxes.append(_box(graph, i, notes, folded))
            continue
        key = f"group{segment.nodes[0]}"
        home |= dict.fromkeys(segment.nodes, key)
        boxes.append(_group(graph, segment, key, notes))
        levels.setdefault(f"layer{segment.kind}", _inside(graph, segment, notes))
    edges = dict.fromkeys(
        (home[j], home[i]) for i in nodes for j in graph.nodes[i].inputs if j in home and home[j] != home[i]
    )
    ends = {name: home[i] for name, i in graph.outputs if i in home}
    boxes += [_output(name, k) for k, name in enumerate(ends)]
    joined = [Edge(s, t) for s, t in edges] + [Edge(s, f"out{k}") for k, s in enumerate(ends.values())]
    layers = [s.kind for s in found if s.repeats > 1]
    kinds = f"{len(layers)} layers of {len(set(layers))} kind{'s' if len(set(layers)) > 1 else ''}"
    note = f"{kinds} are one box each, {thousands(len(nodes))} operators in total" if layers else ""
    return Scene(graph.name, tuple(boxes), tuple(joined), note=note, levels=levels)


def readable_scene(graph: Graph, notes: Notes = PLAIN, *, most: int = MOST_BOXES) -> Scene:
    """Return the whole graph if it is readable, otherwise with folded layers, otherwise its beginning."""
    size = len(shown_nodes(graph))
    if size <= min(most, EASY):
        return whole_scene(graph, notes)
    folded = folded_scene(graph, notes)
    if len(folded.boxes) <= most and 2 * len(folded.boxes) <= size:
        return folded
    return whole_scene(graph, notes, most=most)


def graph_svg(graph: Graph, notes: Notes = PLAIN) -> bytes:
    """Return a drawing of a graph as SVG; a note in it counts the operators that are left out."""
    return svg(*placed_scene(lambda most: readable_scene(graph, notes, most=most)))


def placed_scene(make: Callable[[int], Scene], most: int = MOST_BOXES) -> tuple[Scene, Layout]:
    """Return a scene of at most ``most`` boxes and its layout.

    ``make`` returns the scene for a limit on boxes. If the layout takes too long, the limit is halved, and a
    note in the scene reports this. Raise OutOfTime if even a small scene takes too long.
    """
    said = ""
    while True:
        scene = make(most)
        scene = replace(scene, note="; ".join(filter(None, (scene.note, said))))
        try:
            return scene, lay_out(scene)
        except OutOfTime as error:
            most //= 2
            if most <= AT_ONCE // 2:
                raise
            said = f"smaller because {error}"


# -- parts ------------------------------------------------------------------------------------------
def _parts(graph: Graph, nodes: Sequence[int], notes: Notes) -> tuple[list[Box], list[Edge]]:
    inside = set(nodes)
    reads = dict.fromkeys((j, i) for i in nodes for j in graph.nodes[i].inputs if j in inside)
    edges = [Edge(str(j), str(i), str(graph.nodes[j].type)) for j, i in reads]
    folded = graph.constant()
    return [_box(graph, i, notes, folded) for i in nodes], edges


def _box(graph: Graph, i: int, notes: Notes, folded: Sequence[bool]) -> Box:
    node = graph.nodes[i]
    return Box(
        str(i),
        node_lines(graph, i, folded),
        family_of(node.op),
        notes.marks.get(i, ""),
        groups=(notes.groups[i],) if i in notes.groups else (),
        facts=tuple(_facts(graph, i, notes, folded)),
        cost=notes.costs.get(i),
    )


def _facts(graph: Graph, i: int, notes: Notes, folded: Sequence[bool]) -> Iterable[tuple[str, str]]:
    node = graph.nodes[i]
    yield "operator", f"{node.op}, node {i}"
    if node.op == "opaque":
        record = graph.opaques[str(node.attrs[0])]
        yield "ONNX operator", f"{record.domain or 'ai.onnx'}.{record.op_type}"
        if record.reason:
            yield "not modelled", record.reason
    else:
        if Trait.OWN in spec_of(node.op).traits and spec_of(node.op).doc:
            yield "meaning", spec_of(node.op).doc
        yield from ((name, str(value)) for name, value in node.named_attrs().items())
    for k, j in enumerate(node.inputs):
        yield f"operand {k}", f"{cut(_term(graph, j, folded), 200)}: {graph.nodes[j].type}"
    yield "result", str(node.type)
    if i in notes.costs:
        yield "cost", f"{microseconds(notes.costs[i])} ({notes.source})"
    yield from notes.facts.get(i, ())


def _term(graph: Graph, i: int, folded: Sequence[bool]) -> str:
    """Return a node as text: its name, its number, or the term of weights that computes it."""
    node = graph.nodes[i]
    if node.op in NAMED:
        return f"{node.op} {node.attrs[0]}"
    if not folded[i]:
        return f"{node.op} {i}"
    return f"{node.op}({', '.join(_term(graph, j, folded) for j in node.inputs)})"


def _group(graph: Graph, segment: Segment, key: str, notes: Notes) -> Box:
    counts = Counter(graph.nodes[i].op for i in segment.nodes)
    kinds = [f"{n} {op}" for op, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    marks = {notes.marks.get(i, "") for i in segment.nodes} - {""}
    facts = [("operators", ", ".join(kinds))]
    costs = [notes.costs[i] for i in segment.nodes if i in notes.costs]
    if costs:
        facts.append(("cost", f"{microseconds(sum(costs))} ({notes.source})"))
    lines = [f"layer {segment.repeat + 1} of {segment.repeats}", f"{len(segment.nodes)} operators"]
    lines += [cut(", ".join(kinds[k : k + 2])) for k in range(0, min(4, len(kinds)), 2)]
    return Box(
        key,
        tuple(lines),
        "group",
        marks.pop() if len(marks) == 1 else "rewritten" if marks else "",
        groups=tuple(dict.fromkeys(notes.groups[i] for i in segment.nodes if i in notes.groups)),
        facts=tuple(facts),
        opens=f"layer{segment.kind}",
        cost=sum(costs) if costs else None,
    )


def _inside(graph: Graph, segment: Segment, notes: Notes) -> Scene:
    """Return the scene of one layer, with its operands from outside as stubs."""
    boxes, edges = _parts(graph, segment.nodes, notes)
    inside = set(segment.nodes)
    outer: dict[int, Box] = {}
    folded = graph.constant()
    for i in segment.nodes:
        for j in dict.fromkeys(graph.nodes[i].inputs):
            if j not in inside and not folded[j]:
                given = _box(graph, j, PLAIN, folded)
                outer[j] = replace(given, lines=("from outside", *given.lines[:2]), mark="stub")
                edges.append(Edge(str(j), str(i)))
    title = f"layer {segment.repeat + 1} of {segment.repeats}"
    return Scene(title, (*outer.values(), *boxes), tuple(edges))


def counted_operators(counts: Iterable[tuple[str, int]]) -> str:
    """Return operators with their numbers, if there are several of one, as text."""
    return ", ".join(f"{n} {op}" if n > 1 else op for op, n in counts)


def _output(name: str, k: int) -> Box:
    return Box(f"out{k}", (cut(name), "output"), "input", facts=(("output", name),))


def cost_notes(graph: Graph, cost: str | CostModel = "analytic") -> Notes:
    """Return notes with the cost of every operator under a cost model or its name."""
    from workbench.costs import node_costs
    from workbench.costs.registry import cost_model

    model = cost_model(cost)
    return Notes(costs=dict(enumerate(node_costs(graph, model).tolist())), source=model.source)


# -- data of viewers -----------------------------------------------------------------------------------
#: Limit on the boxes of a whole graph: a browser moves this many smoothly.
MOST_WHOLE: Final = 700


def graph_pane(graph: Graph, notes: Notes = PLAIN, *, title: str = "") -> dict[str, Any]:
    """Return a graph as a pane with the level ``whole``, and with ``folded`` if it has repeated layers.

    The pane starts at the more readable level. Boxes of the folded level open the levels of single layers.
    """
    nodes = shown_nodes(graph)
    folded = folded_scene(graph, notes)
    levels: dict[str, Any] = {}
    if folded.levels:
        scene, layout = placed_scene(lambda _: folded)
        levels["folded"] = level(scene, layout)
        for name, inner in folded.levels.items():
            levels[name] = level(inner, lay_out(inner))
    most = min(len(nodes), MOST_WHOLE)
    try:
        levels["whole"] = level(*placed_scene(lambda most: whole_scene(graph, notes, most=most), most))
    except OutOfTime:
        if not levels:
            raise
    easy = "whole" if "folded" not in levels or len(nodes) <= 2 * len(folded.boxes) else "folded"
    return {"title": title or graph.name, "start": easy, "levels": levels}


def level(scene: Scene, layout: Layout) -> dict[str, Any]:
    """Return one level of a pane: positions in pixels, labels, marks, and the facts of each box."""
    boxes = []
    for box in scene.boxes:
        told = asdict(box) | {"at": list(layout.boxes[box.key])}
        told["cost"] = None if box.cost is None else round(box.cost, 2)
        boxes.append({k: v for k, v in told.items() if v or k in ("key", "at", "lines")})
    clusters = [asdict(c) | {"at": list(layout.clusters[c.key])} for c in scene.clusters]
    edges = [
        {"from": e.source, "to": e.target, "path": path_of(points)}
        | {k: v for k, v in {"note": e.note, "bold": e.bold}.items() if v}
        for e, points in zip(scene.edges, layout.edges, strict=True)
        if points
    ]
    return {
        "title": scene.title,
        "note": scene.note,
        "size": [round(layout.width, 1), round(layout.height, 1)],
        "boxes": boxes,
        "edges": edges,
        "clusters": clusters,
    }


def viewer_data(title: str, panes: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return all data of a viewer, ready for JSON, including the colours, so that they have one source."""
    legend = more.pop("legend", {})
    return {
        "title": title,
        "panes": list(panes),
        "colours": {name: list(pair) for name, pair in COLOURS.items()},
        "marks": {name: list(style) for name, style in MARKS.items()},
        "legend": [[mark, text] for mark, text in legend.items()],
        "steps": [],
        "table": None,
        **more,
    }
