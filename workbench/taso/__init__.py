"""TASO's Python interface on the workbench: ``from workbench import taso``.

Scripts written for TASO run with the import changed. What is better here: errors are exceptions
instead of a process that ends, the caller's graph stays valid, weights are folded exactly, fused
activations survive export, any ONNX operator passes through.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from workbench.taso import core
from workbench.taso.core import (
    PyGraph,
    PyTensor,
    get_activation_mode,
    get_data_type,
    get_padding_mode,
    op_table,
)
from workbench.taso.errors import TasoError

if TYPE_CHECKING:
    from onnx import ModelProto

__version__ = "0.1.0"

__all__ = [
    "InputNotFoundError",
    "PyGraph",
    "PyTensor",
    "TasoError",
    "core",
    "export_onnx",
    "get_activation_mode",
    "get_data_type",
    "get_padding_mode",
    "load_onnx",
    "new_graph",
    "onnx_datatype_tostring",
    "op_table",
    "optimize",
]

_DATATYPES = (
    "UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL",
    "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16",
)  # fmt: skip


class InputNotFoundError(Exception):
    """Raised by TASO's loader for a node whose input is missing; kept for scripts that catch it."""


def onnx_datatype_tostring(dtype: int) -> str:
    """Return the name of an ONNX data type."""
    if not 0 <= dtype < len(_DATATYPES):
        raise TasoError(f"no ONNX data type has the number {dtype}")
    return _DATATYPES[dtype]


def new_graph(print_measurements: bool = False) -> PyGraph:
    """Return an empty graph."""
    return PyGraph()


def load_onnx(filename: str | os.PathLike[str]) -> PyGraph:
    """Read an ONNX model; nothing is skipped, operators not modelled are kept as they are."""
    from workbench.frontends import load_onnx as load

    return PyGraph(load(filename))


def export_onnx(graph: PyGraph) -> ModelProto:
    """Return the graph as an ONNX model."""
    from workbench.frontends import to_onnx

    return to_onnx(graph.graph())


def optimize(
    graph: PyGraph,
    alpha: float = 1.0,
    budget: int = 1000,
    print_subst: bool = False,
    *,
    method: str = "search",
    **options: Any,
) -> PyGraph:
    """Return an equivalent graph that costs less; the given one stays as it is.

    ``method="search"`` is TASO's backtracking search: ``alpha`` and ``budget`` mean what they mean there
    (:class:`~workbench.search.BacktrackingSearch`); ``options`` go to
    :func:`~workbench.search.optimize.search_optimize`, whose modes run TASO's own rules too. By default
    the rules are sound ones, and TASO's merge of two convolutions of one input is among them.
    ``method="saturation"`` finds what the search cannot reach; it needs neither ``alpha`` nor ``budget``,
    and ``options`` go to :func:`workbench.optimize`. ``print_subst`` prints the rules that made the
    result. Raise :class:`TasoError` for values that make no sense.
    """
    if alpha < 1.0 or budget < 0:
        raise TasoError(f"alpha is 1 or more and the budget 0 or more, not {alpha} and {budget}")
    if method == "search":
        from workbench.rules import rule_set
        from workbench.search.modes import guarded_merges
        from workbench.search.optimize import search_optimize

        if options.get("mode", "sound") == "sound":
            options.setdefault("rules", rule_set("default") + guarded_merges())
        searched = search_optimize(graph.graph(), alpha=alpha, budget=budget, **options)
        found, names = searched.graph, searched.history
    elif method == "saturation":
        from workbench.pipeline import optimize as optimise

        result = optimise(graph.graph(), **options)
        found, names = result.graph, result.rules
    else:
        raise TasoError(f'the method is "search" or "saturation", not {method!r}')
    if print_subst:
        for name in names:
            print(name)
    return PyGraph(found)
