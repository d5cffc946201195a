"""Reasons why an extraction, or a solver that works for it, ended before it was done."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


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
