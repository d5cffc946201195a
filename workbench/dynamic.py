"""Optimise models with their symbolic dimensions kept: open, price at chosen sizes, check at others, save.

The search runs on a graph of generic extents (:mod:`workbench.symbolic`); what it costs is asked at the
sizes of the prices, and what it finds is checked at these and at three other bindings.
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
from workbench.extraction.egraph import EGraph
from workbench.graph import Graph, GraphError
from workbench.ops import TensorType, TypeMismatch
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.mapping import attrs_at, attrs_depend, depends, egraph_at, graph_at, type_at
from workbench.symbolic.sizes import checked_sizes, fitting, pricing_size

if TYPE_CHECKING:
    from onnx import ModelProto

    from workbench.frontends.onnx_shapes import SymbolTable
    from workbench.frontends.onnx_symbols import Fixed, Opened
    from workbench.verification import Certificate
    from workbench.verification.regions import Correspondence

#: What was compared, in the words of the summary.
FILES: Final = "files"
BOTH: Final = "graphs and files"

#: Graphs are compared at another binding too, if their values have at most so many elements there.
_COMPARED: Final = 1 << 24

#: What a term costs that cannot be used: more than any graph.
_FORBIDDEN: Final = 1e12


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check at one binding: the sizes, what was compared, and what differs if anything.

    ``why`` is empty where original and result agree.
    """

    sizes: Mapping[str, int]
    note: str
    why: str = ""

    def __str__(self) -> str:
        return f"{named(self.sizes)} ({f'FAILED: {self.why}' if self.why else self.note})"


