"""Optimised graphs, however they were found: their gain, their file, their record."""

from __future__ import annotations

import enum
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from workbench._version import __version__
from workbench.costs import CostModel
from workbench.costs.model import described
from workbench.costs.pricing import operator_costs
from workbench.extraction.cost_history import CURVE
from workbench.optimizer import summary as texts
from workbench.optimizer.summary import Row, running_operators
from workbench.run.display import Face
from workbench.run.trace import StopReason, Trace
from workbench.support.formatting import gain, speedup
from workbench.support.wings import offered

if TYPE_CHECKING:
    import pandas as pd
    from onnx import ModelProto
    from torch.nn import Module

    from workbench.certification.certificate import Certificate
    from workbench.devices.ranking import Ranking
    from workbench.egraph import EGraph
    from workbench.extraction import Solution
    from workbench.frontends.model import Model
    from workbench.frontends.onnx.file import Apart
    from workbench.graph import Graph
    from workbench.optimizer.dynamic import Dynamic
    from workbench.rules import RuleSet
    from workbench.studies.analysis.comparison import Comparison


class Placement(Protocol):
    """The products of a graph that run on an accelerator, and those that do not."""

    def lines(self) -> list[str]:
        """Return the lines of a summary."""

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""


#: The names of attributes in files, for those of any result and of either kind. First the key in the JSON of the
#: command line, then the column in the rows of stored runs; "" means that the field is not there.
NAMES: Final[dict[str, tuple[str, str]]] = {
    "network": ("graph", "network"),
    "cost_before": ("cost_before", "original"),
    "cost_after": ("cost_after", "optimized"),
    "cost_claimed": ("", "claimed"),
    "speedup": ("speedup", ""),
    "cost_source": ("cost_source", "cost_source"),
    "seconds": ("seconds", ""),
    "optimiser_seconds": ("", "seconds"),
    "stop_reason": ("stop_reason", ""),
    "certificate": ("certificate", ""),
    "certified": ("", "certified"),
    "ended": ("ended", ""),
    "offending": ("offending_rules", ""),
    "operators_before": ("operators_before", ""),
    "operators_after": ("operators_after", ""),
    "settings": ("settings", ""),
    "rules": ("rules", ""),
}
SATURATION_NAMES: Final[dict[str, tuple[str, str]]] = {
    "e_nodes": ("e_nodes", "nodes"),
    "e_classes": ("e_classes", "classes"),
    "log2_terms": ("", "programs"),
    "iterations": ("iterations", "iter"),
    "solution.method": ("extractor", ""),
    "solution.bound": ("bound", "bound"),
    "solution.status": ("status", ""),
    "solution.scope": ("scope", ""),
    "measured": ("measured", ""),
    "dynamic": ("dynamic", ""),
    "blocks": ("blocks", ""),
}
SEARCH_NAMES: Final[dict[str, tuple[str, str]]] = {
    "expanded": ("expanded", "iter"),
    "found": ("found", "candidates"),
    "log2_terms": ("", "programs"),
    "history": ("history", ""),
    "seconds_best": ("", "seconds_best"),
}
#: Stages whose times have keys of their own in the JSON, and columns in the rows.
_TIMED: Final = ("saturation", "extraction", "search")


def to_json(result: Result) -> dict[str, Any]:
    """Return a result as plain data under the keys of the command line's JSON."""
    found = {key: _plain(value) for (key, _), value in _named(result) if key}
    if (placement := getattr(result, "placement", None)) is not None:
        found["accelerator"] = placement.summary()
    return found | {stage: result.seconds[stage] for stage in _TIMED if stage in result.seconds}


def to_row(result: Result) -> dict[str, Any]:
    """Return a result as a row of stored runs; a search has a saturation's columns, empty or with its own figure."""
    row: dict[str, Any]
    if result.own_names is SEARCH_NAMES:
        columns = (column for _, column in SATURATION_NAMES.values() if column)
        row = dict.fromkeys(("saturation", "extraction", *columns))
        row["budget"] = str(result.settings["budget"])
    else:
        row = {stage: result.seconds[stage] for stage in ("saturation", "extraction")}
        row["k_multi"] = result.settings["k_multi"]
    return row | {column: value for (_, column), value in _named(result) if column}


def _named(result: Result) -> list[tuple[tuple[str, str], object]]:
    """Return the names and the values of all fields that are in some file."""
    return [(names, attrgetter(name)(result)) for name, names in (NAMES | result.own_names).items()]


