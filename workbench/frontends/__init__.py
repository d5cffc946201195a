"""Models in and out: ONNX files, torch modules, and running them."""

from workbench.frontends.coverage import Coverage, OperatorUse
from workbench.frontends.onnx_export import save_onnx, to_onnx
from workbench.frontends.onnx_file import ModelError
from workbench.frontends.onnx_import import Imported, import_onnx, load_onnx
from workbench.frontends.runtime import RuntimeFailure, opaque_runner, run_graph, run_model
from workbench.frontends.torch_export import import_torch, load_torch

__all__ = [
    "Coverage",
    "Imported",
    "ModelError",
    "OperatorUse",
    "RuntimeFailure",
    "import_onnx",
    "import_torch",
    "load_onnx",
    "load_torch",
    "opaque_runner",
    "run_graph",
    "run_model",
    "save_onnx",
    "to_onnx",
]
