"""The parts in which an optimised graph differs from its original, bounded by values that both contain.

Both graphs are added to one hash-consed graph, operands first. If an operator of the optimised graph is new
but its e-class contains an operator of the original, the two must be shown equal (an obligation); from there
on the original's value represents both. By induction over the optimised graph, all outputs are equal if
every obligation is met. An obligation reads few values: the nearest ones below it that both graphs contain.
Obligations that read the same values form a region, which is a pair of small graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from workbench.graph import Builder, Graph
from workbench.graph.evaluate import OpaqueRunner, node_values
from workbench.graph.graph import Opaque, constant_nodes
from workbench.graph.weights import Weight
from workbench.ops import TensorType
from workbench.ops.inputs_and_opaque import NAMED, RUNTIME
from workbench.support.orders import postorder

#: The digits to which figures of values are compared; in float64 equal values agree to more.
_DIGITS: Final = 7


@dataclass(frozen=True, slots=True)
class Correspondence:
    """Numbers for the nodes of two graphs: equal numbers claim equal values, -1 claims nothing.

    ``rules[i]`` is the name of the rule that made node ``i`` of the optimised graph, or empty.
    """

    original: tuple[int, ...]
    optimised: tuple[int, ...]
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Obligation:
    """Two nodes of the merged graph that must have equal values: an original node and a new one."""

    original: int
    new: int
    label: str
    output: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A rewritten part: two graphs with the same inputs and outputs that must compute the same values.

    ``leaves`` are nodes of the merged graph, one for each input of the two graphs. ``labels`` name the
    outputs in words, ``outputs`` are their names in the model ("" for values inside it). ``rules`` are
    those that made the new operators.
    """

    before: Graph
    after: Graph
    leaves: tuple[int, ...]
    labels: tuple[str, ...]
    outputs: tuple[str, ...]
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f" by {', '.join(self.rules)}" if self.rules else ""
        return f"{_operators(self.before)} → {_operators(self.after)}{by}"


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Obligations that read the same values; tasks with equal ``key`` differ in the data of their weights alone."""

    obligations: tuple[Obligation, ...]
    leaves: tuple[int, ...]
    key: tuple[Any, ...] = field(repr=False)


class Merged:
    """An original and an optimised graph as one hash-consed graph, with the obligations to check.

    Nodes with numbers below ``first_new`` are the original's. ``mismatch`` is the reason why the graphs
    cannot be equal, if their types alone show it; otherwise it is empty.
    """

    def __init__(self, original: Graph, optimised: Graph, known: Correspondence | None = None) -> None:
        known = known or Correspondence((-1,) * len(original), (-1,) * len(optimised))
        self.builder = Builder(original.name)
        self.mismatch = ""
        self.rules: dict[int, str] = {}
        constant, live = original.constant(), original.reachable()
        self._inputs: dict[str, int] = {}
        self.place: list[int] = []
        partner: dict[int, int] = {}
        for i, node in enumerate(original.nodes):
            if not live[i] and node.op != "input":
                self.place.append(-1)
                continue
            self.place.append(self._added(original, i, self.place))
            if known.original[i] >= 0 and not constant[i]:
                partner.setdefault(known.original[i], self.place[i])
        self.first_new = len(self.builder.nodes)
        self.obligations: list[Obligation] = []
        self._obliged: dict[int, int] = {}
        names = {i: name for name, i in reversed(optimised.outputs)}
        live = optimised.reachable()
        place: list[int] = []
        for i, node in enumerate(optimised.nodes):
            if not live[i] and node.op != "input":
                place.append(-1)
                continue
            m = self._added(optimised, i, place)
            if known.rules and known.rules[i]:
                self.rules.setdefault(m, known.rules[i])
            place.append(self._settled(m, partner.get(known.optimised[i], -1), names.get(i, "")))
        for (name, i), (_, j) in zip(original.outputs, optimised.outputs, strict=True):
            self._settled(place[j], self.place[i], name, output=True)
        self.constant = constant_nodes(self.builder.nodes)

    def _added(self, graph: Graph, i: int, place: Sequence[int]) -> int:
        """Add node ``i`` of a graph whose earlier nodes are at ``place``; weights and opaques go by content."""
        node, attrs = graph.nodes[i], graph.nodes[i].attrs
        if node.op == "input":
            name = node.attr("name")
            if name not in self._inputs:
                self._inputs[name] = self.builder.input(name, node.tensor.shape, node.tensor.dtype)
            return self._inputs[name]
        if node.op == "weight":
            attrs = (_unique(self.builder.weights, str(attrs[0]), graph.weights, _same_weight),)
        elif node.op == "opaque":
            attrs = (_unique(self.builder.opaques, str(attrs[0]), graph.opaques, _same_opaque),)
        return self.builder.apply(node.op, [place[j] for j in node.inputs], attrs)

    def _settled(self, m: int, partner: int, name: str, *, output: bool = False) -> int:
        """Return the node that represents ``m`` from here on, and record the obligation that this creates."""
        if m == partner or (m < self.first_new and not output):
            return m
        if m in self._obliged and (not output or self._obliged[m] == partner):
            return self._obliged[m]
        if partner < 0:
            return m
        types = [self.builder.nodes[k].type for k in (partner, m)]
        if types[0] != types[1] or not isinstance(types[0], TensorType):
            if isinstance(types[0], TensorType) or output:
                label = f"output {name!r}" if name else self.builder.nodes[m].op
                self.mismatch = self.mismatch or f"{label} has the type {types[1]}, not {types[0]}"
            return m
        label = f"output {name!r}" if name else f"the value of {self.builder.nodes[partner].op}"
        self.obligations.append(Obligation(partner, m, label, name))
        self._obliged[m] = partner
        return partner

    # -- cones ------------------------------------------------------------------------------------
    def tasks(self) -> list[Task]:
        """Return the obligations, grouped by the values that they read, operands first."""
        groups: dict[tuple[int, ...], list[Obligation]] = {}
        for obligation in self.obligations:
            groups.setdefault(self._leaves(obligation), []).append(obligation)
        return [self._task(members, leaves) for leaves, members in groups.items()]

    def _task(self, members: Sequence[Obligation], leaves: tuple[int, ...]) -> Task:
        return Task(tuple(members), leaves, self._key(members, set(leaves)))

    def wider(self, task: Task) -> Iterator[Task]:
        """Yield tasks with the same obligations that read fewer or earlier values.

        First, leaves that depend on other leaves are computed instead of read; then all values are computed
        from the inputs. The last tasks also compute the results of opaque operators.

        They are needed if a law relies on how its operands depend on one another: such a law holds for values
        that the network computes, not for values drawn independently.
        """
        if all(self.builder.nodes[i].op == "input" for i in task.leaves):
            return
        last = max(*(o.original for o in task.obligations), *task.leaves)
        depends = self._depends_on(task.leaves, last)
        roots = [o.original for o in task.obligations] + list(task.leaves)
        found: list[tuple[int, ...]] = []
        least = {i for i in task.leaves if not any(j in depends for j in self._operands(i))}
        for through in (False, True):
            for stops in (least, set[int]()):
                inside = self._depends_on(stops, last) if stops else None
                leaves = self._cone(roots, stops, inside, opened=through, through=through)
                if leaves != task.leaves and leaves not in found:
                    found.append(leaves)
                    yield self._task(task.obligations, leaves)

    def _operands(self, i: int) -> tuple[int, ...]:
        return self.builder.nodes[i].inputs

    def _leaves(self, obligation: Obligation) -> tuple[int, ...]:
        """Return the values that an obligation reads."""
        frontier = set(self._cone([obligation.new], set(range(self.first_new)), None))
        if not frontier:
            return self._cone([obligation.original], set(), None, opened=True)
        below = self._below(obligation.original)
        if obligation.original in frontier and below:
            # The law removes a step and keeps its operand, so the walk starts below that step.
            frontier.remove(obligation.original)
            frontier.update(j for j in below if not self.constant[j])
        inside = self._depends_on(frontier, obligation.original)
        found = set(self._cone([obligation.original], frontier, inside, opened=True)) | frontier
        return tuple(sorted(found))

    def _depends_on(self, leaves: Iterable[int], last: int) -> set[int]:
        """Return the original's nodes up to ``last`` that depend on ``leaves``, including the leaves."""
        inside = set(leaves)
        for i in range(min(inside, default=last), last + 1):
            if any(j in inside for j in self._operands(i)):
                inside.add(i)
        return inside

    def _cone(
        self,
        roots: Iterable[int],
        stops: set[int],
        inside: set[int] | None,
        opened: bool = False,
        through: bool = False,
    ) -> tuple[int, ...]:
        """Return the nodes at which a walk down from ``roots`` ends, in order: never those of weights alone.

        It ends at ``stops`` and, if given, outside ``inside``. It takes the first step from an opaque operator if
        it is ``opened``, and every step ``through`` such operators.
        """
        start: list[int] = []
        for root in roots:
            if root in stops or not (opened or self._computed(root)):
                start.append(root)
            else:
                # An input has no operands, so the walk ends there.
                start += (self._below(root) if opened else self._operands(root)) or (root,)

        def ends(i: int) -> bool:
            given = not self._computed(i) and not (through and self._operands(i))
            return i in stops or given or (inside is not None and i not in inside)

        seen = postorder(start, lambda i: () if self.constant[i] or ends(i) else self._operands(i))
        return tuple(sorted(i for i in seen if not self.constant[i] and ends(i)))

    def _below(self, i: int) -> tuple[int, ...]:
        """Return the operands of an operator; for one of several results, the operands of its operator."""
        node = self.builder.nodes[i]
        return self._below(node.inputs[0]) if node.op == "project" else node.inputs

    def _computed(self, i: int) -> bool:
        # A new opaque operator counts as computed: no value of the original represents it.
        return self.builder.nodes[i].op not in RUNTIME or i >= self.first_new

    def _key(self, obligations: Sequence[Obligation], leaves: set[int]) -> tuple[Any, ...]:
        order = postorder(
            (i for o in obligations for i in (o.original, o.new)),
            lambda i: () if i in leaves else self.builder.nodes[i].inputs,
        )
        number = {i: k for k, i in enumerate(order)}
        rows: list[tuple[Any, ...]] = []
        for i in order:
            node, leaf = self.builder.nodes[i], i in leaves
            named = leaf or node.op in NAMED
            op, attrs = ("leaf" if leaf else node.op), (() if named else node.attrs)
            rows.append((op, attrs, node.type, () if leaf else tuple(number[j] for j in node.inputs)))
        return (*rows, *((number[o.original], number[o.new]) for o in obligations))

    # -- graphs -----------------------------------------------------------------------------------
    def region(self, task: Task) -> Region:
        """Return the two graphs of a task."""
        before = self._graph([o.original for o in task.obligations], task.leaves)
        after = self._graph([o.new for o in task.obligations], task.leaves)
        rules = {self.rules[i]: None for i in self._new_nodes(task) if i in self.rules}
        labels = tuple(o.label for o in task.obligations)
        outputs = tuple(o.output for o in task.obligations)
        return Region(before, after, task.leaves, labels, outputs, tuple(rules))

    def _new_nodes(self, task: Task) -> list[int]:
        def new(nodes: Iterable[int]) -> list[int]:
            return [i for i in nodes if i >= self.first_new]

        return sorted(postorder(new(o.new for o in task.obligations), lambda i: new(self._operands(i))))

    def _graph(self, roots: Sequence[int], leaves: Sequence[int]) -> Graph:
        builder = Builder(self.builder.name)
        builder.weights, builder.opaques = dict(self.builder.weights), dict(self.builder.opaques)
        place = {
            leaf: builder.input(f"v{k}", kind.shape, kind.dtype)
            for k, leaf in enumerate(leaves)
            for kind in [self.builder.nodes[leaf].tensor]
        }
        nodes = self.builder.nodes
        for i in postorder(reversed(roots), lambda i: () if i in place else reversed(nodes[i].inputs)):
            if i not in place:
                place[i] = builder.apply(nodes[i].op, [place[j] for j in nodes[i].inputs], nodes[i].attrs)
        return builder.graph([(f"r{k}", place[i]) for k, i in enumerate(roots)])


