"""Architectures written as ONNX files by torch's own exporters."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from zoo.exports import Architecture
from zoo.exports.weights import build, example

#: The exporter that traces the module, and the one based on torch.export.
EXPORTERS: Final = ("torchscript", "dynamo")

#: Weights of more bytes than this are written to a separate file next to the model.
EXTERNAL_BEYOND: Final = int(1.8 * 2**30)


def export(
    wanted: Architecture,
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    dynamic: bool = False,
    sizes: Mapping[str, int] | None = None,
    exporter: str = "torchscript",
    opset: int = 17,
    module: object = None,
) -> Path:
    """Write an architecture to an ONNX file with one of torch's exporters.

    Args:
        wanted: The architecture.
        path: The file to write. A model too large for one file gets ``<name>.data`` next to it.
        seed: Seed of the weights and of the exporter's example inputs.
        dynamic: Whether the dimensions that may be symbolic (batch, sequence) are.
        sizes: Sizes of these dimensions; by default the usual ones.
        exporter: One of :data:`EXPORTERS`.
        opset: The ONNX opset; ``dynamo`` writes at least 18.
        module: The architecture's module if it is built already, or None.

    Returns:
        The path of the file.

    Raises:
        ImportError: torch is not installed.
        ValueError: The exporter is unknown.
    """
    if exporter not in EXPORTERS:
        raise ValueError(f"exporter must be one of {', '.join(EXPORTERS)}, got {exporter!r}")
    module = build(wanted, seed) if module is None else module
    target = Path(path)
    chosen = {**wanted.sizes, **(sizes or {})}
    if dynamic:  # the exporters treat an extent of 1 in the example as constant
        chosen = {name: max(2, size) for name, size in chosen.items()}
    write = _trace if exporter == "torchscript" else _dynamo
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        write(wanted, module, example(wanted, chosen, seed), Path(folder) / target.name, dynamic, opset)
        _gather(Path(folder) / target.name, target)
    return target


def _trace(
    wanted: Architecture, module: Any, inputs: tuple[Any, ...], path: Path, dynamic: bool, opset: int
) -> None:
    import torch

    names = [i.name for i in wanted.inputs]
    axes: dict[str, dict[int, str]] = {}
    if dynamic:
        for given in wanted.inputs:
            axes[given.name] = {k: n for k, n in enumerate(given.shape) if isinstance(n, str)}
        for name in wanted.outputs:
            axes[name] = {0: "batch"}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, inputs, str(path), dynamo=False, opset_version=opset, input_names=names,
            output_names=list(wanted.outputs), dynamic_axes=axes or None,
        )  # fmt: skip


def _dynamo(
    wanted: Architecture, module: Any, inputs: tuple[Any, ...], path: Path, dynamic: bool, opset: int
) -> None:
    import torch

    from workbench.torch.exported import _quiet

    shapes = None
    if dynamic:
        symbols = {name: torch.export.Dim(name) for name in wanted.sizes}
        shapes = tuple(
            {k: symbols[n] for k, n in enumerate(given.shape) if isinstance(n, str)}
            for given in wanted.inputs
        )
    with _quiet(), torch.no_grad():
        torch.onnx.export(
            module, inputs, str(path), dynamo=True, opset_version=max(18, opset), dynamic_shapes=shapes,
            input_names=[i.name for i in wanted.inputs], output_names=list(wanted.outputs),
            external_data=True,
        )  # fmt: skip


def _gather(written: Path, target: Path) -> None:
    """Move the model that an exporter wrote, in one file or many, to its target.

    The result is one file, or two if the weights exceed EXTERNAL_BEYOND.
    """
    import onnx

    beside = [p for p in written.parent.iterdir() if p != written]
    if not beside:
        written.replace(target)
        return
    size = sum(p.stat().st_size for p in beside)
    model = onnx.load(str(written))
    if size <= EXTERNAL_BEYOND:
        onnx.save_model(model, written)
    else:
        for path in beside:
            path.unlink()
        data = target.name + ".data"
        onnx.save_model(model, written, save_as_external_data=True, location=data, size_threshold=1024)
        (written.parent / data).replace(target.with_name(data))
    written.replace(target)
