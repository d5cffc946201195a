"""Import, export and execution of models: ONNX files and torch modules; a wing adds TASO's text format.

The names below are imported when they are first used, because one model needs only a few of them.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.frontends.coverage import Coverage, OperatorUse
    from workbench.frontends.graph_runtime import opaque_runner, run_graph
    from workbench.frontends.model import ModelError
    from workbench.frontends.model_file import import_model, load_model, save_model
    from workbench.frontends.onnx.exporter import save_onnx, to_onnx
    from workbench.frontends.onnx.importer import Imported, import_onnx, load_onnx
    from workbench.frontends.runtime import RuntimeFailure, run_model
    from workbench.frontends.torch_export import import_torch, load_torch


__all__ = [
    "Coverage",
    "Imported",
    "ModelError",
    "OperatorUse",
    "RuntimeFailure",
    "import_model",
    "import_onnx",
    "import_torch",
    "load_model",
    "load_onnx",
    "load_torch",
    "opaque_runner",
    "run_graph",
    "run_model",
    "save_model",
    "save_onnx",
    "to_onnx",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Coverage": ".coverage",
        "Imported": ".onnx.importer",
        "ModelError": ".onnx.file",
        "OperatorUse": ".coverage",
        "RuntimeFailure": ".runtime",
        "import_model": ".model_file",
        "import_onnx": ".onnx.importer",
        "import_torch": ".torch_export",
        "load_model": ".model_file",
        "load_onnx": ".onnx.importer",
        "load_torch": ".torch_export",
        "opaque_runner": ".graph_runtime",
        "run_graph": ".graph_runtime",
        "run_model": ".runtime",
        "save_model": ".model_file",
        "save_onnx": ".onnx.exporter",
        "to_onnx": ".onnx.exporter",
    },
    moved={
        "import_taso_model": "workbench.studies.taso.model_reader",
        "load_taso_model": "workbench.studies.taso.model_reader",
        "save_taso_model": "workbench.studies.taso.model_writer",
        "to_taso_model": "workbench.studies.taso.model_writer",
    },
)
