"""Choose a cost model by name."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from workbench.costs.analytic import DEVICES, AnalyticCost
from workbench.costs.model import CostModel

NAMES = ("analytic", *(f"analytic:{name}" for name in DEVICES), "cpu")


class UnknownCostModel(LookupError):
    """Say which cost models there are, and which is nearest to the one asked for."""


def cost_model(name: str | os.PathLike[str]) -> CostModel:
    """Return a cost model: ``"analytic"``, ``"analytic:DEVICE"``, ``"cpu"``, or a recorded table's path.

    Raise :class:`UnknownCostModel` with the nearest name.
    """
    text = os.fspath(name)
    if text == "analytic":
        return AnalyticCost()
    if text == "cpu":
        from workbench.costs.measured import MeasuredCost

        return MeasuredCost()
    if text.startswith("analytic:"):
        return AnalyticCost(text.partition(":")[2])
    if Path(text).is_file():
        from workbench.costs.recorded import RecordedCost

        return RecordedCost.load(text)
    if os.sep in text or text.endswith((".parquet", ".jsonl")):
        raise FileNotFoundError(f"no recorded cost table at {text}")
    near = difflib.get_close_matches(text, NAMES, 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise UnknownCostModel(f"no cost model is called {text!r}{hint} There are: {', '.join(NAMES)}, or a path")
