"""Models as they are read: the graph to search, and the meaning of its symbolic dimensions.

A model that keeps symbolic dimensions is searched as a graph of generic extents (:mod:`workbench.symbolic`) and
priced at chosen sizes. A model without any is the same with no symbols.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from workbench.egraph.at_sizes import egraph_at, graph_at, type_at
from workbench.egraph.egraph import EGraph
from workbench.graph import Graph, GraphError
from workbench.ops import TensorType, TypeMismatch
from workbench.symbolic import Generic
from workbench.symbolic.integers import symbols, thresholds, written
from workbench.symbolic.sizes import checked_sizes, pricing_size

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.frontends.coverage import Coverage
    from workbench.frontends.onnx.file import Apart

#: Thresholds of a dimension beside which a result is checked.
_THRESHOLDS: Final = 4

#: The size of the prices in the smallest sizes, if the usual one is too small.
_WINDOWS: Final = 16
#: Sizes are doubled this often until a graph exists at them.
_DOUBLINGS: Final = 12
#: Most elements of a value at usual sizes; half a gigabyte of floats.
_ELEMENTS: Final = 1 << 27

#: A computed value, and all inputs together, may have at most this many elements (1 GiB of float32), unless
#: the environment allows more or a stored tensor has as many; this bounds the memory used.
MAX_VALUE_ELEMENTS: Final = 1 << 28
ELEMENTS_VARIABLE: Final = "WORKBENCH_MAX_ELEMENTS"

#: What :func:`workbench.optimize` takes for a model.
ModelLike: TypeAlias = "Graph | Model | str | os.PathLike[str] | bytes | ModelProto | Apart"

#: Extents by the name of a dimension, and whole shapes by the name of an input.
Dims: TypeAlias = Mapping[str, int | Sequence[int]]


class ModelError(ValueError):
    """Raised when a model is not valid: the message names the node or tensor, the norm and a remedy."""


class DimensionError(ModelError):
    """Raised when a symbolic dimension is not bound, or a given name is not that of a dimension.

    ``on_command_line`` is the message for users of the command line, with ``--dim`` and ``--size``.
    """

    def __init__(self, message: str, on_command_line: str) -> None:
        super().__init__(message)
        self.on_command_line = on_command_line

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.on_command_line)


#: Generic extents of symbolic dimensions are numbers only and have no limit.
_unlimited: ContextVar[bool] = ContextVar("unlimited", default=False)


@contextlib.contextmanager
def any_extent() -> Iterator[None]:
    """Accept values of any size in this context; no data may be created for them."""
    token = _unlimited.set(True)
    try:
        yield
    finally:
        _unlimited.reset(token)


def check_elements(elements: int, what: str) -> None:
    """Raise :class:`ModelError` if the number of elements of a value (``what``) exceeds the limit."""
    text = os.environ.get(ELEMENTS_VARIABLE, "")
    limit = int(text) if text.isdecimal() else MAX_VALUE_ELEMENTS
    if elements > limit and not _unlimited.get():
        raise ModelError(
            f"{what} must have at most {limit:.3g} elements, got {elements:.3g} "
            f"(try {ELEMENTS_VARIABLE}={elements} in the environment)"
        )


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
        first = {name: place for place, name in reversed([*self.places.items()])}
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
        cleaned_from: the graph as it was given, if neutral operators were dropped from it.
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
    cleaned_from: Graph | None = field(default=None, repr=False)

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

    def graph_at(self, sizes: Mapping[str, int], term: Graph | None = None) -> Graph:
        """Return the model, or a term that was found for it, at sizes of its symbols.

        Raise TypeMismatch if the operands of a node do not fit at these sizes, GraphError if the graph is not valid.
        """
        graph = self.searched if term is None else term
        return graph_at(graph, self.generic.at(sizes)) if sizes else graph

    def at_prices(self, term: Graph) -> Graph:
        """Return a found term at the sizes of the prices."""
        return self.graph_at(self.sizes, term)

    def shown(self, egraph: EGraph) -> EGraph:
        """Return an e-graph of the search with its types at the sizes of the prices."""
        return egraph_at(egraph, self.generic.at(self.sizes)) if self.sizes else egraph

    def drawn_at(self, sizes: Mapping[str, int]) -> Graph:
        """Return the model with inputs of sizes that may not fit it, to draw inputs for its file.

        Its types are not checked: it is not to be run.
        """
        places = {place: s.name for s in self.symbols for place in s.places}
        nodes, value = [], self.generic.at(sizes)
        for node in self.searched.nodes:
            kind: Any = type_at(node.type, value)
            if node.op == "input":
                name = node.attr("name")
                shape = [sizes.get(places.get((name, i), ""), d) for i, d in enumerate(kind.shape)]
                kind = TensorType(kind.dtype, tuple(shape))
            nodes.append(replace(node, type=kind))
        found = copy.copy(self.searched)
        object.__setattr__(found, "nodes", tuple(nodes))
        return found

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

    def priced_at(self, asked: Mapping[str, int]) -> Model:
        """Return the model with usual sizes, or those asked for, chosen for its symbols.

        Usual sizes at which the model has no types are doubled. Those at which a value has more than 2²⁷ elements
        are halved: attention over all pixels of an image grows with the fourth power of its width.
        """
        check_names(asked, (*self.kept, *(f.name for f in self.fixed)))
        wanted = {s.name: asked.get(s.name, pricing_size(s.kind)) for s in self.symbols}
        lowest = dict.fromkeys(wanted, 1) | {
            name: self.generic.facts.least.get(symbol, 1) * factor + addend
            for symbol, (name, factor, addend) in self.generic.own.items()
        }
        for name, least in lowest.items():
            if name not in asked and wanted[name] < least:  # such as one window of a speech encoder
                wanted[name] = _WINDOWS * least
        sizes, graph = self._sized(wanted)
        free = wanted.keys() - asked.keys()
        for _ in range(_DOUBLINGS if free else 0):
            if graph is not None:
                break
            wanted = {n: 2 * size if n in free else size for n, size in wanted.items()}
            sizes, graph = self._sized(wanted)
        if graph is None:
            graph = self.graph_at(sizes)  # raises the reason
        while _largest(graph) > _ELEMENTS:
            smaller = {n: max(lowest[n], size // 2) if n in free else size for n, size in wanted.items()}
            fewer, there = self._sized(smaller)
            if smaller == wanted or there is None:
                break
            wanted, sizes, graph = smaller, fewer, there
        if asked:
            check_elements_at(graph, asked)
        return replace(self, sizes=sizes, graph=graph)

    def _sized(self, wanted: Mapping[str, int]) -> tuple[Mapping[str, int], Graph | None]:
        """Return all sizes of a model and its graph there; None if it has no types there."""
        sizes = self.generic.completed(wanted) if self.symbols else {}
        try:
            return sizes, self.graph_at(sizes)
        except (TypeMismatch, GraphError):
            return sizes, None


def _largest(graph: Graph) -> int:
    """Return the number of elements of the largest value that a graph computes from its inputs."""
    computed = (n.type for n, fixed in zip(graph.nodes, graph.constant(), strict=True) if not fixed)
    return max((kind.elements for kind in computed if isinstance(kind, TensorType)), default=0)


def check_elements_at(graph: Graph, asked: Mapping[str, int]) -> None:
    """Raise ModelError if an input of a graph is too large at the sizes that a user asked for."""
    sizes = ", ".join(f"{name}={size}" for name, size in asked.items())
    for node in graph.nodes:
        if node.op == "input":
            check_elements(math.prod(node.tensor.shape), f"input {node.attr('name')!r} at {sizes}")


def check_names(asked: Mapping[str, int], known: Sequence[str], argument: str = "sizes") -> None:
    """Raise ValueError for a size that is not positive, and for one of an unknown dimension."""
    for name, size in asked.items():
        if name not in known:
            raise unknown_dimension(name, known, argument, "dimension that is left open")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{argument}[{name!r}] must be a positive integer, got {size!r}")


def unknown_dimension(name: str, known: Iterable[str], where: str, what: str) -> DimensionError:
    """Return the error for a name that no suitable dimension has.

    Args:
        name: The name.
        known: The names of suitable dimensions, of which the nearest is suggested.
        where: The argument with the name, ``dims`` or ``sizes``.
        what: The description of suitable dimensions in the message.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 1)
    others = f"; there are: {', '.join(names)}" if names else "; the model has none"
    said = f"must name a {what}, got {name!r}" + (f"; did you mean {near[0]!r}?" if near else others)
    return DimensionError(f"{where} {said}", f"{({'dims': '--dim', 'sizes': '--size'})[where]} {said}")
