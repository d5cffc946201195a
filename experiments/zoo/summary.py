"""Summaries of stored runs of the study of branches: small tables and sentences for a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.faces.plots.latency import CALLED, LatencySeries, latency_data
from workbench.studies.experiments.plan import Record
from workbench.studies.experiments.records import geometric_mean
from workbench.studies.experiments.results import MEAN, NOTHING, latency_frame, row_of
from workbench.studies.experiments.tables import distinct
from zoo.studies.branches import BY_HAND, ORIGINAL, OURS

if TYPE_CHECKING:
    import pandas as pd


def timed_records(records: Sequence[Record]) -> list[Record]:
    """Return the runs that have a result and were timed, without those of the scaling."""
    from zoo.all_families import ALL_FAMILIES

    place = {family: i for i, family in enumerate(ALL_FAMILIES)}
    kept = [r for r in records if r["config"]["latency"] is not None and not r["failed"]]
    return sorted(
        kept,
        key=lambda r: (place.get(r["row"]["family"], len(place)), r["row"]["method"], r["row"]["repeat"]),
    )


def provenance(records: Sequence[Record]) -> list[str]:
    """Return lines with the machine, versions, targets, rivals, cost sources, load and commits of runs."""
    timed = timed_records(records)
    rows = [row_of(r) for r in records]
    rivals = distinct(
        f"{name} {about['version']}"
        for record in timed
        for name, about in record["latency"].get("rivals", {}).items()
        if about["version"]
    )
    sources = {r["row"]["method"]: r["row"]["cost_source"].partition(";")[0] for r in timed}
    loads = [r["provenance"]["load"] for r in records if r["provenance"].get("load") is not None]
    told = {
        "machine": "; ".join(distinct(row["hardware"] for row in rows)),
        "versions": "; ".join(distinct(row["versions"] for row in rows)),
        "timed in": "; ".join(distinct(t for r in timed for t in r["latency"].get("titles", {}).values())),
        "rivals": ", ".join(rivals),
        "cost sources": "; ".join(f"{method}: {source}" for method, source in sources.items()),
        "load when runs began": f"{min(loads):.1f} to {max(loads):.1f}" if loads else "",
        "commits": ", ".join(distinct(str(row["commit"] or "no git") for row in rows)),
    }
    return [f"{what}: {text}" for what, text in told.items() if text]


def operators(records: Sequence[Record]) -> pd.DataFrame:
    """Return the number of operators in the ONNX file of every form, by family.

    The workbench's form has one column per method, because each method has its own cost source.
    """
    rows: dict[str, dict[str, Any]] = {}
    for record in timed_records(records):
        given, counts = record["config"]["parameters"], record["result"]["nodes"]
        sizes = [f"{k} {v}" for k, v in given.items() if k != "blocks" and not isinstance(v, bool)]
        row = rows.setdefault(
            record["row"]["family"], {"blocks": given.get("blocks", NOTHING), "sizes": ", ".join(sizes)}
        )
        for form in counts:
            row[form if form != OURS else f"{OURS}, {record['row']['method']}"] = sum(counts[form].values())
    return _frame(rows)


def speedups(
    records: Sequence[Record], target: str = "onnxruntime", *, predicted: bool = False
) -> pd.DataFrame:
    """Return the speed-ups over the original on one target.

    Figures are geometric means of the runs, as in :func:`workbench.faces.plots.plot_latency`; if the 95 %
    intervals of the runs do not meet, the lowest and the highest run follow in brackets. The last row is the
    geometric mean over the families. With ``predicted``, columns for the speed-ups that the costs predict
    are added. Raise ValueError for a target that was not timed.
    """
    kept = timed_records(records)
    frame = latency_frame(kept)
    data, medians, called = latency_data(frame, target), _originals(frame, target), CALLED.get(target, target)
    rows: dict[str, dict[tuple[str, str], str]] = {
        network: {(called, "original, µs"): _microseconds(medians.get(network, math.nan))}
        | {(called, one.label): _spread(one, i) for one in data.series}
        for i, network in enumerate(data.networks)
    }
    rows[MEAN] = {(called, "original, µs"): ""}
    rows[MEAN] |= {(called, one.label): _number(one.mean()) for one in data.series}
    if predicted:
        for method, gains in _predicted(kept).items():
            known = {network: gains[network] for network in data.networks if network in gains}
            for network, gain in {**known, MEAN: geometric_mean(known.values())}.items():
                rows[network]["predicted by costs", method] = _number(gain)
    return _frame(rows)


def runs_said(records: Sequence[Record], target: str = "onnxruntime") -> str:
    """Return sentences with the number of runs per form, and the forms whose runs disagree.

    Runs of one graph disagree if their 95 % intervals do not meet.
    """
    data = latency_data(latency_frame(timed_records(records)), target)
    counts = {one.label: sorted({len(runs) for runs in one.runs if runs}) for one in data.series}
    over = "; ".join(f"{label}: {' or '.join(map(str, n))}" for label, n in counts.items() if n)
    apart = [
        f"{data.networks[i]}, {one.label} ({one.lows[i]:.2f}–{one.highs[i]:.2f})"
        for one in data.series
        for i in range(len(data.networks))
        if not one.agree(i)
    ]
    told = f"Geometric means over runs ({over})."
    return told + (
        f" Runs of one graph disagree by more than their 95 % intervals in: {'; '.join(apart)}."
        if apart
        else " All runs of one graph agree within their 95 % intervals."
    )


def compile_said(records: Sequence[Record]) -> str:
    """Return a sentence on the originals that torch.compile makes slower than torch call by call.

    The text is empty if not both targets were timed.
    """
    frame = latency_frame(timed_records(records))
    eager, compiled = (_originals(frame, target) for target in ("torch", "torch+compile"))
    ratios = {name: compiled[name] / eager[name] for name in eager if name in compiled}
    if not ratios:
        return ""
    slower = sorted((n for n, ratio in ratios.items() if ratio > 1.03), key=lambda n: -ratios[n])
    if not slower:
        return "torch.compile does not make any original slower than torch call by call by more than 3 %."
    worst = ", ".join(f"{n}: {_microseconds(eager[n])} → {_microseconds(compiled[n])} µs" for n in slower[:3])
    return (
        f"torch.compile makes the *original* slower than torch call by call in {len(slower)} of "
        f"{len(ratios)} families by more than 3 % (most: {worst}); gains there are over a slowed baseline."
    )


def differing(records: Sequence[Record]) -> pd.DataFrame:
    """Return the operators in ONNX files of the families whose results differ between cost sources."""
    rows: dict[str, dict[str, str]] = {}
    for record in timed_records(records):
        row, counts = rows.setdefault(record["row"]["family"], {}), record["result"]["nodes"]
        row[ORIGINAL] = _counted(counts[ORIGINAL])
        row[f"{OURS}, {record['row']['method']}"] = _counted(counts[OURS])
    ours = {f: {text for form, text in row.items() if form != ORIGINAL} for f, row in rows.items()}
    return _frame({f: row for f, row in rows.items() if len(ours[f]) > 1})


def unmerged_said(records: Sequence[Record]) -> str:
    """Return a sentence on the results that have as many operators as their originals, with their costs."""
    told = []
    for record in timed_records(records):
        row = record["row"]
        if row["operators"] >= row["operators_original"]:
            costs = {ORIGINAL: row["original"], BY_HAND: row["by_hand"], OURS: row["optimized"]}
            priced = ", ".join(f"{form} {cost:.0f}" for form, cost in costs.items() if cost is not None)
            stays = ", none ran faster end to end" if _stayed(record) else ""
            told.append(f"`{row['family']}` by {row['method']} ({priced} µs{stays})")
    if not told:
        return "Every result has fewer operators than its original."
    return (
        f"Not merged, with predicted costs: {'; '.join(distinct(told))}. The ONNX file of such a result has "
        "as many operators as the original's; if ours costs less, an activation became part of the operator "
        "before it."
    )


# -- parts --------------------------------------------------------------------------------------------
def _frame(rows: dict[str, dict[Any, Any]]) -> pd.DataFrame:
    """Return rows as a frame; columns keep their order, except that those of one group are adjacent."""
    import pandas as pd

    keys: list[Any] = list(dict.fromkeys(key for row in rows.values() for key in row))
    groups = distinct(key[0] for key in keys if isinstance(key, tuple))
    if groups:
        keys.sort(key=lambda key: groups.index(key[0]))
    columns = pd.MultiIndex.from_tuples(keys) if groups else pd.Index(keys)
    cells = [[row.get(key, NOTHING) for key in keys] for row in rows.values()]
    return pd.DataFrame(cells, index=list(rows), columns=columns)


def _stayed(record: Record) -> bool:
    """Return whether candidates were timed and the original was kept because none was faster."""
    measured = record["result"].get("measured")
    return bool(measured and measured["candidates"] and measured["winner"] is None)


def _predicted(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Return the ratio of the original's cost to the result's, by method and network."""
    found: dict[str, dict[str, float]] = {}
    for record in records:
        row = record["row"]
        if row["optimized"]:
            found.setdefault(row["method"], {})[row["network"]] = row["original"] / row["optimized"]
    return found


def _spread(one: LatencySeries, i: int) -> str:
    text = _number(one.speedups[i])
    if one.agree(i):
        return text
    found = [run.speedup for run in one.runs[i]]
    return f"{text} ({min(found):.2f}–{max(found):.2f})"


def _originals(frame: pd.DataFrame, target: str) -> dict[str, float]:
    """Return the geometric means of the runs' medians of the originals, in µs."""
    rows = frame[(frame["target"] == target) & (frame["form"] == ORIGINAL) & frame["median"].notna()]
    return {
        str(network): geometric_mean(part["median"]) or math.nan
        for network, part in rows.groupby("network", sort=False)
    }


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {op}" for op, n in counts.items())


def _number(value: float | None) -> str:
    return NOTHING if value is None or value != value else f"{value:.2f}"


def _microseconds(value: float) -> str:
    return NOTHING if value != value else f"{value:.0f}" if value >= 100 else f"{value:.1f}"
