"""Records of runs: the columns that figures read, their sources, and estimates over repeats."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from workbench.optimizer.result import Result, to_row

if TYPE_CHECKING:
    import pandas as pd

#: The input of a figure: a frame, results, or a mix of them.
Records: TypeAlias = "pd.DataFrame | Result | Iterable[Any]"

#: The columns of a record, one record per run. The first eight have Tensat's names and meanings.
COLUMNS: Final[Mapping[str, str]] = {
    "original": "cost of the original network, in any unit",
    "optimized": "cost of the optimised network, in the same unit",
    "saturation": "seconds of saturation",
    "extraction": "seconds of extraction",
    "nodes": "e-nodes",
    "classes": "e-classes",
    "programs": "sum over e-classes of log2 of their size: a bound on log2 of the terms represented",
    "iter": "iterations of the saturation",
    "network": "name of the network",
    "method": "the optimiser: workbench, TASO, Tensat, or the name of an extractor or a rule set",
    "k_multi": "iterations with multi-pattern rules",
    "repeat": "number of the repetition",
    "seconds": "seconds of the optimiser; if absent, the sum of saturation and extraction",
    "cost_source": "source of the costs",
    "published": "whether the record is a published figure of others",
    "hardware": "the machine",
}

#: Further columns that some records have.
OPTIONAL: Final[Mapping[str, str]] = {
    "speedup": "speed-up in percent, given directly if its costs are unknown",
    "seconds_best": "seconds until the best graph was found, if the search continued after it",
    "budget": "limit on a search, such as TASO's number of steps",
    "candidates": "graphs that a backtracking search considered",
}

_TEXTS: Final = ("network", "method", "cost_source", "hardware", "budget")


def record(result: Result) -> dict[str, Any]:
    """Return the record of a result: the columns of :data:`COLUMNS` and the seconds by stage.

    ``seconds`` covers saturation, reading the e-graph and extraction, or the search, like the published
    figures.
    """
    own = {"network": result.network, "method": "workbench", "repeat": 0}
    return {**result.seconds, **to_row(result), **own, "published": False, "hardware": ""}


def published_records(networks: Iterable[str] | None = None) -> pd.DataFrame:
    """Return TASO's and Tensat's published figures as records, for ``networks`` or for all networks."""
    import pandas as pd

    from workbench.studies.benchmarks import PUBLISHED

    rows = []
    for network in PUBLISHED if networks is None else networks:
        about = {"network": network, "published": True, "hardware": "NVIDIA T4", "cost_source": "published"}
        if known := PUBLISHED.get(network):
            taso = {"method": "TASO", "speedup": known.taso_speedup, "seconds": known.taso_seconds}
            tensat = {"method": "Tensat", "speedup": known.tensat_speedup, "seconds": known.tensat_seconds}
            rows += [about | taso, about | tensat]
    return pd.DataFrame(rows, columns=[*COLUMNS, "speedup"])


def records_frame(records: Records, *needs: str) -> pd.DataFrame:
    """Return records as a frame with every column of :data:`COLUMNS`.

    Missing ``speedup`` and ``seconds`` are computed from costs and stages. Raise ValueError, with the nearest
    existing name, if a column of ``needs`` has no value.
    """
    import pandas as pd

    frame = _read(records)
    given = list(frame.columns)
    frame = frame.reindex(columns=[*given, *(c for c in (*COLUMNS, *OPTIONAL) if c not in given)])
    for column in {*COLUMNS, *OPTIONAL} - {*_TEXTS, "published"}:
        try:
            frame[column] = pd.to_numeric(frame[column])
        except (TypeError, ValueError):
            raise ValueError(f"the column {column!r} must have numbers, got other values") from None
    for column, usual in {"method": "workbench", "cost_source": "", "hardware": ""}.items():
        frame[column] = frame[column].astype(object).where(frame[column].notna(), usual)
    frame["published"] = frame["published"].map(_truth).astype(bool)
    frame = frame.astype({"cost_source": str, "hardware": str})
    costs = (frame["original"] / frame["optimized"].where(frame["optimized"] > 0) - 1) * 100
    frame["speedup"] = frame["speedup"].fillna(costs)
    frame["seconds"] = frame["seconds"].fillna(frame["saturation"] + frame["extraction"])
    for column in needs:
        if column not in frame.columns or (len(frame) and frame[column].isna().all()):
            raise ValueError(_missing(column, given))
    return frame.reset_index(drop=True)


def _missing(column: str, given: Sequence[str]) -> str:
    source = {"speedup": ("original", "optimized"), "seconds": ("saturation", "extraction")}.get(column)
    wanted = f"{column!r} (or {source[0]!r} and {source[1]!r})" if source else repr(column)
    names = (column, *(source or ()))
    near = [n for name in names for n in difflib.get_close_matches(name, given, 1, 0.75) if n not in names]
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"the records must have {wanted}{hint} Their columns are: {', '.join(map(str, given)) or 'none'}"


def _truth(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "1", "yes")
    return bool(value) and value == value


def _read(records: Any) -> pd.DataFrame:
    import pandas as pd

    if isinstance(records, pd.DataFrame):
        return records.copy()
    if isinstance(records, Mapping | Result):
        return pd.DataFrame([record(records) if isinstance(records, Result) else records])
    if isinstance(records, Iterable) and not isinstance(records, str):
        parts = [part for part in (_read(item) for item in records) if len(part)]
        # Parts are joined by rows, so that a column without values in one part does not change types.
        rows = [row for part in parts for row in part.to_dict("records")]
        columns = dict.fromkeys(c for part in parts for c in part.columns)
        return pd.DataFrame(rows, columns=list(columns) or list(COLUMNS))
    raise TypeError(
        "records must be a frame, results of workbench.optimize or several of them, got "
        f"{type(records).__name__} (try pandas.read_csv for a file)"
    )


# -- repeats ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of ``count`` repeats and its standard error, which is 0 for a single value."""

    mean: float
    error: float
    count: int


