"""Models as they are read: the graph to search, and the meaning of its symbolic dimensions.

A model that keeps symbolic dimensions is searched as a graph of generic extents (:mod:`workbench.symbolic`) and
priced at chosen sizes. A model without any is the same with no symbols.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from workbench.egraph.at_sizes import egraph_at, graph_at
from workbench.egraph.egraph import EGraph
from workbench.graph import Graph
from workbench.symbolic import Generic
from workbench.symbolic.facts import thresholds
from workbench.symbolic.integers import symbols, written
from workbench.symbolic.sizes import checked_sizes

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.frontends.coverage import Coverage

#: Thresholds of a dimension beside which a result is checked.
_THRESHOLDS: Final = 4

#: What :func:`workbench.optimize` takes for a model.
ModelLike: TypeAlias = "Graph | str | os.PathLike[str] | bytes | ModelProto"

#: Extents by the name of a dimension, and whole shapes by the name of an input.
Dims: TypeAlias = Mapping[str, int | Sequence[int]]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbolic dimension of a model's inputs.

    ``name`` is its own name, or ``input[axis]`` if it has none (``named`` is then false); ``places`` are the
    inputs and axes that have it; ``kind`` is its kind (see :mod:`workbench.symbolic.sizes`); ``marker`` is the
    extent that stands for it in a model that is prepared for import.
    """

    name: str
    places: tuple[tuple[str, int], ...]
    kind: str
    named: bool
    marker: int


@dataclass(frozen=True, slots=True)
class Source:
    """An input's axis that gives a symbol: its extent is the symbol times a factor plus an addend."""

    name: str
    axis: int
    factor: int = 1
    addend: int = 0

    def renamed(self, name: str) -> Source:
        """Return the same axis of an input under another name."""
        return replace(self, name=name)


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """The symbolic dimensions that the writer of files declares; without any, every extent is a number.

    ``places`` maps an input's axis to its dimension; ``named`` are the dimensions that have names in the model,
    ``bound`` the names of those that were fixed.
    """

    generic: Generic = field(default_factory=lambda: Generic({}))
    places: Mapping[tuple[str, int], str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()

    @property
    def sources(self) -> dict[str, Source]:
        """Return for every symbol one input and axis that give it."""
        first: dict[str, tuple[str, int]] = {}
        for place, name in self.places.items():
            first.setdefault(name, place)
        return {
            symbol: Source(*first[name], factor, addend)
            for symbol, (name, factor, addend) in self.generic.own.items()
            if name in first
        }

    def dims(self, shape: Sequence[int], source: str = "") -> list[int | str | None]:
        """Return extents as they are declared: numbers, names, None for an extent with an unnamed dimension.

        ``source`` is the name of the value if it is an input.
        """
        found: list[int | str | None] = []
        for axis, extent in enumerate(shape):
            size = self.generic.expression(extent)
            name = self.places.get((source, axis))
            if size.value is not None:
                found.append(extent)
            elif name in self.named:
                found.append(name)
            else:
                size = self.generic.named(size)
                found.append(written(size) if symbols(size) <= self.named else None)
        return found


@dataclass(frozen=True, slots=True)
class Fixed:
    """A symbolic dimension that has one size at which the model runs, with that extent and the reason."""

    name: str
    extent: int
    reason: str

    def __str__(self) -> str:
        return f"{self.name} = {self.extent}: {self.reason}"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model that is ready to be searched.

    Attributes:
        graph: the model at the sizes of its prices.
        searched: the graph to rewrite, of generic extents if dimensions are kept.
        coverage: operators that the import modelled, or None for a model that was a graph already.
        symbols: dimensions that are kept.
        sizes: sizes of the prices, by symbol.
        generic: meaning of the generic extents.
        fixed: dimensions that have one size at which the model runs, with the reasons.
        left: the reason why the model is left as it is; empty if it can be rewritten.
        source: the ONNX model as it was given, a path or a message, or None for another source.
        dims: dimensions that were fixed on purpose.
        keep_inputs: whether initialisers that are also inputs stay inputs.

    """

    graph: Graph
    searched: Graph
    coverage: Coverage | None = None
    symbols: tuple[Symbol, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    generic: Generic = field(default_factory=lambda: Generic({}))
    left: str = ""
    fixed: tuple[Fixed, ...] = ()
    source: Any = field(default=None, repr=False)
    dims: Mapping[str, Any] | None = None
    keep_inputs: bool = False

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the names of the dimensions that are kept."""
        return tuple(s.name for s in self.symbols)

    @property
    def table(self) -> SymbolTable:
        """Return the symbols in the form that the writer of files needs."""
        places = {place: s.name for s in self.symbols for place in s.places}
        named = frozenset(s.name for s in self.symbols if s.named)
        bound = frozenset({f.name for f in self.fixed} | set(self.dims or ()))
        return SymbolTable(self.generic, places, named, bound)

    def at_prices(self, term: Graph) -> Graph:
        """Return a found term at the sizes of the prices."""
        return graph_at(term, self.generic, self.sizes)

    def shown(self, egraph: EGraph) -> EGraph:
        """Return an e-graph of the search with its types at the sizes of the prices."""
        return egraph_at(egraph, self.generic, self.sizes)

    def bindings(self) -> tuple[dict[str, int], ...]:
        """Return the bindings to check: that of the prices, usual sizes, ones, and sizes around thresholds.

        Among the last are all sizes beside numbers that the model compares with a size, or divides one by.
        Some do not fit what is known of the model: the original refuses them, or something is wrong.
        """
        generic, kinds = self.generic, {s.name: s.kind for s in self.symbols}
        usual = checked_sizes(kinds)
        found = [dict(self.sizes), *map(generic.completed, usual), dict.fromkeys(kinds, 1)]
        small = generic.completed(usual[0])
        values = generic.symbols_at(small)
        for symbol, (name, factor, addend) in sorted(generic.own.items()):
            around = thresholds((*generic.made, *generic.facts.known), symbol, values)
            near = {k + d for k in sorted(around)[:_THRESHOLDS] for d in (-1, 0, 1)}
            least = generic.facts.least.get(symbol, 1)
            for k in sorted({*near, least - 1}):
                sizes = {**small, name: k * factor + addend}
                found += [generic.completed(sizes) if k >= least else sizes] if k >= 1 else []
            if factor > 1:
                found.append({**small, name: small[name] + 1})
        return tuple({tuple(sizes.items()): sizes for sizes in found}.values())
