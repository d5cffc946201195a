"""Reproducible random inputs for a model, in several ranges."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto

from workbench.certification.files.interface import Dim, bound
from workbench.certification.files.model import Model
from workbench.frontends.onnx.file import check_elements
from workbench.frontends.onnx.traits import OnnxTrait, has, index_operands
from workbench.ops.types import DTYPE_NAMES, FLOAT_DTYPES, TensorType

#: The distributions from which inputs are drawn, in this order.
KINDS: Final = ("normal", "uniform", "wide", "ties")
#: The distributions that replace one on which the original fails, in this order.
GENTLER: Final = ("small", "ones", "zeros")


@dataclass(frozen=True, slots=True)
class Draw:
    """Inputs that were drawn, with their number, distribution, seed and sizes of the symbolic dimensions."""

    number: int
    kind: str
    seed: int
    binding: Mapping[str, int]
    feeds: Mapping[str, Any]

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.binding.items())
        return f"draw {self.number} ({self.kind}, seed {self.seed}{', ' + sizes if sizes else ''})"


def draw(
    model: Model,
    shapes: Mapping[str, tuple[Dim, ...] | None],
    binding: Mapping[str, int],
    limits: Mapping[str, int],
    *,
    number: int,
    kind: str,
    seed: int,
) -> Draw:
    """Draw inputs for a model; equal arguments give equal inputs.

    Args:
        model: The model.
        shapes: The shapes of its inputs; None for an unknown rank.
        binding: Sizes of the symbolic dimensions.
        limits: Extents that index inputs stay below, by input name.
        number: The number of the draw.
        kind: The distribution, one of ``KINDS`` or ``GENTLER``.
        seed: The seed.

    Raises:
        ModelError: An input is too large to be drawn.
    """
    feeds = {}
    for name, types in model.inputs.items():
        shape = bound(shapes.get(name), binding)
        check_elements(math.prod(shape), f"input {name!r}")
        feeds[name] = _value(types, shape, limits.get(name), kind, _generator(seed, number, name))
    return Draw(number, kind, seed, dict(binding), feeds)


def _generator(seed: int, number: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, number, zlib.crc32(name.encode())])


def _value(
    types: TypeProto, shape: tuple[int, ...], limit: int | None, kind: str, rng: np.random.Generator
) -> Any:
    if types.WhichOneof("value") == "sequence_type":
        return [_value(types.sequence_type.elem_type, shape, limit, kind, rng) for _ in range(2)]
    if types.WhichOneof("value") == "optional_type":
        return _value(types.optional_type.elem_type, shape, limit, kind, rng)
    dtype = DTYPE_NAMES.get(types.tensor_type.elem_type, "float32")
    return tensor(dtype, shape, limit, kind, rng)


def tensor(
    dtype: str, shape: tuple[int, ...], limit: int | None, kind: str, rng: np.random.Generator
) -> np.ndarray:
    """Draw one tensor.

    Args:
        dtype: The element type.
        shape: The shape.
        limit: For integers that are indices, the extent that they stay below; otherwise None.
        kind: The distribution, one of ``KINDS`` or ``GENTLER``.
        rng: The source of random numbers.
    """
    target = TensorType(dtype, shape).numpy_dtype()
    if dtype == "string":
        return np.asarray(rng.choice(["", "a", "two words", "Ärger"], size=shape), object)
    if dtype == "bool":
        return np.asarray(
            rng.random(shape) < 0.5 if kind not in GENTLER[1:] else np.full(shape, kind == "ones")
        )
    if dtype in FLOAT_DTYPES or dtype.startswith(("float", "complex")):
        data = np.asarray(_floats(shape, kind, rng))
        if dtype not in FLOAT_DTYPES:
            data = np.clip(data, -4, 4)
        with np.errstate(all="ignore"):
            return data.astype(target)
    return np.asarray(_integers(dtype, shape, limit, kind, rng)).astype(target)


def _floats(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> np.ndarray:
    if kind in ("uniform", "small"):
        return np.asarray(rng.random(shape))
    if kind in ("ones", "zeros"):
        return np.full(shape, float(kind == "ones"))
    data = np.asarray(rng.standard_normal(shape))
    if kind == "wide":
        # One entry in 32 is about a hundred times the usual size: activations have such outliers.
        return np.where(rng.random(shape) < 1 / 32, 100.0 * data, 3.0 * data)
    if kind == "ties":
        return np.where(rng.random(shape) < 0.2, 0.0, np.round(4.0 * data) / 2.0)
    return data


def _integers(
    dtype: str, shape: tuple[int, ...], limit: int | None, kind: str, rng: np.random.Generator
) -> np.ndarray:
    if kind in ("ones", "zeros"):
        return np.full(shape, int(kind == "ones" and (limit is None or limit > 1)))
    if limit is not None:
        return rng.integers(0, max(1, limit), size=shape)
    low, high = {"normal": (0, 2), "uniform": (0, 8), "wide": (-8, 9), "ties": (0, 3), "small": (1, 3)}[kind]
    if dtype in ("int8", "uint8") and kind in ("normal", "wide"):
        low, high = -128, 128
    if dtype.startswith("u"):
        low, high = 0, max(high, 256 if dtype == "uint8" and kind != "small" else high)
    return rng.integers(low, high, size=shape)


# -- index limits ---------------------------------------------------------------------------------
def index_limits(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the extent that each index input (token ids, positions) must stay below, by input name.

    ``shapes`` are the shapes of the inputs, all bound.
    """
    types = inferred(model, shapes)
    limits: dict[str, int] = {}
    for node in reversed(model.nodes):
        for name, extent in _limited(node, types):
            if extent > 0:
                limits[name] = min(limits.get(name, extent), extent)
        if has(node, OnnxTrait.CARRIES):
            carried = [limits[o] for o in node.output if o in limits]
            for name in node.input if carried else ():
                limits[name] = min(limits.get(name, carried[0]), *carried)
    return {name: limit for name, limit in limits.items() if name in model.inputs}


