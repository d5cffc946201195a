"""The number of arithmetic operations of a composite, from its equations."""

from __future__ import annotations

import math
from collections.abc import Mapping

from workbench.kernels.composites.binding import Binding
from workbench.kernels.composites.scalar import Apply, Reduce, Scalar, children, free_indices, uses_leading


def operations(binding: Binding) -> float:
    """Return the number of scalar operations.

    A function or a reduction is counted once for each value of its indices: a value that does
    not change inside a loop is computed before it.
    """
    total = 0.0
    for e in binding.composite.equations:
        total += _cost(e.value, binding.sizes(e), binding)
    return total


def _cost(e: Scalar, sizes: Mapping[str, int], binding: Binding) -> float:
    inside = {**sizes, **binding.sizes(e)} if isinstance(e, Reduce) else sizes
    below = sum(_cost(child, inside, binding) for child in children(e))
    if not isinstance(e, Apply | Reduce):
        return below
    times = math.prod(sizes[n] for n in free_indices(e))
    times *= math.prod(binding.leading) if uses_leading(e) else 1
    if isinstance(e, Reduce):
        times *= math.prod(binding.sizes(e).values())
    return below + times
