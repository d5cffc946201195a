"""Models in and out: ONNX files, torch modules, TASO's text format, and running them.

What is named here is imported when it is first used: most ways in and out are of no use to one model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.frontends.coverage import Coverage, OperatorUse
    from workbench.frontends.model_file import import_model, load_model, save_model
    from workbench.frontends.onnx_export import save_onnx, to_onnx
    from workbench.frontends.onnx_file import ModelError
    from workbench.frontends.onnx_import import Imported, import_onnx, load_onnx
    from workbench.frontends.runtime import RuntimeFailure, opaque_runner, run_graph, run_model
    from workbench.frontends.taso_export import save_taso_model, to_taso_model
    from workbench.frontends.taso_import import import_taso_model, load_taso_model
    from workbench.frontends.torch_export import import_torch, load_torch

_HOMES = {
    "Coverage": "coverage",
    "Imported": "onnx_import",
    "ModelError": "onnx_file",
    "OperatorUse": "coverage",
    "RuntimeFailure": "runtime",
    "import_model": "model_file",
    "import_onnx": "onnx_import",
    "import_taso_model": "taso_import",
    "import_torch": "torch_export",
    "load_model": "model_file",
    "load_onnx": "onnx_import",
    "load_taso_model": "taso_import",
    "load_torch": "torch_export",
    "opaque_runner": "runtime",
    "run_graph": "runtime",
    "run_model": "runtime",
    "save_model": "model_file",
    "save_onnx": "onnx_export",
    "save_taso_model": "taso_export",
    "to_onnx": "onnx_export",
    "to_taso_model": "taso_export",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
