"""Stored runs: their data for the browser of runs, their static face, and their page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from workbench.faces.views.markup import EXPORT, details, heading, live_page, packed, static_text, table
from workbench.faces.views.steps import stepper_data
from workbench.studies.experiments.stored_runs import StoredRun, StoredRuns, number
from workbench.support.formatting import thousands
from workbench.support.messages import one_line

#: The form whose measured speed-up is plotted; those of rivals are among the facts of a run.
OURS: Final = "ours"


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of runs: its key, its name with the unit, and the settings that comparable runs share.

    ``kind`` is ``"cost"`` if they must share the source of costs, ``"time"`` for the machine, or ``""``.
    ``ratio`` is ``"percent"`` for a gain in percent, whose ratio is that of the factors, and ``"none"`` for
    a figure whose ratio says nothing.
    """

    key: str
    name: str
    kind: str = ""
    ratio: str = "plain"


#: The figures that can be plotted and compared, the most important first.
MEASURES: Final = (
    Measure("measured", "measured speed-up, ×", "time"),
    Measure("speedup", "predicted speed-up, %", "cost", "percent"),
    Measure("optimized", "cost of the result", "cost"),
    Measure("gap", "gap to the proven bound, %", "", "none"),
    Measure("seconds", "optimiser, s", "time"),
    Measure("wall_seconds", "whole run, s", "time"),
    Measure("nodes", "e-nodes"),
    Measure("classes", "e-classes"),
)


def runs_data(stored: StoredRuns) -> dict[str, Any]:
    """Return all data of the browser of runs, ready for JSON; traces are packed, run by run."""
    skipped = list(stored.skipped)
    runs = [_run(run, stored.folder, skipped) for run in stored]
    used = [i for i in range(len(MEASURES)) if any(r["values"][i] is not None for r in runs)] or [0]
    for run in runs:
        run["values"] = [run["values"][i] for i in used]
    return {
        "title": f"{thousands(len(stored))} runs of {len(stored.studies)} studies in {stored.name}",
        "measures": [asdict(MEASURES[i]) for i in used],
        "runs": runs,
        "skipped": skipped,
    }


def first_choice(data: Mapping[str, Any], chosen: str = "") -> dict[str, Any]:
    """Return the state in which the browser opens: one study, and a figure that its runs have.

    ``chosen`` is the study; by default it is the one that was run last.
    """
    runs = data["runs"]
    last = chosen or max(runs, key=lambda r: str(r["began"]), default={"study": ""})["study"]
    own = [r for r in runs if r["study"] == last]
    keys = [m["key"] for m in data["measures"]]
    across = next((k for i, k in enumerate(keys) if any(r["values"][i] is not None for r in own)), keys[0])
    return {
        "chosen": list(dict.fromkeys(f"{r['study']} / {r['method']}" for r in own)),
        "query": "",
        "across": across,
        "up": "network",
        "log": False,
        "first": "",
        "second": "",
        "selected": -1,
    }


def _run(run: StoredRun, root: Path, skipped: list[str]) -> dict[str, Any]:
    row = run.row
    return {
        "study": run.study,
        "network": row["network"],
        "method": row["method"],
        "label": run.name,
        "repeat": int(number(row.get("repeat")) or 0) + 1,
        "status": _status(run),
        "source": str(row.get("cost_source") or ""),
        "machine": str(row.get("hardware") or ""),
        "began": str(run.record["provenance"].get("began") or ""),
        "values": [_value(run, measure.key) for measure in MEASURES],
        "facts": [[name, text] for name, text in _facts(run, root).items() if text],
        "trace": _packed(run, skipped),
    }


def _status(run: StoredRun) -> str:
    if not run.failed and run.row.get("certified") is False:
        return "certificate failed"
    return str(run.row.get("status") or ("failed" if run.failed else "done"))


def _value(run: StoredRun, key: str) -> float | None:
    """Return a figure of a run, or None; a run that failed has none."""
    if run.failed:
        return None
    if key == "measured":
        return next((v for (_, form), v in run.measured.items() if form == OURS), None)
    if key == "gap":
        cost, bound = (number(run.row.get(k)) for k in ("optimized", "bound"))
        return 100 * max(0.0, cost - bound) / cost if cost and bound is not None else None
    return number(run.row.get(key))


