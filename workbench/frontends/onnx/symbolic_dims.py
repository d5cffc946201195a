"""Import of models that keeps their symbolic dimensions, each with a generic extent for the search.

A dimension that cannot be kept is fixed, one at a time, and the reason is recorded.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import onnx
from onnx import ModelProto, ValueInfoProto

from workbench.egraph.at_sizes import attrs_depend, depends, graph_at
from workbench.frontends.onnx.file import (
    DimensionError,
    ModelError,
    ModelFile,
    Source,
    any_extent,
    check_elements,
    copied,
    read_model,
    walk,
)
from workbench.frontends.onnx.importer import Imported, _Import
from workbench.frontends.onnx.prepare import Dims, Prepared, prepare, unknown_dimension
from workbench.frontends.onnx.symbolic_values import SizedValues, TooLong
from workbench.frontends.onnx.symbolic_writer import SymbolTable
from workbench.graph import Graph, GraphError
from workbench.ops import TensorType, TypeMismatch
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.generic import prime_below
from workbench.symbolic.integers import Int, as_quotient, num, parsed, replaced, sym, symbols, written
from workbench.symbolic.sizes import fitting, kind_of, pricing_size

#: Upper bounds for generic primes, by kind of dimension: far from powers of two, small enough that a
#: product of all of them does not overflow, large enough to differ from all sizes of a model.
_BEGINNINGS: Final = {"batch": 14_500, "past": 28_000, "sequence": 52_000, "space": 52_000, "other": 23_000}
#: Extents that the model divides (by strides, into halves) are a prime times this.
MULTIPLE: Final = 64
_MULTIPLE_PRIMES: Final = 1_500
#: The number of attempts before all dimensions are fixed.
_ATTEMPTS: Final = 40


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbolic dimension of a model's inputs.

    ``name`` is its own name, or ``input[axis]`` if it has none (``named`` is then false); ``places`` are the
    inputs and axes that have it; ``kind`` is its kind (see :mod:`workbench.symbolic.sizes`).
    """

    name: str
    places: tuple[tuple[str, int], ...]
    kind: str
    named: bool


@dataclass(frozen=True, slots=True)
class Fixed:
    """A symbolic dimension that was fixed because it could not be kept, with its extent and the reason."""

    name: str
    extent: int
    reason: str

    def __str__(self) -> str:
        return f"{self.name} = {self.extent}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Opened:
    """A model imported with generic extents, and the meaning of these extents.

    ``symbols`` are the dimensions that are kept, ``fixed`` those that are not; ``sizes`` are those of the
    symbols at which the model is priced. ``bounds`` are sizes that a
    dimension cannot exceed because a stored table is not longer; ``multiples`` are the divisors of dimensions
    in the model.
    """

    imported: Imported
    generic: Generic
    symbols: tuple[Symbol, ...]
    fixed: tuple[Fixed, ...] = ()
    bounds: Mapping[str, int] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """Return the graph of generic extents."""
        return self.imported.graph

    def priced_at(self, asked: Mapping[str, int]) -> Opened:
        """Return the model with usual sizes, or those asked for, chosen for its symbols."""
        known = (*(s.name for s in self.symbols), *(f.name for f in self.fixed))
        check_names(asked, known)
        sizes: dict[str, int] = {}
        for s in self.symbols:
            if s.name not in self.generic.derived:
                size = asked.get(s.name, pricing_size(s.kind))
                sizes[s.name] = fitting(size, self.multiples.get(s.name, 1), self.bounds.get(s.name))
        found = replace(self, sizes=self.generic.completed(sizes) if sizes else {})
        if asked:
            check_elements_at(found.graph_at_sizes(), asked)
        return found

    def graph_at_sizes(self) -> Graph:
        """Return the graph at the sizes of the prices."""
        return graph_at(self.graph, self.generic, self.sizes)

    @property
    def table(self) -> SymbolTable:
        """Return the symbols in the form that the writer needs."""
        places = {place: s.name for s in self.symbols for place in s.places}
        return SymbolTable(self.generic, places, frozenset(s.name for s in self.symbols if s.named))


