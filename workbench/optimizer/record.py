"""Records of optimisations: every figure of a result once, from which texts, tables and files are made."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from workbench.costs import CostModel
from workbench.costs.model import described
from workbench.costs.pricing import operator_costs
from workbench.run.trace import StopReason
from workbench.support.formatting import gain, speedup

if TYPE_CHECKING:
    from workbench.certification.certificate import Certificate
    from workbench.devices.ranking import Ranking
    from workbench.extraction.result import Ending, Status
    from workbench.frontends.coverage import Coverage
    from workbench.optimizer.dynamic import Dynamic
    from workbench.optimizer.result import Result


class Placement(Protocol):
    """The products of a graph that run on an accelerator, and those that do not."""

    def lines(self) -> list[str]:
        """Return the lines of a summary."""

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain data, ready for JSON."""


@dataclass(frozen=True, slots=True)
class SaturationFigures:
    """The figures of a saturation and of the extraction from its e-graph.

    Attributes:
        e_nodes: e-nodes at the end.
        e_classes: e-classes at the end.
        priced: e-nodes that the cost model priced.
        log2_terms: sum over e-classes of log2 of their size, a bound on log2 of the terms represented.
        iterations: iterations of the saturation.
        extractor: method that found the result.
        status: strength of the extraction.
        scope: part of the e-graph that bound and status are about.
        bound: proven lower bound, in microseconds, on the cost of any graph in that part.
        endings: reasons for which the extraction, or a solver of it, ended early.
        measured: end-to-end times of the best extractions, or None.
        dynamic: report on the symbolic dimensions, or None for a model without any.
        placement: products on the accelerator and next to it, or None without one.
        blocks: equal blocks that were saturated once and what that may have missed; empty if there were none.
    """

    e_nodes: int
    e_classes: int
    priced: int
    log2_terms: float
    iterations: int
    extractor: str
    status: Status
    scope: str
    bound: float
    endings: tuple[Ending, ...]
    measured: Ranking | None
    dynamic: Dynamic | None
    placement: Placement | None = None
    blocks: str = ""

    #: Stages that make up the time of the optimiser, as other systems report it.
    STAGES: ClassVar = ("saturation", "snapshot", "extraction")


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """The figures of a backtracking search.

    Attributes:
        expanded: graphs taken from the queue and rewritten.
        found: distinct graphs queued.
        log2_terms: log2 of ``found``, or None if there is none.
        history: substitutions that made the result, in order.
        seconds_best: seconds until the cheapest graph was found.
    """

    expanded: int
    found: int
    log2_terms: float | None
    history: tuple[str, ...]
    seconds_best: float

    #: Stages that make up the time of the optimiser.
    STAGES: ClassVar = ("search",)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The figures of one optimisation, however its result was found.

    Costs are sums over operators in microseconds by ``cost_source``; times are in seconds.

    Attributes:
        network: name of the graph.
        cost_source: cost model, with its device.
        cost_before: cost of the original.
        cost_after: cost of the result.
        cost_claimed: cost of the cheapest graph found, whether or not it passed its certificate.
        seconds: time of each stage, in the order of the stages.
        stop_reason: reason why the saturation or the search ended.
        rules: rules that made the result, the most productive first.
        offending: rules whose removal makes the result right; empty if it is right.
        certificate: evidence that original and result are equal, or None if none was asked for.
        operators_before: numbers of the operators of the original that run, by name.
        operators_after: the same of the result.
        fused: whether an operator of the result contains an activation.
        settings: settings of the run, with its seed and the versions of the package and its engines.
        coverage: operators that the import modelled, or None for a model that was a graph already.
        way: figures of the way to the result.
        ended: what ended the call before a result was certified; empty if nothing did.
    """

    network: str
    cost_source: str
    cost_before: float
    cost_after: float
    cost_claimed: float
    seconds: Mapping[str, float]
    stop_reason: StopReason
    rules: tuple[str, ...]
    offending: tuple[str, ...]
    certificate: Certificate | None
    operators_before: Mapping[str, int]
    operators_after: Mapping[str, int]
    fused: bool
    settings: Mapping[str, Any]
    coverage: Coverage | None
    way: SaturationFigures | SearchFigures
    ended: str = ""

    @property
    def speedup(self) -> float:
        """Return the factor by which the cost model predicts the result to be faster: before / after."""
        return speedup(self.cost_before, self.cost_after)

    @property
    def optimiser_seconds(self) -> float:
        """Return the time of the optimiser proper, which other systems' figures cover.

        Import, start of the engine, pricing and certificate are not part of it.
        """
        return sum(self.seconds.get(stage, 0.0) for stage in self.way.STAGES)

    @property
    def certified(self) -> bool | None:
        """Return whether the result passed its certificate, or None if none was asked for."""
        return None if self.certificate is None else self.certificate.passed

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the rules that a model of 16-bit floats is not rewritten by."""
        return tuple(self.settings.get("left_out", ()))

    def predicted(self) -> str:
        """Return the gain that the cost model predicts, with its device, as a text."""
        return f"{gain(self.cost_before, self.cost_after)} {described(self.cost_source)}"


