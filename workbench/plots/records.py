"""Records of runs: the columns that figures read, where they come from, and repeats put together."""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from workbench.pipeline import Optimized

#: What a figure is drawn from: a frame, a file (CSV, Parquet, JSON, JSON lines), results, or a mix of them.
Records: TypeAlias = "pd.DataFrame | str | os.PathLike[str] | Optimized | Iterable[Any]"

#: The columns of a record, one record a run. The first eight have Tensat's names and meanings.
COLUMNS: Final[Mapping[str, str]] = {
    "original": "cost of the network as it came, in any unit",
    "optimized": "cost of the optimised network, in the same unit",
    "saturation": "seconds of saturation",
    "extraction": "seconds of extraction",
    "nodes": "e-nodes",
    "classes": "e-classes",
    "programs": "sum over e-classes of log2 of their size: a bound on log2 of the terms represented",
    "iter": "iterations of the saturation",
    "network": "name of the network",
    "method": "what optimised: workbench, TASO, Tensat, or an extractor's or a rule set's name",
    "k_multi": "iterations with multi-pattern rules",
    "repeat": "number of the repetition",
    "seconds": "seconds of the optimiser; where absent, saturation and extraction together",
    "cost_source": "where the costs come from",
    "published": "whether others report it",
    "hardware": "the machine",
}

#: Columns that some records have besides.
OPTIONAL: Final[Mapping[str, str]] = {
    "speedup": "speed-up in percent where the costs behind it are not known",
    "seconds_best": "seconds until the best graph was found, where the search went on",
    "budget": "what bounds a search, such as TASO's number of steps",
    "candidates": "graphs that a backtracking search looked at",
}

_TEXTS: Final = ("network", "method", "cost_source", "hardware", "budget")


def record(
    result: Optimized, *, method: str = "workbench", network: str = "", repeat: int = 0, hardware: str = ""
) -> dict[str, Any]:
    """Return the record of a result, with the stages' seconds beside the columns of :data:`COLUMNS`.

    ``seconds`` are those of saturation, reading the e-graph and extraction: what others' figures cover.
    """
    sizes = np.bincount(result.egraph.eclass, minlength=result.egraph.n_classes)
    stages = dict(result.seconds)
    return stages | {
        "original": result.cost_before,
        "optimized": result.cost_after,
        "nodes": result.e_nodes,
        "classes": result.e_classes,
        "programs": float(np.log2(sizes[sizes > 0]).sum()),
        "iter": result.iterations,
        "network": network or result.original.name,
        "method": method,
        "k_multi": result.settings["k_multi"],
        "repeat": repeat,
        "seconds": sum(stages.get(s, 0.0) for s in ("saturation", "snapshot", "extraction")),
        "cost_source": result.cost_source,
        "published": False,
        "hardware": hardware,
    }


def published_records(networks: Iterable[str] | None = None) -> pd.DataFrame:
    """Return TASO's and Tensat's published figures as records, of ``networks`` or of all there are."""
    import pandas as pd

    from workbench.benchmarks.published import PUBLISHED

    wanted = list(PUBLISHED) if networks is None else list(networks)
    rows = []
    for network in wanted:
        known = PUBLISHED.get(network)
        if known is None:
            continue
        about = {"network": network, "published": True, "hardware": "NVIDIA T4", "cost_source": "published"}
        rows += [
            {**about, "method": "TASO", "speedup": known.taso_speedup, "seconds": known.taso_seconds},
            {**about, "method": "Tensat", "speedup": known.tensat_speedup, "seconds": known.tensat_seconds},
        ]
    return pd.DataFrame(rows, columns=[*COLUMNS, "speedup"])


def records_frame(records: Records, *needs: str) -> pd.DataFrame:
    """Return records as a frame with every column of :data:`COLUMNS`; ``speedup`` is filled in.

    Raise ValueError where a column of ``needs`` has no value at all, with the nearest name there is, and
    FileNotFoundError or ValueError for a file that is not there or has no records.
    """
    import pandas as pd

    frame = _read(records)
    given = list(frame.columns)
    frame = frame.reindex(columns=[*given, *(c for c in (*COLUMNS, *OPTIONAL) if c not in given)])
    for column in {*COLUMNS, *OPTIONAL} - {*_TEXTS, "published"}:
        try:
            frame[column] = pd.to_numeric(frame[column])
        except (TypeError, ValueError):
            raise ValueError(f"the column {column!r} holds numbers, and this one does not") from None
    frame["method"] = _filled(frame["method"], "workbench")
    frame["published"] = frame["published"].map(_truth).astype(bool)
    for column in ("cost_source", "hardware"):
        frame[column] = _filled(frame[column], "").astype(str)
    costs = (frame["original"] / frame["optimized"].where(frame["optimized"] > 0) - 1) * 100
    frame["speedup"] = frame["speedup"].fillna(costs)
    frame["seconds"] = frame["seconds"].fillna(frame["saturation"] + frame["extraction"])
    for column in needs:
        if column not in frame.columns or (len(frame) and frame[column].isna().all()):
            raise ValueError(_missing(column, given))
    return frame.reset_index(drop=True)


