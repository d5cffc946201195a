"""Import, export and execution of models: ONNX files; wings add torch modules and TASO's text format.

The names below are imported when they are first used, because one model needs only a few of them.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.frontends.coverage import Coverage as Coverage
    from workbench.frontends.coverage import OperatorUse as OperatorUse
    from workbench.frontends.graph_runtime import opaque_runner as opaque_runner
    from workbench.frontends.graph_runtime import run_graph as run_graph
    from workbench.frontends.model import ModelError as ModelError
    from workbench.frontends.model_file import import_model as import_model
    from workbench.frontends.model_file import load_model as load_model
    from workbench.frontends.model_file import save_model as save_model
    from workbench.frontends.onnx.exporter import save_onnx as save_onnx
    from workbench.frontends.onnx.exporter import to_onnx as to_onnx
    from workbench.frontends.onnx.importer import Imported as Imported
    from workbench.frontends.onnx.importer import import_onnx as import_onnx
    from workbench.frontends.onnx.importer import load_onnx as load_onnx
    from workbench.frontends.runtime import RuntimeFailure as RuntimeFailure
    from workbench.frontends.runtime import run_model as run_model

__getattr__, __all__ = door(
    __name__,
    {
        "coverage": "Coverage OperatorUse",
        "graph_runtime": "opaque_runner run_graph",
        "model": "ModelError",
        "model_file": "import_model load_model save_model",
        "onnx.exporter": "save_onnx to_onnx",
        "onnx.importer": "Imported import_onnx load_onnx",
        "runtime": "RuntimeFailure run_model",
    },
    moved={
        "workbench.studies.taso.model_reader": "import_taso_model load_taso_model",
        "workbench.studies.taso.model_writer": "save_taso_model to_taso_model",
        "workbench.torch": "load_torch",
    },
)
