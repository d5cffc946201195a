"""The optimisation study: networks optimised by saturation and by search, under one source of costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from workbench.run.trace import StopReason
from workbench.studies.experiments.config import NetworkStudy, SearchMethod
from workbench.studies.experiments.plan import Plan, Record, Run, cells, network_of
from workbench.studies.experiments.records import estimate, geometric_mean, record
from workbench.studies.experiments.results import NOTHING, frame_of, labels, row_of, with_published
from workbench.studies.experiments.store import finite
from workbench.studies.experiments.tables import about, distinct, lines, missing, repeat_text, seconds_text
from workbench.support.formatting import gain

if TYPE_CHECKING:
    import pandas as pd

    from workbench.optimizer.result import Result


#: The stop reasons that are limits.
LIMITS: Final = (
    StopReason.E_NODE_LIMIT,
    StopReason.ITERATION_LIMIT,
    StopReason.TIME_LIMIT,
    StopReason.MEMORY_LIMIT,
)

#: The extraction methods that never prove optimality, whatever their time limit.
GREEDY: Final = ("tree", "dag", "local")

#: Columns that rows of records omit: stages are under ``seconds``, names are in the study's own columns.
ELSEWHERE: Final = (
    "method", "network", "repeat", "import", "engine", "search", "snapshot", "pricing", "history",
    "measuring", "timing", "certificate", "result",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimisationStudy(NetworkStudy):
    """A study that optimises every network by every method, under one source of costs.

    ``rules`` and ``cost`` may name files, relative to the study's own folder; ``${NAME}`` is replaced by the
    environment variable, and the runs of a missing file are skipped. With ``certify`` every result is
    compared with its original. The limits of a method exclude pricing, the certificate and the search for a
    wrong rule, for which a run has its ``grace``.
    """

    KIND: ClassVar[str] = "optimisation"

    certify: bool = True

    def __post_init__(self) -> None:
        self.check_networks()


def make_plan(study: OptimisationStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, network by network; paths in the study are relative to ``home``."""
    runs = (
        replace(
            run,
            config={**run.config, "certify": study.certify},
            columns={**run.columns, "by": way.by, "k_multi": getattr(way, "k_multi", None)},
            figures={"device": None, "seconds": {}},
        )
        for run in cells(study, home)
        for _, way, *_ in [run.order]
    )
    return Plan.of(study, folder, optimise_one, runs)


