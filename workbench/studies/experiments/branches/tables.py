"""Tables of the study of branches: operators, costs, latency with rivals, rounding, rules, scaling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from workbench.studies.experiments.branches.study import BY_HAND, ORIGINAL, OURS
from workbench.studies.experiments.markdown import (
    about,
    distinct,
    lines,
    missing,
    ratio_cell,
    repeat_text,
    rival_lines,
    seconds_text,
    timed_columns,
)
from workbench.studies.experiments.plan import Plan, Record
from workbench.studies.experiments.results import NOTHING, frame_of, latency_frame, row_of

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "network", "family", "blocks", "method", "repeat", "original", "optimized", "by_hand", "speedup",
    "certified", "rounding", "own_rounding", "operators_original", "operators_by_hand", "operators",
    "saturation", "extraction", "seconds", "nodes", "classes", "iter", "status", "stop_reason",
    "limits_hit", "cost_source", "hardware", "failed", "notes",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run, with the medians of every form on every target (in µs) as last columns."""
    import pandas as pd

    kept = list(records)
    frame = frame_of(map(row_of, kept))[list(COLUMNS)]
    return pd.concat([frame, timed_columns(kept, frame.index)], axis=1)


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text; the runs of the scaling come last."""
    timed = [r for r in records if r["config"]["latency"] is not None]
    scaled = [r for r in records if r["config"]["latency"] is None]
    found = latency_frame(timed)
    parts = [f"# {plan.folder.name}: networks with branches, merged", _about(records)]
    if timed or not scaled:
        parts += ["## Operators and costs", _costs(timed or records)]
    for target, rows in found.groupby("target", sort=False):
        if rows["median"].isna().all():
            continue
        title = next((t for t in rows["title"] if t), str(target))
        parts += [f"## Latency: {title}", _latency(rows)]
    if found["median"].notna().any():
        parts.append(_KEY)
    if timed:
        parts += ["## Rounding", _rounding(timed), "## Rules behind the results", _rules(timed)]
    if any(r["result"].get("measured") for r in timed):
        parts += ["## Chosen by measuring", _measured(timed)]
    if scaled:
        parts += ["## How the optimiser scales", _scaling(scaled)]
    return "\n\n".join([*parts, *_skipped(timed, found), *missing(plan)]) + "\n"


_KEY: Final = (
    "All forms on all targets run in alternation, in a new random order for each round. Original: the "
    "median. Other forms: the median of the rounds' ratios original / form, with its 95 % interval within "
    "that run; the interval of another run may differ. **Bold**: the whole interval is faster than the "
    "original."
)


def _about(records: Sequence[Record]) -> str:
    return about(
        records,
        f", one row per run. *{BY_HAND}*: merged by the published formulas, without rewrite rules. *{OURS}*: "
        "merged by the default rules, which contain nothing specific to the family.",
        *rival_lines(records),
    )


def _named(row: Record) -> list[str]:
    return [row["network"], row["method"] + repeat_text(row["repeat"])]


def _costs(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        row, named = record["row"], _named(record["row"])
        if record["failed"]:
            rows.append([*named, f"† {row['status']}", *[""] * 8])
            continue
        counts = {form: sum(n.values()) for form, n in record["result"]["nodes"].items()}
        others = [str(n) for form, n in counts.items() if form not in (ORIGINAL, BY_HAND, OURS)]
        gain = f"{row['original'] / row['optimized'] - 1:+.0%}" if row["optimized"] else NOTHING
        rows.append(
            [
                *named,
                str(counts[ORIGINAL]),
                ", ".join(distinct(others)) or NOTHING,
                str(counts.get(BY_HAND, NOTHING)),
                str(counts[OURS]),
                f"{row['original']:.1f}",
                NOTHING if row["by_hand"] is None else f"{row['by_hand']:.1f}",
                f"{row['optimized']:.1f} ({gain}){'' if row['certified'] else ' ✗'}",
                str(row["nodes"]),
                seconds_text(row["seconds"]),
            ]
        )
    head = ["family", "method", "operators: original", "rivals", BY_HAND, OURS]
    head += ["cost in µs: original", BY_HAND, OURS, "e-nodes", "optimiser"]
    sources = {
        r["row"]["method"]: r["row"]["cost_source"].partition(";")[0] for r in records if not r["failed"]
    }
    key = (
        "Operators are counted in ONNX files. Costs are sums over operators. The form merged by hand is "
        "priced as written, with activations as separate operators; in ours an activation may be part of a "
        "convolution. " + "; ".join(f"{method}: {source}" for method, source in sources.items())
    )
    refused = any(r["row"].get("certified") is False for r in records)
    return (
        lines(head, rows)
        + f"\n\n{key}."
        + (" **✗**: the certificate refused the result, and the original stays." if refused else "")
    )


def _latency(rows: pd.DataFrame) -> str:
    forms = distinct(form for form in rows["form"] if form != ORIGINAL)
    said = []
    for _, group in rows.groupby(["network", "method", "repeat"], sort=False):
        by_form: dict[str, dict[str, Any]] = {
            row["form"]: {str(key): value for key, value in row.items()} for row in group.to_dict("records")
        }
        original = by_form[ORIGINAL]
        first = NOTHING if original["median"] != original["median"] else _microseconds(original)
        said.append([*_named(original), first, *(ratio_cell(by_form.get(form)) for form in forms)])
    return lines(["family", "method", "original", *forms], said)


def _microseconds(row: dict[str, Any]) -> str:
    return f"{row['median']:.0f} µs ({row['low']:.0f}–{row['high']:.0f})"


def _rounding(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        certificate = record["result"].get("certificate")
        if certificate is not None:
            ours, own = record["row"]["rounding"], record["row"]["own_rounding"]
            ratio = f"{ours / own:.1f}" if own else NOTHING
            rows.append(
                [
                    *_named(record["row"]),
                    *(NOTHING if figure is None else f"{figure:.1e}" for figure in (own, ours)),
                    ratio,
                    f"{certificate['error']:.1e}",
                    str(certificate["draws"]),
                ]
            )
    head = ["family", "method", "the original in float32", "ours in float32", "ratio", "in float64", "draws"]
    key = (
        "Difference of a form from the original in float64, as a part of the largest output. Merged "
        "operators sum in another order; the agreement in float64 to its own rounding shows that nothing "
        "else changed."
    )
    return lines(head, rows) + "\n\n" + key


def _rules(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        result = record["result"]
        if result:
            verdicts = result["certificate"]["rules"]
            judged = Counter(verdicts.get(rule, "unknown") for rule in result["rules"])
            texts = ", ".join(f"{n} {verdict}" for verdict, n in judged.most_common())
            rows.append(
                [*_named(record["row"]), ", ".join(result["rules"]) or "none: the original stays", texts]
            )
    return lines(["family", "method", "rules, the most productive first", "verdicts"], rows)


def _measured(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        measured = record["result"].get("measured")
        if not measured:
            continue
        speedups = [c["speedup"] for c in measured["candidates"]]
        winner = measured["winner"]
        taken = "the original" if winner is None else f"number {winner + 1} by cost"
        best = f"{max(speedups):.3f}×" if speedups else NOTHING
        counts = [str(len(speedups)), best, f"{measured['noise']:.1%}", str(measured["rounds"]), taken]
        rows.append([*_named(record["row"]), *counts])
    key = (
        "The best results by cost are timed end to end against the original. A result is taken if it is "
        "faster by more than the noise, the difference of the original from a second copy of itself."
    )
    return (
        lines(["family", "method", "candidates", "the fastest", "noise", "rounds", "taken"], rows)
        + f"\n\n{key}"
    )


def _scaling(records: Sequence[Record]) -> str:
    blocks = sorted({r["row"]["blocks"] for r in records})
    by_family: dict[tuple[str, str], dict[int, str]] = {}
    for record in records:
        row = record["row"]
        cell = f"† {row['status']}"
        if not record["failed"]:
            spent = sum(record["seconds"].values())
            merged = f"{row['operators_original']} → {row['operators']}"
            cell = (
                f"{seconds_text(row['seconds'])} of {seconds_text(spent)}; {row['nodes']} e-nodes; {merged}"
            )
        by_family.setdefault((row["family"], row["method"]), {})[row["blocks"]] = cell
    rows = [[*key, *(cells.get(n, NOTHING) for n in blocks)] for key, cells in by_family.items()]
    head = ["family", "method", *(f"{n} block{'s' if n > 1 else ''}" for n in blocks)]
    key = (
        "Each cell: seconds of saturation, reading the e-graph and extraction, out of the seconds of the "
        "whole call (including engine start and certificate); e-nodes; operators of the original → ours."
    )
    return lines(head, rows) + "\n\n" + key


def _skipped(records: Sequence[Record], found: pd.DataFrame) -> list[str]:
    """Return the section on forms that were not timed, with each reason once."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    forms: dict[tuple[str, str], dict[str, None]] = {}
    for row in found[found["skipped"].notna()].to_dict("records"):
        key = (str(row["target"]), str(row["skipped"]))
        reasons.setdefault(key, {})[f"{row['network']}:{row['method']}"] = None
        forms.setdefault(key, {})[str(row["form"])] = None
    for record in records:
        if record["failed"]:
            key = (str(record["row"]["status"]), str(record["row"]["notes"]))
            reasons.setdefault(key, {})[record["name"]] = None
    everywhere = len({f"{r['row']['network']}:{r['row']['method']}" for r in records})
    told = []
    for key, runs in reasons.items():
        which = f", {', '.join(forms[key])}" if key in forms else ""
        where = "all runs" if len(runs) == everywhere else ", ".join(runs)
        told.append(f"- {key[0]}{which}: {key[1]} ({where})")
    return ["## Not timed", "\n".join(told)] if told else []
