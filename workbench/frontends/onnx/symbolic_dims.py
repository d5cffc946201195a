"""Import of models that keeps their symbolic dimensions, each with a generic extent for the search.

A dimension that cannot be kept is fixed, one at a time, and the reason is recorded.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from workbench.egraph.at_sizes import attrs_depend, depends, graph_at
from workbench.frontends.model import Dims, Fixed, Model, Symbol
from workbench.frontends.onnx.file import (
    DimensionError,
    ModelError,
    Source,
    any_extent,
    as_given,
    check_elements,
    copied,
    read_model,
)
from workbench.frontends.onnx.importer import Imported, import_prepared
from workbench.frontends.onnx.prepare import Prepared, prepare, unknown_dimension
from workbench.frontends.onnx.symbolic_values import SizedValues, TooLong
from workbench.graph import Graph, GraphError
from workbench.ops import TensorType, TypeMismatch
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.generic import prime_below
from workbench.symbolic.integers import Int, as_quotient, num, parsed, replaced, sym, symbols, written
from workbench.symbolic.sizes import fitting, pricing_size

#: Upper bounds for generic primes, by kind of dimension: far from powers of two, small enough that a
#: product of all of them does not overflow, large enough to differ from all sizes of a model.
_BEGINNINGS: Final = {"batch": 14_500, "past": 28_000, "sequence": 52_000, "space": 52_000, "other": 23_000}
#: Extents that the model divides (by strides, into halves) are a prime times this.
MULTIPLE: Final = 64
_MULTIPLE_PRIMES: Final = 1_500
#: The number of attempts before all dimensions are fixed.
_ATTEMPTS: Final = 40


def open_onnx(source: Source, dims: Dims, sizes: Mapping[str, int], *, keep_inputs: bool = False) -> Model:
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
        file, given = read_model(source), as_given(source)
        prepared = prepare(file, dims, keep_inputs=keep_inputs, open_dimensions=True)
        found = _Opening(prepared, sizes).run() if prepared.symbols else _model(import_prepared(prepared))
    except UnicodeDecodeError as error:
        raise ModelError(f"the model contains a name that is not text ({error})") from None
    return replace(priced_at(found, sizes), source=given, dims=dims, keep_inputs=keep_inputs)


def _model(imported: Imported, **symbols: Any) -> Model:
    return Model(imported.graph, imported.graph, imported.coverage, **symbols)


def priced_at(model: Model, asked: Mapping[str, int]) -> Model:
    """Return the model with usual sizes, or those asked for, chosen for its symbols."""
    check_names(asked, (*model.kept, *(f.name for f in model.fixed)))
    sizes: dict[str, int] = {}
    for s in model.symbols:
        if s.name not in model.generic.derived:
            size = asked.get(s.name, pricing_size(s.kind))
            sizes[s.name] = fitting(size, model.multiples.get(s.name, 1), model.bounds.get(s.name))
    sizes = model.generic.completed(sizes) if sizes else {}
    graph = graph_at(model.searched, model.generic, sizes)
    if asked:
        check_elements_at(graph, asked)
    return replace(model, sizes=sizes, graph=graph)


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

    def __init__(self, prepared: Prepared, sizes: Mapping[str, int]) -> None:
        self.prepared = prepared  # once; every attempt substitutes its extents
        self.symbols, self.numbers = prepared.symbols, prepared.numbers
        self.asked = {s.name: sizes.get(s.name, pricing_size(s.kind)) for s in self.symbols}
        names = set(self.asked)
        #: Relations that names state, such as "past_sequence_length + 1".
        self.stated = {n: e for n in names if (e := parsed(n, names)) is not None}
        self.bounds: dict[str, int] = {}
        self.failure: Exception | None = None
        self.told = ""
        self.last: Generic | None = None

    def run(self) -> Model:
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

    def _try(self, plan: _Plan) -> Model | None:
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

    def _import(self, plan: _Plan) -> Model:
        free = [s for s in self.symbols if s.name not in plan.fixed]
        extents = {n: self._size(n) for n in plan.fixed}
        fixed = tuple(Fixed(n, extents[n], why) for n, why in plan.fixed.items())
        if not free:
            return _model(import_prepared(self._bound(extents)), fixed=fixed)
        generic, second = self._generic(plan, free)
        self.last = generic
        here = self._bound(extents | generic.extents)
        there = self._bound(extents | second)
        sources = {s.name: s.places[0] for s in free}
        values = SizedValues(here.model, there.model, generic, second, sources)
        imported = import_prepared(here, values=values)
        _check_graph(imported.graph, generic)
        return _model(
            imported,
            symbols=tuple(free),
            generic=generic,
            multiples=_divided(imported.graph, generic),
            bounds={n: b for n, b in self.bounds.items() if n in generic.extents},
            fixed=fixed,
        )

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
                primes[s.name] = prime_below(start, self.numbers, frozenset(taken))
                taken.add(primes[s.name])
            pair.append(primes)
        generic, other = (Generic(p, multiples, derived, self.numbers) for p in pair)
        return generic, other.extents

    def _bound(self, extents: Mapping[str, int]) -> Prepared:
        """Return the prepared model with these extents in place of its symbols."""
        numbers = {s.marker: extents[s.name] for s in self.symbols if s.name in extents}
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