def symbols_of(inputs: Sequence[ValueInfoProto], dims: Dims) -> tuple[Symbol, ...]:
    """Return the symbolic dimensions of inputs that ``dims`` does not bind."""
    places: dict[str, list[tuple[str, int]]] = {}
    about: dict[str, tuple[str, bool]] = {}
    for value in inputs:
        if not value.type.HasField("tensor_type") or isinstance(dims.get(value.name), Sequence):
            continue
        shape = value.type.tensor_type.shape.dim
        for axis, dim in enumerate(shape):
            place = f"{value.name}[{axis}]"
            name = dim.dim_param or place
            if (dim.HasField("dim_value") and dim.dim_value >= 0) or place in dims or name in dims:
                continue
            places.setdefault(name, []).append((value.name, axis))
            about.setdefault(name, (kind_of(name, axis, len(shape)), bool(dim.dim_param)))
    return tuple(Symbol(name, tuple(at), *about[name]) for name, at in places.items())


def open_onnx(source: Source, dims: Dims, sizes: Mapping[str, int], *, keep_inputs: bool = False) -> Opened:
    """Import a model and keep as many of its symbolic dimensions as possible.

    Args:
        source: The model.
        dims: Dimensions to bind, with their extents.
        sizes: Extents of other dimensions, to price at, or in case that they have to be fixed.
        keep_inputs: Whether initializers that are also inputs stay inputs.

    Raises:
        ModelError: The model cannot be imported at any size (see :func:`~workbench.frontends.import_onnx`).
        OSError: The model cannot be read.
    """
    try:
        file = read_model(source)
        graph = file.model.graph
        stored = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
        symbols = symbols_of([v for v in graph.input if v.name not in stored], dims)
        if symbols:
            return _Opening(file, dims, symbols, sizes, keep_inputs).run().priced_at(sizes)
        whole = _Import(prepare(file, dims, keep_inputs=keep_inputs), True).run()
        return Opened(whole, Generic({}), ()).priced_at(sizes)
    except UnicodeDecodeError as error:
        raise ModelError(f"the model contains a name that is not text ({error})") from None


def check_names(asked: Mapping[str, int], known: Sequence[str], argument: str = "sizes") -> None:
    """Raise ValueError for a size that is not positive, and for one of an unknown dimension."""
    for name, size in asked.items():
        if name not in known:
            raise unknown_dimension(name, known, argument, "dimension that is left open")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{argument}[{name!r}] must be a positive integer, got {size!r}")


def check_elements_at(graph: Graph, asked: Mapping[str, int]) -> None:
    """Raise ModelError if an input of a graph is too large at the sizes that a user asked for."""
    sizes = ", ".join(f"{name}={size}" for name, size in asked.items())
    for node in graph.nodes:
        if node.op == "input":
            check_elements(math.prod(node.tensor.shape), f"input {node.attr('name')!r} at {sizes}")


@dataclass(frozen=True, slots=True)
class _Plan:
    """An attempt: dimensions to fix, with reasons; extents that must divide; derived dimensions."""

    fixed: Mapping[str, str] = field(default_factory=dict)
    multiples: frozenset[str] = frozenset()
    derived: Mapping[str, Int] = field(default_factory=dict)