def outcome(record: Record) -> str:
    """Return the outcome of an optimisation in one line."""
    row = record["row"]
    wrong = "" if row["certified"] in (True, None) else ", its certificate failed: the original stays"
    return (
        f"{gain(row['original'], row['optimized'])}, {record['stop_reason']}, {row['seconds']:.2f} s{wrong}"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def optimise_one(study: OptimisationStudy, run: Run) -> Record:
    """Optimise a network once and return the figures with the trace."""
    from workbench.costs.registry import cost_model
    from workbench.optimizer.pipeline import optimize
    from workbench.studies.search.optimize import search_optimize

    network, method, rules, cost = run.order
    graph, model = network_of(network), cost_model(cost)
    way: Callable[..., Result] = search_optimize if isinstance(method, SearchMethod) else optimize
    settings = method.arguments(study.grace) | {"rules": rules}
    done = way(graph, cost=model, seed=run.seed, certify=study.certify, **settings)
    return run_figures(done) | {"device": model.device}


def run_figures(done: Result) -> Record:
    """Return the row of a result, why its run ended, the seconds by stage, and its origin."""
    from workbench.extraction.result import Status
    from workbench.optimizer.result import Optimized, to_json
    from workbench.studies.search.optimize import Searched

    found, data = done, to_json(done)
    made: Record
    if isinstance(found, Optimized):
        way = found.solution
        status, reason = way.status.value, found.stop_reason.value
        limits = [reason] if found.stop_reason in LIMITS else []
        if found.settings["extractor"] not in GREEDY and way.status is not Status.OPTIMAL:
            limits.append("extraction time limit")
        made = {"scope": way.scope, "extraction_notes": list(map(str, way.endings))}
    else:
        assert isinstance(found, Searched)
        # TASO's search ends when its budget is spent; only time is a limit that it should not meet.
        spent = found.stop_reason is StopReason.ITERATION_LIMIT
        status, reason = "searched", "budget" if spent else found.stop_reason.value
        limits = [reason] if found.stop_reason in LIMITS and not spent else []
        made = {"substitutions": {rule: found.history.count(rule) for rule in found.rules}}
    kept = ("rules", "offending_rules", "certificate", "operators_before", "operators_after")
    return {
        "row": {key: finite(value) for key, value in record(done).items() if key not in ELSEWHERE},
        "status": status,
        "stop_reason": reason,
        "limits_hit": limits,
        "seconds": dict(found.seconds),
        "result": {key: data[key] for key in kept} | made,
        "trace": done.trace,
    }


COLUMNS: Final = (
    "network", "method", "published", "by", "repeat", "original", "optimized", "speedup", "claimed",
    "certified", "bound", "saturation", "extraction", "seconds", "seconds_best", "call_seconds",
    "wall_seconds", "nodes", "classes", "programs", "iter", "k_multi", "budget", "candidates", "status",
    "stop_reason", "limits_hit", "cost_source", "hardware", "failed", "notes",
)  # fmt: skip

#: Relative difference up to which two costs are the same: a search counts in picoseconds.
SAME: Final = 1e-7


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run, followed by the figures of TASO's and Tensat's papers for the networks."""
    return with_published(frame_of(map(row_of, records)))[list(COLUMNS)]


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the tables as text, with published figures after the runs, marked as published."""
    assert isinstance(plan.study, OptimisationStudy)
    frame = frame.assign(label=labels(frame))
    ours = frame[~frame["published"]]
    sources = "; ".join(distinct(str(s) for s in ours["cost_source"] if s)) or "none yet"
    text = [
        f"Costs: {sources}, the same for all methods; sums over operators in µs, not measured run times.",
        "Seconds: the optimiser's time. Saturation runs: saturation + reading the e-graph + extraction "
        "(Tensat's definition). Search runs: the search. Loading, engine start-up, pricing and certification "
        "are excluded for both: the seconds of the whole call have a table of their own, and `run.json` has "
        "every stage.",
    ]
    if any(method.by == "search" for method in plan.study.methods.values()):
        text.append(
            "TASO's search is the workbench's implementation, in Python on one thread, with the same costs "
            "and graphs. It edits and prices graphs incrementally, which makes it much faster than TASO's "
            "program: its seconds do not measure TASO, and the ratios below are not those of the papers."
        )
    parts = [f"# {plan.folder.name}: networks by methods", about(records, ", one row per run.", *text)]
    parts += ["## Costs", _costs(frame), "## Seconds of the optimiser", _seconds(frame, "seconds")]
    if ours["call_seconds"].notna().any():
        key = (
            "The sum of all stages of a call: import, engine start, pricing and certificate are among them, each "
            "as in the commit that made the run. "
            "`wall_seconds` in `table.csv` is the time of the process, which also loads Python and makes the "
            "network."
        )
        parts += ["## Seconds of the whole call", _seconds(ours, "call_seconds") + "\n\n" + key]
    parts += _against(frame) + _e_graphs(ours)
    if refused := [r for r in records if r["row"].get("certified") is False]:
        found = [
            f"- {r['name']}: claimed {r['row']['claimed']:.1f} µs; rules at fault: "
            f"{', '.join(r['result']['offending_rules']) or 'not found'}"
            for r in refused
        ]
        parts += ["## Results that the certificate refused", "\n".join(found)]
    return "\n\n".join([*parts, *missing(plan)]) + "\n"


def _costs(frame: pd.DataFrame) -> str:
    rows = []
    for network, group in frame.groupby("network", sort=False):
        original = group.loc[~group["published"], "original"].mean()
        cells = [_gain(group[group["label"] == label]) for label in distinct(frame["label"])]
        rows.append([str(network), NOTHING if original != original else f"{original:.1f}", *cells])
    means = []
    for label in distinct(frame["label"]):
        gains = frame[frame["label"] == label].groupby("network", sort=False)["speedup"].mean()
        found = geometric_mean((1 + gains / 100).tolist())
        means.append(NOTHING if found is None else f"{100 * (found - 1):+.1f}% (n {gains.count()})")
    rows.append(["geometric mean", "", *means])
    key = (
        "Each cell: original / optimised − 1, and the cost in µs; for repeats the mean ± its standard error. "
        "**✗**: the certificate refused the result, and the original stays; the claimed gain is in brackets. "
        "**…**: a limit affected the result. n is the number of networks in the mean. Published figures are "
        "measured speed-ups of run times on the named hardware."
    )
    return lines(["network", "original µs", *distinct(frame["label"])], rows) + "\n\n" + key


def _gain(rows: pd.DataFrame) -> str:
    done = rows[rows["speedup"].notna()]
    if done.empty:
        return NOTHING if rows.empty else f"† {rows.iloc[0]['status']}"
    gain = estimate(done["speedup"])
    text = f"{gain.mean:+.1f}%" + (f" ± {gain.error:.1f}" if gain.error > 0.05 else "")
    if done["optimized"].notna().any():
        text += f", {done['optimized'].mean():.1f}"
    if (done["certified"].eq(False)).any():
        claimed = (done["original"] / done["claimed"] - 1).mean()
        text += f" ✗ ({claimed:+.1%})"
    return text + (" …" if done["limits_hit"].fillna("").ne("").any() else "")


def _seconds(frame: pd.DataFrame, column: str) -> str:
    names = distinct(frame["label"])
    rows = []
    for network, group in frame.groupby("network", sort=False):
        rows.append([str(network), *(_spent(group[group["label"] == name], column) for name in names)])
    totals, means = [], []
    for name in names:
        spent = frame[frame["label"] == name].groupby("network", sort=False)[column].mean().dropna()
        totals.append(f"{seconds_text(spent.sum())} (n {len(spent)})" if len(spent) else NOTHING)
        means.append(seconds_text(geometric_mean(spent.tolist())) or NOTHING)
    rows += [["sum", *totals], ["geometric mean", *means]]
    return lines(["network", *names], rows)


def _spent(rows: pd.DataFrame, column: str) -> str:
    spent = estimate(rows[column])
    if not spent.count:
        return NOTHING if rows.empty else f"† {rows.iloc[0]['status']}"
    return seconds_text(spent.mean) + (f" ± {seconds_text(spent.error)}" if spent.count > 1 else "")


def _against(frame: pd.DataFrame) -> list[str]:
    """Return the section that compares saturation with search: networks with a higher cost, and seconds."""
    figures = ["optimized", "claimed", "seconds"]
    means = {
        str(label): rows.groupby("network", sort=False)[figures].mean().dropna(subset=["seconds"])
        for label, rows in frame.groupby("label", sort=False)
    }
    kinds = frame.drop_duplicates("label")
    saturations = [str(label) for label in kinds.loc[kinds["by"] == "saturation", "label"]]
    searches = [str(label) for label in kinds.loc[kinds["by"] == "search", "label"]]
    if not saturations or not searches:
        return []
    others = [str(label) for label in kinds.loc[kinds["published"], "label"]]
    rows = []
    for saturation in saturations:
        for other in (*searches, *others):
            shared = [network for network in means[saturation].index if network in means[other].index]
            a, b = means[saturation].loc[shared], means[other].loc[shared]
            if not shared:
                continue
            worse = [_worse(a["optimized"], b[cost]) for cost in ("optimized", "claimed")]
            ratio = _ratio(float(b["seconds"].sum()), float(a["seconds"].sum()))
            seven = _seven_ratio(a["seconds"], b["seconds"])
            costlier = worse if other in searches else [NOTHING] * 2
            rows.append([saturation, other, str(len(shared)), *costlier, ratio, seven])
    head = ["saturation", "against", "networks", "costlier than its result", "costlier than its claim"]
    head += ["its seconds / saturation's", "the same on Tensat's seven"]
    key = (
        "*Costlier*: networks on which saturation's result costs more. A *claim* of the search may be a "
        "wrong graph, made by TASO's published rules and refused by the certificate. Published seconds come "
        "from other programs on other machines, and TASO's include the measuring of kernels on its GPU."
    )
    return ["## Saturation against TASO's search", lines(head, rows) + "\n\n" + key]


def _worse(a: pd.Series[Any], b: pd.Series[Any]) -> str:
    worse = [n for n in a.index if a[n] > b[n] * (1 + SAME)]
    return ", ".join(f"{n} {a[n] / b[n] - 1:+.2%}" for n in worse) or "none"


def _seven_ratio(a: pd.Series[Any], b: pd.Series[Any]) -> str:
    from workbench.studies.benchmarks import PUBLISHED

    if not set(PUBLISHED) <= set(a.index):
        return NOTHING
    rival, total = (float(seconds[list(PUBLISHED)].sum()) for seconds in (b, a))
    return f"{seconds_text(rival)} / {seconds_text(total)} = {_ratio(rival, total)}"


def _ratio(rival: float, total: float) -> str:
    if not total > 0:
        return NOTHING
    return f"{rival / total:.1f}×" if rival >= total else f"{rival / total:.2g}×"


def _e_graphs(ours: pd.DataFrame) -> list[str]:
    grown = ours[ours["nodes"].notna()]
    if grown.empty:
        return []
    rows = []
    for row in grown.to_dict("records"):
        method = str(row["method"]) + repeat_text(row["repeat"])
        counts = [f"{row[name]}" for name in ("nodes", "classes")]
        spent = [seconds_text(row[name]) for name in ("saturation", "extraction")]
        ended = [str(row["stop_reason"]), str(row["status"])]
        size = [f"{row['programs']:.0f}", f"{row['iter']}"]
        rows.append([str(row["network"]), method, *counts, *size, *spent, *ended])
    head = ["network", "method", "nodes", "classes", "programs (log2)", "iter", "saturation", "extraction"]
    return ["## E-graphs", lines([*head, "saturation stopped by", "extraction"], rows)]
