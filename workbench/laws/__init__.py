"""The laws wing: verification of rules, theorems for all extents and ranks, synthesis of rules.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.laws.synthesis import Grammar as Grammar
    from workbench.laws.synthesis import Synthesis as Synthesis
    from workbench.laws.theorems.check import check as check
    from workbench.laws.theorems.steps import Rejected as Rejected
    from workbench.laws.verification import Verification as Verification
    from workbench.laws.verification import sound_rules as sound_rules

__getattr__, __all__ = door(
    __name__,
    {
        "synthesis": "Grammar Synthesis",
        "theorems.check": "check",
        "theorems.steps": "Rejected",
        "verification": "Verification sound_rules",
    },
)