def _facts(run: StoredRun, root: Path) -> dict[str, str]:
    """Return the facts on the card of a run, as texts; an empty text is left out."""
    row, where = run.row, run.record["provenance"]
    cost = [number(row.get(k)) for k in ("original", "optimized")]
    certified = row.get("certified")
    measured = (f"{form} on {target}: {v:.3f}×" for (target, form), v in run.measured.items())
    return {
        "kind": str(row["study"]),
        "cost": " → ".join(f"{c:.6g}" for c in cost if c is not None) if None not in cost else "",
        "cost source": str(row.get("cost_source") or ""),
        "certificate": "" if certified is None else "passed" if certified else "failed",
        "ended by": str(row.get("stop_reason") or ""),
        "limits hit": str(row.get("limits_hit") or ""),
        "measured": "; ".join(measured),
        "rules behind it": ", ".join(map(str, (run.record.get("result") or {}).get("rules", ()))),
        "notes": str(row.get("notes") or ""),
        "machine": str(row.get("hardware") or ""),
        "load of the machine": str(where.get("load") or ""),
        "began": str(where.get("began") or ""),
        "versions": str(row.get("versions") or ""),
        "commit": str(row.get("commit") or ""),
        "seed": str(row["seed"]),
        "command": str(where.get("command") or ""),
        "record": run.folder.relative_to(root).as_posix(),
    }


def _packed(run: StoredRun, skipped: list[str]) -> str:
    """Return the stepper's data of a run's trace, or "" if it is not stored or cannot be read."""
    try:
        return packed(stepper_data(run.trace(), run.name)) if run.trace_file is not None else ""
    except (ValueError, LookupError, TypeError, OSError) as error:
        skipped.append(f"the trace of {run.study}/{run.name}: {one_line(error)}")
        return ""


# -- without a kernel --------------------------------------------------------------------------------
def runs_script() -> str:
    """Return the JavaScript module of the browser of runs, with the stepper that opens a trace in it."""
    inner = static_text("stepper.js").replace(EXPORT, "return render;")
    stepper = f"const stepper = (() => {{\n{inner}\n}})();\n"
    return static_text("dom.js", "theme.js", "page.js") + stepper + static_text("runs.js")


def runs_style() -> str:
    """Return the style sheet of the browser of runs, with that of the stepper."""
    return static_text("theme.css", "stepper.css", "runs.css")


def runs_page(stored: StoredRuns) -> str:
    """Return the browser of runs as a complete page that needs no network, with its face without scripts."""
    data = runs_data(stored)
    state = json.dumps(first_choice(data) | {"data": data}).replace("<", "\\u003c")
    style = f"body {{ max-width: none; }}\n{runs_style()}"
    drawn = runs_script().replace(EXPORT, static_text("runs_page.js"))
    return live_page("Stored runs", style, runs_html(stored), drawn, f"new Kept(kept({state}))")


def runs_html(stored: StoredRuns) -> str:
    """Return the static face: the studies, the runs of each, and the files that were skipped."""
    rows, parts = [], []
    for study in stored.studies:
        own = [run for run in stored if run.study == study]
        methods = dict.fromkeys(str(run.row["method"]) for run in own)
        networks = {str(run.row["network"]) for run in own}
        rows.append((study, len(own), sum(r.failed for r in own), len(networks), ", ".join(methods)))
        used = [m for m in MEASURES if any(_value(run, m.key) is not None for run in own)]
        lines = [
            (run.name, _status(run), *("" if (v := _value(run, m.key)) is None else f"{v:.5g}" for m in used))
            for run in own
        ]
        headings = ("run", "status", *(m.name for m in used))
        parts.append(details(study, table(headings, lines, ("", "", *("number" for _ in used)), most=60)))
    note = f"{thousands(len(stored))} runs of {len(stored.studies)} studies"
    kinds = ("", "number", "number", "number", "")
    skipped = details(f"{len(stored.skipped)} files were skipped", table(("file",), zip(stored.skipped)))
    return (
        heading("Stored runs", note)
        + table(("study", "runs", "failed", "networks", "methods"), rows, kinds)
        + "".join(parts)
        + (skipped if stored.skipped else "")
    )
