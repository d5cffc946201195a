"""Verification: verdicts on rules, proofs, counterexamples, and the verdicts on the rule library.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.laws.verification.admission import Sound, sound_rules
    from workbench.laws.verification.evidence import Effort
    from workbench.laws.verification.refuting.cases import Counterexample
    from workbench.laws.verification.verdict import Verdict
    from workbench.laws.verification.verify import Verification

__all__ = ["Counterexample", "Effort", "Sound", "Verdict", "Verification", "sound_rules"]

__getattr__ = lazy_names(
    __name__,
    {
        "Counterexample": ".refuting.cases",
        "Effort": ".evidence",
        "Sound": ".admission",
        "Verdict": ".verdict",
        "Verification": ".verify",
        "sound_rules": ".admission",
    },
)
