"""The fate of symbolic dimensions: which were kept, and how a result was checked at other sizes.

The certificate compares a result with the original at the sizes of the prices. Here both are compared at three
other bindings, as graphs and as the files that are given and saved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from workbench.egraph.at_sizes import type_at, unproved
from workbench.frontends.model import Model, ModelError
from workbench.frontends.onnx.exporter import to_onnx_apart
from workbench.frontends.onnx.file import Apart, joined
from workbench.frontends.runtime import RuntimeFailure, session
from workbench.graph import Graph, GraphError
from workbench.ops import TensorType, TypeMismatch
from workbench.symbolic import Undecodable
from workbench.symbolic.integers import written
from workbench.symbolic.sizes import named

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession

    from workbench.certification.regions import Correspondence
    from workbench.egraph import EGraph
    from workbench.frontends.model import Fixed, SymbolTable

#: Most elements of the values of two graphs that are compared at another binding.
_COMPARED: Final = 1 << 24

#: Words of the summary for the parts that were compared.
FILES: Final = "files"
BOTH: Final = "graphs and files"


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
    have one size, each with the reason. At the bindings ``checked`` the result was compared with the
    original.
    """

    kept: tuple[str, ...]
    sizes: Mapping[str, int]
    fixed: tuple[Fixed, ...] = ()
    checked: tuple[Checked, ...] = ()
    notes: tuple[str, ...] = ()
    graph: Graph | None = field(default=None, repr=False)
    table: SymbolTable | None = field(default=None, repr=False)
    egraph: EGraph | None = field(default=None, repr=False)

    def model(self) -> ModelProto:
        """Return the result as an ONNX model with its symbolic dimensions."""
        return joined(self.apart())

    def apart(self) -> Apart:
        """Return the model with its large weights stored apart."""
        assert self.graph is not None
        return to_onnx_apart(self.graph, symbols=self.table)

    def lines(self) -> list[str]:
        """Return the lines of a summary: dimensions kept and fixed, bindings checked, notes."""
        found = [f"kept {', '.join(self.kept)}; priced at {named(self.sizes)}"] if self.kept else []
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


def fate_of(
    model: Model,
    term: Graph,
    notes: tuple[str, ...] = (),
    checked: tuple[Checked, ...] = (),
    egraph: EGraph | None = None,
) -> Dynamic | None:
    """Return the fate of a model's symbolic dimensions, or None for a model without any.

    Args:
        model: The model.
        term: The result, as it was searched.
        notes: More notes for people.
        checked: The checks of the result.
        egraph: The e-graph of the search.
    """
    if not model.symbols:
        return Dynamic((), {}, model.fixed) if model.fixed else None
    generic = model.generic
    own = {name: (symbol, k, c) for symbol, (name, k, c) in generic.own.items()}
    found = [f"left as it is: {model.left}"] if model.left else []
    for name, size in generic.sizes.items():
        if name not in own and size.value is None:
            found.append(f"{name} is {written(generic.named(size))}")
            continue
        symbol, k, c = own.get(name, ("", 1, 0))
        found += [f"{name} is a multiple of {k}{f' plus {c}' if c else ''}"] if k > 1 else []
        if (most := generic.facts.most.get(symbol)) is not None:
            found.append(f"{name} is at most {most * k + c}")
        if (least := generic.facts.least.get(symbol, 1)) > 1:
            found.append(f"{name} is at least {least * k + c}")
    notes = (*found, *notes)
    return Dynamic(model.kept, model.sizes, model.fixed, checked, notes, term, model.table, egraph)