@dataclass(frozen=True, slots=True, eq=False)
class Dynamic:
    """What became of a model's symbolic dimensions.

    ``kept`` are symbolic in the result; costs and timings are at ``sizes``. ``fixed`` are those that could
    not be kept, with the reason. ``checked`` are the bindings at which original and result were compared.
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
        """Return what there is to say, one line for each thing."""
        found = []
        if self.kept:
            found.append(f"kept {', '.join(self.kept)}; priced at {named(self.sizes)}")
        found += [f"fixed {fixed}" for fixed in self.fixed]
        if self.checked:
            found.append("checked at " + "; ".join(map(str, self.checked)))
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

    ``searched`` has generic extents; ``graph`` is the same at the sizes of the prices.
    """

    opened: Opened
    sizes: Mapping[str, int]
    searched: Graph
    graph: Graph

    @property
    def generic(self) -> Generic:
        """Return what the generic extents stand for."""
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

    def checks(self, term: Graph, known: Correspondence | None, seed: int, given: Any) -> tuple[Checked, ...]:
        """Compare a term with the original at other bindings: the file that would be saved, and graphs.

        The saved file is loaded once and runs at every binding beside the file ``given``. The graphs,
        which the certificate has compared at the sizes of the prices, are compared in float64 at the
        smallest other binding unless they are large. No further binding is tried once one fails.
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
            if sizes is bindings[0] and not found.why and found.note == FILES:
                found = replace(found, note=BOTH)
            done.append(found)
            if done[-1].why:
                break
        return tuple(done)

    def bindings(self) -> tuple[dict[str, int], ...]:
        """Return the bindings to check at: that of the prices, and three others (two if it is among them)."""
        own = [s for s in self.opened.symbols if s.name not in self.generic.derived]
        others = checked_sizes({s.name: s.kind for s in own}, self.opened.multiples, self.opened.bounds)
        completed = [self.generic.completed(sizes) for sizes in others]
        return (dict(self.sizes), *(c for c in completed if c != self.sizes))

    def _elements(self, sizes: Mapping[str, int]) -> int:
        """Return how many elements the values of the original have at a binding."""
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
        from workbench.stages import certified

        try:
            before = graph_at(self.searched, self.generic, sizes)
            after = before if term is self.searched else graph_at(term, self.generic, sizes)
        except (TypeMismatch, GraphError) as error:
            return Checked(sizes, "", f"operands do not fit: {error}")
        if graphs and term is not self.searched:
            found: Certificate = certified(before, after, seed, known, draws=1, whole=False)
            if not found.passed:
                return Checked(sizes, "", found.reason)
        note, why = sessions.compare(before, seed)
        return Checked(sizes, BOTH if graphs and note == FILES else note, why)


class _Files:
    """The given file and the one that would be saved, loaded once, run at several bindings."""

    def __init__(self, given: Any, term: Graph, table: SymbolTable) -> None:
        from workbench.frontends import RuntimeFailure
        from workbench.frontends.onnx_export import to_onnx_apart
        from workbench.frontends.onnx_file import ModelError
        from workbench.frontends.onnx_shared import shared_session

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
            self._why = f"the result does not load: {error}"

    @property
    def there(self) -> bool:
        """Say whether both can run."""
        return self._first is not None and not self._why

    def compare(self, graph: Graph, seed: int) -> tuple[str, str]:
        """Run both on inputs for a graph; return what was done and what differs, if anything."""
        if self._why or self._first is None:
            return self._note, self._why
        import onnxruntime as ort

        from workbench.verification.whole import run_both

        version = f"ONNX Runtime {ort.__version__}"
        found = run_both(self._first, self._second, graph, seed, version)
        if found.why:
            return "", found.why
        return (FILES if found.note == version else f"files: {found.note}"), ""


class PricedAt:
    """A cost model that asks another one for prices at chosen sizes.

    Instances of generic extents are brought to these sizes first. A weight whose extents depend on a
    symbol could not be computed once and stored: :meth:`settle` keeps such terms from being extracted.
    """

    def __init__(self, model: CostModel, generic: Generic, sizes: Mapping[str, int]) -> None:
        self.inner = model
        self._generic = generic
        self._sizes = sizes
        measure = getattr(model, "measure", None)
        self.measure = None if measure is None else lambda given: measure(self._moved(given))

    @property
    def source(self) -> str:
        """Say what the figures are."""
        return f"{self.inner.source}, at {named(self._sizes)}"

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        from workbench.frontends.onnx_sized import SIZE_KEY

        moved = self._moved(instances)
        places = {instance: i for i, instance in enumerate(dict.fromkeys(moved))}
        prices = np.asarray(self.inner.price(list(places)), dtype=float)
        costs = np.array([prices[places[m]] for m in moved])
        # What computes a size reads the shape of an input, not the input.
        free = [i.op == "opaque" and str(i.attrs[0]).startswith(SIZE_KEY) for i in moved]
        return np.where(free, 0.0, costs)

    def with_model(self, model: CostModel) -> PricedAt:
        """Return the same with another model's prices."""
        return PricedAt(model, self._generic, self._sizes)

    def settle(self, egraph: EGraph, costs: np.ndarray) -> np.ndarray:
        """Return the costs with those terms made unusable that would be weights of symbolic size."""
        constant = egraph.constant_classes().tolist()
        symbolic = [depends(k, self._generic) for k in egraph.types]
        eclass = egraph.eclass.tolist()
        changed = costs.copy()
        for i, (op, attrs) in enumerate(zip(egraph.ops, egraph.attrs, strict=True)):
            if op in ("input", "opaque", "project") or not constant[eclass[i]]:
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
    """A model that is ready to be searched: its graph and coverage, and its symbolic dimensions if any.

    ``opening`` is None where no dimension is kept; ``fixed`` are those that could not be.
    """

    graph: Graph
    coverage: Any
    opening: Opening | None = None
    fixed: tuple[Fixed, ...] = ()

    @property
    def searched(self) -> Graph:
        """Return the graph to search: of generic extents where dimensions are kept."""
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
        self, certificate: Certificate, term: Graph, known: Correspondence | None, seed: int, given: Any
    ) -> tuple[Certificate, tuple[Checked, ...]]:
        """Check a term at other bindings; return the certificate, failed if a check has, and the checks."""
        if self.opening is None or not certificate.passed:
            return certificate, ()
        done = self.opening.checks(term, known, seed, given)
        failed = [c for c in done if c.why]
        if failed:
            why = f"at {named(failed[0].sizes)}: {failed[0].why}"
            certificate = replace(certificate, passed=False, reason=why)
        return certificate, done

    def holds(self, term: Graph, seed: int) -> bool:
        """Say whether a term computes what the original computes, at all bindings that are checked."""
        from workbench.stages import certified

        if not certified(self.graph, self.at_prices(term), seed).passed:
            return False
        return self.opening is None or not any(c.why for c in self.opening.checks(term, None, seed, None))

    def record(self, term: Graph, checked: tuple[Checked, ...]) -> Dynamic | None:
        """Return what became of the symbolic dimensions, None for a model that had none to be kept."""
        if self.opening is None:
            return Dynamic((), {}, self.fixed) if self.fixed else None
        opening = self.opening
        notes = []
        for name, size in opening.generic.derived.items():
            notes.append(f"{name} is {size}")
        for name, divisor in opening.opened.multiples.items():
            if divisor > 1:
                notes.append(f"{name} is a multiple of {divisor}")
        for name, bound in opening.opened.bounds.items():
            notes.append(f"{name} is at most {bound}")
        return Dynamic(
            opening.kept, opening.sizes, self.fixed, checked, tuple(notes), term, opening.opened.table
        )


