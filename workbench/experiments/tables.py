"""Tables of the extraction study, with the published figures beside ours and marked as such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from workbench.experiments.extraction_study import Plan, Record
from workbench.experiments.published import PUBLISHED, SOURCE
from workbench.files import UnwritableOutput, write_atomic

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "instance", "e_nodes", "e_classes", "source", "method", "cost", "bound", "gap", "status", "scope",
    "seconds", "limit", "repeat", "found_by", "notes",
)  # fmt: skip

#: Two costs closer than this are one: published ones have six decimals.
SAME: Final = 2e-6


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return a row for every run, followed by what others report for the same e-graph."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    by_instance: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        repeat = int(record["name"].partition("#")[2] or 1)
        row = {**record["row"], "source": "workbench", "limit": record["config"]["seconds"], "repeat": repeat}
        by_instance.setdefault(row["instance"], []).append(row)
    for instance, ours in by_instance.items():
        rows += ours
        rows += [
            {
                "instance": instance,
                "e_nodes": ours[0]["e_nodes"],
                "e_classes": ours[0]["e_classes"],
                "source": "published",
                "method": p.source,
                "cost": p.cost,
                "status": p.status,
                "seconds": p.seconds,
                "notes": p.notes,
            }
            for p in PUBLISHED.get(instance, ())
        ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({"e_nodes": "Int64", "e_classes": "Int64", "repeat": "Int64"})


def contradictions(frame: pd.DataFrame) -> list[str]:
    """Say where a bound on a whole e-graph lies above a cost that somebody reached: a defect."""
    found = []
    for instance, rows in frame.groupby("instance", sort=False):
        lines = rows.to_dict("records")
        bounds = [r for r in lines if r["scope"] == "e-graph" and not _absent(r["bound"])]
        reached = [r for r in lines if not _absent(r["cost"])]
        if not bounds or not reached:
            continue
        bound = max(bounds, key=lambda r: r["bound"])
        cost = min(reached, key=lambda r: r["cost"])
        if bound["bound"] > cost["cost"] * (1 + SAME):
            found.append(
                f"{instance}: {bound['method']} proves that no term costs less than {bound['bound']:.6f}, "
                f"and {cost['method']} has one of {cost['cost']:.6f}"
            )
    return found


def write_tables(plan: Plan) -> None:
    """Write ``table.csv`` and ``table.md`` from the records there are."""
    records = plan.records()
    frame = table(records)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(plan.folder / "table.csv", frame.to_csv(index=False, lineterminator="\n"))
        write_atomic(plan.folder / "table.md", markdown(plan, frame, records))
    except OSError as error:
        raise UnwritableOutput(f"{plan.folder}: {error.strerror or error}") from error


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: all instances at a glance, then each one with what others report."""
    parts = ["# Extraction, e-graph by e-graph", _about(records), "## At a glance", _overview(plan, frame)]
    wrong = contradictions(frame)
    if wrong:
        parts += ["**Contradictions, which are defects:**", *(f"- {line}" for line in wrong)]
    missing = [
        f"- {instance}: {', '.join(run.method for run in runs)}"
        for instance, runs in groupby(plan.missing(), key=lambda run: run.instance.name)
    ]
    missing += [
        f"- {reason}; if there are rows of such files, they come from elsewhere" for reason in plan.skipped
    ]
    if missing:
        parts += ["## Missing", "\n".join(missing)]
    units = {r["row"]["instance"]: r["e_graph"] for r in records if r["e_graph"]}
    for instance, rows in frame.groupby("instance", sort=False):
        parts += [f"## {instance}", _origin(units.get(str(instance), {}), rows), _detail(rows)]
    if (frame["source"] == "published").any():
        parts.append(f"*Published* figures: {SOURCE}. They are of other machines; only costs compare.")
    return "\n\n".join(parts) + "\n"


