"""The nodes of all graphs of a search: their kinds, their prices, and their digests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from workbench.costs import CostModel
from workbench.costs.model import OpInstance
from workbench.costs.pricing import FREE
from workbench.ops import AttrValue, ValueType
from workbench.ops.inputs_and_opaque import RUNTIME

#: Costs are integers in picoseconds: sums do not depend on their order, so that differences can be added up.
PER_MICROSECOND: Final = 1_000_000
#: Bytes of a digest: among a million graphs, two collide with a probability of 1e-27.
DIGEST: Final = 16


def digest_of(head: bytes, operands: Sequence[bytes]) -> bytes:
    """Return the digest of an application, from its head and the digests of its operands."""
    return blake2b(head + b"".join(operands), digest_size=DIGEST).digest()


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The properties of a node that do not depend on which nodes it reads.

    ``symbol`` is the number of the operator with its attributes. ``price`` is in picoseconds. ``constant``
    means that the node depends on weights alone. ``head`` is the digest of operator, attributes and type.
    """

    symbol: int
    op: str
    attrs: tuple[AttrValue, ...]
    type: ValueType
    constant: bool
    price: int
    head: bytes


class NodeTable:
    """The nodes of a search by number. Graphs share nodes; a node keeps its number when its operands change.

    ``kinds[n]`` is the kind of node ``n``; it never changes. Each distinct operator instance is priced
    once.
    """

    def __init__(self, model: CostModel) -> None:
        self.kinds: list[Kind] = []
        self._model = model
        self._symbols: dict[tuple[str, tuple[AttrValue, ...]], int] = {}
        self._known: dict[tuple[Any, ...], Kind] = {}

    def new(self, kind: Kind) -> int:
        """Add a node; return its number."""
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def kind(
        self, op: str, attrs: tuple[AttrValue, ...], result: ValueType, operands: Sequence[Kind]
    ) -> Kind:
        """Return the kind of an application with its price; raise ValueError if the cost is not a number.

        Args:
            op: The operator.
            attrs: Its attributes.
            result: The type of its result.
            operands: The kinds of its operands.
        """
        symbol = self._symbols.setdefault((op, attrs), len(self._symbols))
        types = tuple([k.type for k in operands])
        flags = tuple([k.constant for k in operands])
        key = (symbol, result, types, flags)
        known = self._known.get(key)
        if known is None:
            constant = op not in RUNTIME and all(flags)
            head = blake2b(repr((op, attrs, result)).encode(), digest_size=DIGEST).digest()
            price = 0
            if op not in FREE and not constant:
                price = self._price(OpInstance(op, attrs, types, result, flags))
            known = self._known[key] = Kind(symbol, op, attrs, result, constant, price, head)
        return known

    def _price(self, instance: OpInstance) -> int:
        cost = float(self._model.price([instance])[0])
        if not (math.isfinite(cost) and cost >= 0):
            raise ValueError(
                f"the cost of {instance.op} by {self._model.source} must be a finite number of "
                f"microseconds, 0 or more, got {cost}"
            )
        return round(cost * PER_MICROSECOND)
