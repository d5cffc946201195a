"""All families that people rewrite by hand: of branches and of movement."""

from __future__ import annotations

from typing import Final

from zoo.branches import BRANCHES
from zoo.families import Families
from zoo.movement import MOVEMENT

ALL_FAMILIES: Final = Families({**BRANCHES, **MOVEMENT})
