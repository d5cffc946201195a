"""Verification: verdicts on rules, proofs, counterexamples, and the verdicts on the rule library.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.laws.verification.admission import Sound as Sound
    from workbench.laws.verification.admission import sound_rules as sound_rules
    from workbench.laws.verification.evidence import Effort as Effort
    from workbench.laws.verification.proving import axioms as axioms
    from workbench.laws.verification.refuting.cases import Counterexample as Counterexample
    from workbench.laws.verification.verdict import Verdict as Verdict
    from workbench.laws.verification.verify import Verification as Verification

__getattr__, __all__ = door(
    __name__,
    {
        "admission": "Sound sound_rules",
        "evidence": "Effort",
        "proving": "axioms",
        "refuting.cases": "Counterexample",
        "verdict": "Verdict",
        "verify": "Verification",
    },
)
