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

import numpy as np

from workbench.costs import CostModel
from workbench.costs.model import OpInstance
from workbench.egraph.egraph import EGraph
from workbench.graph import Graph, GraphError
from workbench.ops import TensorType, TypeMismatch
from workbench.ops.leaves import RUNTIME
from workbench.optimizer.asked_sizes import check_elements_at, check_names
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.mapping import attrs_at, attrs_depend, depends, egraph_at, graph_at, type_at
from workbench.symbolic.sizes import checked_sizes, fitting, pricing_size

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.certifying.certificate import Certificate
    from workbench.certifying.regions import Correspondence
    from workbench.frontends.onnx.shapes import SymbolTable
    from workbench.frontends.onnx.symbols import Fixed, Opened

#: Words of the summary for the parts that were compared.
FILES: Final = "files"
BOTH: Final = "graphs and files"

#: Most elements of the values of two graphs that are compared at another binding.
_COMPARED: Final = 1 << 24

#: Cost of a term that cannot be used: more than any graph costs.
_FORBIDDEN: Final = 1e12


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check at one binding: sizes, the parts that were compared, and the difference.

    ``why`` is empty if original and result agree. ``files`` is whether both files ran and agree without a
    remark; ``note`` is a text for people.
    """

    sizes: Mapping[str, int]
    note: str
    why: str = ""
    files: bool = False

    def __str__(self) -> str:
        return f"{named(self.sizes)} ({f'FAILED: {self.why}' if self.why else self.note})"


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
        found = [f"kept {', '.join(self.kept)}; priced at {named(self.sizes)}"] if self.kept else []
        found += [f"fixed {fixed}" for fixed in self.fixed]
        found += ["checked at " + "; ".join(map(str, self.checked))] if self.checked else []
        return found + list(self.notes)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return {
            "kept": list(self.kept),
            "sizes": dict(self.sizes),
            "fixed": [{"name": f.name, "extent": f.extent, "reason": f.reason} for f in self.fixed],
            "checked": [{"sizes": dict(c.sizes), "note": c.note, "why": c.why} for c in self.checked],
            "notes": list(self.notes),
        }


def named(sizes: Mapping[str, int]) -> str:
    """Return sizes as text.

    >>> named({"batch": 1, "sequence": 128})
    'batch=1, sequence=128'
    """
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


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
        sessions = _Files(given, term, self.opened.table)
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
        sessions: _Files,
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


class _Files:
    """The given file and the one that would be saved, loaded once, run at several bindings."""

    def __init__(self, given: Any, term: Graph, table: SymbolTable) -> None:
        from workbench.certifying.whole import without_kernels
        from workbench.frontends import RuntimeFailure
        from workbench.frontends.onnx.exporter import to_onnx_apart
        from workbench.frontends.onnx.file import ModelError
        from workbench.frontends.onnx.shared import shared_session

        self._note, self._why = "", ""
        self._first: Any = None
        try:
            apart = to_onnx_apart(term, symbols=table)
        except (ModelError, Undecodable) as error:
            self._why = f"the result cannot be written: {error}"
            return
        if given is None:
            self._note = "graphs compared"
            return
        try:
            self._first = shared_session(given, optimise=False)
        except (RuntimeFailure, ModelError):
            self._note = "graphs compared; ONNX Runtime does not load the original"
            return
        try:
            self._second = shared_session(apart.model, apart.arrays, optimise=False)
        except (RuntimeFailure, ModelError) as error:
            if lacking := without_kernels(term):
                self._first = None
                self._note = f"graphs compared; ONNX Runtime has no kernel for {', '.join(lacking)}"
                return
            self._why = f"the result does not load: {error}"

    @property
    def there(self) -> bool:
        """Return whether both files can run."""
        return self._first is not None and not self._why

    def compare(self, sizes: Mapping[str, int], graph: Graph, seed: int) -> Checked:
        """Run both on inputs for a graph, which is the original at a binding; return the outcome."""
        if self._why or self._first is None:
            return Checked(sizes, self._note, self._why)
        import onnxruntime as ort

        from workbench.certifying.whole import run_both

        found = run_both(self._first, self._second, graph, seed, f"ONNX Runtime {ort.__version__}")
        if found.why:
            return Checked(sizes, "", found.why)
        files = found.ran and found.steady
        return Checked(sizes, FILES if files else f"files: {found.note}", files=files)


class PricedAt(CostModel):
    """A cost model that asks another one for prices at chosen sizes.

    It brings instances of generic extents to these sizes first. A weight whose extents depend on a symbol
    could not be computed once and stored: :meth:`settle` keeps such terms from being extracted.
    """

    def __init__(self, model: CostModel, generic: Generic, sizes: Mapping[str, int]) -> None:
        self.inner = model
        self._generic = generic
        self._sizes = sizes

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return f"{self.inner.source}, at {named(self._sizes)}"

    @property
    def device(self) -> str:
        """Return the device that the figures are of."""
        return self.inner.device

    @property
    def analytic(self) -> bool:
        """Return whether the prices are those of a roofline."""
        return self.inner.analytic

    @property
    def measured(self) -> bool:
        """Return whether :meth:`measure` can replace estimates."""
        return self.inner.measured

    def bind(self, graph: Graph) -> None:
        """Name the current model."""
        self.inner.bind(graph)

    def measure(self, instances: Sequence[OpInstance]) -> int:
        """Measure these instances at the chosen sizes; return the number of new measurements."""
        return self.inner.measure(self._moved(instances))

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        from workbench.frontends.onnx.sized import SIZE_KEY

        moved = self._moved(instances)
        places = {instance: i for i, instance in enumerate(dict.fromkeys(moved))}
        prices = np.asarray(self.inner.price(list(places)), dtype=float)
        costs = np.array([prices[places[m]] for m in moved])
        # An operator that computes a size reads the shape of an input, not its elements.
        free = [i.op == "opaque" and str(i.attrs[0]).startswith(SIZE_KEY) for i in moved]
        return np.where(free, 0.0, costs)

    def with_model(self, model: CostModel) -> PricedAt:
        """Return a model for the same sizes with the prices of another model."""
        return PricedAt(model, self._generic, self._sizes)

    def settle(self, egraph: EGraph, costs: np.ndarray) -> np.ndarray:
        """Return the costs with weights of symbolic size made too expensive to be extracted."""
        constant = egraph.constant_classes().tolist()
        symbolic = [depends(k, self._generic) for k in egraph.types]
        eclass = egraph.eclass.tolist()
        changed = costs.copy()
        for i, (op, attrs) in enumerate(zip(egraph.ops, egraph.attrs, strict=True)):
            if op in RUNTIME or not constant[eclass[i]]:
                continue
            if all(constant[c] for c in egraph.operands(i).tolist()) and (
                symbolic[eclass[i]] or attrs_depend(op, attrs, self._generic)
            ):
                changed[i] = _FORBIDDEN
        return changed

    def _moved(self, instances: Sequence[OpInstance]) -> list[OpInstance]:
        generic, sizes = self._generic, self._sizes
        return [
            OpInstance(
                i.op,
                attrs_at(i.op, i.attrs, generic, sizes),
                tuple(type_at(k, generic, sizes) for k in i.inputs),
                type_at(i.type, generic, sizes),
                i.constant,
            )
            for i in instances
        ]


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
    from workbench.frontends.onnx.symbols import open_onnx

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