def _limited(
    node: NodeProto, types: Mapping[str, tuple[str, tuple[int | None, ...]]]
) -> Iterator[tuple[str, int]]:
    """Yield the operands of a node that are indices, each with the extent that it stays below."""
    for indices, table in index_operands(node):
        if (
            len(node.input) <= max(indices, table)
            or not node.input[indices]
            or node.input[table] not in types
        ):
            continue
        shape = types[node.input[table]][1]
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if node.op_type == "GatherND":
            yield node.input[indices], min((d for d in shape if d), default=0)
        elif -len(shape) <= axis < len(shape):
            yield node.input[indices], shape[axis] or 0


def inferred(
    model: Model, shapes: Mapping[str, Sequence[int]]
) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    """Return the dtype and shape of all values that shape inference finds, given the inputs' shapes."""
    bare = ModelProto()
    bare.ir_version = max(model.proto.ir_version, 4)
    bare.opset_import.extend(model.proto.opset_import)
    bare.functions.extend(model.proto.functions)
    graph = bare.graph
    graph.name = "types"
    graph.node.extend(model.nodes)
    for name, kind in model.inputs.items():
        if kind.WhichOneof("value") == "tensor_type" and name in shapes:
            kind = onnx.helper.make_tensor_type_proto(kind.tensor_type.elem_type, list(shapes[name]))
        graph.input.append(onnx.helper.make_value_info(name, kind))
    for name, weight in model.weights.items():
        if isinstance(weight, onnx.TensorProto):
            kind = onnx.helper.make_tensor_type_proto(weight.data_type, list(weight.dims))
            if np.prod(weight.dims) <= 1024 and weight.data_location != onnx.TensorProto.EXTERNAL:
                graph.initializer.append(weight)
            else:
                graph.input.append(onnx.helper.make_value_info(name, kind))
    for name in model.outputs:
        graph.output.append(onnx.ValueInfoProto(name=name))
    found: dict[str, tuple[str, tuple[int | None, ...]]] = {}
    try:
        whole = onnx.shape_inference.infer_shapes(bare, data_prop=True)
    except Exception:  # indices whose limits cannot be inferred are drawn without a limit
        whole = bare
    for value in (*whole.graph.input, *whole.graph.value_info, *whole.graph.output):
        if value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.HasField("shape"):
            dims = value.type.tensor_type.shape.dim
            shape = tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)
            found[value.name] = (DTYPE_NAMES.get(value.type.tensor_type.elem_type, "float32"), shape)
    for tensor_ in whole.graph.initializer:
        found[tensor_.name] = (DTYPE_NAMES.get(tensor_.data_type, "float32"), tuple(tensor_.dims))
    return found
