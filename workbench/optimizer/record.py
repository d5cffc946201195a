"""Records of optimisations: the figures of a result by their names in files."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from workbench.costs import CostModel
from workbench.costs.pricing import operator_costs

if TYPE_CHECKING:
    from workbench.optimizer.result import Result


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
    """Return a result as a row of stored runs: numbers and texts by the columns' names.

    The row of a search has the columns of a saturation too: they are empty, or have the corresponding figure.
    """
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
    from workbench.extraction.cost_history import CURVE

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
    import platform
    from importlib.metadata import version

    from workbench._version import __version__

    return {
        "workbench": __version__,
        "egglog": version("egglog"),
        "highspy": version("highspy"),
        "python": platform.python_version(),
    }
