"""An e-graph as a scene: e-classes are frames, the extracted term is bold; a picture shows a part of a large one."""

from __future__ import annotations

import textwrap
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.egraph.rebuild import by_term
from workbench.faces.views.graphs import counted_operators, level, placed_scene, viewer_data
from workbench.faces.views.markup import details, heading, picture, table
from workbench.faces.views.scene import Box, Cluster, Edge, Scene, cut, family_of
from workbench.faces.views.svg import svg
from workbench.ops.inputs_and_opaque import NAMED
from workbench.ops.registry import known as known_op
from workbench.support.formatting import thousands
from workbench.support.orders import strong_components, topological


# -- merges -----------------------------------------------------------------------------------------------
def class_map(before: EGraph, after: EGraph) -> np.ndarray:
    """Return for every e-class of ``before`` the e-class of ``after`` that contains its terms.

    The numbers of e-classes change between snapshots, but terms do not. Saturation never removes a term, so
    the least term of every e-class is found again by looking up operators bottom-up. The result is -1 for an
    e-class whose least term is not in ``after``, or that has no finite term.
    """
    from workbench.extraction.problem import tree_costs

    known = by_term(after)
    found = np.full(before.n_classes, -1, dtype=np.int64)
    _, least = tree_costs(before, np.ones(len(before)))
    finite = (c for c, i in enumerate(least) if i >= 0)
    for c in topological(finite, lambda c: before.operands(least[c]).tolist()):
        i = least[c]
        at = known.get((before.ops[i], before.attrs[i], tuple(found[before.operands(i)].tolist())))
        found[c] = -1 if at is None else after.eclass[at]
    return found


def merges(snapshots: Sequence[EGraph], final: EGraph) -> list[dict[int, int]]:
    """Return for every snapshot the e-classes of ``final`` that it made by merging, with their sizes.

    The size is the number of merged e-classes. A merge is found by comparing a snapshot with the one before
    it, so the first snapshot has none.
    """
    found: list[dict[int, int]] = [{} for _ in snapshots[:1]]
    for before, after in pairwise(snapshots):
        into, count = np.unique(class_map(before, after), return_counts=True)
        at_last = class_map(after, final)
        made: Counter[int] = Counter()
        for c, n in zip(into.tolist(), count.tolist(), strict=True):
            if c >= 0 and n > 1 and at_last[c] >= 0:
                made[int(at_last[c])] += n
        found.append(made)
    return found


# -- scenes -----------------------------------------------------------------------------------------------
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


