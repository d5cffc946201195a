"""Find the axioms that a proof needs, if it is too deep for a chain of terms: prove again with fewer."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.laws.verification.instances.ground import Instance
from workbench.laws.verification.proving.prove import Cases, Prover
from workbench.rules.pattern import Rule
from workbench.saturation import Limits
from workbench.support import deadline


def axioms_needed(case: Instance, axioms: Sequence[Rule], limits: Limits) -> tuple[str, ...]:
    """Return a minimal set of axioms that prove a case of a rule: without any of them the proof fails.

    The set is empty if the axioms prove nothing within the limits.
    """
    prover = _prove(case, axioms, limits, None)
    try:
        if prover.proof(0) is None or prover.saturation is None:
            return ()
        matched = {r.rule for step in prover.saturation.trace.steps for r in step.rules if r.matches}
        needed = [axiom for axiom in axioms if axiom.name in matched]
        for axiom in tuple(needed):
            deadline.check()
            fewer = [a for a in needed if a is not axiom]
            prover = _prove(case, fewer, limits, prover)
            if prover.proof(0) is not None:
                needed = fewer
        return tuple(axiom.name for axiom in needed)
    finally:
        prover.close()


def _prove(case: Instance, axioms: Sequence[Rule], limits: Limits, before: Prover | None) -> Prover:
    """Return the prover of one case after its last round; it reuses the engine of the prover ``before``."""
    prover = Prover([case.rule], axioms, limits, engine=None if before is None else before.engine)
    prover.cases[0] = Cases((case,), True)
    if prover.begin():
        while not prover.pass_over:
            prover.step()
    return prover