#: The names of fields in files, for those of the record and of either way. First the key in the JSON of the
#: command line, then the column in the rows of stored runs; "" means that the field is not there.
NAMES: Final[Mapping[str, tuple[str, str]]] = {
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
SATURATION_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "e_nodes": ("e_nodes", "nodes"),
    "e_classes": ("e_classes", "classes"),
    "log2_terms": ("", "programs"),
    "iterations": ("iterations", "iter"),
    "extractor": ("extractor", ""),
    "bound": ("bound", "bound"),
    "status": ("status", ""),
    "scope": ("scope", ""),
    "measured": ("measured", ""),
    "dynamic": ("dynamic", ""),
    "blocks": ("blocks", ""),
}
SEARCH_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "expanded": ("expanded", "iter"),
    "found": ("found", "candidates"),
    "log2_terms": ("", "programs"),
    "history": ("history", ""),
    "seconds_best": ("", "seconds_best"),
}
#: Stages whose times have keys of their own in the JSON, and columns in the rows.
_TIMED: Final = ("saturation", "extraction", "search")


def to_json(record: RunRecord) -> dict[str, Any]:
    """Return a record as plain data under the keys of the command line's JSON."""
    found = {key: _plain(value) for (key, _), value in _named(record) if key}
    if isinstance(record.way, SaturationFigures) and record.way.placement is not None:
        found["accelerator"] = record.way.placement.summary()
    return found | {stage: record.seconds[stage] for stage in _TIMED if stage in record.seconds}


def to_row(record: RunRecord) -> dict[str, Any]:
    """Return a record as a row of stored runs: numbers and texts by the columns' names.

    The row of a search has the columns of a saturation too: they are empty, or have the corresponding figure.
    """
    row: dict[str, Any]
    if isinstance(record.way, SearchFigures):
        columns = (column for _, column in SATURATION_NAMES.values() if column)
        row = dict.fromkeys(("saturation", "extraction", *columns))
        row["budget"] = str(record.settings["budget"])
    else:
        row = {stage: record.seconds[stage] for stage in ("saturation", "extraction")}
        row["k_multi"] = record.settings["k_multi"]
    return row | {column: value for (_, column), value in _named(record) if column}


def _named(record: RunRecord) -> list[tuple[tuple[str, str], object]]:
    """Return the names and the values of all fields that are in some file."""
    own = SATURATION_NAMES if isinstance(record.way, SaturationFigures) else SEARCH_NAMES
    found = [(names, getattr(record, field)) for field, names in NAMES.items()]
    return found + [(names, getattr(record.way, field)) for field, names in own.items()]


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
    record = result.record()
    before, after = (operator_costs(graph, cost_model) for graph in (result.original, result.graph))
    from workbench.extraction.cost_history import CURVE

    bound: dict[str, Any] = {}
    if isinstance(record.way, SaturationFigures):
        bound = {"cost_bound": record.way.bound, "cost_curve": CURVE}
    return {
        "cost_source": cost_model.source,
        "cost_before": record.cost_before,
        "cost_after": record.cost_after,
        "operator_costs": {"before": before, "after": after},
        "rule_set": record.settings["rules"],
        "seed": record.settings["seed"],
        "stop_reason": record.stop_reason.value,
        **versions(),
        **bound,
    }


def versions() -> dict[str, str]:
    """Return the versions that a figure depends on."""
    import platform
    from importlib.metadata import version

    from workbench._version import __version__

    return {
        "workbench": __version__,
        "egglog": version("egglog"),
        "highspy": version("highspy"),
        "python": platform.python_version(),
    }
