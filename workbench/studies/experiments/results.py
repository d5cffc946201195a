"""Results of stored runs: a frame of all runs, tables of it, and a comparison of two sets of runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.studies.experiments.records import (
    COLUMNS,
    OPTIONAL,
    Estimate,
    estimate,
    geometric_mean,
    published_records,
    records_frame,
)
from workbench.studies.experiments.store import RECORD, load_record, record_folders, repetition
from workbench.studies.zoo import find_zoo

if TYPE_CHECKING:
    import pandas as pd


#: Columns of :func:`load` in addition to those of :data:`workbench.studies.experiments.records.COLUMNS`.
MORE: Final[Mapping[str, str]] = {
    "study": "the kind of study",
    "by": "saturation or search; in other studies extraction, ablation, verification or synthesis",
    "claimed": "cost of the graph that was found, before its certificate was checked",
    "certified": "whether the result passed its certificate; if not, the original is the result",
    "bound": "proven lower bound on the cost of every term in the e-graph",
    "status": "of the extraction: optimal or not; of a run without a result: killed, failed or crashed",
    "stop_reason": "the reason for which the saturation or the search ended",
    "limits_hit": "limits that affected the result, separated by semicolons",
    "failed": "whether the run has no result",
    "notes": "further remarks",
    "seed": "of Python's hashes and of the certificate's inputs",
    "family": "of a network with branches",
    "blocks": "number of blocks of a network with branches",
    "by_hand": "cost of the form that is merged by hand",
    "operators": "number of operators of the result, counted in its ONNX file",
    "operators_original": "number of operators of the original, counted in its ONNX file",
    "operators_by_hand": "number of operators of the form merged by hand, counted in its ONNX file",
    "rounding": "difference of the result in the model's dtype from the original in float64",
    "own_rounding": "difference of the original in the model's dtype from itself in float64",
    "wall_seconds": "of the run's process, from its start to its end",
    "call_seconds": "of the optimiser's whole call, including the engine's start and the certificate",
    "device": "the device whose costs are used",
    "versions": "of the package, its engine and its solvers",
    "commit": "of the package, with + if files differed from it",
    "folder": "of the record and the trace",
}

#: Columns of :func:`latency`.
LATENCY: Final = (
    "network", "method", "repeat", "target", "form", "median", "low", "high", "speedup", "speedup_low",
    "speedup_high", "rounds", "skipped", "threads", "title", "cost_source", "hardware", "version",
)  # fmt: skip

#: The text of an empty cell.
NOTHING: Final = "—"
MEAN: Final = "geometric mean"


def load(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return all runs below a folder as a frame, one row per run.

    The folder may belong to a single run, a study or several studies. The columns are those of
    :data:`workbench.studies.experiments.records.COLUMNS` (the first eight are Tensat's) and ``OPTIONAL``
    there, then those of :data:`MORE`; ``speedup`` is in percent. Networks are in the order of the papers. Raise
    FileNotFoundError if no run is stored, and ValueError if a record cannot be read.
    """
    rows = (row_of(record) | {"folder": record["folder"]} for record in records(path))
    return _in_order(frame_of(rows), ["study", "network", "method", "repeat"])


