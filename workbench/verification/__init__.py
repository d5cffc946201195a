"""Verification: verdicts on rules, certificates for optimised graphs, the rules behind a wrong one."""

from workbench.verification.blame import find_offending
from workbench.verification.certificate import Certificate, Evidence, certify
from workbench.verification.evidence import Effort
from workbench.verification.inputs import random_inputs
from workbench.verification.refute import Counterexample
from workbench.verification.sound import Sound, sound_rules
from workbench.verification.verdict import Verdict
from workbench.verification.verify import Verification

__all__ = [
    "Certificate",
    "Counterexample",
    "Effort",
    "Evidence",
    "Sound",
    "Verdict",
    "Verification",
    "certify",
    "find_offending",
    "random_inputs",
    "sound_rules",
]
