"""Tables of the extraction study, with published figures for comparison, marked as published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from workbench.studies.experiments.config import ExtractionStudy
from workbench.studies.experiments.markdown import about, lines, missing, seconds_text
from workbench.studies.experiments.plan import Plan, Record
from workbench.studies.experiments.published import PUBLISHED, SOURCE
from workbench.studies.experiments.store import repetition

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "instance", "e_nodes", "e_classes", "source", "method", "cost", "bound", "gap", "status", "scope",
    "seconds", "limit", "repeat", "found_by", "notes",
)  # fmt: skip

#: Relative difference up to which two costs are the same: published ones have six decimals.
SAME: Final = 2e-6


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run; published figures follow the runs of the same e-graph."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    by_instance: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        repeat = repetition(record)
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
    """Return a line per e-graph with a proven bound above a cost that was reached, which is a defect."""
    found = []
    for instance, rows in frame.groupby("instance", sort=False):
        ours = rows.to_dict("records")
        bounds = [r for r in ours if r["scope"] == "e-graph" and not _absent(r["bound"])]
        reached = [r for r in ours if not _absent(r["cost"])]
        if not bounds or not reached:
            continue
        bound = max(bounds, key=lambda r: r["bound"])
        cost = min(reached, key=lambda r: r["cost"])
        if bound["bound"] - cost["cost"] > SAME * abs(cost["cost"]):
            found.append(
                f"{instance}: {bound['method']} proves that no term costs less than {bound['bound']:.6f}, "
                f"but {cost['method']} has a term of cost {cost['cost']:.6f}"
            )
    return found


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text: an overview, then every instance with its published figures."""
    parts = ["# Extraction, e-graph by e-graph", _about(records), "## At a glance", _overview(plan, frame)]
    wrong = contradictions(frame)
    if wrong:
        parts += ["**Contradictions, which are defects:**", *(f"- {line}" for line in wrong)]
    parts += missing(plan)
    units = {r["row"]["instance"]: r["e_graph"] for r in records if r["e_graph"]}
    for instance, rows in frame.groupby("instance", sort=False):
        parts += [f"## {instance}", _origin(units.get(str(instance), {}), rows), _detail(rows)]
    if (frame["source"] == "published").any():
        parts.append(
            f"*Published* figures: {SOURCE}. They are from other machines; only costs are comparable."
        )
    return "\n\n".join(parts) + "\n"


def _about(records: Sequence[Record]) -> str:
    return about(
        records,
        ". Costs are DAG costs. A bound is proven for every term of the e-graph; for `filtered` and "
        "`tensat-filtered`, which break cycles first, only for the terms that remain. `tensat`, "
        "`tensat-integer` and `tensat-filtered` are Tensat's integer programs alone, in HiGHS. All other "
        "methods begin with the greedy selections; *found by* names the source of the best selection. "
        "`highs` and `cp-sat` continue even if a greedy selection meets its bound.",
    )


def _overview(plan: Plan, frame: pd.DataFrame) -> str:
    ours = frame[frame["source"] == "workbench"]
    study = plan.study
    assert isinstance(study, ExtractionStudy)
    methods = list(study.methods)
    rows = []
    for instance, group in ours.groupby("instance", sort=False):
        best, whole = group["cost"].min(), group[group["scope"] == "e-graph"]["bound"].max()
        cells = [_cell(group[group["method"] == method], best) for method in methods]
        size = group.iloc[0]
        name = f"{instance} ({_count(size['e_nodes'])} / {_count(size['e_classes'])})"
        rows.append([name, _cost(best), _cost(whole), *cells])
    head = ["e-graph (e-nodes / e-classes)", "least cost", "best bound", *methods]
    key = (
        "Each cell: the excess of the cost over the least cost, and the seconds. **✓**: proven optimal. "
        "**(✓)**: proven optimal among the terms that remain after cycles are broken. **†**: no result. "
        "Limits in seconds: " + ", ".join(f"{m} {study.limit(m):g}" for m in methods) + "."
    )
    return lines(head, rows) + "\n\n" + key


def _cell(rows: pd.DataFrame, best: float) -> str:
    """Return the cell of a method, with medians over repeats."""
    if rows.empty:
        return "–"
    done = rows[rows["cost"].notna()]
    if done.empty:
        return f"† {rows.iloc[0]['status']}"
    excess = (float(done["cost"].median()) - best) / abs(best) if best else 0.0
    proved = (done["status"] == "optimal").all()
    mark = "" if not proved else " ✓" if (done["scope"] == "e-graph").all() else " (✓)"
    far = "=" if excess <= SAME else f"+{excess:.2%}" if excess < 1 else f"×{1 + excess:.1f}"
    return f"{far}, {seconds_text(done['seconds'].median())}{mark}"


def _origin(e_graph: dict[str, Any], rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    text = f"{_count(first['e_nodes'])} e-nodes, {_count(first['e_classes'])} e-classes"
    if not e_graph:
        return text + "."
    if "iterations" in e_graph:
        text += (
            f"; {e_graph['iterations']} iterations in {e_graph['saturation_seconds']:.2f} s, "
            f"{e_graph['stop_reason']}; the original network costs {_cost(e_graph['original_cost'])}"
        )
    return f"{text}. Costs: {e_graph['cost_source']}."


def _detail(rows: pd.DataFrame) -> str:
    head = ["method", "cost", "bound", "gap", "status", "seconds", "found by", "notes"]
    body = []
    for row in rows.to_dict("records"):
        published = row["source"] == "published"
        method = f"*{row['method']}, published*" if published else f"{row['method']}"
        if not published and row["repeat"] > 1:
            method += f" (repeat {row['repeat']})"
        status = row["status"] if row["scope"] != "cycle-free part" else f"{row['status']} without cycles"
        found_by = row["found_by"] if isinstance(row["found_by"], str) else ""
        gap = "" if _absent(row["gap"]) else f"{row['gap']:.2%}"
        cells = [_cost(row["cost"]), _cost(row["bound"]), gap, status, seconds_text(row["seconds"]), found_by]
        body.append([method, *cells, str(row["notes"] or "").replace("|", "/").replace("\n", " ")])
    return lines(head, body)


def _absent(value: Any) -> bool:
    return value is None or value != value


def _cost(value: Any) -> str:
    return "" if _absent(value) else f"{value:.6f}" if value < 100 else f"{value:.3f}"


def _count(value: Any) -> str:
    import pandas as pd

    return "–" if pd.isna(value) else f"{int(value)}"