def records(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the records of runs below a folder, each with its ``folder``; raise FileNotFoundError if there is none."""
    root = Path(path)
    folders = [root.parent] if root.name == RECORD and root.is_file() else record_folders(root)
    found = [(load_record(folder) or {}) | {"folder": folder.as_posix()} for folder in folders]
    found = [record for record in found if {"row", "config"} <= record.keys()]
    if not found:
        raise FileNotFoundError(f"{root} must have a stored run, got none (try `workbench run STUDY.yaml`)")
    return found


def row_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a run's record; the columns are the same for all kinds of studies."""
    row, where, study = dict(record["row"]), record["provenance"], record["config"]["study"]
    if study == "extraction":
        row = _extraction_row(row, record)
    elif study in ("verification", "synthesis"):
        row |= {"network": row["rules" if study == "verification" else "grammar"], "by": study}
    return row | {
        "study": study,
        "published": False,
        "hardware": _hardware(where["machine"]),
        "stop_reason": record.get("stop_reason"),
        "limits_hit": "; ".join(record.get("limits_hit", ())),
        "failed": record["failed"],
        "seed": record["config"]["seed"],
        "wall_seconds": record["wall_seconds"],
        "call_seconds": sum(v for v in (record.get("seconds") or {}).values() if v) or None,
        "versions": ", ".join(f"{name} {v}" for name, v in where.get("versions", {}).items()),
        "device": record.get("device"),
        "commit": where["commit"],
    }


def _hardware(machine: Mapping[str, Any]) -> str:
    return f"{machine['cpus']} CPUs, {machine['processor']}"


def _extraction_row(row: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of an extraction under the names of all studies; the rest is of the network's e-graph."""
    e_graph = record.get("e_graph", {})
    own = {name: name for name in ("method", "seconds", "bound", "status", "notes")}
    own |= {"network": "instance", "optimized": "cost", "extraction": "seconds"}
    own |= {"nodes": "e_nodes", "classes": "e_classes"}
    grown = {"original": "original_cost", "saturation": "saturation_seconds", "iter": "iterations"}
    return {
        **{name: row[theirs] for name, theirs in own.items()},
        **{name: e_graph.get(theirs) for name, theirs in grown.items()},
        "repeat": repetition(record) - 1,
        "by": "extraction",
        "k_multi": record["config"]["instance"].get("k_multi"),
        "cost_source": e_graph.get("cost_source", ""),
    }


def latency(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the timings of the runs below a folder, one row per run, target and form of a network.

    ``median``, ``low`` and ``high`` (the quartiles) are in µs. ``speedup`` is relative to the original on the
    same target, the median of the rounds' ratios; ``speedup_low`` and ``speedup_high`` are its 95 %
    interval. ``skipped`` is the reason for a row without timings; ``version`` is the version of a rival.
    Raise FileNotFoundError if no run is stored.
    """
    return _in_order(latency_frame(records(path)), ["network", "method", "repeat"])


def latency_frame(found: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the timings of records as a frame; see :func:`latency`."""
    import pandas as pd

    rows = []
    for record in found:
        timed = record.get("latency") or {}
        about = {key: record["row"].get(key) for key in ("network", "method", "repeat", "cost_source")}
        about["hardware"] = _hardware(record["provenance"]["machine"])
        for row in timed.get("rows", ()):
            low, high = row.get("quartiles_us", (None, None))
            least, most = row.get("interval", (None, None))
            rows.append(
                about
                | {key: row.get(key) for key in ("target", "form", "speedup", "rounds", "skipped")}
                | {"median": row.get("median_us"), "low": low, "high": high}
                | {"speedup_low": least, "speedup_high": most, "threads": timed["threads"]}
                | {"title": timed["titles"].get(row["target"], "")}
                | {"version": timed.get("rivals", {}).get(row["form"], {}).get("version")}
            )
    frame = pd.DataFrame(rows, columns=list(LATENCY))
    numbers = ("median", "low", "high", "speedup", "speedup_low", "speedup_high")
    return frame.astype(dict.fromkeys(numbers, float) | dict.fromkeys(("repeat", "rounds"), "Int64"))


def frame_of(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a frame with all columns; counts stay whole numbers even if some are missing."""
    import pandas as pd

    columns = [*COLUMNS, *OPTIONAL, *MORE]
    frame = records_frame(pd.DataFrame(list(rows)).reindex(columns=columns))[columns]
    operators = ("operators", "operators_original", "operators_by_hand")
    counts = ("nodes", "classes", "iter", "k_multi", "repeat", "candidates", "seed", "blocks", *operators)
    return frame.astype(dict.fromkeys(counts, "Int64"))


def _in_order(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return rows sorted by the keys: networks in the papers' order, then other networks; ties keep order."""
    from workbench.studies.benchmarks import benchmarks

    families: Iterable[str] = ()  # without the zoo, its families stay in the order of the rows
    with contextlib.suppress(FileNotFoundError):
        find_zoo()
        from zoo.all_families import ALL_FAMILIES as families
    known = {name: i for i, name in enumerate([*benchmarks(), *families])}
    place = [known.get(str(n), len(known)) for n in frame["network"]]
    at = keys.index("network")
    order = frame.assign(_place=place).sort_values([*keys[:at], "_place", *keys[at:]], kind="stable")
    return frame.loc[order.index].reset_index(drop=True)


def with_published(frame: pd.DataFrame) -> pd.DataFrame:
    """Return runs and, below them, the figures of TASO's and Tensat's papers for the same networks."""
    networks = dict.fromkeys(str(n) for n in frame["network"])
    rows = frame.to_dict("records") + published_records(networks).to_dict("records")
    return frame_of({str(k): v for k, v in row.items()} for row in rows)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of texts: for every network and method speed-up, seconds and the number of runs.

    Speed-ups are in percent. Speed-ups and seconds are means, with ± the standard error if there are several
    runs; a missing figure is ``—``. The geometric mean is over the networks of a method, whose number is its
    n: methods with different n are not comparable. Published figures are marked, with their hardware.

    >>> import pandas as pd
    >>> runs = pd.DataFrame({"network": ["bert", "bert"], "method": ["ours", "ours"], "speedup": [10.0, 12.0],
    ...                      "seconds": [1.0, 1.0]})
    >>> table(runs)["ours"].loc["bert"].tolist()
    ['11.0 ± 1.0', '1.00 ± 0.00', '2']
    """
    import pandas as pd

    frame = records_frame(frame).assign(label=labels(frame))
    networks, methods = (list(dict.fromkeys(frame[column])) for column in ("network", "label"))
    values = ("speed-up %", "seconds", "n")
    texts: list[tuple[str, ...]] = []  # one column after another
    for method in methods:
        ours = frame[frame["label"] == method]
        runs = [ours[ours["network"] == network] for network in networks]
        found = [(estimate(rows["speedup"]), estimate(rows["seconds"])) for rows in runs]
        cells = [(_mean(s, ".1f"), _mean(t, ".2f"), str(max(s.count, t.count) or NOTHING)) for s, t in found]
        gains = geometric_mean([1 + s.mean / 100 for s, _ in found])
        times = geometric_mean([t.mean for _, t in found])
        mean = NOTHING if gains is None else f"{100 * (gains - 1):.1f}"
        spent = NOTHING if times is None else f"{times:.2f}"
        texts += zip(
            *cells, (mean, spent, str(sum(s.count > 0 or t.count > 0 for s, t in found))), strict=True
        )
    rows = pd.Index([*networks, MEAN], name="network")
    columns = pd.MultiIndex.from_product([methods, values])
    return pd.DataFrame(list(zip(*texts, strict=True)), index=rows, columns=columns)


def labels(frame: pd.DataFrame) -> list[str]:
    """Return the method's label in tables for every row; published ones are marked, with the hardware."""
    return [
        f"{row['method']}, published" + (f" ({row['hardware']})" if row["hardware"] else "")
        if row["published"]
        else str(row["method"])
        for row in records_frame(frame).to_dict("records")
    ]


def compare(frame_a: pd.DataFrame, frame_b: pd.DataFrame) -> pd.DataFrame:
    """Return two sets of runs side by side, one row per network and method of either set.

    ``optimized`` and ``seconds`` are means over repeats; ``_a`` and ``_b`` name the set. The ratios are
    b / a, so they are below 1 if the second set is better. ``n`` counts runs and is 0 if a set has none.
    Published rows are left out. Raise ValueError if the costs come from different sources.
    """
    import pandas as pd

    means, sources = [], []
    for frame in (frame_a, frame_b):
        runs = records_frame(frame)
        runs = runs[~runs["published"]]
        sources.append(sorted({str(s) for s in runs["cost_source"] if s}))
        grouped = runs.groupby(["network", "method"], sort=False)
        mean = grouped[["optimized", "seconds"]].mean()
        means.append(mean.assign(n=grouped["optimized"].count()))
    if all(sources) and sources[0] != sources[1]:
        raise ValueError(
            "both sets must have the same cost source, "
            f"got {', '.join(sources[0])} and {', '.join(sources[1])}"
        )
    index = list(dict.fromkeys([*means[0].index, *means[1].index]))
    a, b = (m.reindex(pd.MultiIndex.from_tuples(index, names=["network", "method"])) for m in means)
    columns: dict[str, pd.Series[float]] = {}
    for name, ratio in {"optimized": "cost_ratio", "seconds": "seconds_ratio"}.items():
        columns |= {f"{name}_a": a[name], f"{name}_b": b[name], ratio: b[name] / a[name]}
    counts = {f"n_{which}": m["n"].fillna(0).astype(int) for which, m in (("a", a), ("b", b))}
    return pd.DataFrame(columns | counts).reset_index()


def _mean(found: Estimate, form: str) -> str:
    if not found.count:
        return NOTHING
    error = f" ± {found.error:{form}}" if found.count > 1 else ""
    return f"{found.mean:{form}}{error}"
