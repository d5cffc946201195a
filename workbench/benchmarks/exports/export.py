"""Write architectures as ONNX files, by torch's own exporters."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from workbench.benchmarks.exports import Architecture
from workbench.benchmarks.exports.weights import build, example

#: The exporter that traces and the one that torch.export feeds.
EXPORTERS: Final = ("torchscript", "dynamo")

#: Weights of more bytes than this go to a file beside the model.
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
    module: Any = None,
) -> Path:
    """Write an architecture to an ONNX file as torch's exporter makes it, and return the file.

    With ``dynamic`` the dimensions that may be symbolic (batch, sequence) are; otherwise they have
    ``sizes``, the usual ones unless given. A model too large for one file gets ``<name>.data`` beside it.
    ``module`` is one that was built before. Raise ImportError where torch is not installed and ValueError
    for an exporter that there is not.
    """
    if exporter not in EXPORTERS:
        raise ValueError(f"no exporter is called {exporter!r}; there are: {', '.join(EXPORTERS)}")
    module = build(wanted, seed) if module is None else module
    target = Path(path)
    chosen = {**wanted.sizes, **(sizes or {})}
    if dynamic:  # an extent of 1 would be taken for one that is always 1
        chosen = {name: max(2, size) for name, size in chosen.items()}
    write = _trace if exporter == "torchscript" else _dynamo
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        write(wanted, module, example(wanted, chosen, seed), Path(folder) / target.name, dynamic, opset)
        _gather(wanted, Path(folder) / target.name, target)
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

    from workbench.frontends.torch_export import _quiet

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


def _gather(wanted: Architecture, written: Path, target: Path) -> None:
    """Put what an exporter wrote, in one file or many, where it was asked for: one file, or two."""
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
