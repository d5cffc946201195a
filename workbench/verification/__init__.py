"""Verification: verdicts on rules, certificates for optimised graphs, the rules behind a wrong one.

What is named here is imported when it is first used: a certificate needs none of what judges rules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.verification.blame import find_offending
    from workbench.verification.certificate import Certificate, Evidence, certify
    from workbench.verification.evidence import Effort
    from workbench.verification.inputs import random_inputs
    from workbench.verification.refute import Counterexample
    from workbench.verification.sound import Sound, sound_rules
    from workbench.verification.verdict import Verdict
    from workbench.verification.verify import Verification

_HOMES = {
    "Certificate": "certificate",
    "Counterexample": "refute",
    "Effort": "evidence",
    "Evidence": "certificate",
    "Sound": "sound",
    "Verdict": "verdict",
    "Verification": "verify",
    "certify": "certificate",
    "find_offending": "blame",
    "random_inputs": "inputs",
    "sound_rules": "sound",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
