"""Tables of the study of blocking: growth, products left, tiles and cycles by set of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from workbench.studies.experiments.markdown import about, cell, frame_of, lines, missing, seconds_text
from workbench.studies.experiments.plan import Plan, Record
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = (
    "network", "unit", "method", "repeat", "e_nodes", "e_classes", "iterations", "saturation", "extraction",
    "stop_reason", "status", "products", "products_left", "depthwise_left", "tiles", "cycles", "utilisation",
    "certified", "failed", "notes",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    whole = ["e_nodes", "e_classes", "iterations", "products", "products_left", "depthwise_left", "tiles"]
    return frame_of(records, COLUMNS, whole)


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the table as text, with a description of the sets of rules."""
    head = ["network", "unit", "rules", "e-nodes", "saturation", "extraction", "ended by", "result",
            "dense products left", "depthwise left", "tiles", "cycles", "certified"]  # fmt: skip
    rows = [
        [
            str(row["network"]), str(row["unit"]), str(row["method"]), _number(row["e_nodes"]),
            seconds_text(row["saturation"]), seconds_text(row["extraction"]), str(row["stop_reason"]),
            str(row["status"]), _number(row["products_left"]), _number(row["depthwise_left"]),
            _number(row["tiles"]), _number(row["cycles"]), cell(row["certified"]),
        ]
        for row in frame.to_dict("records")
    ]  # fmt: skip
    parts = ["# Blocking: networks cut into the tiles of hardware units", _about(records)]
    return "\n\n".join([*parts, lines(head, rows), *missing(plan)]) + "\n"


def _about(records: Sequence[Record]) -> str:
    return about(
        records,
        ".",
        "*generic*: rules like Glenside's, which fill, cut and join their own results. *demanded*: tiles "
        "one by one, each rule on demand of a product. *glenside-orientation*: a product is one operator, "
        "kernels stream and the image stays. *any-orientation*: the extraction chooses the operand that "
        "stays.",
        "Rules on demand are not a discovery: they state how a product is blocked, and the extraction "
        "chooses among the ways. Cycles are those of the unit's file, of the vector unit and of memory "
        "together.",
    )


def _number(value: Any) -> str:
    import pandas as pd

    return "" if pd.isna(value) else thousands(round(value))
