"""Tables of the study of deployment: speed against the original and rivals, the call, certificates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from workbench.studies.experiments.deployment.study import AGAIN, ORIGINAL, OURS, WORTH
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
from workbench.studies.experiments.results import NOTHING, frame_of, geometric_mean, latency_frame, row_of

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "network", "method", "repeat", "original", "optimized", "speedup", "certified", "saturation",
    "extraction", "seconds", "nodes", "classes", "iter", "status", "stop_reason", "limits_hit",
    "cost_source", "hardware", "failed", "notes",
)  # fmt: skip

#: MiB from which a file is large; below, Python and its libraries need more memory than the weights.
LARGE: Final = 100.0

#: Figures that only the runs of this study have.
OWN: Final = (
    "kept", "measured_speedup", "speedup_low", "speedup_high", "peak_mib", "together_mib", "given_mib",
    "ours_mib", "difference",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run, with the medians of every form on every target (in µs) as last columns."""
    import pandas as pd

    kept = list(records)
    frame = frame_of(map(row_of, kept))[list(COLUMNS)]
    own = pd.DataFrame(
        [{k: r["row"].get(k) for k in OWN} for r in kept], index=frame.index, columns=list(OWN)
    )
    return pd.concat([frame, own, timed_columns(kept, frame.index)], axis=1)


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text; a summary over all models precedes each table of speeds."""
    parts = [f"# {plan.folder.name}: files of real architectures, optimised and run", _about(records)]
    found = latency_frame(records)
    for target, rows in found.groupby("target", sort=False):
        title = next((t for t in rows["title"] if t), str(target))
        parts += [f"## Speed: {title}", _summary(rows, records), _speed(rows, records)]
        parts += remarks(str(target), title, records)
    if len(found):
        parts.append(_KEY)
    done = [r for r in records if not r["failed"]]
    if done:
        parts += ["## The call", _calls(done), _CALL_KEY, "## Certificates", _certificates(done)]
    noted = [f"- {r['name']}: {r['row']['notes']}" for r in records if r["row"].get("notes")]
    if noted:
        parts.append("## Notes\n\n" + "\n".join(noted))
    return "\n\n".join([*parts, *missing(plan)]) + "\n"


def remarks(target: str, title: str, records: Sequence[Record]) -> list[str]:
    """Name the models that ran in another way on a target, and those that were not timed, with the reason."""
    others: dict[str, list[str]] = {}
    skipped: dict[str, list[str]] = {}
    for record in records:
        latency = record.get("latency", {})
        rows = [row for row in latency.get("rows", ()) if row["target"] == target]
        reason = next((row["skipped"] for row in rows if row.get("skipped")), "")
        own = latency.get("titles", {}).get(target, title)
        if reason:
            skipped.setdefault(reason, []).append(_named(record["row"]))
        elif own not in (title, target):
            others.setdefault(own, []).append(_named(record["row"]))
    said = [f"{', '.join(names)}: {own}." for own, names in others.items()]
    said += [f"Not timed: {', '.join(names)} ({reason})." for reason, names in skipped.items()]
    return ["\n".join(said)] if said else []


_KEY: Final = (
    "All files of a model run in alternation, in a new random order for each round, with the "
    "runtime's own optimiser on. With one thread, time in which other processes used the core is not "
    "counted. *Original*: the file without initialisers among its inputs, median and quartiles. Other "
    "files: the median of the rounds' ratios original / file, with its 95 % interval within that run. "
    "*Original again* is a second copy of the original and shows the effect of noise alone. **Bold**: "
    "the whole interval is faster than the original. ✗: slower, the whole interval lies below "
    f"{WORTH}. *Kept*: the optimiser wrote the original, because it found nothing faster."
)

_CALL_KEY: Final = (
    "*Whole*: the command from its start to its end, including Python's start, in seconds; the stages "
    "are the command's own figures. *Peak*: the largest memory of one of its processes, including "
    "weights that are mapped from the file. *Together*: the memory of all processes at once, counting "
    "shared memory for each of them. *× file*: the peak divided by the size of the given file, for "
    "files of at least 100 MiB. Rivals' seconds are those of the function alone, after its import."
)


def _about(records: Sequence[Record]) -> str:
    sources = distinct(str(r["row"].get("cost_source") or "").partition(";")[0] for r in records)
    loads = [v for r in records if (v := r.get("latency", {}).get("load")) is not None]
    return about(
        records,
        ", one row per run. Every model is exported by torch with seeded random weights (models in `light/` "
        "come with onnx) and optimised by `workbench optimize` with its default settings, apart from the "
        "options of a method. Then both files run.",
        f"Costs: {'; '.join(s for s in sources if s) or 'none yet'}.",
        *rival_lines(records),
        *([f"Load when the calls began: {min(loads):.1f} to {max(loads):.1f}."] if loads else []),
    )


def _named(row: Record) -> str:
    method = "" if row["method"] == "default" else f", {row['method']}"
    return row["network"] + method + repeat_text(row["repeat"])


def _by_run(rows: pd.DataFrame) -> dict[tuple[Any, ...], dict[str, dict[str, Any]]]:
    found: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows.to_dict("records"):
        known = {str(key): value for key, value in row.items()}
        key = (known["network"], known["method"], known["repeat"])
        found.setdefault(key, {})[str(known["form"])] = known
    return found


def _ratio_known(row: dict[str, Any] | None) -> bool:
    return row is not None and row["speedup"] == row["speedup"]


def _summary(rows: pd.DataFrame, records: Sequence[Record]) -> str:
    stays = {
        (r["row"]["network"], r["row"]["method"], r["row"]["repeat"]): r["row"].get("kept") for r in records
    }
    by_run = {key: forms for key, forms in _by_run(rows).items() if _ratio_known(forms.get(OURS))}
    runs = list(by_run.values())
    if not runs:
        return "Nothing is timed yet."
    ours = [forms[OURS] for forms in runs]
    # A kept original is as fast as the original, so an interval above 1 is noise.
    faster = sum(f[OURS]["speedup_low"] > 1 and not stays[key] for key, f in by_run.items())
    slower = [row["network"] for row in ours if row["speedup_high"] < WORTH]
    kept = sum(bool(stays[key]) for key in by_run)  # of the models that are timed
    mean = geometric_mean([row["speedup"] for row in ours])
    noise = geometric_mean([f[AGAIN]["speedup"] for f in runs if _ratio_known(f.get(AGAIN))])
    said = [
        f"{len(ours)} models: {faster} faster than the original (the whole interval above 1), {kept} kept "
        f"unchanged, {len(slower)} slower than {WORTH}×" + (f" ({', '.join(slower)})" if slower else ""),
        f"geometric mean of the ratios {mean:.3f}, of the original over itself {noise or 1:.3f}",
    ]
    for name in distinct(n for forms in runs for n in forms if n not in (ORIGINAL, AGAIN, OURS)):
        theirs = [f[name] for f in runs if _ratio_known(f.get(name))]
        worse = sum(row["speedup_high"] < WORTH for row in theirs)
        ratio = geometric_mean([row["speedup"] for row in theirs])
        if ratio:
            said.append(f"{name} {ratio:.3f} on {len(theirs)}, {worse} slower than {WORTH}×")
    return "; ".join(said) + "."


def _speed(rows: pd.DataFrame, records: Sequence[Record]) -> str:
    kept = {(r["row"]["network"], r["row"]["method"], r["row"]["repeat"]): r["row"] for r in records}
    rivals = distinct(form for form in rows["form"] if form not in (ORIGINAL, AGAIN, OURS))
    said = []
    for key, forms in _by_run(rows).items():
        original, row = forms[ORIGINAL], kept[key]
        if original["median"] != original["median"]:
            continue
        said.append(
            [
                _named(row),
                f"{original['median'] / 1000:.3g} ms "
                f"({original['low'] / 1000:.3g}–{original['high'] / 1000:.3g})",
                ratio_cell(forms.get(AGAIN), 3, WORTH),
                ratio_cell(forms.get(OURS), 3, WORTH).replace("**", "" if row.get("kept") else "**"),
                "kept" if row.get("kept") else "",
                *(ratio_cell(forms.get(name), 3, WORTH) for name in rivals),
            ]
        )
    return lines(["model", ORIGINAL, AGAIN, OURS, "", *rivals], said)


_STAGES: Final = ("import", "engine", "saturation", "pricing", "extraction", "measuring", "certificate")


def _calls(records: Sequence[Record]) -> str:
    rivals = distinct(name for r in records for name in r["latency"].get("rivals", {}))
    stages = [s for s in _STAGES if any(s in r["seconds"] for r in records)]
    rows = []
    for record in records:
        row, seconds = record["row"], record["seconds"]
        about = record["latency"].get("rivals", {})
        large = row["peak_mib"] and row["given_mib"] >= LARGE
        ratio = row["peak_mib"] / row["given_mib"] if large else None
        rows.append(
            [
                _named(row),
                seconds_text(row["seconds"]),
                *(seconds_text(seconds[s]) if s in seconds else NOTHING for s in stages),
                *(seconds_text(about[n]["seconds"]) if n in about else NOTHING for n in rivals),
                _mib(row["given_mib"]),
                _mib(row["ours_mib"]),
                _mib(row["peak_mib"]),
                NOTHING if ratio is None else f"{ratio:.1f}",
                _mib(row["together_mib"]),
            ]
        )
    head = ["model", "whole", *stages, *rivals, "file MiB", "ours MiB", "peak MiB", "× file", "together MiB"]
    return lines(head, rows)


def _mib(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _certificates(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        row, found = record["row"], record["result"].get("certificate") or {}
        before = sum(record["result"]["operators_before"].values())
        after = sum(record["result"]["operators_after"].values())
        rows.append(
            [
                _named(row),
                {True: "passed", False: "FAILED", None: NOTHING}[row["certified"]],
                str(found.get("regions", NOTHING)),
                _number(found.get("error")),
                _number(found.get("deployed_error")),
                _number(row["difference"]),
                f"{before} → {after}" if before else NOTHING,
                ", ".join(record["result"]["rules"]) or "none",
            ]
        )
    head = ["model", "certificate", "regions", "in float64", "as saved", "outputs here", "operators", "rules"]
    key = (
        "*In float64*: the largest relative difference of a rewritten region. *As saved*: the difference of "
        "the outputs of both files in the certificate. *Outputs here*: the difference of the outputs of both "
        "files in this study, with the runtime's optimiser on and other inputs."
    )
    return lines(head, rows) + "\n\n" + key


def _number(value: float | str | None) -> str:
    return NOTHING if value is None else value if isinstance(value, str) else f"{value:.1e}"