def checks_at_sizes(
    model: Model, term: Graph, known: Correspondence | None, seed: int, given: object, *, once: bool = False
) -> tuple[Checked, ...]:
    """Compare a term with the original at several bindings, as files and as graphs.

    The file that would be saved is loaded once and runs at every binding, as does the file ``given``.
    The certificate has compared the graphs at the sizes of the prices. At the smallest other binding
    they are compared in float64, unless they are large. The first failure ends the checks. A model without
    symbols has one binding, that of the prices, and nothing is checked.

    Args:
        model: The model.
        term: The graph that was found.
        known: Numbers for its values and the original's: equal numbers claim equal values.
        seed: The seed of the inputs.
        given: The model of the user, or None.
        once: Whether the smallest binding but that of the prices suffices.
    """
    from workbench.certification.graphs import certify_graphs

    if not model.symbols:
        return ()
    bindings = model.bindings()
    if term is not model.searched and (reason := unproved(term, model.generic)):
        return (Checked(bindings[0], "", f"not proved for every size: {reason}"),)
    sessions = Files(given, term, model.table)

    def check(sizes: Mapping[str, int], graphs: bool) -> Checked:
        before, after, why = None, None, "it does not fit the model"
        if model.generic.fit(sizes):
            try:
                before = model.graph_at(sizes)
                after = before if term is model.searched else model.graph_at(sizes, term)
            except (TypeMismatch, GraphError) as error:  # a graph has no empty tensors, which models may have
                why = f"graphs have no such sizes, {error}"
        if not sessions.there and (before is None or after is None):
            return Checked(sizes, f"left out: {why}")
        if graphs and term is not model.searched and before is not None and after is not None:
            found = certify_graphs(before, after, seed=seed, known=known, draws=1, whole=False)
            if not found.passed:
                return Checked(sizes, "", found.reason)
        checked = sessions.compare(sizes, before or model.drawn_at(sizes), seed)
        return replace(checked, note=BOTH) if graphs and checked.files else checked

    done: list[Checked] = []
    fit = [sizes for sizes in bindings[1:] if _elements(model, sizes) and model.generic.fit(sizes)]
    smallest = min(fit, key=lambda sizes: math.prod(sizes.values()), default=bindings[0])
    for sizes in (smallest,) if once else bindings:
        graphs = sizes is not bindings[0] and (
            not sessions.there or (sizes is smallest and _elements(model, sizes) <= _COMPARED)
        )
        found = check(sizes, graphs)
        if sizes is bindings[0] and found.files:
            found = replace(found, note=BOTH)
        done.append(found)
        if found.why:
            break
    return tuple(done)


def _elements(model: Model, sizes: Mapping[str, int]) -> int:
    """Return the number of elements of the original's values at a binding."""
    if not model.generic.fit(sizes):
        return 0
    value = model.generic.at(sizes)
    fixed = model.searched.constant()
    kinds = [type_at(n.type, value) for n, stored in zip(model.searched, fixed, strict=True) if not stored]
    return sum(kind.elements for kind in kinds if isinstance(kind, TensorType))


class Files:
    """The user's file and the one to be saved, with the symbols of ``table``, loaded once for several bindings."""

    def __init__(self, given: object, term: Graph, table: SymbolTable | None) -> None:
        from workbench.certification.end_to_end import without_kernels

        self._note, self._why = "graphs compared", ""
        self._first: InferenceSession | None = None
        try:
            apart = to_onnx_apart(term, symbols=table)
        except (ModelError, Undecodable) as error:
            self._why = f"the result cannot be written: {error}"
            return
        if given is None:
            return
        try:
            self._first = session(given, optimise=False, prepack=False, arena=False)
        except (RuntimeFailure, ModelError):
            self._note += "; ONNX Runtime does not load the original"
            return
        try:
            self._second = session(apart, optimise=False, prepack=False, arena=False)
        except (RuntimeFailure, ModelError) as error:
            if lacking := without_kernels(term):
                self._first = None
                self._note += f"; ONNX Runtime has no kernel for {', '.join(lacking)}"
            else:
                self._why = f"the result does not load: {error}"

    @property
    def there(self) -> bool:
        """Return whether both files can run."""
        return self._first is not None and not self._why

    def compare(self, sizes: Mapping[str, int], graph: Graph, seed: int) -> Checked:
        """Run both on inputs for a graph, which is the original at a binding; return the outcome."""
        import onnxruntime as ort

        from workbench.certification.end_to_end import run_both

        if self._why or self._first is None:
            return Checked(sizes, "" if self._why else self._note, self._why)
        found = run_both(self._first, self._second, graph, seed, f"ONNX Runtime {ort.__version__}")
        if found.why:
            return Checked(sizes, "", found.why)
        if not found.ran:
            return Checked(sizes, f"left out: {found.note.removeprefix('not run: ')}")
        return Checked(sizes, FILES if found.steady else f"files: {found.note}", files=found.steady)
