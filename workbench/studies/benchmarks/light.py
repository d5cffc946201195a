"""The nine real architectures that come with the ``onnx`` package, with generated weights.

Their files hold the constant 0.02 in place of every large weight. With equal weights the outputs are
almost independent of the inputs, which hides most mistakes. Here every such weight is replaced by seeded
random numbers, whose magnitude fits its role.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

from workbench.studies.zoo import find_zoo
from workbench.support.messages import UnknownName

_FOLDER: Final = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_PREFIX: Final = "light_"
#: The role of each input of BatchNormalization, by position.
_NORMALISATION: Final = {1: "scale", 2: "shift", 3: "shift", 4: "scale"}


def light_names() -> list[str]:
    """Return the names of the architectures in the installed ``onnx`` package."""
    return sorted(p.stem.removeprefix(_PREFIX) for p in _FOLDER.glob(f"{_PREFIX}*.onnx"))


def light_path(name: str) -> Path:
    """Return the file of an architecture; raise ValueError with the nearest names for an unknown name."""
    names = light_names()
    if not names:
        raise ValueError(f"the installed onnx {onnx.__version__} does not contain the light models")
    if name not in names:
        raise UnknownName("architecture", name, names)
    return _FOLDER / f"{_PREFIX}{name}.onnx"


def light_model(name: str, seed: int = 0) -> ModelProto:
    """Return an architecture with seeded random weights as initializers.

    Kernels and matrices are normal with variance 1 / fan-in, which keeps activations in range in most
    of the networks. Normalisation scales and variances lie in [0.5, 1.5]; biases and means are normal
    with standard deviation 0.1. Weights whose values are in the file are kept.
    """
    model = onnx.load(str(light_path(name)))
    graph = model.graph
    shapes = {
        t.name: numpy_helper.to_array(t) for t in graph.initializer if t.data_type == onnx.TensorProto.INT64
    }
    readers: dict[str, tuple[NodeProto, int]] = {}
    for node in graph.node:
        for position, value in enumerate(node.input):
            readers.setdefault(value, (node, position))
    random = np.random.default_rng(seed)
    kept, spent = [], set()
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        spent.add(node.input[0])
        shape = tuple(int(n) for n in shapes[node.input[0]])
        values = _weight(readers, node.output[0], shape, random)
        graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    spent -= {value for node in kept for value in node.input}
    for field in (graph.initializer, graph.input):
        remaining = [entry for entry in field if entry.name not in spent]
        del field[:]
        field.extend(remaining)
    graph.name = name
    model.ir_version = max(model.ir_version, 4)  # since version 4 an initializer need not be an input
    return model


def _weight(
    readers: dict[str, tuple[NodeProto, int]], name: str, shape: tuple[int, ...], random: np.random.Generator
) -> np.ndarray:
    role = "kernel" if len(shape) > 1 else "shift"
    reader, position = readers.get(name, (None, 0))
    while reader is not None and reader.op_type in ("Unsqueeze", "Reshape", "Transpose") and position == 0:
        reader, position = readers.get(reader.output[0], (None, 0))
    if reader is not None and reader.op_type == "BatchNormalization":
        role = _NORMALISATION.get(position, role)
    elif reader is not None and reader.op_type == "Mul":
        role = "scale"
    if role == "scale":
        values = random.uniform(0.5, 1.5, shape)
    elif role == "shift":
        values = random.normal(0.0, 0.1, shape)
    else:
        transposed = (
            reader is None
            or reader.op_type == "Conv"
            or any(a.name == "transB" and a.i for a in reader.attribute)
        )
        fan_in = int(np.prod(shape[1:])) if transposed else shape[0]
        values = random.normal(0.0, (1.0 / max(1, fan_in)) ** 0.5, shape)
    return values.astype(np.float32)


#: Networks of the model zoo, as they are trained, that can be shown besides the light models.
WHOLE: Final = {"repvgg": "repvgg_a0", "mobileone": "mobileone_s0"}


def demonstration(name: str) -> ModelProto:
    """Return an architecture of ``workbench demo`` as ONNX; raise FileNotFoundError if it needs the missing zoo."""
    from workbench.frontends import to_onnx

    if name in WHOLE:
        try:
            find_zoo()
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{error}; {', '.join(light_names())} are there without it") from None
        from zoo.branches import networks

        return to_onnx(getattr(networks, WHOLE[name])())
    if name not in light_names():
        raise UnknownName("architecture", name, [*WHOLE, *light_names()])
    return light_model(name)
