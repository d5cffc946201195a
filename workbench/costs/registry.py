"""Selection of a cost model by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from workbench.costs.analytic import AnalyticCost
from workbench.costs.model import CostModel
from workbench.costs.plugins import NAMES, OWN, Given, own_model
from workbench.support.messages import unknown

__all__ = ["NAMES", "UnknownCostModel", "cost_model"]

G = TypeVar("G", bound=Given)


class UnknownCostModel(LookupError):
    """Raised when no cost model has the given name; the message lists the names and the nearest one."""


class _CostModels:
    """The lookup of cost models, and the registration of the user's own."""

    def __call__(self, cost: str | os.PathLike[str] | CostModel) -> CostModel:
        """Return a cost model: ``"analytic"``, ``"analytic:DEVICE"``, ``"cpu"``, or a registered name.

        A recorded table is named by its path, and a cost model is returned as it is. Raise
        :class:`UnknownCostModel`, with the nearest name, for any other name, FileNotFoundError if a path does
        not exist, and TypeError for anything that is neither a name nor a
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
        own = own_model(text)
        if own is not None:
            return own
        if Path(text).is_file():
            from workbench.costs.recorded import RecordedCost

            return RecordedCost.load(text)
        if os.sep in text or text.endswith((".parquet", ".jsonl")):
            raise FileNotFoundError(f"no recorded cost table at {text}")
        raise UnknownCostModel(f"{unknown('cost model', text, self.names())}, or a path")

    def register(self, name: str, model: Given | None = None) -> Callable[[G], G]:
        """Give a cost model a name, by which ``cost=`` and ``--cost`` then know it; return a decorator.

        The model is a :class:`~workbench.costs.model.CostModel`, a class of them, or a function from an
        operator instance to microseconds. It may be given as the second argument instead of being decorated.
        Raise ValueError if the name is built in.
        """

        def add(given: G) -> G:
            OWN.register(name, given)
            return given

        if model is not None:
            OWN.register(name, model)
        return add

    def names(self) -> list[str]:
        """Return the names of all cost models."""
        return [*NAMES, *OWN.names()]


#: Return a cost model by name: ``cost_model("cpu")``.
cost_model = _CostModels()