def without(found: Dynamic | None, rules: Sequence[str], why: str) -> Dynamic | None:
    """Return a record with a note on the rules that were left out, as they hold at some sizes only."""
    if found is None:
        return None
    note = f"left out {', '.join(rules)}, which holds at some sizes only: {why}"
    return replace(found, notes=(*found.notes, note))


def open_model(
    model: Any,
    dims: Mapping[str, int] | None,
    sizes: Mapping[str, int] | None = None,
    *,
    keep_inputs: bool = False,
) -> OpenModel:
    """Read a model with its symbolic dimensions kept as far as they can be.

    ``dims`` fixes dimensions on purpose; ``sizes`` says at which sizes to price. Raise ValueError where
    ``sizes`` names no dimension that is left open.
    """
    from workbench.stages import graph_of

    asked = dict(sizes or {})
    if isinstance(model, Graph):  # it needs nothing of what reads files
        _check_names(asked, ())
        return OpenModel(model, None)
    from workbench.frontends.model_file import is_taso_model

    if is_taso_model(model):
        _check_names(asked, ())
        return OpenModel(*graph_of(model, dims))
    from workbench.frontends.onnx_symbols import open_onnx

    opened = open_onnx(model, dict(dims or {}), asked, keep_inputs=keep_inputs)
    known = (*(s.name for s in opened.symbols), *(f.name for f in opened.fixed))
    _check_names(asked, known)
    if not opened.symbols:
        return OpenModel(opened.graph, opened.imported.coverage, None, opened.fixed)
    chosen: dict[str, int] = {}
    for s in opened.symbols:
        size = asked.get(s.name, pricing_size(s.kind))
        chosen[s.name] = fitting(size, opened.multiples.get(s.name, 1), opened.bounds.get(s.name))
    chosen = opened.generic.completed({n: c for n, c in chosen.items() if n not in opened.generic.derived})
    graph = graph_at(opened.graph, opened.generic, chosen)
    opening = Opening(opened, chosen, opened.graph, graph)
    return OpenModel(graph, opened.imported.coverage, opening, opened.fixed)


def _check_names(asked: Mapping[str, int], known: Sequence[str]) -> None:
    for name, size in asked.items():
        if name not in known:
            from workbench.frontends.onnx_prepare import unknown_dimension

            raise unknown_dimension(name, known, "sizes", "dimension that is left open")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"sizes[{name!r}] is a positive integer, not {size!r}")
