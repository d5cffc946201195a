"""Costs of resizing where ONNX Runtime keeps a convolution's layout.

On a CPU the runtime's convolutions write channels in blocks, and it has a kernel that resizes such images.
Any other image is resized by a slower kernel. The price of an operator by itself knows nothing of the one
that made its operand, so the difference is moved to the operands: resizing is priced as after a convolution,
and any other producer of the operand pays for the slower kernel.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.ops import TensorType

#: Share of the cost of resizing that is left after a convolution (measured: 0.1 to 0.3).
KEPT: Final = 0.3
#: Largest number of channels in a block.
BLOCK: Final = 16
#: The operators whose results are in blocks, and those that have a kernel for them.
MAKE, KEEP = frozenset({"conv2d"}), frozenset({"resize"})


def blocked(egraph: EGraph, costs: np.ndarray) -> np.ndarray:
    """Return costs with the difference moved from e-nodes that resize to those that make their operands.

    A term whose convolutions are read by nothing but resizing costs as much as in the runtime. If something
    else reads a convolution's sibling, that sibling is too expensive, so these costs find a term but do not
    bound it.
    """
    made: dict[int, list[int]] = {}
    readers: list[int] = []
    for i, op in enumerate(egraph.ops):
        if op in MAKE and np.isfinite(costs[i]):
            made.setdefault(int(egraph.eclass[i]), []).append(i)
        elif op in KEEP:
            readers.append(i)
    moved = costs.copy()
    more: dict[int, float] = {}
    for i in readers:
        operand = int(egraph.operands(i)[0])
        if operand in made and operand != egraph.eclass[i] and _fits(egraph, operand, int(egraph.eclass[i])):
            gain = (1 - KEPT) * float(costs[i])
            moved[i] -= gain
            more[operand] = max(more.get(operand, 0.0), gain)
    if more:
        members = egraph.members()
        for operand, gain in more.items():
            moved[[i for i in members[operand] if i not in made[operand]]] += gain
    return moved


def _fits(egraph: EGraph, operand: int, result: int) -> bool:
    """Return whether the runtime has the kernel: whole blocks of channels, and every extent multiplied."""
    before, after = egraph.types[operand], egraph.types[result]
    if not isinstance(before, TensorType) or not isinstance(after, TensorType) or len(before.shape) != 4:
        return False
    extents = zip(before.shape[2:], after.shape[2:], strict=True)
    return before.shape[1] % BLOCK == 0 and all(large % small == 0 for small, large in extents)
