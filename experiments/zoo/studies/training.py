"""The study of training: steps through ``torch.compile`` with and without the backend, gradients compared."""

from __future__ import annotations

import copy
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from workbench.studies.experiments.config import Names, Study, check_names
from workbench.studies.experiments.plan import Plan, Record, Run
from workbench.studies.experiments.tables import about, cell, lines, missing, run_table

if TYPE_CHECKING:
    import pandas as pd

#: The names of :data:`zoo.trained.NETWORKS`, which needs torch.
NAMES: Final = ("segformer", "last-position", "first-token", "non-local", "stack")

#: What follows the rewriting.
THENS: Final = ("eager", "inductor")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStudy(Study):
    """A study that trains networks with and without the backend, in alternation, on one thread.

    ``networks`` are names of :data:`zoo.trained.NETWORKS`, ``thens`` what follows the rewriting: with ``eager`` the
    original runs without a compiler, with ``inductor`` it is compiled by torch. Both take ``rounds`` steps. ``size``
    scales the networks. ``limit`` is the limit of a run in seconds.
    """

    KIND: ClassVar[str] = "training"

    networks: Names
    thens: Names = THENS
    rounds: PositiveInt = 9
    size: Annotated[float, Field(gt=0, le=1)] = 1.0
    limit: PositiveFloat = 1800.0
    grace: NonNegativeFloat = 60.0

    def __post_init__(self) -> None:
        check_names("networks", "network", self.networks, NAMES)
        check_names("thens", "way", self.thens, THENS)


def make_plan(study: TrainingStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, network by network; the study names no files, so ``home`` is unused."""
    runs = (
        Run(
            network,
            then,
            {"network": network, "then": then, "rounds": study.rounds, "size": study.size},
            study.limit,
            columns={"network": network, "then": then},
        )
        for network, then in product(study.networks, study.thens)
    )
    return Plan.of(study, folder, run_one, runs)


def outcome(record: Record) -> str:
    """Return the outcome of a run in one line."""
    row = record["row"]
    if not row.get("before"):
        return str(row["notes"] or row["status"])
    return (
        f"{row['speedup']:.2f}× ({row['before']:.0f} → {row['after']:.0f} ms a step), gradients "
        f"{row['distance']:.1e} off float64, torch's own {row['own']:.1e}"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def run_one(study: TrainingStudy, run: Run) -> Record:
    """Train a network with and without the backend, and return the figures."""
    import torch

    from workbench.torch import report
    from zoo.trained import furthest, gradients, trained

    torch.set_num_threads(1)
    module, arguments = trained(run.subject, study.size, run.seed)
    theirs, ours = copy.deepcopy(module), copy.deepcopy(module)
    calls: list[Any] = [
        theirs if run.method == "eager" else torch.compile(theirs),
        torch.compile(ours, backend="workbench", options={"then": run.method}),
    ]
    wide = tuple(a.double() if a.is_floating_point() else a for a in arguments)
    exact_module = copy.deepcopy(module).double()
    exact = gradients(exact_module, wide, exact_module)
    first, distances = [], []
    for trainee, call in zip((theirs, ours), calls, strict=True):
        began = time.perf_counter()
        found = gradients(trainee, arguments, call)
        first.append(time.perf_counter() - began)
        distances.append(furthest(found, exact))
    optimisers = [torch.optim.SGD(m.parameters(), lr=1e-3) for m in (theirs, ours)]
    times: list[list[float]] = [[], []]
    losses: list[list[float]] = [[], []]
    for number in range(study.rounds + 1):  # the first round warms up
        for i in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter()
            optimisers[i].zero_grad(set_to_none=True)
            loss = calls[i](*arguments)
            loss.backward()
            optimisers[i].step()
            losses[i].append(float(loss.detach()))
            if number:
                times[i].append(1e3 * (time.perf_counter() - began))
    ratios = sorted(a / b for a, b in zip(*times, strict=True))
    parts = report(ours).parts
    load = os.getloadavg()[0]
    return {
        "row": {
            "before": statistics.median(times[0]),
            "after": statistics.median(times[1]),
            "speedup": statistics.median(ratios),
            "low": ratios[len(ratios) // 4],
            "high": ratios[-1 - len(ratios) // 4],
            "rounds": study.rounds,
            "own": distances[0],
            "distance": distances[1],
            "losses": max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(*losses, strict=True)),
            "first_before": first[0],
            "first_after": first[1],
            "load": load,
            "busy": load > 1.5,
        },
        "status": "rewritten" if any(p.laws and not p.handed_on for p in parts) else "handed on",
        "stop_reason": "; ".join(dict.fromkeys(p.way or p.handed_on for p in parts)),
        "result": {"parts": [str(p) for p in parts], "laws": sorted({law for p in parts for law in p.laws})},
    }


COLUMNS: Final = (
    "network", "then", "repeat", "before", "after", "speedup", "low", "high", "rounds", "own", "distance",
    "losses", "first_before", "first_after", "load", "busy", "status", "stop_reason", "failed", "notes",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    return run_table(records, COLUMNS, ["rounds"])


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the table as text."""
    head = ["network", "then", "without ms", "with ms", "speed-up", "quartiles", "gradients off float64",
            "torch's own", "losses apart", "first call s", "other load", "result"]  # fmt: skip
    rows = [
        [
            str(row["network"]), str(row["then"]), cell(row["before"], "{:.0f}"), cell(row["after"], "{:.0f}"),
            cell(row["speedup"], "{:.2f}×"), f"{cell(row['low'], '{:.2f}')} to {cell(row['high'], '{:.2f}')}",
            cell(row["distance"], "{:.1e}"), cell(row["own"], "{:.1e}"), cell(row["losses"], "{:.1e}"),
            f"{cell(row['first_before'], '{:.0f}')} → {cell(row['first_after'], '{:.0f}')}",
            "busy" if row["busy"] is True else "", str(row["stop_reason"] or row["status"]),
        ]
        for row in frame.to_dict("records")
    ]  # fmt: skip
    parts = ["# Training: steps with the backend of torch.compile and without", _about(records)]
    return "\n\n".join([*parts, lines(head, rows), *missing(plan)]) + "\n"


def _about(records: Sequence[Record]) -> str:
    return about(
        records,
        ". One thread.",
        "A step is forward, loss, backward and SGD; both ways run in alternation and the speed-up is the median of "
        "the pairs. *Without* is eager torch or torch's own compiler, *with* is the same after rewriting. A gradient "
        "is compared with float64 in the relative L2 norm, and the largest of all parameters is shown.",
        "*busy*: other processes ran beside it, so that the milliseconds are too high; the ratios are of pairs.",
    )
