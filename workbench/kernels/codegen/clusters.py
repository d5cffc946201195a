"""Clusters: connected operators whose values are computed in one kernel, as one composite.

A cluster has one result. Its operators are those with a form in index notation: operators of single elements,
and operators of the last axes if all of the cluster have the same ones. They run in one pass over the rows, and
a row stays in the nearest cache.

The form is a function, a reduction, a declared composite, or the cheapest formula that saturation with the laws
of splitting finds: the definitions among the axioms, and ``rules/splitting.rules``. For that an operator is
saturated alone, on a row that stands for every row, and exact extraction takes the form of functions and
reductions with the least work.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from workbench.egraph import EGraph
from workbench.egraph.rebuild import rebuild
from workbench.extraction import NoExtraction
from workbench.extraction.extract import extract
from workbench.graph import Builder, Graph
from workbench.kernels.composites import expressions as ix
from workbench.kernels.composites.composite import Composite, Equation, Tensor
from workbench.kernels.composites.define import known
from workbench.kernels.composites.equations import parse
from workbench.kernels.composites.lowering import OPERATORS
from workbench.kernels.composites.simplify import COSTS
from workbench.ops import TensorType, Trait, TypeMismatch, spec_of, with_trait
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule, Var
from workbench.rules.ruleset import load_rules
from workbench.rules.verdicts import TRUSTED, library, verdict_of
from workbench.saturation import Limits, Saturation

# -- formulas of operators -----------------------------------------------------------------------------
#: Reductions of index notation by the operator of graphs.
REDUCTION_OF: Final = {f"reduce_{name}": name for name in ("sum", "mean", "max")}

#: The extents of the row and of the rows before it on which an operator is split.
_ROW, _ROWS = 8, 4

#: Names of indices that reductions bind.
_INDICES: Final = "efghijklmnopqrstuvw"

_NUMBERS: Final = with_trait(Trait.NUMBER)
_D: Final = ix.ExtentName("D")


@lru_cache(maxsize=1)
def laws() -> RuleSet:
    """Return the laws of splitting: definitions of operators, each tested or a theorem."""
    own = load_rules(library() / "splitting.rules")
    axioms = load_rules(library() / "axioms.rules")
    known = (r for r in axioms if "definition" in r.provenance and _splits(r))
    return RuleSet("splitting", tuple(r for r in (*own, *known) if verdict_of(r) in TRUSTED))


def _splits(rule: Rule) -> bool:
    """Return whether a law is about an operator of any operands."""
    return all(isinstance(x, Var) for x in rule.sources[0].args)


@cache
def split(op: str, operands: int, attrs: tuple[tuple[str, Any], ...] = ()) -> Composite | None:
    """Return the formula of an operator with a number of operands by the laws of splitting, or None if they find none.

    The axes of a row are one axis called D, the last one. ``attrs`` are the attributes by name.
    """
    if all(rule.sources[0].op != op for rule in laws() if _splits(rule)):
        return None
    given = dict(attrs)
    by_rows = "axis" in given
    if by_rows:
        given["axis"] = -1
    builder = Builder(op)
    shapes = [(_ROW,) if by_rows and k else (_ROWS, _ROW) for k in range(operands)]
    try:
        y = builder.op(op, *(builder.input(f"x{k}", s) for k, s in enumerate(shapes)), **given)
    except TypeMismatch:
        return None
    graph = builder.graph({"y": y})
    with Saturation(graph, laws(), Limits(iterations=8, seconds=20.0, e_nodes=2000)) as saturation:
        saturation.run()
        egraph = saturation.egraph()
    costs = np.array([_cost(egraph, i) for i in range(len(egraph))])
    try:
        found = rebuild(graph, egraph, extract(egraph, costs).choice)
    except NoExtraction:
        return None
    dims, bound, place = ((_D,), (ix.Bound("d", _D),), ix.IndexName("d")) if by_rows else ((), (), None)
    equation = Equation("y", True, bound, _value(found, found.output_ids[0], place))
    return _composite(op, operands, equation, dims)


def _cost(egraph: EGraph, node: int) -> float:
    """Return the work of an e-node in additions; an operator without a function of its own is excluded."""
    op = egraph.ops[node]
    if op == "input" or op in _NUMBERS:
        return 0.0
    kinds = [egraph.types[c] for c in (int(egraph.eclass[node]), *egraph.operands(node).tolist())]
    elements = max(kind.elements if isinstance(kind, TensorType) else 1 for kind in kinds)
    if elements == 1:  # of numbers: computed once, in the text
        return 1e-3
    if op in REDUCTION_OF:
        return float(elements)
    return float(elements * COSTS.get(op, 1)) if op in OPERATORS else np.inf


def _composite(
    name: str, operands: int, equation: Equation, dims: tuple[ix.ExtentName, ...] = ()
) -> Composite:
    inputs = tuple(Tensor(f"x{k}", "T", True, dims) for k in range(operands))
    return Composite(name, inputs, (Tensor("y", "T", True, dims),), (), (equation,))


def _value(graph: Graph, i: int, place: ix.IndexName | None) -> ix.Scalar:
    """Return the value of an element of a node at a place of the row; ``None`` without rows."""
    node = graph.nodes[i]
    if node.op == "input":
        return ix.Read(node.attr("name"), True, () if place is None else (place,))
    if node.op in _NUMBERS:
        evaluate, named = spec_of(node.op).evaluate, node.named_attrs()
        assert evaluate is not None
        wide = named | ({"dtype": "float64"} if "dtype" in named else {})
        return ix.Number(float(np.asarray(evaluate([], wide)).reshape(())))
    if node.op in REDUCTION_OF:
        function, index = REDUCTION_OF[node.op], _INDICES[sum(n.op in REDUCTION_OF for n in graph.nodes[:i])]
        total = "sum" if function == "mean" else function
        found = ix.Reduce(total, (ix.Bound(index, _D),), _value(graph, node.inputs[0], ix.IndexName(index)))
        return ix.Apply("div", (found, ix.IndexValue(_D))) if function == "mean" else found
    operands = tuple(_value(graph, j, place) for j in node.inputs)
    numbers = [np.float64(e.value) for e in operands if isinstance(e, ix.Number)]
    if len(numbers) == len(operands):
        return ix.Number(float(ix.FUNCTIONS[node.op].numpy(*numbers)))
    return ix.Apply(node.op, operands)


def definition(op: str, operands: int, attrs: tuple[tuple[str, Any], ...] = ()) -> Composite | None:
    """Return an operator with a number of operands and with attributes in index notation; None if it has no form."""
    if Trait.CARRIED in spec_of(op).traits:
        return declared(op)
    if op in OPERATORS and ix.FUNCTIONS[op].arity == operands:
        value = ix.Apply(op, tuple(ix.Read(f"x{k}", True, ()) for k in range(operands)))
        return _composite(op, operands, Equation("y", True, (), value))
    return _reduction(op) or split(op, operands, attrs)


def declared(op: str) -> Composite | None:
    """Return a declared composite if it computes single elements, or rows of an extent called D; or None."""
    found = known().get(op)
    if found is None or any(a.whole for a in found.attributes):
        return None
    tensors = (*found.inputs, *found.outputs)
    plain = all(t.dims in ((), (_D,)) and t.dtype == "T" for t in tensors)
    return found if plain and all(e.leading for e in found.equations) else None


@cache
def _reduction(op: str) -> Composite | None:
    found = REDUCTION_OF.get(op)
    return parse(op, "x{T}[~ D] -> y{T}[~]", f"y[~] = {found}(e) x[~ e]") if found else None


# -- clusters ------------------------------------------------------------------------------------------
#: The most operators of a cluster.
MOST: Final = 12

#: Element types of clusters. ONNX Runtime has no functions of bfloat16 with which a kernel could be compared.
_FUSED: Final = ("float16", "float32", "float64")


@dataclass(frozen=True, slots=True)
class Member:
    """One operator of a cluster: the number of its value, and the numbers of its operands' values."""

    place: int
    op: str
    attrs: tuple[Any, ...]
    operands: tuple[int, ...]
    type: TensorType

    @property
    def named(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return spec_of(self.op).unpack(self.attrs)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Operators as one composite.

    ``inputs`` are the numbers of the values that it reads, in the order of the composite's operands, and
    ``shapes`` the shapes in which the kernel sees them: the axes of a row are one. ``read`` are the types of the
    inputs in the graph, and ``known`` the values that are one number, which is in the kernel's text.
    """

    members: tuple[Member, ...]
    composite: Composite
    inputs: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    read: tuple[TensorType, ...]
    known: tuple[tuple[int, float], ...] = ()

    @property
    def result(self) -> int:
        """Return the number of its value, which the last operator makes."""
        return self.members[-1].place

    @property
    def type(self) -> TensorType:
        """Return the type of its value."""
        return self.members[-1].type

    @property
    def types(self) -> tuple[TensorType, ...]:
        """Return the types in which the kernel sees its operands."""
        return tuple(TensorType(self.type.dtype, shape) for shape in self.shapes)

    def write(self, builder: Builder, place: dict[int, int]) -> int:
        """Write the operators, whose operands have places in a builder, and return the result's place."""
        for m in self.members:
            place[m.place] = builder.apply(m.op, [place[j] for j in m.operands], m.attrs)
        return place[self.result]


@dataclass(frozen=True, slots=True)
class Readers:
    """The operators of an e-graph by what they read, with what is known of its values; values are e-classes.

    ``made`` are those whose value is not constant, ``makers`` the same by their value.
    """

    made: Sequence[Member]
    makers: Mapping[int, Sequence[Member]]
    readers: Mapping[int, Sequence[Member | None]]
    roots: Sequence[int]
    constant: Sequence[bool]
    types: Mapping[int, TensorType]
    numbers: Mapping[int, float]

    def of(self, value: int) -> list[Member]:
        """Return the operators that read a value; none for a result, or if a reader's value is not a tensor."""
        found = self.readers.get(value, ())
        return [] if value in self.roots or None in found else [m for m in found if m is not None]

    def reader(self, value: int) -> int | None:
        """Return the one value that is computed from a value, or None."""
        places = {m.place for m in self.of(value)}
        return places.pop() if len(places) == 1 else None

    def convolution(self, m: Member) -> bool:
        """Return whether an operator is a convolution by weights, with a bias for each channel and a relu at most."""
        if m.op != "conv2d" or m.type.dtype != "float32" or not all(self.constant[j] for j in m.operands[1:]):
            return False
        named, outs = m.named, m.type.shape[1]
        bias = all(self.types[j].shape == (1, outs, 1, 1) for j in m.operands[2:])
        return bias and named["dilations"] == (1, 1) and named["act"] in ("none", "relu")

    def relu_after(self, m: Member) -> list[Member]:
        """Return the relu that alone reads an operator's value, or nothing."""
        alone = self.reader(m.place) is not None
        return [r for r in self.of(m.place) if alone and r.op == "relu" and r.type == m.type][:1]

    def sum_after(self, m: Member, value: int, but: Collection[int] = ()) -> list[Member]:
        """Return the sum with another value that alone reads a value of an operator's type, with the relu after it.

        The other value is none of ``but``, and not constant.
        """
        if self.reader(value) is None:
            return []
        for r in self.of(value):
            others = {*r.operands} - {value}
            fits = r.op == "add" and r.type == m.type and len(others) == 1
            if fits and all(
                self.types[j] == m.type and not self.constant[j] and j not in but for j in others
            ):
                return [r, *self.relu_after(r)]
        return []


def readers_of(egraph: EGraph, numbers: Mapping[int, float]) -> Readers:
    """Return the operators of an e-graph, in which ``numbers`` are the values that are one known number."""
    types = {c: t for c, t in enumerate(egraph.types) if isinstance(t, TensorType)}
    constant = egraph.constant_classes().tolist()
    made: list[Member] = []
    makers: dict[int, list[Member]] = {}
    readers: dict[int, list[Member | None]] = {}
    for node, op in enumerate(egraph.ops):
        place, operands = int(egraph.eclass[node]), tuple(egraph.operands(node).tolist())
        member = Member(place, op, egraph.attrs[node], operands, types[place]) if place in types else None
        if member is not None and not constant[place]:
            made.append(member)
            makers.setdefault(place, []).append(member)
        for j in set(operands):
            readers.setdefault(j, []).append(member)
    return Readers(made, makers, readers, egraph.roots, constant, types, numbers)


def fusible(m: Member) -> bool:
    """Return whether an operator may be in a cluster: ONNX Runtime computes with its type, and it has a form."""
    return m.type.dtype in _FUSED and _definition(m) is not None


def cluster_of(
    members: Sequence[Member], types: Mapping[int, TensorType], numbers: Mapping[int, float]
) -> Cluster | None:
    """Return operators, operands first and the result last, as a cluster, or None if they do not fit each other.

    Of all values, ``types`` has the types, and ``numbers`` those that are one known number.
    """
    root, made = members[-1], {m.place for m in members}
    rows = {
        _row_axes(m, types) for m in members if not ((form := _definition(m)) is None or form.elementwise)
    }
    drops = [m.named.get("keepdims") == 0 for m in members]
    if len(rows) > 1 or None in rows:
        return None
    axes = next(iter(rows), 0) or 0
    if len({m.type.dtype for m in members}) > 1 or any(drops[:-1]):
        return None
    own = root.type.shape + (1,) * (axes if drops[-1] else 0)  # as if the axes of a row were kept
    shapes = [own, *(types[j].shape for m in members for j in (m.place, *m.operands) if j != root.place)]
    places = _Places(max(shapes, key=lambda s: (math.prod(s), len(s))), axes)
    if any(places.kind(s) is None for s in shapes) or places.leading(own) != places.leading(places.frame):
        return None
    operands = dict.fromkeys(j for m in members for j in m.operands)
    leaves = tuple(j for j in operands if j not in made and j not in numbers)
    names = {j: f"a{k}" for k, j in enumerate(leaves)} | {m.place: f"t{k}" for k, m in enumerate(members)}
    names[root.place] = "y"

    def value(e: ix.Scalar, m: Member, form: Composite, inner: Mapping[str, str]) -> ix.Scalar:
        """Return a value of an operator's definition with the cluster's values in the place of its own names."""
        if isinstance(e, ix.Parameter):
            return ix.Number(float((form.defaults | m.named)[e.name]))
        if not isinstance(e, ix.Read):
            return ix.rebuilt(e, lambda child: value(child, m, form, inner))
        if e.tensor in inner:
            return ix.Read(inner[e.tensor], True, e.indices)
        j = m.operands[[t.name for t in form.inputs].index(e.tensor)]
        row = (ix.IndexName("d"),) if form.elementwise else e.indices
        return (
            ix.Number(numbers[j])
            if j in numbers
            else ix.Read(names[j], True, row if places.kind(types[j].shape) else ())
        )

    equations = []
    for k, m in enumerate(members):
        if (form := _definition(m)) is None:
            return None
        full = form.elementwise and places.kind(own if m is root else m.type.shape)
        inner = {e.target: f"{e.target}{k}" for e in form.equations} | {form.output.name: names[m.place]}
        for e in form.equations:
            bound = (ix.Bound("d", _D),) if full else e.indices
            equations.append(Equation(inner[e.target], True, bound, value(e.value, m, form, inner)))

    def tensor(name: str, shape: tuple[int, ...]) -> Tensor:
        return Tensor(name, "T", True, (_D,) if places.kind(shape) else ())

    inputs = tuple(tensor(names[j], types[j].shape) for j in leaves)
    return Cluster(
        tuple(members),
        Composite("fused", inputs, (tensor("y", own),), (), tuple(equations)),
        leaves,
        tuple(places.seen(types[j].shape) for j in leaves),
        tuple(types[j] for j in leaves),
        tuple((j, numbers[j]) for j in operands if j in numbers),
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """How shapes lie in the frame of a cluster: its largest shape, of which the last ``axes`` are a row."""

    frame: tuple[int, ...]
    axes: int

    def _padded(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (1,) * (len(self.frame) - len(shape)) + tuple(shape)

    def _row(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[len(shape) - self.axes :]

    def kind(self, shape: tuple[int, ...]) -> bool | None:
        """Return whether a value has the axes of a row; None if it has only some, or does not broadcast."""
        padded, frame = self._padded(shape), self.frame
        if len(padded) != len(frame) or any(n not in (1, f) for n, f in zip(padded, frame, strict=True)):
            return None
        if self.axes and self._row(padded) == self._row(frame):
            return True
        return False if math.prod(self._row(padded)) == 1 else None

    def leading(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents of the axes that are not of a row."""
        padded = self._padded(shape)
        return padded[: len(padded) - self.axes]

    def seen(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape in which a kernel sees a value: a row's axes are one, or left out."""
        if not self.axes:
            return tuple(shape)
        row = (math.prod(self._row(self.frame)),) if self.kind(shape) else ()
        return (*self.leading(shape), *row)


def _definition(m: Member) -> Composite | None:
    return definition(m.op, len(m.operands), tuple(sorted(m.named.items())))


def _row_axes(m: Member, types: Mapping[int, TensorType]) -> int | None:
    """Return how many of the last axes an operator of rows works on, or None if it is not the last ones."""
    rank, named = types[m.operands[0]].rank, m.named
    if "axes" in named:
        axes = sorted(a % rank for a in named["axes"]) or list(range(rank))
        return len(axes) if axes == list(range(rank - len(axes), rank)) else None
    if "axis" not in named:  # a declared composite
        return 1
    axis = named["axis"] % rank
    if len(m.operands) == 1:  # it takes one axis
        return 1 if axis == rank - 1 else None
    return rank - axis


def as_graph(cluster: Cluster, stored: Collection[int] = ()) -> Graph:
    """Return the operators of a cluster as a graph; its inputs ``x0``, ``x1``, … are those of the cluster.

    Values of the numbers ``stored`` are weights.
    """
    builder = Builder("cluster")
    place = dict(zip(cluster.inputs, given(builder, cluster, stored), strict=True))
    for j, number in cluster.known:
        place[j] = builder.op("scalar", value=number, dtype=cluster.type.dtype)
    return builder.graph({"y": cluster.write(builder, place)})


def given(builder: Builder, cluster: Cluster, stored: Collection[int] = ()) -> list[int]:
    """Write the inputs of a cluster, of which some are weights."""
    return [
        builder.weight(t.shape) if j in stored else builder.input(f"x{k}", t.shape, t.dtype)
        for k, (j, t) in enumerate(zip(cluster.inputs, cluster.read, strict=True))
    ]
