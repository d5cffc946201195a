"""All families that people rewrite by hand: of branches and of movement."""

from __future__ import annotations

from typing import Final

from workbench.benchmarks.branches import BRANCHES
from workbench.benchmarks.families import Families
from workbench.benchmarks.movement import MOVEMENT

ALL_FAMILIES: Final = Families({**BRANCHES, **MOVEMENT})
