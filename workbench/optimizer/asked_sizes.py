"""Checks of the sizes at which a user asks to price symbolic dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from workbench.graph import Graph


def check_names(asked: Mapping[str, int], known: Sequence[str], argument: str = "sizes") -> None:
    """Raise ValueError for a size that is not positive, and for one of an unknown dimension."""
    for name, size in asked.items():
        if name not in known:
            from workbench.frontends.onnx.prepare import unknown_dimension

            raise unknown_dimension(name, known, argument, "dimension that is left open")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{argument}[{name!r}] must be a positive integer, got {size!r}")


def check_elements_at(graph: Graph, asked: Mapping[str, int]) -> None:
    """Raise ModelError if an input of a graph is too large at the sizes that a user asked for."""
    if not asked:
        return
    from workbench.frontends.onnx.file import check_elements

    sizes = ", ".join(f"{name}={size}" for name, size in asked.items())
    for node in graph.nodes:
        if node.op == "input":
            check_elements(math.prod(node.tensor.shape), f"input {node.attr('name')!r} at {sizes}")
