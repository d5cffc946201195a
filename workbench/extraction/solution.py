"""What an extraction returns: a choice of e-nodes with its cost, bound and status."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from workbench.face import Face


class Status(enum.Enum):
    """Say how much is known about a solution."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    GREEDY = "greedy"


@dataclass(frozen=True, slots=True, eq=False)
class Solution(Face):
    """Hold an acyclic selection.

    ``choice[c]`` is the e-node taken for e-class ``c`` (-1 where the class is not needed); ``cost``
    is its DAG cost (every chosen e-node once) in the unit of the cost model; ``bound`` a proven lower
    bound on the cost of any selection. ``scope`` says of what: ``"e-graph"``, or
    ``"cycle-free part"`` when cycles were broken before solving, so that ``optimal`` holds there.
    """

    choice: np.ndarray = field(repr=False)
    cost: float
    bound: float
    status: Status
    method: str
    scope: str = "e-graph"
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """Return the relative distance from the bound: (cost - bound) / cost."""
        return max(0.0, (self.cost - self.bound) / self.cost) if self.cost > 0 else 0.0
