"""Networks with branches that people merge by hand: in the form that is trained, and merged.

Both forms have the same seeded random weights, including batch-norm statistics. The merged form is computed
by the published formulas, independently of rewrite rules.
"""

from __future__ import annotations

from typing import Any, Final

from workbench.graph import Graph
from zoo.branches.convolutional import (
    acnet,
    dbb,
    inception,
    mobileone,
    repvgg,
    squeeze_excite,
)
from zoo.branches.matrices import affine_chain, lora, low_rank, projections
from zoo.families import Families

__all__ = ["BRANCHES", "branched", "hand_merged"]

BRANCHES: Final = Families(
    {
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
)


def branched(family: str, **given: Any) -> Graph:
    """Return a network of a family in evaluation form, with separate branches.

    ``given`` are parameters of the family, such as ``blocks`` and ``seed``; see ``BRANCHES.parameters``.

    >>> branched("repvgg", blocks=1, channels=4, size=6).operators()
    {'conv2d': 2, 'batchnorm': 3, 'add': 2, 'relu': 1}
    """
    return BRANCHES.build(family, given, by_hand=False)


def hand_merged(family: str, **given: Any) -> Graph:
    """Return the same network as people merge it by hand.

    Raise ValueError if it cannot be merged.

    >>> hand_merged("repvgg", blocks=1, channels=4, size=6).operators()
    {'conv2d': 1, 'relu': 1}
    """
    return BRANCHES.build(family, given, by_hand=True)
