"""OpenVINO and ncnn as targets: their own readers, optimisers and kernels, on the CPU, in float32.

Both are the rivals of a rewritten model in ONNX Runtime, and may run it, too. What they compute is compared with
ONNX Runtime before it is timed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.devices.device import DeviceMissing
from workbench.devices.targets import Loading

if TYPE_CHECKING:
    from onnx import ModelProto

#: A program that runs a model once and returns its outputs in the order of the file.
Run = Callable[[], list[np.ndarray]]

#: Outputs that differ by more than this part of the largest output are wrong: rounding differs by less.
WRONG: Final = 1e-3
#: Limit on pnnx, which makes the files of ncnn, in seconds.
CONVERSION: Final = 300.0

#: How pnnx names the dtypes of inputs.
_DTYPES: Final = {"float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "bool": "bool"}


def runtime_target(name: str, threads: int | None = None) -> Loading:
    """Return ``openvino`` or ``ncnn`` as a target; raise DeviceMissing if it is not installed."""
    packages = {"openvino": ("openvino",), "ncnn": ("ncnn", "pnnx")}[name]
    if absent := [p for p in packages if find_spec(p) is None]:
        raise DeviceMissing(
            f"{name} needs {' and '.join(absent)}, not installed (try pip install 'tamago-workbench[rivals]')"
        )
    cores = f"{threads} thread{'s' if threads != 1 else ''}" if threads else "all cores"
    load = partial(loaded, {"openvino": _openvino, "ncnn": _ncnn}[name], threads)
    return Loading(f"{name} {version(name)}, CPU, {cores}, float32", load)


def loaded(
    load: Callable[[ModelProto, Mapping[str, np.ndarray], int | None], Run],
    threads: int | None,
    model: ModelProto,
    inputs: Mapping[str, np.ndarray],
) -> Run:
    """Return a program for a model; raise RuntimeError if it does not compute what ONNX Runtime computes.

    Args:
        load: It loads a model for inputs by name and a number of threads.
        threads: The number of threads; None for all cores.
        model: The model.
        inputs: The inputs by name.
    """
    from workbench.frontends.runtime import run_model
    from workbench.studies.devices.latency import difference

    run = load(model, inputs, threads)
    expected = list(run_model(model, inputs).values())
    found = run()
    if len(found) != len(expected):
        raise RuntimeError(f"its outputs differ from ONNX Runtime's: {len(found)}, not {len(expected)}")
    found = [y.reshape(x.shape) if y.size == x.size else y for x, y in zip(expected, found, strict=True)]
    if not (apart := difference(expected, found)) <= WRONG:
        raise RuntimeError(f"its outputs differ from ONNX Runtime's by {apart:.1e} of the largest")
    return run


def _openvino(model: ModelProto, inputs: Mapping[str, np.ndarray], threads: int | None) -> Run:
    import openvino

    settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    settings |= {"INFERENCE_NUM_THREADS": threads} if threads else {}
    core, feeds = openvino.Core(), dict(inputs)
    program = core.compile_model(core.read_model(model.SerializeToString(), b""), "CPU", settings)
    request = program.create_infer_request()
    return lambda: list(request.infer(feeds).values())


def _ncnn(model: ModelProto, inputs: Mapping[str, np.ndarray], threads: int | None) -> Run:
    import ncnn

    net = ncnn.Net()
    options = net.opt
    options.use_vulkan_compute = False
    options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
    if threads:
        options.num_threads = threads
    with tempfile.TemporaryDirectory(prefix="workbench-ncnn-") as folder:
        param, weights = _converted(model, inputs, Path(folder))
        if net.load_param(str(param)) or net.load_model(str(weights)):
            raise RuntimeError("it lacks an operator of the model, or cannot read what pnnx made of it")
    names, results = list(net.input_names()), list(net.output_names())
    if len(names) != len(inputs):
        raise RuntimeError(f"ncnn has {len(names)} inputs, the model {len(inputs)}")
    # ncnn has no axis of the batch.
    images = (x[0].astype(np.int32) if x.dtype == np.int64 else x[0] for x in inputs.values())
    feeds = [ncnn.Mat(np.ascontiguousarray(x)).clone() for x in images]

    def run() -> list[np.ndarray]:
        extractor = net.create_extractor()
        for name, feed in zip(names, feeds, strict=True):
            extractor.input(name, feed)
        return [np.array(extractor.extract(name)[1]) for name in results]

    return run


def _converted(model: ModelProto, inputs: Mapping[str, np.ndarray], folder: Path) -> tuple[Path, Path]:
    """Return the two files that pnnx makes of a model; raise RuntimeError if it makes none."""
    import onnx
    import pnnx

    shapes = []
    for name, x in inputs.items():
        if str(x.dtype) not in _DTYPES or not x.ndim or x.shape[0] != 1:
            raise RuntimeError(
                f"ncnn takes inputs of one image or text, got {name!r}: {x.dtype}{list(x.shape)}"
            )
        shapes.append(f"[{','.join(map(str, x.shape))}]{_DTYPES[str(x.dtype)]}")
    onnx.save_model(model, folder / "model.onnx")
    program = shutil.which("pnnx") or pnnx.EXEC_PATH
    words = [program, str(folder / "model.onnx"), "fp16=0", f"inputshape={','.join(shapes)}"]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, timeout=CONVERSION, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"pnnx was not finished after {CONVERSION:g} s") from None
    param, weights = folder / "model.ncnn.param", folder / "model.ncnn.bin"
    if done.returncode or not param.exists() or not weights.exists():
        raise RuntimeError(f"pnnx ended with code {done.returncode}, and made no files of ncnn")
    return param, weights
