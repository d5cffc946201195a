"""TASO's Python interface on the workbench: ``from workbench import taso``.

Scripts written for TASO run with only the import changed. There are improvements over TASO: errors are
exceptions and do not end the process, the caller's graph stays valid, weights are folded exactly, fused
activations survive export, and any ONNX operator is preserved.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from workbench.studies.taso import core
from workbench.studies.taso.core import (
    PyGraph,
    PyTensor,
    TasoError,
    get_activation_mode,
    get_data_type,
    get_padding_mode,
    op_table,
    optimize,
)

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


class InputNotFoundError(Exception):
    """Raised by TASO's loader for a node whose input is missing; kept for scripts that catch it."""


def onnx_datatype_tostring(dtype: int) -> str:
    """Return the name of an ONNX data type."""
    from onnx import TensorProto

    try:
        return str(TensorProto.DataType.Name(dtype))
    except (ValueError, TypeError):
        raise TasoError(f"dtype must be the number of an ONNX data type, got {dtype}") from None


def new_graph(print_measurements: bool = False) -> PyGraph:
    """Return an empty graph; ``print_measurements`` is accepted as in TASO and ignored."""
    return PyGraph()


def load_onnx(filename: str | os.PathLike[str]) -> PyGraph:
    """Return an ONNX model as a graph; operators that are not modelled are kept unchanged."""
    from workbench.frontends import load_onnx as load

    return PyGraph(load(filename))


def export_onnx(graph: PyGraph) -> ModelProto:
    """Return the graph as an ONNX model."""
    from workbench.frontends import to_onnx

    return to_onnx(graph.graph())
