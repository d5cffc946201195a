"""Tables of the study of policies: the cost found by each under the same limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from workbench.studies.experiments.markdown import about, frame_of, lines, missing
from workbench.studies.experiments.plan import Plan, Record

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "network", "k_multi", "policy", "repeat", "original", "optimized", "bound", "status", "scope", "e_nodes",
    "steps", "trials", "growing", "saturation", "extraction", "cost_source", "stop_reason", "failed", "notes",
)  # fmt: skip

#: Relative difference up to which two costs are the same.
SAME: Final = 1e-9


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    return frame_of(records, COLUMNS, ["k_multi", "e_nodes", "steps", "trials", "repeat"])


def winners(frame: pd.DataFrame) -> dict[tuple[str, int], list[str]]:
    """Return the policies with the least cost, by network and ``k_multi``."""
    found = {}
    for key, part in frame[~frame["failed"].astype(bool)].groupby(["network", "k_multi"], sort=False):
        network, k = cast(tuple[str, int], key)
        best = part["optimized"].min()
        of_best = part[part["optimized"] <= best * (1 + SAME)]["policy"]
        found[network, int(k)] = list(dict.fromkeys(of_best))
    return found


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the table as text."""
    head = ["network", "k_multi", "policy", "original µs", "found µs", "status", "scope", "bound", "e-nodes",
            "steps", "trials", "growing s", "stopped by"]  # fmt: skip
    best = winners(frame)
    rows = [
        _row(row, best.get((str(row["network"]), int(row["k_multi"])), []))
        for row in frame.to_dict("records")
    ]
    parts = ["# Policies: which rules run when, if an e-graph does not saturate", _about(best, records)]
    return "\n\n".join([*parts, lines(head, rows), *missing(plan)]) + "\n"


def _row(row: Any, best: Sequence[str]) -> list[str]:
    first = [str(row["network"]), str(row["k_multi"]), str(row["policy"])]
    if row["failed"]:
        return [*first, *[""] * 2, str(row["status"]), *[""] * 6, str(row["notes"])]
    found = f"{row['optimized']:.2f}"
    return [
        *first, f"{row['original']:.2f}", f"**{found}**" if row["policy"] in best else found,
        str(row["status"]), str(row["scope"]), f"{row['bound']:.2f}", str(row["e_nodes"]), str(row["steps"]),
        str(row["trials"]), f"{row['growing']:.1f}", str(row["stop_reason"]),
    ]  # fmt: skip


def _about(best: dict[tuple[str, int], list[str]], records: Sequence[Record]) -> str:
    wins = Counter(policy for policies in best.values() for policy in policies)
    said = ", ".join(f"{policy} {count}" for policy, count in wins.most_common())
    return about(
        records,
        ".",
        "Every run grows one e-graph under the same limits on e-nodes, iterations and seconds; trials of "
        "`best-first` and `tree-search` count towards the seconds. The cheapest term is then extracted "
        "exactly. *Found* is its cost. *Bound* is a lower bound on the cost of every term of that e-graph. "
        "`plain` is a saturation without a policy. **Bold**: the least cost of its network and `k_multi`.",
        f"Least cost, of {len(best)} in all: {said}." if best else "",
    )
