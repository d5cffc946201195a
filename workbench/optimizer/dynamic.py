"""Optimise models with their symbolic dimensions kept.

The search runs on a graph of generic extents (:mod:`workbench.symbolic`). Costs are those at chosen sizes.
The result is checked at these sizes and at three other bindings.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from workbench.costs import CostModel
from workbench.egraph.egraph import EGraph
from workbench.graph import Graph, GraphError
from workbench.ops import TensorType, TypeMismatch
from workbench.optimizer.asked_sizes import check_elements_at, check_names
from workbench.optimizer.file_checks import BOTH, Checked, Files
from workbench.optimizer.symbolic_cost import PricedAt
from workbench.symbolic import Generic
from workbench.symbolic.mapping import egraph_at, graph_at, type_at
from workbench.symbolic.sizes import checked_sizes, fitting, named, pricing_size

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.certification.certificate import Certificate
    from workbench.certification.regions import Correspondence
    from workbench.frontends.onnx.shapes import SymbolTable
    from workbench.frontends.onnx.symbolic_dims import Fixed, Opened

#: Most elements of the values of two graphs that are compared at another binding.
_COMPARED: Final = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Dynamic:
    """The fate of a model's symbolic dimensions.

    ``kept`` dimensions are symbolic in the result; costs and timings are at ``sizes``. ``fixed`` dimensions
    could not be kept, each with the reason. At the bindings ``checked`` the result was compared with the
    original.
    """

    kept: tuple[str, ...]
    sizes: Mapping[str, int]
    fixed: tuple[Fixed, ...] = ()
    checked: tuple[Checked, ...] = ()
    notes: tuple[str, ...] = ()
    graph: Graph | None = field(default=None, repr=False)
    table: SymbolTable | None = field(default=None, repr=False)

    def model(self) -> ModelProto:
        """Return the result as an ONNX model with its symbolic dimensions."""
        from workbench.frontends import to_onnx

        assert self.graph is not None
        return to_onnx(self.graph, symbols=self.table)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as an ONNX file with its symbolic dimensions."""
        from workbench.frontends import save_onnx

        assert self.graph is not None
        save_onnx(self.graph, path, symbols=self.table)

    def lines(self) -> list[str]:
        """Return the lines of a summary: dimensions kept and fixed, bindings checked, notes."""
        found = []
        if self.kept:
            found.append(f"kept {', '.join(self.kept)}; priced at {named(self.sizes)}")
        found += [f"fixed {fixed}" for fixed in self.fixed]
        if self.checked:
            found.append("checked at " + "; ".join(map(str, self.checked)))
        return [*found, *self.notes]

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "kept": list(self.kept),
            "sizes": dict(self.sizes),
            "fixed": [{"name": f.name, "extent": f.extent, "reason": f.reason} for f in self.fixed],
            "checked": [{"sizes": dict(c.sizes), "note": c.note, "why": c.why} for c in self.checked],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """A model that is searched with its symbolic dimensions kept.

    ``searched`` has generic extents; ``graph`` is the same graph at the sizes of the prices.
    """

    opened: Opened
    sizes: Mapping[str, int]
    searched: Graph
    graph: Graph

    @property
    def generic(self) -> Generic:
        """Return the meaning of the generic extents."""
        return self.opened.generic

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the symbols that are kept."""
        return tuple(s.name for s in self.opened.symbols)

    def priced(self, model: CostModel) -> PricedAt:
        """Return a cost model that prices generic instances at the chosen sizes."""
        return PricedAt(model, self.generic, self.sizes)

    def at_prices(self, term: Graph) -> Graph:
        """Return a graph of generic extents at the sizes of the prices."""
        return graph_at(term, self.generic, self.sizes)

    def shown(self, egraph: EGraph) -> EGraph:
        """Return the e-graph with its types at the sizes of the prices."""
        return egraph_at(egraph, self.generic, self.sizes)

    def checks(
        self, term: Graph, known: Correspondence | None, seed: int, given: object
    ) -> tuple[Checked, ...]:
        """Compare a term with the original at several bindings, as files and as graphs.

        The file that would be saved is loaded once and runs at every binding, as does the file ``given``.
        The certificate has compared the graphs at the sizes of the prices. At the smallest other binding
        they are compared in float64, unless they are large. The first failure ends the checks.

        Args:
            term: The graph that was found.
            known: Numbers for its values and the original's: equal numbers claim equal values.
            seed: The seed of the inputs.
            given: The model of the user, or None.
        """
        sessions = Files(given, term, self.opened.table)
        done: list[Checked] = []
        bindings = self.bindings()
        smallest = min(bindings[1:], key=lambda sizes: math.prod(sizes.values()))
        for sizes in bindings:
            graphs = sizes is not bindings[0] and (
                not sessions.there or (sizes is smallest and self._elements(sizes) <= _COMPARED)
            )
            found = self._check(sizes, term, known if graphs else None, seed, sessions, graphs)
            if sizes is bindings[0] and found.files:
                found = replace(found, note=BOTH)
            done.append(found)
            if done[-1].why:
                break
        return tuple(done)

    def bindings(self) -> tuple[dict[str, int], ...]:
        """Return the bindings to check: that of the prices, and three others (two if it is one of them)."""
        own = [s for s in self.opened.symbols if s.name not in self.generic.derived]
        others = checked_sizes({s.name: s.kind for s in own}, self.opened.multiples, self.opened.bounds)
        completed = [self.generic.completed(sizes) for sizes in others]
        return (dict(self.sizes), *(c for c in completed if c != self.sizes))

    def _elements(self, sizes: Mapping[str, int]) -> int:
        """Return the number of elements of the original's values at a binding."""
        kinds = [type_at(n.type, self.generic, sizes) for n in self.searched if n.op != "weight"]
        return sum(kind.elements for kind in kinds if isinstance(kind, TensorType))

    def _check(
        self,
        sizes: Mapping[str, int],
        term: Graph,
        known: Correspondence | None,
        seed: int,
        sessions: Files,
        graphs: bool,
    ) -> Checked:
        from workbench.optimizer.stages import certified

        try:
            before = graph_at(self.searched, self.generic, sizes)
        except (TypeMismatch, GraphError) as error:
            return Checked(sizes, f"left out: the original has no such sizes, {error}")
        try:
            after = before if term is self.searched else graph_at(term, self.generic, sizes)
        except (TypeMismatch, GraphError) as error:
            return Checked(sizes, "", f"operands do not fit: {error}")
        if graphs and term is not self.searched:
            found: Certificate = certified(before, after, seed, known, draws=1, whole=False)
            if not found.passed:
                return Checked(sizes, "", found.reason)
        found_files = sessions.compare(sizes, before, seed)
        return replace(found_files, note=BOTH) if graphs and found_files.files else found_files


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model that is ready to be searched: its graph, its coverage, and its symbolic dimensions.

    ``opening`` is None if no dimension is kept; ``fixed`` dimensions could not be kept.
    """

    graph: Graph
    coverage: Any
    opening: Opening | None = None
    fixed: tuple[Fixed, ...] = ()

    @property
    def searched(self) -> Graph:
        """Return the graph to search; it has generic extents if dimensions are kept."""
        return self.graph if self.opening is None else self.opening.searched

    def priced(self, model: CostModel) -> CostModel:
        """Return the cost model to search with."""
        return model if self.opening is None else self.opening.priced(model)

    def at_prices(self, term: Graph) -> Graph:
        """Return a found term at the sizes of the prices."""
        return term if self.opening is None else self.opening.at_prices(term)

    def shown(self, egraph: EGraph) -> EGraph:
        """Return the e-graph to show."""
        return egraph if self.opening is None else self.opening.shown(egraph)

    def checked(
        self, certificate: Certificate, term: Graph, known: Correspondence | None, seed: int, given: object
    ) -> tuple[Certificate, tuple[Checked, ...]]:
        """Check a term at other bindings; return the certificate, failed if a check has, and the checks.

        Args:
            certificate: The certificate at the sizes of the prices.
            term: The graph that was found.
            known: Numbers for its values and the original's: equal numbers claim equal values.
            seed: The seed of the inputs.
            given: The model of the user, or None.
        """
        if self.opening is None or not certificate.passed:
            return certificate, ()
        done = self.opening.checks(term, known, seed, given)
        failed = [c for c in done if c.why]
        if failed:
            why = f"at {named(failed[0].sizes)}: {failed[0].why}"
            certificate = replace(certificate, passed=False, reason=why)
        return certificate, done

    def holds(self, term: Graph, seed: int) -> bool:
        """Return whether a term computes the same as the original at all bindings that are checked."""
        from workbench.optimizer.stages import certified

        if not certified(self.graph, self.at_prices(term), seed).passed:
            return False
        return self.opening is None or not any(c.why for c in self.opening.checks(term, None, seed, None))

    def record(self, term: Graph, checked: tuple[Checked, ...]) -> Dynamic | None:
        """Return the fate of the symbolic dimensions, or None for a model without any."""
        if self.opening is None:
            return Dynamic((), {}, self.fixed) if self.fixed else None
        opening = self.opening
        notes = [f"{name} is {size}" for name, size in opening.generic.derived.items()]
        for name, divisor in opening.opened.multiples.items():
            if divisor > 1:
                notes.append(f"{name} is a multiple of {divisor}")
        notes += [f"{name} is at most {bound}" for name, bound in opening.opened.bounds.items()]
        return Dynamic(
            opening.kept, opening.sizes, self.fixed, checked, tuple(notes), term, opening.opened.table
        )


def without(found: Dynamic | None, rules: Sequence[str], why: str) -> Dynamic | None:
    """Add a note on rules that were left out because they hold at some sizes only."""
    if found is None:
        return None
    note = f"left out {', '.join(rules)}: valid at some sizes only ({why})"
    return replace(found, notes=(*found.notes, note))


def open_model(
    model: object,
    dims: Mapping[str, int] | None,
    sizes: Mapping[str, int] | None = None,
    *,
    keep_inputs: bool = False,
) -> OpenModel:
    """Read a model with its symbolic dimensions kept as far as they can be.

    Args:
        model: A graph or a model file.
        dims: Sizes at which dimensions are fixed on purpose.
        sizes: Sizes to price at.
        keep_inputs: Whether initialisers that are also inputs stay inputs.

    Raises:
        ValueError: ``sizes`` names a dimension that is not left open, or the model cannot be read.
    """
    from workbench.optimizer.stages import graph_of

    asked = dict(sizes or {})
    if isinstance(model, Graph):  # nothing that reads files is imported for it
        check_names(asked, ())
        check_names(dict(dims or {}), (), "dims")
        return OpenModel(model, None)
    from workbench.frontends.model_file import is_taso_model

    if is_taso_model(model):
        check_names(asked, ())
        return OpenModel(*graph_of(model, dims))
    from workbench.frontends.onnx.symbolic_dims import open_onnx

    opened = open_onnx(model, dict(dims or {}), asked, keep_inputs=keep_inputs)
    known = (*(s.name for s in opened.symbols), *(f.name for f in opened.fixed))
    check_names(asked, known)
    if not opened.symbols:
        return OpenModel(opened.graph, opened.imported.coverage, None, opened.fixed)
    chosen: dict[str, int] = {}
    for s in opened.symbols:
        size = asked.get(s.name, pricing_size(s.kind))
        chosen[s.name] = fitting(size, opened.multiples.get(s.name, 1), opened.bounds.get(s.name))
    chosen = opened.generic.completed({n: c for n, c in chosen.items() if n not in opened.generic.derived})
    graph = graph_at(opened.graph, opened.generic, chosen)
    check_elements_at(graph, asked)
    opening = Opening(opened, chosen, opened.graph, graph)
    return OpenModel(graph, opened.imported.coverage, opening, opened.fixed)
