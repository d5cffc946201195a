"""The result of an extraction: a choice of e-nodes with its cost, bound, status, and the reasons for an early end."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from workbench.run.display import Face


class Limit(enum.Enum):
    """Kind of reason; the value is its text for people."""

    TIME = "time limit"
    PATIENCE = "no progress worth waiting for"
    NODES = "limit on nodes of branch and bound"
    CLOSE = "close enough to the bound"
    INTERRUPTED = "interrupted"
    MEMORY = "ran out of memory"
    KILLED = "was killed"
    FAILED = "failed"
    NOTHING = "nothing found: this is the tree selection"


#: Reasons after which only the selections that a solver has reported remain.
DIED: Final = frozenset({Limit.MEMORY, Limit.KILLED, Limit.FAILED})


@dataclass(frozen=True, slots=True)
class Ending:
    """A reason for an early end: its kind, the solver that ended, and details for people.

    ``solver`` is empty for the extraction as a whole.

    >>> str(Ending(Limit.FAILED, "highs", "its process ended with code 3"))
    'highs failed: its process ended with code 3'
    """

    limit: Limit
    solver: str = ""
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.solver} {self.limit.value}".strip()
        return f"{text}: {self.detail}" if self.detail else text


class Status(enum.Enum):
    """How much is known about a solution: proved optimal, from an exact method, or from greedy search.

    A solution is from an exact method also if a solver had it as its start and found none that is cheaper.
    Optimal means that cost and bound differ by at most 1e-9 of the cost that depends on the choice.
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    GREEDY = "greedy"


def strength(status: Status, cost: float, bound: float, scope: str) -> str:
    """Describe a cost in words, for example by its distance from the bound.

    Args:
        status: Whether the selection is proved optimal.
        cost: Its cost.
        bound: A lower bound on the cost of every selection.
        scope: The part of the e-graph to which the bound applies.

    >>> strength(Status.FEASIBLE, 1000.0, 996.1, "e-graph")
    'feasible, within 0.4 % of optimal (e-graph)'
    """
    if status is Status.OPTIMAL or not 0.0 < bound < cost:
        return f"{status.value} ({scope})"
    percent = math.ceil(1000 * (1 - bound / cost) - 1e-6) / 10
    return f"{status.value}, within {percent:g} % of optimal ({scope})"


@dataclass(frozen=True, slots=True, eq=False)
class Solution(Face):
    """An acyclic selection of e-nodes with its cost, a proven bound, and the way to it.

    ``choice[c]`` is the e-node taken for e-class ``c``, or -1 if the class is not needed. ``cost`` is the
    DAG cost (every chosen e-node once) in the unit of the cost model, ``bound`` a proven lower bound on
    the cost of any selection. Both are about the ``scope``: ``"e-graph"``, or ``"cycle-free part"`` when
    cycles were broken before solving, so that ``optimal`` holds there. ``seconds`` is the time of the
    extraction, ``endings`` are the reasons for which it, or a solver of it, ended early.
    """

    choice: np.ndarray = field(repr=False)
    cost: float
    bound: float
    status: Status
    method: str
    scope: str = "e-graph"
    seconds: float = 0.0
    endings: tuple[Ending, ...] = ()

    def __repr__(self) -> str:
        found = strength(self.status, self.cost, self.bound, self.scope)
        return f"Solution of cost {self.cost:g} by {self.method}: {found}, {self.seconds:.2f} s"

    @property
    def gap(self) -> float:
        """Return the relative distance from the bound: (cost - bound) / abs(cost)."""
        return max(0.0, (self.cost - self.bound) / abs(self.cost)) if self.cost else 0.0

    @property
    def limits(self) -> frozenset[Limit]:
        """Return the kinds of reasons for which the extraction, or a solver of it, ended early."""
        return frozenset(ending.limit for ending in self.endings)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the endings as texts for people."""
        return tuple(map(str, self.endings))
