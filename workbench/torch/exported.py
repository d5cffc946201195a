"""Torch modules as models, by torch's own exporter, without a file: weights are the module's own memory."""

from __future__ import annotations

import ast
import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.frontends.model import Model, ModelError
from workbench.frontends.onnx.file import Apart, may_be_apart
from workbench.graph import Graph

if TYPE_CHECKING:
    from torch import nn

#: What torch's exporter calls the modules around a node.
_SCOPES = "pkg.torch.onnx.name_scopes"


class TorchMissing(ImportError):
    """Raised when torch, or the package that its exporter needs, is not installed."""


def load_torch(
    module: object, args: object = (), *, dynamic_shapes: object = None, opset: int | None = None
) -> Graph | Model:
    """Return a torch module as a graph, with the names of its parameters, which it shares with the module.

    Args:
        module: A ``torch.nn.Module``, an ``ExportedProgram``, or the path of a ``.pt2`` file. A module is read in
            evaluation mode and keeps the mode that it was in.
        args: An example of the inputs: a tensor, a sequence of arguments, or a mapping of keyword arguments. An
            exported program needs none.
        dynamic_shapes: The axes that may change, as ``torch.export`` takes them. The result is a model then, whose
            dimensions stay symbolic; :func:`workbench.optimize` takes it.
        opset: The operator set of the exporter.

    Raises:
        TorchMissing: (an ImportError) If torch or onnxscript is not installed.
        ModelError: If torch cannot export the module.
    """
    from workbench.frontends.model_file import open_model

    model = open_model(exported(module, args, dynamic_shapes=dynamic_shapes, opset=opset))
    return model if model.symbols else model.graph


def exported(
    module: object, args: object = (), *, dynamic_shapes: object = None, opset: int | None = None
) -> Apart:
    """Return a torch module as an ONNX model apart from its weights; arguments are those of :func:`load_torch`.

    A node has the path of its module before its name: ``encoder.layer.3/node_MatMul_7``.
    """
    try:
        import onnx_ir
        import onnxscript.optimizer
        import torch
    except ImportError as error:
        raise TorchMissing(
            f"torch's exporter needs a package that is not installed: {error} "
            "(try pip install 'tamago-workbench[torch]')"
        ) from None
    given: Any = torch.export.load(module) if isinstance(module, str | os.PathLike) else module
    if not isinstance(given, torch.nn.Module | torch.export.ExportedProgram):
        raise ModelError(f"module must be a torch.nn.Module, got {type(given).__name__}")
    positional, named = arguments_of(args)
    with evaluating(given) as name:
        try:
            with _quiet(), torch.no_grad():
                program: Any = torch.onnx.export(
                    given,
                    positional,
                    kwargs=named or None,
                    dynamo=True,
                    opset_version=opset,
                    dynamic_shapes=dynamic_shapes,
                    optimize=False,  # the exporter would fold weights, which would lose their names
                )
                stored = {*program.model.graph.initializers}
                onnxscript.optimizer.fold_constants(
                    program.model,
                    should_fold=lambda node: not any(x is not None and x.name in stored for x in node.inputs),
                )
        except ImportError as error:
            raise TorchMissing(f"torch's exporter needs {error.name} (try pip install onnxscript)") from None
        except Exception as error:
            reason = str(error).strip().splitlines()
            said = reason[0] if reason else type(error).__name__
            raise ModelError(f"torch cannot export {name}: {said}") from error
    arrays: dict[str, np.ndarray] = {}
    zeros = set()
    for key, value in program.model.graph.initializers.items():
        array = value.const_value.numpy()
        if key not in stored and array.ndim == 1 and not array.any():
            zeros.add(key)
        if may_be_apart(array):
            arrays[key] = array
            # Nothing is copied: the model says that these data are elsewhere.
            value.const_value = onnx_ir.ExternalTensor(
                "in-memory", 0, array.nbytes, value.const_value.dtype, shape=value.const_value.shape, name=key
            )
    proto = onnx_ir.serde.serialize_model(program.model)
    proto.graph.name = name
    for node in proto.graph.node:
        if node.op_type == "Conv" and len(node.input) == 3 and node.input[2] in zeros:
            del node.input[2]  # the exporter adds it to a convolution without a bias
        said = next((p.value for p in node.metadata_props if p.key == _SCOPES), "[]")
        scopes: list[str] = ast.literal_eval(said)
        if len(scopes) > 1 and scopes[-2]:
            node.name = f"{scopes[-2]}/{node.name}"
    return Apart(proto, arrays)


def arguments_of(args: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return example inputs as positional and keyword arguments."""
    if isinstance(args, Mapping):
        return (), dict(args)
    if args is None or (isinstance(args, Sequence) and not isinstance(args, str)):
        return tuple(args or ()), {}
    return (args,), {}


@contextlib.contextmanager
def evaluating(module: nn.Module | Any) -> Iterator[str]:
    """Keep a module in evaluation mode, and yield the name of its class; an exported program stays as it is."""
    parts = getattr(module, "modules", None)
    training = {m: m.training for m in parts()} if parts is not None else {}
    if training:
        module.eval()
    try:
        yield type(module).__name__
    finally:
        for part, mode in training.items():
            part.training = mode


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's output, warnings and logs; its errors are still raised."""
    loggers = {logging.getLogger(name): 0 for name in ("torch.onnx", "onnxscript", "onnx_ir")}
    for logger in loggers:
        loggers[logger] = logger.level
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in loggers.items():
            logger.setLevel(level)
