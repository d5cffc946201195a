"""The numbers written in a rule: where its sides may differ, and how exactly they can agree.

``clip[low=-1000.0, high=1000.0](x) => x`` is wrong only beyond a thousand, so values are drawn there.
``0.7071067811865476`` stands for the root of one half, which no decimal is: with it, both sides of a true law
differ in the sixteenth digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from workbench.graph import Node

#: The least number of significant digits by which a number counts as rounded.
_ROUNDED: Final = 15
#: The relative difference that is allowed between the sides of a law with a rounded number.
ROUNDED_BY: Final = Fraction(1, 10**12)
#: The largest number beside which values are drawn: sums of few such numbers are whole in 53 bits.
_LARGEST: Final = 2.0**40


def beyond(nodes: Sequence[Node], live: Sequence[int], reach: int) -> list[int]:
    """Return whole numbers beside and beyond the constants of some nodes, of either sign.

    Args:
        nodes: The nodes of a graph.
        live: The nodes whose constants count.
        reach: The largest absolute value that is drawn anyway. Constants up to it are left out, and so are
            inverses of small ones.
    """
    found: set[int] = set()
    for i in live:
        for value in _written(nodes[i]):
            # A factor of 0.001 moves a bound of 1 to 1000.
            inverse = 1 / value if nodes[i].op == "scalar" and value else 0.0
            for at in (abs(value), abs(inverse)):
                if reach < at <= _LARGEST:
                    whole = math.ceil(at)
                    found |= {whole - 1, whole, whole + 1, 2 * whole + 1}
    return sorted(found | {-n for n in found})


def rounded(nodes: Sequence[Node], live: Sequence[int]) -> bool:
    """Return whether a constant of some nodes is a rounded number: it has 15 significant digits or more."""
    return any(_digits(value) >= _ROUNDED for i in live for value in _written(nodes[i]))


def _written(node: Node) -> Iterator[float]:
    for value in node.attrs:
        if isinstance(value, float) and math.isfinite(value):
            yield value


def _digits(value: float) -> int:
    """Return the number of significant digits of the shortest text of a number.

    >>> _digits(0.25), _digits(1e-9), _digits(0.7071067811865476)
    (2, 1, 16)
    """
    return len(repr(value).partition("e")[0].replace(".", "").strip("-0"))