def estimate(values: Iterable[float]) -> Estimate:
    """Return mean and standard error (of a sample, so with n - 1) of the values that are not NaN.

    >>> estimate([1.0, 3.0])
    Estimate(mean=2.0, error=1.0, count=2)
    """
    known = np.array([v for v in values if v == v], dtype=float)
    if not known.size:
        return Estimate(math.nan, 0.0, 0)
    error = float(known.std(ddof=1) / math.sqrt(known.size)) if known.size > 1 else 0.0
    return Estimate(float(known.mean()), error, int(known.size))


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of the values, ignoring NaN; None if none is left or one is not positive."""
    known = [v for v in values if v == v]
    if not known or min(known) <= 0:
        return None
    return math.exp(sum(map(math.log, known)) / len(known))


@dataclass(frozen=True, slots=True)
class Series:
    """The estimates of one method: ``values[i]`` belongs to the figure's network ``i``."""

    method: str
    k_multi: int | None
    published: bool
    hardware: str
    cost_source: str
    values: tuple[Estimate, ...]

    @property
    def label(self) -> str:
        """Return the name in a legend; published figures are marked, with their machine."""
        name = self.method if self.k_multi is None else f"{self.method}, k={self.k_multi}"
        if not self.published:
            return name
        return f"{name}, published" + (f" ({self.hardware})" if self.hardware else "")


def series_of(frame: pd.DataFrame, column: str) -> tuple[tuple[str, ...], tuple[Series, ...]]:
    """Return the networks in order of appearance, and one series per method, published ones last.

    A method that ran with several values of k_multi has one series for each. Raise ValueError if repeats in
    one series come from different machines or cost sources, because their mean would be meaningless.
    """
    networks = tuple(dict.fromkeys(frame["network"].astype(str)))
    found = []
    for (method, published), rows in frame.groupby(["method", "published"], sort=False):
        known = sorted({int(k) for k in rows["k_multi"].dropna()})
        for k in known if len(known) > 1 else [None]:
            part = rows if k is None else rows[rows["k_multi"] == k]
            values = []
            for network in networks:
                cell = part[part["network"].astype(str) == network]
                refuse_mixed(cell, f"{method} on {network}")
                values.append(estimate(cell[column]))
            machine, source = (
                "; ".join(dict.fromkeys(filter(None, part[c]))) for c in ("hardware", "cost_source")
            )
            found.append(Series(str(method), k, bool(published), machine, source, tuple(values)))
    return networks, tuple(sorted(found, key=lambda s: s.published))


def refuse_mixed(rows: pd.DataFrame, what: str) -> None:
    """Raise ValueError if rows to be averaged come from several machines or cost sources."""
    for column in ("cost_source", "hardware"):
        kinds = sorted(set(rows[column]))
        if len(kinds) > 1:
            raise ValueError(
                f"{what}: the repeats must have one value of {column}, got {', '.join(map(repr, kinds))} "
                f"(try records[records.{column} == {kinds[0]!r}], or different names of methods)"
            )


def sources(series: Iterable[Series]) -> str:
    """Return the cost sources of the series that are not published, for the line under a figure."""
    return "; ".join(dict.fromkeys(s.cost_source for s in series if not s.published and s.cost_source))