def beside(graphs: Sequence[Graph]) -> Graph:
    """Return graphs as one that computes all of them, each from inputs of its own; equal names are equal weights."""
    builder, outputs = Builder(), list[tuple[str, int]]()
    for k, graph in enumerate(graphs):
        builder.weights.update(graph.weights)
        builder.opaques.update(graph.opaques)
        place: list[int] = []
        for node in graph.nodes:
            name, read = f"{node.attrs[0]} {k}" if node.op == "input" else "", [place[j] for j in node.inputs]
            kind = node.type
            if isinstance(kind, TensorType) and name:
                place.append(builder.input(name, kind.shape, kind.dtype))
            else:
                place.append(builder.apply(node.op, read, node.attrs))
        outputs += [(f"{name} {k}", place[i]) for name, i in graph.outputs]
    return builder.graph(outputs)


def _unique(
    table: dict[str, Any], name: str, given: Mapping[str, Any], same: Callable[[Any, Any], bool]
) -> str:
    """Return the name under which a table has what is given by a name, adding it under a free name if it is new."""
    value = given[name]
    while name in table and not same(table[name], value):
        name += "_"
    table.setdefault(name, value)
    return name


def _same_weight(a: Weight, b: Weight) -> bool:
    if a is b or (a.data is not None and a.data is b.data):
        return True
    if a.data is None and b.data is None:
        return a.type == b.type and a.seed == b.seed
    return a.type == b.type and bool((a.value() == b.value()).all())


