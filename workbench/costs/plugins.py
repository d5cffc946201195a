"""Cost models of the user's own, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from workbench.costs.analytic import DEVICES
from workbench.costs.model import CostModel, OpInstance
from workbench.support.plugins import Named

#: The cost models that are built in.
NAMES: Final = ("analytic", *(f"analytic:{name}" for name in DEVICES), "cpu")
#: A cost model, a class of cost models, or a function from an instance to microseconds.
Given = CostModel | type[CostModel] | Callable[[OpInstance], float]

OWN: Final = Named[Any]("cost model", "workbench.cost_models", "workbench.costs.plugins:OWN", lambda: NAMES)


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


def own_model(name: str) -> CostModel | None:
    """Return the user's cost model of this name, or None; raise TypeError if it is something else."""
    found = OWN.find(name)
    if found is None or isinstance(found, CostModel):
        return found
    if isinstance(found, type) and issubclass(found, CostModel):
        return found()
    if callable(found) and not isinstance(found, type):
        return PriceOf(name, found)
    raise TypeError(
        f"the cost model {name!r} must be a CostModel, a class of them or a function, got {found!r}"
    )
