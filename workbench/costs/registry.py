"""Cost models by name: those that are built in, and a user's own."""

from __future__ import annotations

import numbers
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
        return np.array([self._of(instance) for instance in instances], dtype=float)

    def _of(self, instance: OpInstance) -> float:
        try:
            found: object = self.function(instance)
        except Exception as error:
            error.add_note(f"in {self.source}, for the operator {instance.op}")
            raise
        if isinstance(found, bool) or not isinstance(found, numbers.Real):
            raise TypeError(
                f"{self.source} must return microseconds, got {found!r} for the operator {instance.op}"
            )
        return float(found)


class _CostModels(Named[Given]):
    """The cost models by name.

    A user's own is a :class:`~workbench.costs.model.CostModel`, a class of them, or a function from an operator
    instance to microseconds; ``cost=`` and ``--cost`` then know its name.
    """

    def __call__(self, cost: str | os.PathLike[str] | Given) -> CostModel:
        """Return a cost model: ``"analytic"``, ``"analytic:DEVICE"``, ``"cpu"``, or a registered name.

        A recorded table is named by its path. A cost model is returned as it is, its class or a function from an
        operator instance to microseconds becomes one. Raise
        :class:`~workbench.support.messages.UnknownName`, with the nearest name, for any other name,
        FileNotFoundError if a path does not exist, and TypeError for anything else.
        """
        if not isinstance(cost, str | os.PathLike):
            return _model(cost, getattr(cost, "__name__", type(cost).__name__))
        text = os.fspath(cost)
        kind, _, device = text.partition(":")
        if kind == "analytic":
            return AnalyticCost(device) if ":" in text else AnalyticCost()
        if text == "cpu":
            from workbench.costs.measured import MeasuredCost

            return MeasuredCost()
        if (own := self.find(text)) is not None:
            return _model(own, text)
        if Path(text).is_file():
            from workbench.costs.lookup import RecordedCost

            return RecordedCost.load(text)
        if os.sep in text or text.endswith((".parquet", ".jsonl")):
            raise FileNotFoundError(f"no recorded cost table at {text}")
        raise self.unknown(text, ", or a path")


def _model(given: object, name: str) -> CostModel:
    """Return what a user gave or registered as a cost model; raise TypeError if it is none."""
    if isinstance(given, type) and issubclass(given, CostModel):
        return given()
    if isinstance(given, CostModel):
        return given
    if callable(given) and not isinstance(given, type):
        return PriceOf(name, given)
    raise TypeError(
        f"the cost model {name!r} must be a CostModel, a class of them or a function, got {given!r}"
    )


#: Return a cost model by name: ``cost_model("cpu")``.
cost_model: Final = _CostModels(
    "cost model", "workbench.cost_models", "workbench.costs.registry:cost_model", lambda: NAMES
)