def _same_opaque(a: Opaque, b: Opaque) -> bool:
    fixed = a.deterministic and b.deterministic
    return a is b or (fixed and (a.payload, a.results) == (b.payload, b.results))


def _operators(graph: Graph) -> str:
    counts = graph.operators()
    return ", ".join(op if n == 1 else f"{n} {op}" for op, n in counts.items()) or "a value as it is"


# -- graphs that no e-graph relates ---------------------------------------------------------------------
def matched(
    original: Graph, optimised: Graph, inputs: Mapping[str, np.ndarray], opaque: OpaqueRunner | None = None
) -> Correspondence:
    """Evaluate both graphs in float64 and number their nodes; equal numbers denote values that look equal.

    A value is identified by its type and four figures: its scale and three sums over its entries. Values
    that do not vary (all zeros, for example) are not matched. A number is a conjecture, not a proof: the
    regions between matched values are checked afterwards.

    Args:
        original: The graph before rewriting.
        optimised: The graph after rewriting.
        inputs: Inputs of both graphs, by name.
        opaque: Runs opaque operators.
    """
    numbers: dict[Any, int] = {}
    sides = []
    for graph in (original, optimised):
        found = [-1] * len(graph)
        for i, value in node_values(graph, inputs, precise=True, opaque=opaque):
            sums = _fingerprint(value)
            if sums is not None:
                found[i] = numbers.setdefault((graph.nodes[i].type, sums), len(numbers))
        sides.append(tuple(found))
    return Correspondence(sides[0], sides[1])


def _fingerprint(value: Any) -> tuple[str, ...] | None:
    """Return figures that identify a value; None if it is not a varied array of finite numbers."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.size < 2:
        return None
    data = value.reshape(-1).astype(np.float64)
    scale = float(np.abs(data).max())
    if not np.isfinite(scale) or scale == 0 or float(np.ptp(data)) <= 1e-9 * scale:
        return None
    places = np.arange(data.size, dtype=np.float64)
    sums = (float(data @ np.cos(0.7 * places)), float(data @ np.sin(1.3 * places)), float(data @ data))
    # Unless there are many entries, the sums are of the order of the scale; a sum that cancels is only noise.
    return (
        f"{scale:.{_DIGITS}e}",
        *(f"{s / scale**k:.{_DIGITS}f}" for s, k in zip(sums, (1, 1, 2), strict=True)),
    )
