"""The states of a search: graphs whose nodes keep their identity from graph to graph, and edits of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

from workbench.costs import CostModel
from workbench.costs.model import OpInstance
from workbench.costs.pricing import FREE
from workbench.graph import Builder, Graph
from workbench.ops import AttrValue, ValueType
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.support.orders import postorder, topological

#: Costs are integers in picoseconds: sums do not depend on their order, so that differences can be added up.
PER_MICROSECOND: Final = 1_000_000
#: Bytes of a digest: among a million graphs, two collide with a probability of 1e-27.
DIGEST: Final = 16


def digest_of(head: bytes, operands: Sequence[bytes]) -> bytes:
    """Return the digest of an application, from its head and the digests of its operands."""
    return blake2b(head + b"".join(operands), digest_size=DIGEST).digest()


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The properties of a node that do not depend on which nodes it reads.

    ``symbol`` is the number of the operator with its attributes. ``price`` is in picoseconds. ``constant``
    means that the node depends on weights alone. ``head`` is the digest of operator, attributes and type.
    """

    symbol: int
    op: str
    attrs: tuple[AttrValue, ...]
    type: ValueType
    constant: bool
    price: int
    head: bytes


class NodeTable:
    """The nodes of a search by number. Graphs share nodes; a node keeps its number when its operands change.

    ``kinds[n]`` is the kind of node ``n``; it never changes. Each distinct operator instance is priced
    once.
    """

    def __init__(self, model: CostModel) -> None:
        self.kinds: list[Kind] = []
        self._model = model
        self._symbols: dict[tuple[str, tuple[AttrValue, ...]], int] = {}
        self._known: dict[tuple[Any, ...], Kind] = {}

    def new(self, kind: Kind) -> int:
        """Add a node; return its number."""
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def kind(
        self, op: str, attrs: tuple[AttrValue, ...], result: ValueType, operands: Sequence[Kind]
    ) -> Kind:
        """Return the kind of an application with its price; raise ValueError if the cost is not a number.

        Args:
            op: The operator.
            attrs: Its attributes.
            result: The type of its result.
            operands: The kinds of its operands.
        """
        symbol = self._symbols.setdefault((op, attrs), len(self._symbols))
        types = tuple([k.type for k in operands])
        flags = tuple([k.constant for k in operands])
        key = (symbol, result, types, flags)
        known = self._known.get(key)
        if known is None:
            constant = op not in RUNTIME and all(flags)
            head = blake2b(repr((op, attrs, result)).encode(), digest_size=DIGEST).digest()
            cost = 0.0
            if op not in FREE and not constant:
                cost = float(self._model.price([OpInstance(op, attrs, types, result, flags)])[0])
            if not 0 <= cost < math.inf:
                source = self._model.source
                wanted = f"the cost of {op} by {source} must be a finite number of microseconds, 0 or more"
                raise ValueError(f"{wanted}, got {cost}")
            price = round(cost * PER_MICROSECOND)
            known = self._known[key] = Kind(symbol, op, attrs, result, constant, price, head)
        return known


Key = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Made:
    """A new node of an edit: operand ``~k`` is the k-th new node, other operands are nodes of the graph."""

    kind: Kind
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """One application of a rule as an edit of a graph.

    ``roots`` are pairs (node, replacement), where the replacement is a node or ``~k`` for the k-th of
    ``made``. ``leaves`` are for each root the nodes of the graph that its replacement reads. ``inner`` are
    the nodes matched below the roots.
    """

    rule: str
    made: tuple[Made, ...]
    roots: tuple[tuple[int, int], ...]
    leaves: tuple[frozenset[int], ...]
    inner: tuple[int, ...] = ()


