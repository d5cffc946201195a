"""Models as they are read: the graph to search, and the meaning of its symbolic dimensions.

A model that keeps symbolic dimensions is searched as a graph of generic extents (:mod:`workbench.symbolic`) and
priced at chosen sizes. A model without any is the same with no symbols.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.egraph.at_sizes import egraph_at, graph_at
from workbench.egraph.egraph import EGraph
from workbench.graph import Graph
from workbench.symbolic import Generic
from workbench.symbolic.integers import symbols, written
from workbench.symbolic.sizes import checked_sizes

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.frontends.coverage import Coverage
    from workbench.frontends.onnx.baseline import Cleaned

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
class SymbolTable:
    """The symbolic dimensions that the writer of files declares; without any, every extent is a number.

    ``places`` maps an input's axis to its symbol; ``named`` are the symbols that have names in the model.
    """

    generic: Generic = field(default_factory=lambda: Generic({}))
    places: Mapping[tuple[str, int], str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()

    @property
    def sources(self) -> dict[str, tuple[str, int]]:
        """Return for every symbol one input and axis that have its size; derived symbols are left out."""
        found: dict[str, tuple[str, int]] = {}
        for place, name in self.places.items():
            if name not in self.generic.derived:
                found.setdefault(name, place)
        return found

    def dims(self, shape: Sequence[int], source: str = "") -> list[int | str | None]:
        """Return extents as they are declared: numbers, names, None for an extent with an unnamed symbol.

        ``source`` is the name of the value if it is an input.
        """
        own = {size: name for name, size in self.generic.derived.items() if len(size.terms) > 1}
        found: list[int | str | None] = []
        for axis, extent in enumerate(shape):
            size = self.generic.expression(extent)
            symbol = self.places.get((source, axis))
            if size.value is not None:
                found.append(extent)
            elif symbol in self.named:
                found.append(symbol)
            else:
                found.append(own.get(size, written(size)) if symbols(size) <= self.named else None)
        return found


@dataclass(frozen=True, slots=True)
class Fixed:
    """A symbolic dimension that was fixed because it could not be kept, with its extent and the reason."""

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
        multiples: divisors of symbols in the model.
        bounds: sizes that a symbol cannot exceed, because a stored table is not longer.
        fixed: dimensions that could not be kept, with the reasons.
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
    multiples: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)
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
        return SymbolTable(self.generic, places, frozenset(s.name for s in self.symbols if s.named))

    def at_prices(self, term: Graph) -> Graph:
        """Return a found term at the sizes of the prices."""
        return graph_at(term, self.generic, self.sizes)

    def shown(self, egraph: EGraph) -> EGraph:
        """Return an e-graph of the search with its types at the sizes of the prices."""
        return egraph_at(egraph, self.generic, self.sizes)

    def bindings(self) -> tuple[dict[str, int], ...]:
        """Return the bindings to check: that of the prices, and three others (two if it is one of them)."""
        own = [s for s in self.symbols if s.name not in self.generic.derived]
        others = checked_sizes({s.name: s.kind for s in own}, self.multiples, self.bounds)
        completed = [self.generic.completed(sizes) for sizes in others]
        return (dict(self.sizes), *(c for c in completed if c != self.sizes))

    def cleaned(self) -> Cleaned:
        """Return the model as it was given, with its initialisers taken out of the inputs."""
        from workbench.frontends.onnx.baseline import clean

        return clean(self.source, dims=self.dims, keep_inputs=self.keep_inputs)
