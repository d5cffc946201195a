"""Import of torch modules through torch's own ONNX exporter."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.frontends.model import ModelError
from workbench.frontends.onnx.importer import Imported, import_onnx
from workbench.graph import Graph


class TorchMissing(ImportError):
    """Raised when torch, or the package that its exporter needs, is not installed."""


def load_torch(module: object, example_inputs: object, *, opset: int | None = None) -> Graph:
    """Return a torch module as a graph; :func:`import_torch` also reports which operators are modelled."""
    return import_torch(module, example_inputs, opset=opset).graph


def import_torch(module: object, example_inputs: object, *, opset: int | None = None) -> Imported:
    """Import a ``torch.nn.Module`` in evaluation mode, for inputs like the example.

    ``example_inputs`` is a tensor or a sequence of tensors and determines the types of the inputs; ``opset``
    is the exporter's operator set. The module keeps its mode. Raise :class:`TorchMissing` (an ImportError) if
    torch or onnxscript is not installed, and :class:`ModelError` if the exporter cannot export the module.
    """
    try:
        import torch
    except ImportError:
        raise TorchMissing("torch is not installed (try pip install 'tamago-workbench[torch]')") from None
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    arguments = tuple(example_inputs) if isinstance(example_inputs, Sequence) else (example_inputs,)
    training = {m: m.training for m in module.modules()}
    module.eval()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "module.onnx"
            _export(torch, module, arguments, path, opset)
            imported = import_onnx(path)
            return replace(imported, graph=replace(imported.graph, name=type(module).__name__))
    finally:
        for part, mode in training.items():
            part.training = mode


def _export(torch: Any, module: Any, arguments: tuple[Any, ...], path: Path, opset: int | None) -> None:
    try:
        with _quiet(), torch.no_grad():
            torch.onnx.export(
                module, arguments, str(path), dynamo=True, opset_version=opset, external_data=True
            )
    except ImportError as error:
        raise TorchMissing(
            f"torch's exporter needs a package that is not installed: {error} "
            "(try pip install 'tamago-workbench[torch]')"
        ) from None
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise ModelError(
            f"torch cannot export {type(module).__name__}: {reason[0] if reason else type(error).__name__}"
        ) from error


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