class Cyclic(ValueError):
    """Raised when an edit would close a cycle."""


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of an edit on cost (in picoseconds) and number of nodes; the digest is slow and is called last."""

    cost: int
    size: int
    digest: Callable[[], bytes]


class Surroundings:
    """The connections between the nodes of one graph.

    ``users`` lists the readers of a node, once per operand; ``uses`` also counts outputs; ``position`` is
    the place in topological order.
    """

    def __init__(
        self, kinds: Sequence[Kind], inputs: Mapping[int, tuple[int, ...]], outputs: Sequence[int]
    ) -> None:
        self.users: dict[int, list[int]] = {n: [] for n in inputs}
        self.digests: dict[int, bytes] = {}
        for n, operands in inputs.items():
            self.digests[n] = digest_of(kinds[n].head, [self.digests[i] for i in operands])
            for i in operands:
                self.users[i].append(n)
        self.uses = {n: len(readers) for n, readers in self.users.items()}
        for n in outputs:
            self.uses[n] += 1
        self.position = {n: p for p, n in enumerate(inputs)}
        self._above: dict[int, tuple[tuple[int, ...], frozenset[int]]] = {}

    def above(self, node: int) -> tuple[tuple[int, ...], frozenset[int]]:
        """Return the nodes that depend on a node, in topological order and as a set."""
        if node not in self._above:
            found = postorder(self.users[node], self.users.__getitem__)
            self._above[node] = tuple(sorted(found, key=self.position.__getitem__)), frozenset(found)
        return self._above[node]

    def feeds(self, node: int, other: int) -> bool:
        """Return whether ``other`` is ``node`` or depends on it."""
        return node == other or other in self.above(node)[1]


class State:
    """One graph without duplicate nodes and without nodes that no output needs.

    ``inputs`` maps live nodes of the ``table`` to their operands, in topological order, and ``outputs`` are the nodes
    of the outputs. ``history`` names the rules that
    lead here from the start graph; ``parent`` is the graph before the last of them. ``found`` stores the
    matches of patterns. ``cost`` is in picoseconds; ``key`` is a digest of the whole structure. The
    connections of the nodes are computed on demand, and again after :meth:`release`.
    """

    def __init__(
        self,
        table: NodeTable,
        inputs: dict[int, tuple[int, ...]],
        outputs: tuple[int, ...],
        parent: State | None = None,
        history: tuple[str, ...] = (),
    ) -> None:
        self.table, self.inputs, self.outputs = table, inputs, outputs
        self.parent, self.history = parent, history
        self.found: Any = None
        self.cost = sum(table.kinds[n].price for n in inputs)
        self.size = len(inputs)
        digests = self.around.digests
        self.key = digest_of(b"", [digests[n] for n in outputs])

    @cached_property
    def around(self) -> Surroundings:
        """Return the connections between the nodes."""
        return Surroundings(self.table.kinds, self.inputs, self.outputs)

    @cached_property
    def index(self) -> dict[Key, int]:
        """Return the nodes by symbol and operands."""
        return {(self.table.kinds[n].symbol, operands): n for n, operands in self.inputs.items()}

    def release(self) -> None:
        """Release the memory of everything that can be computed again."""
        for name in ("around", "index"):
            self.__dict__.pop(name, None)

    @classmethod
    def of(cls, graph: Graph, table: NodeTable) -> State:
        """Return the state of a graph: equal applications become one node."""
        place: list[int] = []
        inputs: dict[int, tuple[int, ...]] = {}
        index: dict[Key, int] = {}
        live = graph.reachable()
        for position, node in enumerate(graph.nodes):
            if not live[position]:
                place.append(-1)
                continue
            operands = tuple(place[j] for j in node.inputs)
            kind = table.kind(node.op, node.attrs, node.type, [table.kinds[i] for i in operands])
            known = index.get((kind.symbol, operands))
            if known is None:
                known = index[kind.symbol, operands] = table.new(kind)
                inputs[known] = operands
            place.append(known)
        return cls(table, inputs, tuple(place[i] for i in graph.output_ids))

    def graph(self, original: Graph) -> Graph:
        """Return the state as a graph with the inputs, outputs, weights and opaques of ``original``."""
        builder = Builder.of(original)
        place: dict[int, int] = {}
        for n, operands in self.inputs.items():
            kind = self.table.kinds[n]
            place[n] = builder.apply(kind.op, [place[i] for i in operands], kind.attrs)
        outputs = [(name, place[n]) for (name, _), n in zip(original.outputs, self.outputs, strict=True)]
        return builder.graph(outputs)

    # -- the effect of an edit --------------------------------------------------------------------
    def change(self, edit: Edit) -> Change | None:
        """Return the effect of an edit without making it, or None if it has no effect or would be cyclic.

        Only nodes that appear or disappear are counted. The edit is made, however, if it makes other nodes
        equal to each other, folds more of the graph, or has roots that depend on each other. If there are
        several roots, none may be part of a replacement; a single root may be part of its own.
        """
        if len(edit.roots) > 1:
            needs = self._needs(edit)
            try:
                TopologicalSorter(needs).prepare()
            except CycleError:
                return None
            if any(needs.values()):
                return self._made_change(edit)
        refs, fresh = self._resolved(edit)
        redirect = {v: refs[~u] if u < 0 else u for v, u in edit.roots}
        if all(v == u for v, u in redirect.items()):
            return None
        if self._reaches_further(edit, refs, redirect):
            return self._made_change(edit)
        kinds, inputs, uses = self.table.kinds, self.inputs, self.around.uses
        counts: dict[int, int] = {}
        cost = 0
        for k in fresh:
            cost += edit.made[k].kind.price
            for i in edit.made[k].inputs:
                ref = refs[~i] if i < 0 else i
                counts[ref] = counts.get(ref, 0) + 1
        for v, u in redirect.items():
            counts[u] = counts.get(u, 0) + uses[v]
            counts[v] = counts.get(v, 0) - uses[v]
        size = len(fresh)
        dead = [v for v in redirect if uses[v] + counts[v] == 0]
        while dead:
            n = dead.pop()
            cost -= kinds[n].price
            size -= 1
            for i in inputs[n]:
                counts[i] = counts.get(i, 0) - 1
                if uses[i] + counts[i] == 0:
                    dead.append(i)
        return Change(cost, size, lambda: self._digest_after(edit, refs, fresh, redirect))

    def _resolved(self, edit: Edit) -> tuple[list[int], list[int]]:
        """Return for each new node the equal node of this graph or ``~k``, and the numbers k without one.

        A node that reads a root is always new, because an existing node reads the replacement after the edit.
        """
        roots = {v for v, _ in edit.roots}
        refs: list[int] = []
        fresh: list[int] = []
        for k, made in enumerate(edit.made):
            operands = tuple([refs[~i] if i < 0 else i for i in made.inputs])
            known = self.index.get((made.kind.symbol, operands))
            if known is None or not roots.isdisjoint(operands):
                fresh.append(k)
                known = ~k
            refs.append(known)
        return refs, fresh

    def _needs(self, edit: Edit) -> dict[int, frozenset[int]]:
        """Return for each root the roots (by position) on which its replacement depends."""
        known = {
            leaves: frozenset(
                j
                for j, (v, _) in enumerate(edit.roots)
                if v in leaves or not leaves.isdisjoint(self.around.above(v)[1])
            )
            for leaves in {*edit.leaves}
        }
        return {j: known[leaves] for j, leaves in enumerate(edit.leaves)}

    def _reaches_further(self, edit: Edit, refs: list[int], redirect: dict[int, int]) -> bool:
        kinds = self.table.kinds
        for v, u in redirect.items():
            constant = edit.made[~u].kind.constant if u < 0 else kinds[u].constant
            if constant != kinds[v].constant:
                return True
        several = len(redirect) > 1
        if several and any(r in redirect for r in refs):
            return True
        if not several and next(iter(redirect.values())) < 0:
            return False  # a new node does not make two readers equal
        found: set[Key] = set()
        for reader in {reader for v in redirect for reader in self.around.users[v]}:
            key = (kinds[reader].symbol, tuple([redirect.get(i, i) for i in self.inputs[reader]]))
            if key in self.index or key in found:
                return True
            found.add(key)
        return False

    def _digest_after(self, edit: Edit, refs: list[int], fresh: list[int], redirect: dict[int, int]) -> bytes:
        digests, kinds, inputs = self.around.digests, self.table.kinds, self.inputs
        made: dict[int, bytes] = {}
        for k in fresh:
            operands = [refs[~i] if i < 0 else i for i in edit.made[k].inputs]
            made[~k] = digest_of(edit.made[k].kind.head, [made[i] if i < 0 else digests[i] for i in operands])
        new = {v: made[u] if u < 0 else digests[u] for v, u in redirect.items()}
        above = [self.around.above(v)[0] for v in redirect]
        several = len(above) > 1
        for n in sorted({*chain(*above)}, key=self.around.position.__getitem__) if several else above[0]:
            if n not in new:
                new[n] = digest_of(kinds[n].head, [new.get(i) or digests[i] for i in inputs[n]])
        return digest_of(b"", [new.get(n) or digests[n] for n in self.outputs])

    def _made_change(self, edit: Edit) -> Change | None:
        try:
            after = self.edited(edit)
        except Cyclic:
            return None
        if after.key == self.key:
            return None
        return Change(after.cost - self.cost, after.size - self.size, lambda: after.key)

    # -- making an edit ---------------------------------------------------------------------------
    def edited(self, edit: Edit) -> State:
        """Return the edited graph, in which equal nodes are one; raise :class:`Cyclic` if it closes a cycle."""
        table, kinds = self.table, self.table.kinds
        refs, fresh = self._resolved(edit)
        numbers = {~k: table.new(edit.made[k].kind) for k in fresh}
        refs = [numbers.get(r, r) for r in refs]
        new = {numbers[~k]: tuple(refs[~i] if i < 0 else i for i in edit.made[k].inputs) for k in fresh}
        redirect = {v: refs[~u] if u < 0 else u for v, u in edit.roots}

        def target(node: int) -> int:
            passed = {node}
            while redirect.get(node, node) != node:
                node = redirect[node]
                if node in passed:
                    raise Cyclic("the roots replace each other")
                passed.add(node)
            return node

        @cache
        def operands(node: int) -> tuple[int, ...]:
            # The replacement of a single root may contain the root, as in relu(x) => relu(relu(x)).
            if node in new and len(redirect) == 1:
                return new[node]
            return tuple([target(i) for i in new.get(node) or self.inputs.get(node, ())])

        outputs = [target(n) for n in self.outputs]
        try:
            order = topological(outputs, operands)
        except CycleError:
            raise Cyclic(f"the edit by {edit.rule} closes a cycle") from None
        final: dict[int, int] = {}
        inputs: dict[int, tuple[int, ...]] = {}
        index: dict[Key, int] = {}
        for node in order:
            kind, placed = kinds[node], tuple([final[i] for i in operands(node)])
            given = self.inputs.get(node) or new.get(node) or ()
            # A node that comes to depend on weights alone is folded: it has another price, so it is another node.
            folds = placed != given and [kinds[i].constant for i in placed] != [
                kinds[i].constant for i in given
            ]
            if folds:
                kind = table.kind(kind.op, kind.attrs, kind.type, [kinds[i] for i in placed])
            known = index.get((kind.symbol, placed))
            if known is None:
                known = index[kind.symbol, placed] = table.new(kind) if folds else node
                inputs[known] = placed
            final[node] = known
        return State(table, inputs, tuple(final[n] for n in outputs), self, (*self.history, edit.rule))
