"""Derivations at drawn instances, for rules whose typing gives no generic instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workbench.laws.synthesis.derivation import both_ways
from workbench.laws.verification.proving.prove import Cases, Prover, generic_cases
from workbench.laws.verification.refuting.refute import search
from workbench.ops import TypeMismatch
from workbench.rules.pattern import Rule
from workbench.saturation import Limits

#: Instances at which a rule is derived.
INSTANCES: Final = 6
#: The bounds of the e-graph.
BOUNDS: Final = Limits(e_nodes=20_000, seconds=20.0, iterations=6, k_multi=0)


def derived_at_samples(rule: Rule, laws: Sequence[Rule], *, seed: int = 0) -> int:
    """Return the number of drawn instances of a rule if laws imply it at each of them, 0 otherwise.

    A rule with a generic instance is derived there, not here: the result is 0.

    The laws are read in both directions; ``seed`` is the seed of the instances.
    """
    if generic_cases(rule, broadcast=False).instances:
        return 0
    drawn = tuple(search(rule, INSTANCES, seed=seed, broadcast=False, corners=()).passed)
    if not drawn:
        return 0
    prover = Prover([rule], both_ways(laws), BOUNDS, broadcast=False)
    prover.cases[0] = Cases(drawn, False, sampled=len(drawn))
    try:
        if not prover.begin():
            return 0
        while not prover.pass_over:
            prover.step()
    except (TypeMismatch, ValueError):
        return 0
    finally:
        prover.close()
    return len(drawn) if prover.proof(0) is not None else 0
