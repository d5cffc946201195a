"""Models in and out: ONNX files, torch modules, TASO's text format, and running them."""

from workbench.frontends.coverage import Coverage, OperatorUse
from workbench.frontends.model_file import import_model, load_model, save_model
from workbench.frontends.onnx_export import save_onnx, to_onnx
from workbench.frontends.onnx_file import ModelError
from workbench.frontends.onnx_import import Imported, import_onnx, load_onnx
from workbench.frontends.runtime import RuntimeFailure, opaque_runner, run_graph, run_model
from workbench.frontends.taso_export import save_taso_model, to_taso_model
from workbench.frontends.taso_import import import_taso_model, load_taso_model
from workbench.frontends.torch_export import import_torch, load_torch

__all__ = [
    "Coverage",
    "Imported",
    "ModelError",
    "OperatorUse",
    "RuntimeFailure",
    "import_model",
    "import_onnx",
    "import_taso_model",
    "import_torch",
    "load_model",
    "load_onnx",
    "load_taso_model",
    "load_torch",
    "opaque_runner",
    "run_graph",
    "run_model",
    "save_model",
    "save_onnx",
    "save_taso_model",
    "to_onnx",
    "to_taso_model",
]
