"""Selection of a cost model by name."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.costs.analytic import DEVICES, AnalyticCost
from workbench.costs.model import CostModel
from workbench.support.names import unknown

NAMES = ("analytic", *(f"analytic:{name}" for name in DEVICES), "cpu")


class UnknownCostModel(LookupError):
    """Raised when no cost model has the given name; the message lists the names and the nearest one."""


def cost_model(cost: str | os.PathLike[str] | CostModel) -> CostModel:
    """Return a cost model: ``"analytic"``, ``"analytic:DEVICE"``, ``"cpu"``, or a recorded table's path.

    A cost model is returned as it is. Raise :class:`UnknownCostModel`, with the nearest name, for any other
    name, FileNotFoundError if a path does not exist, and TypeError for anything that is neither a name nor a
    :class:`~workbench.costs.model.CostModel`.
    """
    if isinstance(cost, CostModel):
        return cost
    if not isinstance(cost, str | os.PathLike):
        raise TypeError(
            f"a cost must be a name, a path or a CostModel, got {type(cost).__name__} "
            f"(try class {type(cost).__name__}(workbench.costs.CostModel))"
        )
    text = os.fspath(cost)
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
    raise UnknownCostModel(f"{unknown('cost model', text, NAMES)}, or a path")
