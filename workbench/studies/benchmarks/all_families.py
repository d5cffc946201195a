"""All families that people rewrite by hand: of branches and of movement."""

from __future__ import annotations

from typing import Final

from workbench.studies.benchmarks.branches import BRANCHES
from workbench.studies.benchmarks.families import Families
from workbench.studies.benchmarks.movement import MOVEMENT

ALL_FAMILIES: Final = Families({**BRANCHES, **MOVEMENT})
