"""Kept laws on many more random instances than the verification draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from workbench.laws.verification.refuting.refute import search
from workbench.rules.pattern import Rule

#: The seed of the instances; it differs from the verification's, which draws other ones.
SEED: Final = 1_000_003


@dataclass(frozen=True, slots=True)
class Recheck:
    """The outcome of many instances of one law: how many agreed, and whether one did not.

    ``complete`` is false if fewer instances than wanted were met within the limits.
    """

    name: str
    passed: int
    refuted: bool
    complete: bool
    seconds: float


def recheck(
    laws: Iterable[Rule], instances: int = 2000, *, seed: int = SEED, seconds: float = 120.0
) -> Iterator[Recheck]:
    r"""Evaluate laws on random instances; yield the outcome for each of them.

    Args:
        laws: The laws.
        instances: Number of instances of each law.
        seed: Seed of the instances.
        seconds: Time limit for each law.

    >>> from workbench.rules import parse_rules
    >>> laws = parse_rules("right: relu(relu(x)) => relu(x)\nwrong: add(x, y) => add(x, x)")
    >>> [(r.name, r.passed >= 50, r.refuted) for r in recheck(laws, 50)]
    [('right', True, False), ('wrong', False, True)]
    """
    if instances < 1:
        raise ValueError(f"the number of instances must be positive, got {instances}")
    for law in laws:
        found = search(law, instances, seed=seed, seconds=seconds, corners=())
        wrong = found.counterexample is not None
        yield Recheck(law.name, len(found.passed), wrong, wrong or found.draws >= instances, found.seconds)
