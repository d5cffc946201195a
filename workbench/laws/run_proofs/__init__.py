"""Proofs of runs: why a rewritten model computes what its original computes, and a check without a search.

``prove`` makes the proof of a result, ``check`` checks it: two files and a text, without the engine.
"""

from workbench.laws.run_proofs.api import check, prove
from workbench.laws.run_proofs.checking import Accepted, NotAccepted
from workbench.laws.run_proofs.proof import MalformedProof, RunProof

__all__ = ["Accepted", "MalformedProof", "NotAccepted", "RunProof", "check", "prove"]
