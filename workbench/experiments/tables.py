"""The tables of a study, made from the records there are, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from workbench.experiments import (
    ablation_tables,
    branches_tables,
    deployment_tables,
    extraction_tables,
    optimisation_tables,
    verification_tables,
)
from workbench.experiments.config import KINDS
from workbench.experiments.plan import Plan
from workbench.files import UnwritableOutput, write_atomic

if TYPE_CHECKING:
    import pandas as pd

_TABLES: Final[Mapping[str, Any]] = {
    "extraction": extraction_tables,
    "optimisation": optimisation_tables,
    "ablation": ablation_tables,
    "verification": verification_tables,
    "branches": branches_tables,
    "deployment": deployment_tables,
}


def render(plan: Plan) -> tuple[pd.DataFrame, str]:
    """Return a study's figures as a frame and its tables as text."""
    records = plan.records()
    kind = _TABLES[next(name for name, settings in KINDS.items() if isinstance(plan.study, settings))]
    frame = kind.table(records)
    return frame, kind.markdown(plan, frame, records)


def write_tables(plan: Plan) -> None:
    """Write ``table.csv`` and ``table.md`` from the records there are."""
    frame, text = render(plan)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(plan.folder / "table.csv", frame.to_csv(index=False, lineterminator="\n"))
        write_atomic(plan.folder / "table.md", text)
    except OSError as error:
        raise UnwritableOutput(f"{plan.folder}: {error.strerror or error}") from error