def _plain(value: object) -> object:
    """Return a field as data that JSON has."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    summary = getattr(value, "summary", None)
    return value if summary is None else summary()


def trace_meta(result: Result, cost_model: CostModel) -> dict[str, Any]:
    """Return the facts about a result that its trace carries: costs and their source, rules, versions."""
    before, after = (operator_costs(graph, cost_model) for graph in (result.original, result.graph))
    solution = getattr(result, "solution", None)
    bound = {} if solution is None else {"cost_bound": solution.bound, "cost_curve": CURVE}
    return {
        "cost_source": cost_model.source,
        "cost_before": result.cost_before,
        "cost_after": result.cost_after,
        "operator_costs": {"before": before, "after": after},
        "rule_set": result.settings["rules"],
        "seed": result.settings["seed"],
        "stop_reason": result.stop_reason.value,
        **versions(),
        **bound,
    }


def versions() -> dict[str, str]:
    """Return the versions that a figure depends on."""
    from importlib.metadata import version

    return {
        "workbench": __version__,
        "egglog": version("egglog"),
        "highspy": version("highspy"),
        "python": platform.python_version(),
    }


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Result(Face, ABC):
    """An optimised graph with all figures of the way to it, from which texts, tables and files are made.

    ``graph`` is certified equal to ``original``, or is ``original`` itself. Costs are sums over operators in
    microseconds by ``cost_source``; ``seconds`` are those of each stage, in order. ``coverage`` are the operators that
    the import modelled, None for a model that was a graph already. ``offending`` are rules whose removal makes the
    result right. ``settings`` are those of the run, with its seed and versions. ``dynamic`` is the fate of the model's
    symbolic dimensions; it is None if there are none, or if they were fixed. ``ended`` says what ended the call before
    a result was certified; it is empty if nothing did.
    """

    original: Graph
    graph: Graph
    cost_before: float
    cost_after: float
    cost_source: str
    trace: Trace
    certificate: Certificate | None
    stop_reason: StopReason
    seconds: Mapping[str, float]
    settings: Mapping[str, Any]
    coverage: Any = None
    offending: tuple[str, ...] = ()
    dynamic: Dynamic | None = None
    given: Model | None = None
    ended: str = ""

    #: The stages that make up the time of the optimiser, as other systems report it.
    stages: ClassVar[tuple[str, ...]]
    #: The names in files of the attributes that a result of this kind alone has.
    own_names: ClassVar[dict[str, tuple[str, str]]]

    if TYPE_CHECKING:

        @property
        def rules(self) -> tuple[str, ...]:
            """Return the rules that made the result, the most productive first."""

    @property
    @abstractmethod
    def cost_claimed(self) -> float:
        """Return the cost of the cheapest graph found, whether or not it passed its certificate."""

    @abstractmethod
    def way_rows(self) -> list[Row]:
        """Return the rows of the summary on the way to the result."""

    @abstractmethod
    def way_lines(self) -> list[str]:
        """Return the first lines of the text of the result: its gain, the way to it, and the rules."""

    def rules_used(self) -> str:
        """Return the rules that made the result as text."""
        return ", ".join(self.rules)

    @property
    def network(self) -> str:
        """Return the name of the graph."""
        return self.original.name

    @property
    def speedup(self) -> float:
        """Return the factor by which the cost model predicts the result to be faster: before / after."""
        return speedup(self.cost_before, self.cost_after)

    @property
    def optimiser_seconds(self) -> float:
        """Return the seconds of the optimiser proper: without import, engine start, pricing and certificate."""
        return sum(self.seconds.get(stage, 0.0) for stage in self.stages)

    @property
    def certified(self) -> bool | None:
        """Return whether the result passed its certificate, or None if none was asked for."""
        return None if self.certificate is None else self.certificate.passed

    @property
    def operators_before(self) -> dict[str, int]:
        """Return the numbers of the operators of the original that run, by name."""
        return running_operators(self.original)

    @property
    def operators_after(self) -> dict[str, int]:
        """Return the numbers of the operators of the result that run, by name."""
        return running_operators(self.graph)

    def predicted(self) -> str:
        """Return the gain that the cost model predicts, with its device, as a text."""
        return f"{gain(self.cost_before, self.cost_after)} {described(self.cost_source)}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the optimised graph as ONNX, or as TASO's text if the path ends in ``.model``.

        If the result is the original, an ONNX model is written as it was given, cleaned. The file
        appears whole or not at all. Symbolic dimensions that were kept are symbolic in it.
        """
        from workbench.frontends import save_model
        from workbench.frontends.model_file import is_taso_model
        from workbench.frontends.onnx.file import write_apart

        if is_taso_model(path):
            save_model(self.graph, path)
        else:
            write_apart(self._model(), path)

    def _model(self) -> Apart:
        from workbench.frontends.onnx.exporter import to_onnx_apart
        from workbench.frontends.runtime import cleaned_model

        if self.graph is self.original and self.given is not None:
            return cleaned_model(self.given).apart
        if self.dynamic is not None and self.dynamic.kept:
            return self.dynamic.apart()
        return to_onnx_apart(self.graph)

    def to_onnx(self) -> ModelProto:
        """Return what :meth:`save` writes, with all weights inside; at most 2 GiB have a place in one model."""
        from workbench.frontends.onnx.file import joined

        return joined(self._model())

    def run(self, *inputs: np.ndarray, **named: np.ndarray) -> dict[str, np.ndarray]:
        """Run what :meth:`save` writes once in ONNX Runtime and return its outputs by name.

        The inputs are given in order, by name, or as one mapping. The model is loaded anew by each call. Raise
        TypeError for more inputs than the model has, RuntimeFailure if the runtime refuses the inputs.
        """
        from workbench.frontends.runtime import run_session, session

        names = list(self.original.input_types)
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            named, inputs = {**inputs[0], **named}, ()
        given = {**dict(zip(names, inputs, strict=False)), **named}
        if len(inputs) > len(names) or not given.keys() >= {*names}:
            got = f"{len(inputs)} in order" if inputs else ", ".join(named) or "none"
            raise TypeError(f"the inputs must be {', '.join(names)}, in order or by name, got {got}")
        return run_session(session(self._model()), given)

    def frame(self) -> pd.DataFrame:
        """Return the summary as a table: one row per stage, with its seconds and its figures."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in texts.summary_rows(self)])

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""
        return to_json(self)

    def __repr__(self) -> str:
        return texts.text_of(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Optimized(Result):
    """The result of :func:`optimize`.

    ``costs`` are those of the e-graph's e-nodes in microseconds. The sum of ``seconds`` is the time of the call:
    ``engine`` is the compiling of rules, the start of the engine and the loading of the solver, ``pricing`` the cost
    model. ``blocks`` says which equal blocks were saturated once and what that may have missed; it is empty if the
    graph was saturated as a whole.
    """

    egraph: EGraph
    solution: Solution
    rules: tuple[str, ...]
    ruleset: RuleSet
    e_nodes: int
    e_classes: int
    iterations: int
    costs: np.ndarray
    measured: Ranking | None = None
    accelerator: Any = None
    blocks: str = ""

    stages = ("saturation", "snapshot", "extraction")
    own_names = SATURATION_NAMES

    @property
    def placement(self) -> Placement | None:
        """Return which products run on the accelerator and which do not; None without an accelerator."""
        if self.accelerator is None:
            return None
        return offered("accelerator_placement")(self.graph, self.accelerator)

    def to_torch(self) -> Module:
        """Return the result as a torch module; see :func:`workbench.torch.to_module`."""
        return offered("to_torch")(self.graph)

    def compare(self) -> Comparison:
        """Return the fate of every operator, and the rules behind it."""
        return offered("compare")(self)

    def proof(self, seconds: float | None = None) -> Any:
        """Return the checked proof that the result equals its original; see :func:`workbench.laws.run_proofs.prove`."""
        return offered("proof")(self, seconds)

    def floors(self, **options: Any) -> Any:
        """Return how far the result is from its limits; see :func:`workbench.studies.devices.floors.floors`."""
        return offered("floors")(self, **options)

    @property
    def cost_claimed(self) -> float:
        """Return the cost of the cheapest graph found, whether or not it passed its certificate."""
        return min(self.cost_before, self.solution.cost)

    @property
    def log2_terms(self) -> float:
        """Return a bound on log2 of the terms represented: the sum over e-classes of log2 of their size."""
        sizes = np.bincount(self.egraph.eclass, minlength=self.egraph.n_classes)
        return float(np.log2(sizes[sizes > 0]).sum())

    def way_rows(self) -> list[Row]:
        """Return the rows of the summary on the saturation and the extraction."""
        return texts.saturation_rows(self)

    def way_lines(self) -> list[str]:
        """Return the first lines of the text of the result."""
        return texts.saturation_lines(self)
