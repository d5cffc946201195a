"""The permutations that a rule's conditions allow, for ranks at which a random one hardly ever fits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from workbench.ops import TensorType, TypeMismatch
from workbench.rules.expressions import holds
from workbench.rules.pattern import Compare, names_in


@lru_cache(maxsize=256)
def allowed(name: str, rank: int, conditions: tuple[Compare, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the permutations of a rank that satisfy the conditions on one attribute variable alone.

    Args:
        name: The name of the variable.
        rank: The number of axes.
        conditions: The conditions of a rule; those that name something else are left out.
    """
    alone = [c for c in conditions if set(_names(c)) == {("attr", name)}]
    return tuple(p for p in itertools.permutations(range(rank)) if all(_holds(c, p) for c in alone))


def _names(condition: Compare) -> Iterator[tuple[str, str]]:
    yield from names_in(condition.left)
    yield from names_in(condition.right)


def _holds(condition: Compare, perm: tuple[int, ...]) -> bool:
    def no_tensor(name: str) -> TensorType:
        raise KeyError(name)

    def value(_: str) -> Any:
        return perm

    try:
        return holds(condition, value, no_tensor)
    except (TypeMismatch, IndexError):
        return False
