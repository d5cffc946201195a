"""Import of models that keeps their symbolic dimensions, each with a generic extent for the search.

What a model requires of its dimensions is concluded first: a length that is the sum of two others, a height that
is a multiple of 16, one size that fits. The import begins anew with each conclusion. A model of which no import
succeeds is kept as it is, with its symbols and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from workbench.egraph.at_sizes import attrs_depend, depends
from workbench.frontends.model import (
    Fixed,
    Model,
    ModelError,
    SymbolTable,
    any_extent,
)
from workbench.frontends.onnx.file import copied
from workbench.frontends.onnx.importer import Imported, import_prepared
from workbench.frontends.onnx.prepare import Prepared
from workbench.frontends.onnx.symbolic_values import Impossible, Required, SizedValues
from workbench.graph import Graph, GraphError
from workbench.ops import TypeMismatch
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.facts import Facts
from workbench.symbolic.generic import prime_below
from workbench.symbolic.integers import parsed, replaced, sym, symbols

#: Upper bounds for generic primes, by kind of dimension: far from powers of two, small enough that a
#: product of all of them does not overflow, large enough to differ from all sizes of a model.
_BEGINNINGS: Final = {"batch": 14_500, "past": 28_000, "sequence": 52_000, "space": 52_000, "other": 23_000}
#: Factors of these bounds that are tried: long strides need large extents, tensors of many axes small ones.
_SCALES: Final = (1.0, 8.0, 100.0, 0.25, 0.13, 0.1)
#: Primes of one kind are this part of themselves apart: halves of near primes, rounded, would be equal.
_APART: Final = 8
#: The smallest bound of a generic prime.
_SMALLEST: Final = 1_010
#: The number of imports before a model is left as it is.
_ATTEMPTS: Final = 40
#: Imports that are repeated because more is known of the sizes than at their beginning.
_REPEATED: Final = 3
#: The prefix of symbols that are at least 1.
_POSITIVE: Final = "+"


def import_symbolic(prepared: Prepared) -> Model:
    """Import a prepared model and keep as many of its symbolic dimensions as possible.

    Raise :class:`~workbench.frontends.model.ModelError` if it cannot be imported at any size.
    """
    return _Opening(prepared).run() if prepared.symbols else import_prepared(prepared).model()


class _Opening:
    """A search for generic extents at which a model can be imported."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared  # once; every attempt substitutes its extents
        self.symbols = prepared.symbols
        names = {s.name for s in self.symbols}
        self.kinds = {_POSITIVE + s.name: s.kind for s in self.symbols}
        #: Every dimension over symbols; a name such as "past_sequence_length + 1" states what it is.
        stated = {n: e for n in names if (e := parsed(n, names)) is not None}
        own = {n: sym(_POSITIVE + n) for n in names - stated.keys()}
        self.sizes = {
            s.name: replaced(stated[s.name], own) if s.name in stated else own[s.name] for s in self.symbols
        }
        self.facts = Facts()
        self.why: dict[str, str] = {}

    def run(self) -> Model:
        """Import the model, again with everything that is learnt of its dimensions."""
        scale, repeated, reason = 0, 0, ""
        for _ in range(_ATTEMPTS):
            before = len(self.facts.known)
            try:
                with any_extent():
                    found = self._import(_SCALES[scale])
                if len(self.facts.known) == before or repeated == _REPEATED:
                    return found
                repeated += 1
            except Required as required:
                self._learn(required)
            except Impossible:
                raise
            except (ModelError, TypeMismatch, GraphError, Undecodable) as error:
                reason = reason or " ".join(str(error).split())[:240]
                scale += 1
                if scale == len(_SCALES):
                    break
        return self._aside(reason)

    def _learn(self, required: Required) -> None:
        for symbol, value in required.values.items():
            self.sizes = {n: replaced(size, {symbol: value}) for n, size in self.sizes.items()}
            self.facts.replaced(symbol, value)
            self.why |= {
                n: str(required)
                for n, size in self.sizes.items()
                if size.value is not None and n not in self.why
            }

    def _import(self, scale: float) -> Model:
        generic = self._generic(scale)
        here = self._bound(generic.extents)
        places = {place: s.name for s in self.symbols for place in s.places}
        sources = SymbolTable(generic, places, frozenset()).sources
        values = SizedValues(here.model, generic, sources)
        imported = import_prepared(here, values=values)
        _check_graph(imported.graph, generic)
        return self._opened(imported, generic)

    def _opened(self, imported: Imported, generic: Generic, **more: Any) -> Model:
        fixed = tuple(
            Fixed(n, size.value, self.why[n]) for n, size in self.sizes.items() if size.value is not None
        )
        free = tuple(s for s in self.symbols if self.sizes[s.name].value is None)
        return imported.model(symbols=free, generic=generic, fixed=fixed, **more)

    def _aside(self, reason: str) -> Model:
        """Return a model all of whose nodes are kept as they are."""
        generic = self._generic(1.0)
        with any_extent():
            imported = import_prepared(self._bound(generic.extents), aside=True)
        return self._opened(imported, generic, left=reason or "no import succeeds")

    def _generic(self, scale: float) -> Generic:
        """Return generic extents: a prime for every symbol that is left."""
        primes: dict[str, int] = {}
        numbers = self.prepared.numbers
        for symbol in sorted({s for size in self.sizes.values() for s in symbols(size)}):
            kind = self.kinds[symbol]
            factor = max(
                (
                    abs(c)
                    for size in self.sizes.values()
                    for m, c in size.terms
                    if m and symbol in symbols(size)
                ),
                default=1,
            )
            start = _BEGINNINGS[kind] * (1 / scale if kind == "batch" and scale > 1 else scale)
            alike = sum(self.kinds[s] == kind for s in primes)
            start = max(_SMALLEST, int(start / min(factor, 8)) * _APART // (_APART + alike))
            primes[symbol] = prime_below(start, numbers, frozenset(primes.values()))
        return Generic(primes, dict(self.sizes), set(numbers), self.facts)

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


def _check_graph(graph: Graph, generic: Generic) -> None:
    """Raise :class:`Undecodable` if a stored weight has a symbolic extent."""
    for node, constant in zip(graph.nodes, graph.constant(), strict=True):
        if constant and (depends(node.type, generic) or attrs_depend(node.op, node.attrs, generic)):
            raise Undecodable(f"a constant made by {node.op} has a symbolic extent: {node.type}")
