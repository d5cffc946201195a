"""Cost models by name: those that are built in, and a user's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from workbench.costs.analytic import DEVICES, AnalyticCost
from workbench.costs.model import CostModel, OpInstance
from workbench.support.plugins import Named

#: The cost models that are built in.
NAMES: Final = ("analytic", *(f"analytic:{name}" for name in DEVICES), "cpu")
#: A cost model, a class of cost models, or a function from an instance to microseconds.
Given = CostModel | type[CostModel] | Callable[[OpInstance], float]


class PriceOf(CostModel):
    """A cost model that is a function from an operator instance to microseconds."""

    def __init__(self, name: str, function: Callable[[OpInstance], float]) -> None:
        self.name, self.function = name, function

    @property
    def source(self) -> str:
        """Return the name of the cost model."""
        return f"the cost model {self.name}"

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        return np.array([float(self.function(i)) for i in instances], dtype=float)


class _CostModels(Named[Given]):
    """The cost models by name.

    A user's own is a :class:`~workbench.costs.model.CostModel`, a class of them, or a function from an operator
    instance to microseconds; ``cost=`` and ``--cost`` then know its name.
    """

    def __call__(self, cost: str | os.PathLike[str] | CostModel) -> CostModel:
        """Return a cost model: ``"analytic"``, ``"analytic:DEVICE"``, ``"cpu"``, or a registered name.

        A recorded table is named by its path, and a cost model is returned as it is. Raise
        :class:`~workbench.support.messages.UnknownName`, with the nearest name, for any other name,
        FileNotFoundError if a path does not exist, and TypeError for anything that is neither a name nor a
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
        own = self._own_model(text)
        if own is not None:
            return own
        if Path(text).is_file():
            from workbench.costs.recorded import RecordedCost

            return RecordedCost.load(text)
        if os.sep in text or text.endswith((".parquet", ".jsonl")):
            raise FileNotFoundError(f"no recorded cost table at {text}")
        raise self.unknown(text, ", or a path")

    def _own_model(self, name: str) -> CostModel | None:
        """Return the user's cost model of this name, or None; raise TypeError if it is something else."""
        found = self.find(name)
        if found is None or isinstance(found, CostModel):
            return found
        if isinstance(found, type) and issubclass(found, CostModel):
            return found()
        if callable(found) and not isinstance(found, type):
            return PriceOf(name, found)
        raise TypeError(
            f"the cost model {name!r} must be a CostModel, a class of them or a function, got {found!r}"
        )


#: Return a cost model by name: ``cost_model("cpu")``.
cost_model: Final = _CostModels(
    "cost model", "workbench.cost_models", "workbench.costs.registry:cost_model", lambda: NAMES
)