def _about(records: Sequence[Record]) -> str:
    found = [r["provenance"] for r in records]
    machines = _distinct(
        f"{p['machine']['cpus']} CPUs ({p['machine']['processor']}), {p['machine']['platform']}"
        for p in found
    )
    versions = _distinct(", ".join(f"{k} {v}" for k, v in p["versions"].items()) for p in found)
    commits = _distinct(p["commit"] or "no git" for p in found)
    loads = [p["load"] for p in found if p["load"] is not None]
    lines = [
        "Made by `workbench run` from the records in `runs/`; `table.csv` has the same figures. "
        "Costs are DAG costs; a bound is proven for every term of the "
        "e-graph, or of what is left of it when cycles are broken first (`filtered`, `tensat-filtered`). "
        "`tensat`, `tensat-integer` and `tensat-filtered` are Tensat's integer programs by themselves in "
        "HiGHS; all others begin with the greedy selections, and *found by* says whose the best one is. "
        "`highs` and `cp-sat` go on also where the greedy selection meets the bound that comes with it.",
        f"Machine: {'; '.join(machines) or 'none yet'}.",
        f"Versions: {'; '.join(versions) or 'none yet'}. Commits: {', '.join(commits) or 'none yet'} "
        "(+ with changes not committed).",
    ]
    if loads:
        lines.append(
            f"Load of the machine when runs began: {min(loads):.1f} to {max(loads):.1f}, the study's own "
            "solvers included; what others ran at the time makes seconds longer."
        )
    return "\n".join(lines)


def _overview(plan: Plan, frame: pd.DataFrame) -> str:
    ours = frame[frame["source"] == "workbench"]
    methods = list(plan.study.methods)
    rows = []
    for instance, group in ours.groupby("instance", sort=False):
        best, whole = group["cost"].min(), group[group["scope"] == "e-graph"]["bound"].max()
        cells = [_cell(group[group["method"] == method], best) for method in methods]
        size = group.iloc[0]
        name = f"{instance} ({_count(size['e_nodes'])} / {_count(size['e_classes'])})"
        rows.append([name, _cost(best), _cost(whole), *cells])
    head = ["e-graph (e-nodes / e-classes)", "least cost", "best bound", *methods]
    key = (
        "Each cell: how far the cost lies above the least one, and the seconds. **✓** proven optimal, "
        "**(✓)** proven among the terms that are left when cycles are broken first, **†** no result; "
        "limits in seconds: " + ", ".join(f"{m} {plan.study.limit(m):g}" for m in methods) + "."
    )
    return _lines(head, rows) + "\n\n" + key


def _cell(rows: pd.DataFrame, best: float) -> str:
    """Return what a method came to; of repeats the medians."""
    if rows.empty:
        return "–"
    done = rows[rows["cost"].notna()]
    if done.empty:
        return f"† {rows.iloc[0]['status']}"
    excess = float(done["cost"].median()) / best - 1 if best > 0 else 0.0
    proved = (done["status"] == "optimal").all()
    mark = "" if not proved else " ✓" if (done["scope"] == "e-graph").all() else " (✓)"
    far = "=" if excess <= SAME else f"+{excess:.2%}" if excess < 1 else f"×{1 + excess:.1f}"
    return f"{far}, {_seconds(done['seconds'].median())}{mark}"


def _origin(e_graph: dict[str, Any], rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    text = f"{_count(first['e_nodes'])} e-nodes, {_count(first['e_classes'])} e-classes"
    if not e_graph:
        return text + "."
    if "iterations" in e_graph:
        text += (
            f"; {e_graph['iterations']} iterations in {e_graph['saturation_seconds']:.2f} s, "
            f"{e_graph['stop_reason']}; the network as it came costs {_cost(e_graph['original_cost'])}"
        )
    return f"{text}. Costs: {e_graph['cost_source']}."


def _detail(rows: pd.DataFrame) -> str:
    head = ["method", "cost", "bound", "gap", "status", "seconds", "found by", "notes"]
    lines = []
    for row in rows.to_dict("records"):
        published = row["source"] == "published"
        method = f"*{row['method']}, published*" if published else f"{row['method']}"
        if not published and row["repeat"] > 1:
            method += f" (repeat {row['repeat']})"
        status = row["status"] if row["scope"] != "cycle-free part" else f"{row['status']} without cycles"
        found_by = row["found_by"] if isinstance(row["found_by"], str) else ""
        gap = "" if _absent(row["gap"]) else f"{row['gap']:.2%}"
        cells = [_cost(row["cost"]), _cost(row["bound"]), gap, status, _seconds(row["seconds"]), found_by]
        lines.append([method, *cells, str(row["notes"] or "").replace("|", "/").replace("\n", " ")])
    return _lines(head, lines)


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def _absent(value: Any) -> bool:
    return value is None or value != value


def _cost(value: Any) -> str:
    return "" if _absent(value) else f"{value:.6f}" if value < 100 else f"{value:.3f}"


def _seconds(value: Any) -> str:
    if _absent(value):
        return ""
    return f"{value:.0f} s" if value >= 100 else f"{value:.1f} s" if value >= 1 else f"{value:.3f} s"


def _count(value: Any) -> str:
    import pandas as pd

    return "–" if pd.isna(value) else f"{int(value)}"


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