def _filled(column: pd.Series[Any], value: str) -> pd.Series[Any]:
    return column.astype(object).where(column.notna(), value)


def _missing(column: str, given: Sequence[str]) -> str:
    source = {"speedup": ("original", "optimized"), "seconds": ("saturation", "extraction")}.get(column)
    wanted = f"{column!r} (or {source[0]!r} and {source[1]!r})" if source else repr(column)
    names = (column, *(source or ()))
    near = [n for name in names for n in difflib.get_close_matches(name, given, 1, 0.75) if n not in names]
    hint = f" (did you mean that by {near[0]!r}?)" if near else ""
    return f"the records have no {wanted}{hint}; their columns are: {', '.join(map(str, given)) or 'none'}"


def _truth(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "1", "yes")
    return bool(value) and value == value


def _read(records: Any) -> pd.DataFrame:
    import pandas as pd

    if isinstance(records, pd.DataFrame):
        return records.copy()
    if isinstance(records, str | os.PathLike):
        return _read_file(Path(records))
    if isinstance(records, Mapping):
        return pd.DataFrame([records])
    if hasattr(records, "egraph") and hasattr(records, "cost_after"):
        return pd.DataFrame([record(records)])
    if isinstance(records, Iterable):
        parts = [part for part in (_read(item) for item in records) if len(part)]
        # By rows, not by frames: what one part has no value for must not decide the others' types.
        rows = [row for part in parts for row in part.to_dict("records")]
        columns = dict.fromkeys(c for part in parts for c in part.columns)
        return pd.DataFrame(rows, columns=list(columns) or list(COLUMNS))
    raise TypeError(
        f"records are a frame, a file, results of workbench.optimize or several of them, not "
        f"{type(records).__name__}"
    )


def _read_file(file: Path) -> pd.DataFrame:
    import pandas as pd

    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file of records")
    try:
        if file.suffix == ".parquet":
            return pd.read_parquet(file)
        if file.suffix == ".csv":
            return pd.read_csv(file)
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".jsonl":
            return pd.DataFrame([json.loads(line) for line in text.splitlines() if line.strip()])
        if file.suffix == ".json":
            data = json.loads(text)
            return pd.DataFrame(data if isinstance(data, list) else [data])
    except (ValueError, OSError) as error:
        raise ValueError(f"{file}: no records could be read ({error})") from None
    raise ValueError(f"{file}: records are read from .csv, .parquet, .json and .jsonl files")


# -- repeats ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Estimate:
    """Hold the mean of repeats and its standard error, 0 where there is one value alone."""

    mean: float
    error: float
    count: int


#: Where a figure has nothing.
NOTHING: Final = Estimate(math.nan, 0.0, 0)


def estimate(values: Iterable[float]) -> Estimate:
    """Return mean and standard error (of a sample, so n - 1) of the values that are there.

    >>> estimate([1.0, 3.0])
    Estimate(mean=2.0, error=1.0, count=2)
    """
    known = np.array([v for v in values if v == v], dtype=float)
    if not known.size:
        return NOTHING
    error = float(known.std(ddof=1) / math.sqrt(known.size)) if known.size > 1 else 0.0
    return Estimate(float(known.mean()), error, int(known.size))


@dataclass(frozen=True, slots=True)
class Series:
    """Hold the estimates of one method: ``values[i]`` is of the figure's network ``i``."""

    method: str
    k_multi: int | None
    published: bool
    hardware: str
    cost_source: str
    values: tuple[Estimate, ...]

    @property
    def label(self) -> str:
        """Return the name in a legend; published figures say so, and on which machine."""
        name = self.method if self.k_multi is None else f"{self.method}, k={self.k_multi}"
        if not self.published:
            return name
        return f"{name}, published" + (f" ({self.hardware})" if self.hardware else "")


def series_of(frame: pd.DataFrame, column: str) -> tuple[tuple[str, ...], tuple[Series, ...]]:
    """Return the networks in order of appearance, and one series a method, published ones apart.

    A method that ran with several k_multi is a series for each. Raise ValueError where repeats of one
    series are of different machines or cost sources: their mean would say nothing.
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
            found.append(
                Series(
                    str(method),
                    k,
                    bool(published),
                    _all(part["hardware"]),
                    _all(part["cost_source"]),
                    tuple(values),
                )
            )
    return networks, tuple(sorted(found, key=lambda s: s.published))


def refuse_mixed(rows: pd.DataFrame, what: str) -> None:
    """Raise ValueError where rows that are put together come from several machines or cost sources."""
    for column in ("cost_source", "hardware"):
        kinds = sorted(set(rows[column]))
        if len(kinds) > 1:
            raise ValueError(
                f"{what}: the repeats have several values of {column} ({', '.join(map(repr, kinds))}); "
                f"choose one, as records[records.{column} == {kinds[0]!r}], or give them two methods' names"
            )


def _all(column: pd.Series[Any]) -> str:
    return "; ".join(dict.fromkeys(str(v) for v in column if v))


def sources(series: Iterable[Series]) -> str:
    """Return where the costs of our own runs come from, for the line under a figure."""
    return "; ".join(dict.fromkeys(s.cost_source for s in series if not s.published and s.cost_source))
