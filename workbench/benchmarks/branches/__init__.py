"""Networks with branches that people merge by hand: in the form that is trained, and merged.

Weights are real seeded random numbers, batch-norm statistics included, and the same in both forms; the
merged form is computed by the published formulas and knows nothing of rewrite rules.
"""

from __future__ import annotations

import difflib
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
    """Say which families there are, and which is nearest to the one asked for."""


def families() -> list[str]:
    """Return the names of the families."""
    return list(_FAMILIES)


def parameters(family: str) -> dict[str, Any]:
    """Return the parameters that a family takes, with their defaults.

    >>> parameters("inception")["branches"]
    4
    """
    taken = signature(_function(family)).parameters
    return {name: known.default for name, known in taken.items() if name != "by_hand"}


def branched(family: str, **given: Any) -> Graph:
    """Return a network of a family in evaluation form, its branches apart.

    ``blocks``, ``seed`` and what else the family's function takes make it larger, smaller or different.

    >>> branched("repvgg", blocks=1, channels=4, size=6).operators()
    {'conv2d': 2, 'batchnorm': 3, 'add': 2, 'relu': 1}
    """
    return _build(family, given, by_hand=False)


def hand_merged(family: str, **given: Any) -> Graph:
    """Return the same network as people merge it by hand.

    Raise ValueError where it cannot be merged.

    >>> hand_merged("repvgg", blocks=1, channels=4, size=6).operators()
    {'conv2d': 1, 'relu': 1}
    """
    return _build(family, given, by_hand=True)


def _function(family: str) -> Callable[..., Graph]:
    if family not in _FAMILIES:
        near = difflib.get_close_matches(family, _FAMILIES, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownFamily(f"no family is called {family!r}{hint} There are: {', '.join(_FAMILIES)}")
    return _FAMILIES[family]


def _build(family: str, given: dict[str, Any], *, by_hand: bool) -> Graph:
    build, takes = _function(family), parameters(family)
    if given.get("blocks", 1) < 1:
        raise ValueError(f"a network has at least one block, not {given['blocks']}")
    for name in given:
        if name not in takes:
            raise TypeError(f"{family} has no parameter {name!r}; it takes {', '.join(takes)}")
    return build(**given, by_hand=by_hand)