class _Opening:
    """A search for generic extents at which a model can be imported."""

    def __init__(
        self,
        file: ModelFile,
        dims: Dims,
        symbols: tuple[Symbol, ...],
        sizes: Mapping[str, int],
        keep_inputs: bool,
    ) -> None:
        self.symbols = symbols
        self.asked = {s.name: sizes.get(s.name, pricing_size(s.kind)) for s in symbols}
        self.constants = _constants(file.model)
        names = {s.name for s in symbols}
        #: Relations that names state, such as "past_sequence_length + 1".
        self.stated = {n: e for n in names if (e := parsed(n, names)) is not None}
        # The model is prepared once; every attempt substitutes its extents.
        self.first = {s.name: prime_below(10**6 - 100 * i, self.constants) for i, s in enumerate(symbols)}
        self.names = {(p, a): s.name for s in symbols for p, a in s.places}
        self.prepared = prepare(file, {**dims, **self.first}, keep_inputs=keep_inputs)
        self.bounds: dict[str, int] = {}
        self.failure: Exception | None = None
        self.told = ""
        self.last: Generic | None = None

    def run(self) -> Opened:
        """Try one plan after the other, then fix all dimensions."""
        for plan in itertools.islice(self._plans(), _ATTEMPTS):
            found = self._try(plan)
            if found is not None:
                return found
        everything = _Plan(dict.fromkeys((s.name for s in self.symbols), self._reason()))
        found = self._try(everything)
        if found is None:
            raise self._refusal()
        return found

    def _refusal(self) -> DimensionError:
        """Return the error for a model that cannot be imported even with its dimensions fixed."""
        names = [s.name for s in self.symbols]
        taken = ", ".join(f"{name!r} was assumed to be {self._size(name)}" for name in names)
        text = f"{self.failure} ({taken}"
        return DimensionError(
            f"{text}; try another size: dims={{{', '.join(f'{n!r}: …' for n in names)}}})",
            f"{text}; try another size: {' '.join(f'--dim {n}=…' for n in names)})",
        )

    def _plans(self) -> Iterator[_Plan]:
        names = [s.name for s in self.symbols]
        spaces = frozenset(s.name for s in self.symbols if s.kind == "space")
        others = frozenset(s.name for s in self.symbols if s.kind not in ("batch", "space"))
        yield _Plan()
        multiples = [m for m in dict.fromkeys([spaces, spaces | others]) if m]
        for multiple in multiples:
            yield _Plan(multiples=multiple)
        for derived in self._relations():
            yield _Plan(derived=derived)
        # The batch can be kept most often, so the others are fixed first, then each alone, then all but one.
        reason = self._reason()
        for multiple in [frozenset[str](), *multiples]:
            for name in sorted(names, key=lambda n: n not in spaces | others):
                if len(names) > 1:
                    yield _Plan({name: reason}, multiple - {name})
        for name in names:
            if len(names) > 2:
                yield _Plan({n: reason for n in names if n != name})

    def _relations(self) -> Iterator[dict[str, Int]]:
        """Yield relations that dimensions may obey: sums with a cached length first, then equalities."""
        past = [s.name for s in self.symbols if s.kind == "past" and s.name not in self.stated]
        lengths = [
            s.name for s in self.symbols if s.kind in ("sequence", "other") and s.name not in self.stated
        ]
        for a in past:
            for total in lengths:
                for b in lengths:
                    if b != total:
                        yield {total: sym(a) + sym(b)}
                yield {total: sym(a) + 1}
        pairs = [
            (a.name, b.name)
            for a, b in itertools.combinations(self.symbols, 2)
            if a.places[0][1] == b.places[0][1] and not {a.name, b.name} & self.stated.keys()
        ]
        for a, b in pairs:
            yield {b: sym(a)}
        if len(pairs) > 1:
            leaders: dict[int, str] = {}
            merged = {}
            for s in self.symbols:
                leader = leaders.setdefault(s.places[0][1], s.name)
                if leader != s.name:
                    merged[s.name] = sym(leader)
            yield merged

    def _reason(self) -> str:
        """Return the reason why the first plan failed, with generic numbers as expressions."""
        text = " ".join(self.told.split())
        return text if len(text) <= 240 else text[:237] + "…"

    def _try(self, plan: _Plan) -> Opened | None:
        """Import by a plan, shortening extents that a stored table bounds; return None if that fails."""
        for _ in range(4 + 2 * len(self.symbols)):
            try:
                with any_extent():
                    return self._import(plan)
            except TooLong as limit:
                if limit.extent < 32 or any(
                    self.bounds.get(s, limit.extent + 1) <= limit.extent // len(limit.symbols)
                    for s in limit.symbols
                ):
                    self._failed(limit, None)
                    return None
                for s in limit.symbols:
                    self.bounds[s] = limit.extent // len(limit.symbols)
            except (ModelError, TypeMismatch, GraphError, Undecodable) as error:
                self._failed(error, self.last)
                return None
        return None

    def _failed(self, error: Exception, generic: Generic | None) -> None:
        self.failure = error
        if not self.told:
            text = str(error)
            if generic is not None:
                text = re.sub(r"\d+", lambda m: written(generic.expression(int(m[0]))), text)
            self.told = text

    def _import(self, plan: _Plan) -> Opened:
        free = [s for s in self.symbols if s.name not in plan.fixed]
        if not free:
            fixed_model = self._bound({n: self._size(n) for n in plan.fixed})
            imported = _Import(fixed_model, True).run()
            return Opened(imported, Generic({}), (), self._fixed(plan))
        generic, second = self._generic(plan, free)
        self.last = generic
        fixed = {n: self._size(n) for n in plan.fixed}
        here = self._bound(fixed | generic.extents)
        there = self._bound(fixed | second)
        sources = {s.name: s.places[0] for s in free}
        values = SizedValues(here.model, there.model, generic, second, sources)
        imported = _Import(here, True, values).run()
        _check_graph(imported.graph, generic)
        bounds = {n: b for n, b in self.bounds.items() if n in generic.extents}
        divided = _divided(imported.graph, generic)
        return Opened(imported, generic, tuple(free), self._fixed(plan), bounds, divided)

    def _fixed(self, plan: _Plan) -> tuple[Fixed, ...]:
        return tuple(Fixed(n, self._size(n), why) for n, why in plan.fixed.items())

    def _size(self, name: str) -> int:
        """Return the size used if a dimension is fixed."""
        if name in self.stated:
            return self.stated[name].at({n: self._size(n) for n in symbols(self.stated[name])})
        return fitting(self.asked[name], 1, self.bounds.get(name))

    def _generic(self, plan: _Plan, free: Sequence[Symbol]) -> tuple[Generic, dict[str, int]]:
        """Return generic extents for a plan, and a second set of other extents."""
        taken: set[int] = set()
        pair: list[dict[str, int]] = []
        fixed = {n: num(self._size(n)) for n in plan.fixed}
        derived = {
            s.name: replaced(found, fixed)
            for s in free
            if (found := plan.derived.get(s.name) or self.stated.get(s.name)) is not None
        }
        own = [s for s in free if s.name not in derived]
        multiples = {s.name: MULTIPLE for s in own if s.name in plan.multiples}
        for _ in range(2):
            primes: dict[str, int] = {}
            for s in own:
                start = _MULTIPLE_PRIMES if s.name in multiples else _BEGINNINGS[s.kind]
                if s.name in self.bounds:
                    start = min(start, self.bounds[s.name] // multiples.get(s.name, 1))
                primes[s.name] = prime_below(start, self.constants, frozenset(taken))
                taken.add(primes[s.name])
            pair.append(primes)
        generic, other = (Generic(p, multiples, derived, self.constants) for p in pair)
        return generic, other.extents

    def _bound(self, extents: Mapping[str, int]) -> Prepared:
        """Return the prepared model with these extents in place of its symbols."""
        numbers = {self.first[name]: extent for name, extent in extents.items()}
        model = copied(self.prepared.model)
        graph = model.graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.HasField("tensor_type"):
                for dim in value.type.tensor_type.shape.dim:
                    if dim.dim_value in numbers:
                        dim.dim_value = numbers[dim.dim_value]
        known = {v.name: v for v in graph.input}
        inputs = tuple(known[v.name] for v in self.prepared.inputs)
        foreign = tuple(known[v.name] for v in self.prepared.foreign)
        # Declared shapes of outputs may be those of the exporter's example, so they are inferred anew.
        for value in graph.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
        arrays = dict(self.prepared.arrays)
        return replace(self.prepared, model=model, inputs=inputs, foreign=foreign, arrays=arrays)


def _constants(model: ModelProto) -> frozenset[int]:
    """Return the numbers in a model: extents of its weights, small integer tensors, attributes."""
    found: set[int] = set()

    def tensor(t: onnx.TensorProto) -> None:
        found.update(t.dims)
        small = t.data_location != onnx.TensorProto.EXTERNAL and 0 < _elements(t.dims) <= 16
        if small and t.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
            found.update(int(n) for n in onnx.numpy_helper.to_array(t).reshape(-1))

    for initial in model.graph.initializer:
        tensor(initial)
    for nodes in (model.graph.node, *(f.node for f in model.functions)):
        for node in walk(nodes):
            for attr in node.attribute:
                found.update(attr.ints)
                found.add(attr.i)
                if attr.type == onnx.AttributeProto.TENSOR:
                    tensor(attr.t)
    for value in model.graph.input:
        if value.type.HasField("tensor_type"):
            found.update(d.dim_value for d in value.type.tensor_type.shape.dim)
    return frozenset(n for n in found if 10 < n < 1 << 40)


def _elements(dims: Sequence[int]) -> int:
    total = 1
    for d in dims:
        total *= d
    return total


def _divided(graph: Graph, generic: Generic) -> dict[str, int]:
    """Return the divisor of each symbol in a graph whose generic extent is a multiple."""
    found: dict[str, int] = {}
    for kind in (n.type for n in graph.nodes):
        for extent in kind.shape if isinstance(kind, TensorType) else ():
            size = generic.expression(extent)
            for name in symbols(size):
                if generic.multiples.get(name, 1) > 1:
                    found[name] = math.lcm(found.get(name, 1), as_quotient(size)[1])
    return found


def _check_graph(graph: Graph, generic: Generic) -> None:
    """Raise :class:`Undecodable` if a stored weight has a symbolic extent."""
    for node, constant in zip(graph.nodes, graph.constant(), strict=True):
        if constant and (depends(node.type, generic) or attrs_depend(node.op, node.attrs, generic)):
            raise Undecodable(f"a constant made by {node.op} has a symbolic extent: {node.type}")
