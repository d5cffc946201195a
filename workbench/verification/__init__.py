"""Verification: certificates for optimised graphs, and the rules behind a wrong one."""

from workbench.verification.blame import find_offending
from workbench.verification.certificate import Certificate, Evidence, certify, random_inputs

__all__ = ["Certificate", "Evidence", "certify", "find_offending", "random_inputs"]
