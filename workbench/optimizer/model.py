"""Models as they are read: the graph to search, and the meaning of its symbolic dimensions.

A model that keeps symbolic dimensions is searched as a graph of generic extents (:mod:`workbench.symbolic`) and
priced at chosen sizes. A model without any is the same with no symbols.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from workbench.costs import CostModel
from workbench.costs.symbolic import PricedAt
from workbench.egraph.at_sizes import egraph_at, graph_at
from workbench.egraph.egraph import EGraph
from workbench.graph import Graph
from workbench.symbolic import Generic
from workbench.symbolic.sizes import checked_sizes

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.frontends.coverage import Coverage
    from workbench.frontends.onnx.baseline import Cleaned
    from workbench.frontends.onnx.symbolic_dims import Fixed, Symbol
    from workbench.frontends.onnx.symbolic_writer import SymbolTable

#: What :func:`workbench.optimize` takes for a model.
ModelLike: TypeAlias = "Graph | str | os.PathLike[str] | bytes | ModelProto"

#: The cost source of a model that is given as a file, as bytes or as a ``ModelProto``, and of a graph.
FILE_COST: Final = "cpu"
GRAPH_COST: Final = "analytic"


def default_cost(model: object) -> str:
    """Return the default cost source of a model: this machine for a file, a T4 for a graph."""
    return GRAPH_COST if isinstance(model, Graph) else FILE_COST


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
        multiples: divisors of symbols.
        bounds: sizes that a symbol cannot exceed.
        fixed: dimensions that could not be kept, with the reasons.
        table: the symbols in the form that the writer of files needs.
        source: the ONNX model as it was given, or None for another source.
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
    table: SymbolTable | None = None
    source: Any = field(default=None, repr=False)
    dims: Mapping[str, Any] | None = None
    keep_inputs: bool = False

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the names of the dimensions that are kept."""
        return tuple(s.name for s in self.symbols)

    def priced(self, model: CostModel) -> CostModel:
        """Return the cost model to search with: it prices generic instances at the chosen sizes."""
        return PricedAt(model, self.generic, self.sizes) if self.symbols else model

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


def fixed_model(
    model: ModelLike, dims: Mapping[str, int] | None = None, *, keep_inputs: bool = False
) -> Model:
    """Read a model with all of its dimensions fixed.

    Args:
        model: A graph or a model file.
        dims: Sizes of symbolic dimensions.
        keep_inputs: Whether initialisers that are also inputs stay inputs.
    """
    if isinstance(model, Graph):  # nothing that reads files is imported for it
        _refuse(dims, "dims")
        return Model(model, model)
    from workbench.frontends.model_file import import_model, is_taso_model

    imported = import_model(model, dims=dims, keep_inputs=keep_inputs)
    source = None if is_taso_model(model) else model
    return Model(
        imported.graph,
        imported.graph,
        imported.coverage,
        source=source,
        dims=dims,
        keep_inputs=keep_inputs,
    )


def open_model(
    model: ModelLike,
    dims: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    keep_inputs: bool = False,
) -> Model:
    """Read a model with its symbolic dimensions kept as far as they can be.

    Args:
        model: A graph or a model file.
        dims: Sizes at which dimensions are fixed on purpose.
        sizes: Sizes to price at.
        keep_inputs: Whether initialisers that are also inputs stay inputs.

    Raises:
        ValueError: ``sizes`` names a dimension that is not left open, or the model cannot be read.
    """
    if isinstance(model, Graph):
        _refuse(sizes, "sizes")
        return fixed_model(model, dims)
    from workbench.frontends.model_file import is_taso_model
    from workbench.frontends.onnx.symbolic_dims import open_onnx

    if is_taso_model(model):
        _refuse(sizes, "sizes")
        return fixed_model(model, dims)
    opened = open_onnx(model, dims or {}, sizes or {}, keep_inputs=keep_inputs)
    return Model(
        graph=opened.graph_at_sizes(),
        searched=opened.graph,
        coverage=opened.imported.coverage,
        symbols=opened.symbols,
        sizes=opened.sizes,
        generic=opened.generic,
        multiples=opened.multiples,
        bounds=opened.bounds,
        fixed=opened.fixed,
        table=opened.table,
        source=model,
        dims=dims,
        keep_inputs=keep_inputs,
    )


def _refuse(asked: Mapping[str, int] | None, argument: str) -> None:
    """Raise ModelError for sizes of dimensions that a model does not have."""
    if asked:
        from workbench.frontends.onnx.symbolic_dims import check_names

        check_names(asked, (), argument)
