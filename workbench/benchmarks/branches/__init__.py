"""Networks with branches that people merge by hand: in the form that is trained, and merged.

Both forms have the same seeded random weights, including batch-norm statistics. The merged form is computed
by the published formulas, independently of rewrite rules.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Final

from workbench.benchmarks.branches.convolutional import (
    acnet,
    dbb,
    inception,
    mobileone,
    repvgg,
    squeeze_excite,
)
from workbench.benchmarks.branches.matrices import affine_chain, lora, low_rank, projections
from workbench.graph import Graph
from workbench.support.names import unknown

__all__ = ["UnknownFamily", "branched", "families", "hand_merged", "parameters"]

_FAMILIES: Final[dict[str, Callable[..., Graph]]] = {
    "repvgg": repvgg,
    "acnet": acnet,
    "dbb": dbb,
    "mobileone": mobileone,
    "lora": lora,
    "low_rank": low_rank,
    "projections": projections,
    "inception": inception,
    "squeeze_excite": squeeze_excite,
    "affine_chain": affine_chain,
}


class UnknownFamily(LookupError):
    """Raised when no family has the given name; the message names the nearest one and lists all."""


def families() -> list[str]:
    """Return the names of the families."""
    return list(_FAMILIES)


def parameters(family: str) -> dict[str, Any]:
    """Return the parameters of a family with their defaults.

    >>> parameters("inception")["branches"]
    4
    """
    taken = signature(_function(family)).parameters
    return {name: known.default for name, known in taken.items() if name != "by_hand"}


def branched(family: str, **given: Any) -> Graph:
    """Return a network of a family in evaluation form, with separate branches.

    ``given`` are parameters of the family, such as ``blocks`` and ``seed``; see :func:`parameters`.

    >>> branched("repvgg", blocks=1, channels=4, size=6).operators()
    {'conv2d': 2, 'batchnorm': 3, 'add': 2, 'relu': 1}
    """
    return _build(family, given, by_hand=False)


def hand_merged(family: str, **given: Any) -> Graph:
    """Return the same network as people merge it by hand.

    Raise ValueError if it cannot be merged.

    >>> hand_merged("repvgg", blocks=1, channels=4, size=6).operators()
    {'conv2d': 1, 'relu': 1}
    """
    return _build(family, given, by_hand=True)


def _function(family: str) -> Callable[..., Graph]:
    if family not in _FAMILIES:
        raise UnknownFamily(unknown("family", family, _FAMILIES))
    return _FAMILIES[family]


def _build(family: str, given: dict[str, Any], *, by_hand: bool) -> Graph:
    build, takes = _function(family), parameters(family)
    if given.get("blocks", 1) < 1:
        raise ValueError(f"blocks must be at least 1, got {given['blocks']}")
    for name in given:
        if name not in takes:
            raise TypeError(f"{family} has no parameter {name!r}. There are: {', '.join(takes)}")
    return build(**given, by_hand=by_hand)