def selection(
    egraph: EGraph, part: Part, choice: np.ndarray | None = None
) -> tuple[dict[int, list[int]], set[int]]:
    """Return the shown e-nodes of a part by e-class, and the e-classes of weights that are in readers' labels.

    The extracted term (``choice``) comes first. In an e-class the extracted e-node comes first, then those of the
    start graph, then the others by birth.
    """
    members = egraph.members()

    def inside(c: int, most: int) -> list[int]:
        taken = int(choice[c]) if choice is not None else -1
        return sorted(members[c], key=lambda i: (i != taken, i))[:most]

    def in_label(c: int) -> bool:
        """Return whether an e-class is a weight, which its readers' labels name."""
        return len(members[c]) == 1 and egraph.ops[members[c][0]] == "weight"

    shown: dict[int, list[int]] = {}
    labels: set[int] = set()
    each = min(MOST_MEMBERS, max(3, part.most // 12))
    budget = part.most
    ring = [] if part.focus is None or part.hops is None else _ring(egraph, part.focus, part.hops)
    queue = deque(ring or (egraph.roots if part.focus is None else [part.focus]))
    later: deque[int] = deque()
    while queue or later:
        c = queue.popleft() if queue else later.popleft()
        if c not in shown and in_label(c) and c != part.focus:
            labels.add(c)
        elif c not in shown and (len(chosen := inside(c, each)) <= budget or not shown):
            budget -= len(chosen)
            shown[c] = chosen
            taken = int(choice[c]) if choice is not None else -1
            for i in () if ring else chosen:
                # Operands of the extracted term come before other operands.
                (queue if i == taken or taken < 0 else later).extend(egraph.operands(i).tolist())
    for c in part.opened:
        shown[c] = inside(c, MOST_OPENED)
        for d in dict.fromkeys(d for i in shown[c] for d in egraph.operands(i).tolist()):
            if in_label(d):
                labels.add(d)
            elif d not in shown:
                shown[d] = inside(d, 3)
    return shown, labels


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


#: Limit on e-nodes in a static picture.
MOST_STILL: Final = 50
#: Limit on rows of the table.
MOST_ROWS: Final = 300
#: The width in characters of a line of attributes, and the limit on such lines in a label.
ATTRIBUTE_WIDTH, ATTRIBUTE_LINES = 26, 3
#: The width in characters of the line that names a weight: its type with five axes fits.
WEIGHT_WIDTH: Final = 44


@dataclass(frozen=True, eq=False)
class Known:
    """An e-graph with further data for its views.

    ``costs`` are by e-node. ``choice`` is the extracted e-node by e-class, -1 for none. ``history`` has
    snapshots of the e-graph at its first steps, from which merges are read.
    """

    egraph: EGraph
    costs: np.ndarray | None = None
    choice: np.ndarray | None = None
    history: Sequence[EGraph] = ()

    @cached_property
    def tree(self) -> list[float]:
        """Return the least tree costs by e-class, or none without costs."""
        from workbench.extraction.problem import tree_costs

        return [] if self.costs is None else [float(x) for x in tree_costs(self.egraph, self.costs)[0]]

    @cached_property
    def merged(self) -> list[dict[int, int]]:
        """Return the merges by step, or none without a history."""
        return merges(self.history, self.egraph)

    @property
    def unit(self) -> str:
        """Return the unit of the costs: microseconds for graphs of tensors, the file's unit for others."""
        return "µs" if self.egraph.types else ""

    def price(self, value: float) -> str:
        """Return a cost as text with its unit."""
        return f"{value:.6g} {self.unit}".rstrip()

    def type_of(self, c: int) -> str:
        """Return the type of an e-class as text, empty if it has none."""
        kind = self.egraph.types[c] if self.egraph.types else None
        return "" if kind is None else str(kind)

    @property
    def last_step(self) -> int:
        """Return the step in which the youngest e-node was made."""
        births = self.egraph.birth_step
        return max(int(births.max()) if len(births) else 0, len(self.history) - 1)


def egraph_scene(known: Known, part: Part | None = None) -> Scene:
    """Return a scene of a part of an e-graph, e-class by e-class; by default it starts from the roots.

    The extracted term comes first, then the e-classes around it. Weights appear in their readers' labels.
    """
    part = part or Part()
    egraph = known.egraph
    members = egraph.members()
    shown, labels = selection(egraph, part, known.choice)
    boxes: list[Box] = []
    edges: list[Edge] = []
    for c, inside in shown.items():
        boxes += [_box(known, i, shown, labels) for i in inside]
        if hidden := len(members[c]) - len(inside):
            text = f"+{hidden} e-node{'' if hidden == 1 else 's'}"
            boxes.append(Box(f"more{c}", (text,), mark="stub", cluster=f"e-class {c}", more=True))
        for i in inside:
            taken = known.choice is not None and int(known.choice[c]) == i
            read = dict.fromkeys(egraph.operands(i).tolist())
            edges += [Edge(str(shown[d][0]), str(i), "", f"e-class {d}", taken) for d in read if d in shown]
    loops = _loops(egraph, shown)
    clusters = tuple(_cluster(known, c, len(members[c]), c in loops) for c in shown)
    note, drawn = "", len(shown) + len(labels)
    count = sum(map(len, shown.values())) + len(labels)
    if drawn < egraph.n_classes or count < len(egraph):
        note = (
            f"{thousands(count)} of {thousands(len(egraph))} e-nodes in "
            f"{thousands(drawn)} of {thousands(egraph.n_classes)} e-classes, {part.centre()}"
        )
    return Scene("e-graph", tuple(boxes), tuple(edges), clusters, note)


def _loops(egraph: EGraph, shown: dict[int, list[int]]) -> set[int]:
    """Return the shown e-classes that lie on a cycle."""
    place = {c: k for k, c in enumerate(shown)}
    below = [[place[d] for i in e for d in egraph.operands(i).tolist() if d in shown] for e in shown.values()]
    component = strong_components(below)
    size = Counter(component)
    return {c for c, k in place.items() if size[component[k]] > 1 or k in below[k]}


def attribute_texts(op: str, attrs: Sequence[Any], *, every: bool = True) -> list[str]:
    """Return the attributes of an e-node as ``name=value``; without names for operators of other programs.

    Attributes that say "none" are left out, as is the name of an input or a weight. Unless ``every`` is set,
    attributes with their default value are left out too.
    """
    spec = known_op(op)
    if spec is None or len(spec.attrs) != len(attrs):
        return [str(value) for value in attrs if value not in (None, "", (), "none")]
    return [
        f"{attr.name}={value}"
        for attr, value in zip(spec.attrs, attrs, strict=True)
        if value not in (None, "", (), "none")
        and not (op in NAMED and value == attrs[0])
        and (every or value != attr.default)
    ]


def _box(known: Known, i: int, shown: dict[int, list[int]], labels: set[int]) -> Box:
    egraph = known.egraph
    c = int(egraph.eclass[i])
    op, attrs = egraph.ops[i], egraph.attrs[i]
    lines = [cut(f"{op} {attrs[0]}" if op in NAMED and attrs else op, ATTRIBUTE_WIDTH)]
    texts = attribute_texts(op, attrs, every=False)
    said = textwrap.wrap(", ".join(texts), ATTRIBUTE_WIDTH, break_long_words=False)
    lines += said[:ATTRIBUTE_LINES]
    if len(said) > ATTRIBUTE_LINES:
        lines[-1] = cut(lines[-1] + " …", ATTRIBUTE_WIDTH)
    operands = list(dict.fromkeys(egraph.operands(i).tolist()))
    weights = [d for d in operands if d in labels]
    if len(weights) == 1:
        lines.append(cut(f"weight {known.type_of(weights[0])}".strip(), WEIGHT_WIDTH))
    elif weights:
        lines.append(f"{len(weights)} weights")
    if hidden := sum(d not in shown and d not in labels for d in operands):
        lines.append(f"({hidden} operand{'' if hidden == 1 else 's'} not drawn)")
    taken = known.choice is not None and int(known.choice[c]) == i
    return Box(
        str(i),
        tuple(lines),
        family_of(op),
        "chosen" if taken else "",
        f"e-class {c}",
        (f"e-class {c}",),
        tuple(_e_node_facts(known, i)),
        born=int(egraph.birth_step[i]) if len(egraph.birth_step) else 0,
        bold=taken,
        cost=None if known.costs is None else float(known.costs[i]),
    )


def _e_node_facts(known: Known, i: int) -> Iterator[tuple[str, str]]:
    egraph = known.egraph
    c = int(egraph.eclass[i])
    name = f" {egraph.attrs[i][0]}" if egraph.ops[i] in NAMED and egraph.attrs[i] else ""
    yield "e-node", f"{egraph.node_name(i)}: {egraph.ops[i]}{name}"
    if texts := attribute_texts(egraph.ops[i], egraph.attrs[i]):
        yield "attributes", ", ".join(texts)
    yield "e-class", egraph.class_name(c)
    if kind := known.type_of(c):
        yield "type", kind
    read = egraph.operands(i).tolist()
    yield "operands", ", ".join(f"e-class {egraph.class_name(d)}" for d in read) or "none"
    if len(egraph.birth_rule):
        rule = int(egraph.birth_rule[i])
        made = "the start graph" if rule < 0 else f"{egraph.rules[rule]}, step {egraph.birth_step[i]}"
        yield "made by", made
    if known.costs is not None:
        yield "cost", known.price(float(known.costs[i]))
        below = sum(known.tree[d] for d in read)
        yield "least cost of a tree with it", _finite(known, float(known.costs[i]) + below)
    if known.choice is not None:
        yield "extracted", "yes" if int(known.choice[c]) == i else "no"


def _finite(known: Known, value: float) -> str:
    return known.price(value) if np.isfinite(value) else "none: every term with it contains itself"


def _cluster(known: Known, c: int, size: int, loops: bool) -> Cluster:
    egraph = known.egraph
    steps = tuple(s for s, made in enumerate(known.merged) if c in made)
    kind = known.type_of(c)
    facts = [("e-nodes", str(size)), *([("type", kind)] if kind else [])]
    if known.tree:
        facts.append(("least tree cost", _finite(known, known.tree[c])))
    facts += [("merged", f"{known.merged[s][c]} e-classes became this one in step {s}") for s in steps]
    if loops:
        facts.append(("cycle", "some term of this e-class contains one of the same e-class"))
    label = cut(f"{egraph.class_name(c)} {kind}".rstrip(), 30)
    return Cluster(f"e-class {c}", label, "cycle" if loops else "", steps, tuple(facts))


# -- table ------------------------------------------------------------------------------------------
def class_table(known: Known, most: int = MOST_ROWS) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Return the headings and rows of the table of e-classes, the largest first; an unknown figure has no column."""
    egraph, members = known.egraph, known.egraph.members()
    readers = np.bincount(egraph.children, minlength=egraph.n_classes)
    order = sorted(range(egraph.n_classes), key=lambda c: (-len(members[c]), c))[:most]

    def operators(c: int) -> str:
        return cut(counted_operators(Counter(egraph.ops[i] for i in members[c]).most_common()), 60)

    columns: dict[str, Callable[[int], Any]] = {
        "e-class": egraph.class_name,
        "e-nodes": lambda c: len(members[c]),
        "operators": operators,
        "readers": lambda c: int(readers[c]),
    }
    if known.tree:
        unit = f" ({known.unit})" if known.unit else ""
        tree = [round(cost, 4) if np.isfinite(cost) else "" for cost in known.tree]
        columns["least tree cost" + unit] = tree.__getitem__
    if known.choice is not None:
        taken = known.choice.tolist()
        columns["extracted"] = lambda c: egraph.ops[taken[c]] if taken[c] >= 0 else ""
    if any(kind is not None for kind in egraph.types):
        columns["type"] = lambda c: str(egraph.types[c])
    return tuple(columns), [[column(c) for column in columns.values()] for c in order]


def egraph_data(known: Known, part: Part | None = None) -> dict[str, Any]:
    """Return the data of the viewer for an e-graph: the picture, its steps, the table of e-classes."""
    egraph, part = known.egraph, part or Part()
    scene, layout = placed_scene(lambda most: egraph_scene(known, replace(part, most=most)), part.most)
    home = [f"e-class {c}" for c in (egraph.roots if part.focus is None else (part.focus,))]
    pane = {"title": "e-graph", "start": "whole", "home": home, "levels": {"whole": level(scene, layout)}}
    headings, rows = class_table(known)
    more = egraph.n_classes - len(rows)
    numbers = {egraph.class_name(c): c for c in range(egraph.n_classes)}
    legend = {"new": "made in this step"}
    if known.merged:
        legend["merged"] = "e-classes merged in this step"
    if any(c.mark == "cycle" for c in scene.clusters):
        legend["cycle"] = "e-class within a cycle"
    if known.choice is not None:
        legend["chosen"] = "extracted term (bold)"
    return viewer_data(
        f"E-graph: {thousands(len(egraph))} e-nodes, {thousands(egraph.n_classes)} e-classes",
        [pane],
        legend=legend,
        steps=_steps(known),
        table={
            "columns": list(headings),
            "rows": rows,
            "keys": [f"e-class {numbers[row[0]]}" for row in rows],
            "note": f"{thousands(more)} more e-classes, which are smaller" if more > 0 else "",
        },
        unit=known.unit,
    )


def _steps(known: Known) -> list[str]:
    if not known.egraph.rules:
        return []
    made, last = np.bincount(known.egraph.birth_step, minlength=known.last_step + 1), known.last_step
    labels = []
    for step, (born, count) in enumerate(zip(made.tolist(), made.cumsum().tolist(), strict=True)):
        # A run continues until a step makes nothing: its trace may be longer.
        place = (
            f"step {step}, the last that made anything" if step == last and step else f"step {step} of {last}"
        )
        said = f"{place} · {thousands(count)} e-nodes"
        if step:
            said += f" · {thousands(born)} new"
        if step < len(known.merged):
            said += f" · {len(known.merged[step])} e-classes made by merging"
        elif known.merged:
            said += " · merges of this step are not recorded"
        labels.append(said)
    return labels


def egraph_html(known: Known) -> str:
    """Return the static face: the picture, the largest e-classes, and the counts of operators."""
    egraph = known.egraph
    scene, layout = placed_scene(lambda most: egraph_scene(known, Part(most=most)), MOST_STILL)
    counts = Counter(egraph.ops).most_common()
    said = f"{thousands(len(egraph))} e-nodes, {thousands(egraph.n_classes)} e-classes"
    return (
        heading("E-graph", said)
        + details("picture", picture(svg(scene, layout), scene.note or said), open_=True)
        + details("largest e-classes", table(*class_table(known, 30)))
        + details("operators", table(("operator", "e-nodes"), counts))
    )
