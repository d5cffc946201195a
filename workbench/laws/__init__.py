"""The laws wing: verification of rules, theorems for all extents and ranks, synthesis of rules.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.laws.synthesis import Grammar, Synthesis
    from workbench.laws.verification import Verification, sound_rules

__all__ = ["Grammar", "Synthesis", "Verification", "sound_rules"]

__getattr__ = lazy_names(
    __name__,
    {
        "Grammar": ".synthesis",
        "Synthesis": ".synthesis",
        "Verification": ".verification",
        "sound_rules": ".verification",
    },
)
