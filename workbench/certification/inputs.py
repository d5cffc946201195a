"""Random inputs of graphs and of model files: equal seeds and draws give equal inputs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto

from workbench.certification.model import Dim, Model, bound, shape_of
from workbench.frontends.model import check_elements
from workbench.frontends.onnx.file import tensor_array
from workbench.frontends.onnx.traits import OnnxTrait, has, index_operands
from workbench.graph import Graph
from workbench.ops import TensorType, Trait, spec_of, with_trait
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES, FLOAT_DTYPES

V = TypeVar("V", bound=Hashable)

#: The distributions of the floats of a graph, in the order of the draws; its other inputs are 0 or 1. There are no
#: large values: equal forms overflow at other values, and a rewrite may move an overflow beyond observed ranges.
GRAPH_KINDS: Final = ("normal", "uniform", "ties")
#: The distributions from which inputs of a file are drawn, in this order.
KINDS: Final = ("normal", "uniform", "wide", "ties", "ends", "thresholds")
#: Distributions of values that networks do not have: squares of float32 overflow in the first and vanish in the
#: second. Files that differ there alone are equal, with a remark.
EXTREME: Final = ("large", "tiny")
_LARGE: Final = {
    "float64": (1e170, 1e300),
    "float32": (1e21, 1e35),
    "bfloat16": (1e21, 1e35),
    "float16": (1e3, 1e4),
}
_TINY: Final = {"float64": 1e-200, "float32": 1e-25, "bfloat16": 1e-25, "float16": 1e-4}
#: The distributions that replace one on which a file fails, in this order.
GENTLER: Final = ("small", "ones", "zeros")
#: The distributions of integers that replace one on which a graph fails, in this order.
_GENTLER_INTEGERS: Final = ("ones", "zeros", "small")
#: The bounds of integers that are not indices, by distribution.
_INTEGERS: Final = {
    "bits": (0, 2), "normal": (0, 2), "uniform": (0, 8), "wide": (-8, 9), "ties": (0, 3), "small": (1, 3),
    "ends": (-8, 9), "thresholds": (0, 8), "large": (0, 2), "tiny": (0, 2),
}  # fmt: skip

#: The least and the largest number of the integers that numpy has, by element type.
_ENDS: Final = {
    f"{sign}int{bits}": (int(np.iinfo(f"{sign}int{bits}").min), int(np.iinfo(f"{sign}int{bits}").max))
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
#: The element types, in an ONNX file, of constants that may be thresholds.
_NUMBERS: Final = frozenset(DTYPE_CODES[d] for d in ("float64", "float32", "float16", *_ENDS))
#: Numbers beyond this are not drawn as thresholds: beside them, other entries would drown in rounding.
_LARGEST_THRESHOLD: Final = 1e5
#: At most this many thresholds are drawn from.
_THRESHOLDS: Final = 64

#: Operators of graphs that pass all their operands' elements on, so that an index stays one.
_PASSING: Final = {op for op in with_trait(Trait.SELECTS) | {"cast"} if spec_of(op).places is None}


# -- values -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Range:
    """The observed distribution of a value of a network: its mean, standard deviation and bounds."""

    mean: float
    deviation: float
    least: float
    most: float

    @classmethod
    def of(cls, array: np.ndarray) -> Range | None:
        """Return the range of an array's finite entries, or None if it has none."""
        data = np.asarray(array, dtype=np.float64)
        data = data[np.isfinite(data)]
        if not data.size:
            return None
        return cls(float(data.mean()), float(data.std()), float(data.min()), float(data.max()))


def tensor(
    dtype: str,
    shape: tuple[int, ...],
    limit: int | None,
    kind: str,
    rng: np.random.Generator,
    seen: Range | None = None,
    near: Sequence[float] = (),
) -> np.ndarray:
    """Draw one tensor.

    Args:
        dtype: The element type.
        shape: The shape.
        limit: For integers that are indices, the extent that they stay below; otherwise None.
        kind: The distribution: one of the names above, or ``bits`` for zeros and ones.
        rng: The source of random numbers.
        seen: An observed distribution, which the normal one then follows.
        near: Numbers at which a model changes what it does: the thresholds that are drawn.
    """
    target = TensorType(dtype, shape).numpy_dtype()
    if dtype == "string":
        words = ["", "a", "two words", "Ärger"] if kind in KINDS else ["0", "1"]
        return np.asarray(rng.choice(words, size=shape), object)
    if dtype == "bool":
        return np.full(shape, kind == "ones") if kind in ("ones", "zeros") else rng.random(shape) < 0.5
    if dtype in FLOAT_DTYPES or dtype.startswith(("float", "complex")):
        data = np.asarray(_floats(shape, kind, rng, seen))
        if kind == "large":  # rows of one size, so that all entries matter in sums
            data = data * rng.choice(_LARGE.get(dtype, (1.0,)), [*shape[:-1], 1][: len(shape)])
        elif kind == "tiny":
            data = data * _TINY.get(dtype, 1.0)
        if kind == "thresholds":
            data = _beside(data, near, (-1.0, -1e-3, 0.0, 1e-3, 1.0), rng)
        if dtype not in FLOAT_DTYPES:
            data = np.clip(data, -4, 4)
        with np.errstate(all="ignore"):
            return data.astype(target)
    return np.asarray(_integers(dtype, shape, limit, kind, rng, near)).astype(target)


def _beside(
    data: np.ndarray, near: Sequence[float], by: Sequence[float], rng: np.random.Generator
) -> np.ndarray:
    """Return data half of whose entries are replaced by numbers at and beside some others."""
    if not near:
        return data
    there = rng.choice(near, data.shape) + rng.choice(by, data.shape)
    return np.where(rng.random(data.shape) < 0.5, there, data)


def _with_ends(data: np.ndarray, ends: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """Return data in which one entry in eight, and at least one for each, is one of some numbers."""
    data = np.where(rng.random(data.shape) < 1 / 8, rng.choice(ends, data.shape), data)
    if data.size:
        places = rng.permutation(data.size)[: len(ends)]
        data.flat[places] = ends[: len(places)]
    return data


def _floats(shape: tuple[int, ...], kind: str, rng: np.random.Generator, seen: Range | None) -> np.ndarray:
    if kind in ("uniform", "small"):
        return np.asarray(rng.random(shape))
    if kind in ("ones", "zeros"):
        return np.full(shape, float(kind == "ones"))
    data = np.asarray(rng.standard_normal(shape))
    if kind == "wide":
        # One entry in 32 is about a hundred times the usual size: activations have such outliers.
        return np.where(rng.random(shape) < 1 / 32, 100.0 * data, 3.0 * data)
    if kind == "ends":
        return _with_ends(data, (1e4, -1e4, 100.0, -100.0), rng)
    if kind == "ties":
        return np.where(rng.random(shape) < 0.2, 0.0, np.round(4.0 * data) / 2.0)
    return data if seen is None else np.clip(seen.mean + seen.deviation * data, seen.least, seen.most)


def _integers(
    dtype: str,
    shape: tuple[int, ...],
    limit: int | None,
    kind: str,
    rng: np.random.Generator,
    near: Sequence[float],
) -> np.ndarray:
    if kind in ("ones", "zeros"):
        return np.full(shape, int(kind == "ones" and (limit is None or limit > 1)))
    if limit is not None:
        data = np.asarray(rng.integers(0, max(1, limit), size=shape))
        both = (0, max(1, limit) - 1)[:: rng.choice((-1, 1))]  # a single index is either of them
        return _with_ends(data, both, rng) if kind == "ends" or (kind == "bits" and data.size > 1) else data
    low, high = _INTEGERS[kind]
    if dtype in ("int8", "uint8") and kind in ("normal", "wide"):
        low, high = -128, 128
    if dtype.startswith("u") and kind != "bits":
        low, high = 0, max(high, 256 if dtype == "uint8" and kind != "small" else high)
    data = np.asarray(rng.integers(low, high, size=shape))
    ends = _ENDS.get(dtype)
    if ends is not None and kind == "ends":
        return _with_ends(data.astype(dtype), ends, rng)
    if ends is not None and kind == "thresholds":
        return np.clip(_beside(data, near, (-1.0, 0.0, 1.0), rng), *ends)
    return data


def _limits(steps: Iterable[tuple[Iterable[V], Iterable[V], bool, Iterable[tuple[V, int]]]]) -> dict[V, int]:
    """Return the extents that values used as indices must stay below.

    ``steps`` are operators, the last first: results, operands, whether an index is passed on from operands to
    results, and the operands that the operator itself uses as indices with the extents of their axes.
    """
    limits: dict[V, int] = {}
    for results, operands, passes, indices in steps:
        below = min((limits[r] for r in results if r in limits), default=0)
        for value, extent in [*indices, *((value, below) for value in operands if passes)]:
            if extent > 0:
                limits[value] = min(limits.get(value, extent), extent)
    return limits


# -- graphs -----------------------------------------------------------------------------------------
def random_inputs(
    graph: Graph, seed: int, draw: int, ranges: Mapping[str, Range] | None = None
) -> dict[str, np.ndarray]:
    """Return random inputs that fit a graph, by name.

    Integers used as indices stay below the indexed extent, and the first and the last one are among them; other
    integers are 0 or 1.

    Args:
        graph: The graph.
        seed: The seed.
        draw: The number of the draw, which also selects the distribution of floats: normal (with the mean,
            deviation and bounds of the input's entry in ``ranges``, if any), uniform in [0, 1), and multiples
            of a half with many zeros and equal entries, in turn.
        ranges: Observed distributions of inputs, by name.
    """
    return _inputs_of(graph, seed, draw, GRAPH_KINDS[draw % 3], "bits", ranges or {})


def gentle_inputs(graph: Graph, seed: int, attempt: int) -> dict[str, np.ndarray]:
    """Return safe inputs for a model that fails on others: integers all 1, all 0, then 1 or 2, within their limits."""
    return _inputs_of(graph, seed, 1, "uniform", _GENTLER_INTEGERS[attempt % 3], {})


def _inputs_of(
    graph: Graph, seed: int, draw: int, floats: str, integers: str, ranges: Mapping[str, Range]
) -> dict[str, np.ndarray]:
    limits = index_limits(graph)
    inputs: dict[str, np.ndarray] = {}
    for k, i in enumerate(graph.inputs):
        type_, name = graph.nodes[i].tensor, graph.nodes[i].attr("name")
        whole = integers if type_.dtype.startswith(("int", "uint")) else "bits"
        kind = floats if type_.dtype in FLOAT_DTYPES else whole
        rng = np.random.default_rng([seed, draw, k])
        inputs[name] = tensor(type_.dtype, type_.shape, limits.get(i), kind, rng, ranges.get(name))
    return inputs


def index_limits(graph: Graph) -> dict[int, int]:
    """Return the extent that each node used as an index must stay below, by node number."""

    def steps() -> Iterator[tuple[Iterable[int], Iterable[int], bool, list[tuple[int, int]]]]:
        for i, node in reversed(list(enumerate(graph.nodes))):
            own = []
            if (at := spec_of(node.op).places) is not None:
                own = [(node.inputs[at], graph.nodes[node.inputs[0]].tensor.shape[node.attr("axis")])]
            yield (i,), node.inputs, node.op in _PASSING, own

    return _limits(steps())


# -- files ------------------------------------------------------------------------------------------
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
    near: Sequence[float] = (),
) -> Draw:
    """Draw inputs for a model, equal ones for equal arguments; raise ModelError if one is too large.

    Args:
        model: The model.
        shapes: The shapes of its inputs; None for an unknown rank.
        binding: Sizes of the symbolic dimensions.
        limits: Extents that index inputs stay below, by input name.
        number: The number of the draw.
        kind: The distribution, one of ``KINDS``, ``GENTLER`` or ``EXTREME``.
        seed: The seed.
        near: The model's thresholds.
    """
    feeds = {}
    for name, types in model.inputs.items():
        shape = bound(shapes.get(name), binding)
        check_elements(math.prod(shape), f"input {name!r}")
        rng = np.random.default_rng([seed, number, zlib.crc32(name.encode())])
        feeds[name] = _value(types, shape, limits.get(name), kind, rng, near)
    return Draw(number, kind, seed, dict(binding), feeds)


def _value(
    types: TypeProto,
    shape: tuple[int, ...],
    limit: int | None,
    kind: str,
    rng: np.random.Generator,
    near: Sequence[float],
) -> Any:
    if types.WhichOneof("value") == "sequence_type":
        return [_value(types.sequence_type.elem_type, shape, limit, kind, rng, near) for _ in range(2)]
    if types.WhichOneof("value") == "optional_type":
        return _value(types.optional_type.elem_type, shape, limit, kind, rng, near)
    dtype = DTYPE_NAMES.get(types.tensor_type.elem_type, "float32")
    return tensor(dtype, shape, limit, kind, rng, near=near)


def thresholds_of(model: Model) -> tuple[float, ...]:
    """Return the small constants at which a model changes what it does: bounds, and numbers it compares with."""
    constants = {
        node.output[0]: node.attribute[0].t
        for node in model.nodes
        if node.op_type == "Constant" and [a.name for a in node.attribute] == ["value"]
    } | model.weights
    found: dict[float, None] = {}
    for node in model.nodes:
        for name in node.input if has(node, OnnxTrait.COMPARES) else ():
            held = constants.get(name)
            if not isinstance(held, onnx.TensorProto) or held.data_type not in _NUMBERS:
                continue
            if math.prod(held.dims) <= 4:
                found |= dict.fromkeys(float(v) for v in tensor_array(held, model.folder).flat)
    kept = [v for v in found if math.isfinite(v) and abs(v) <= _LARGEST_THRESHOLD]
    return tuple(kept[:_THRESHOLDS])


def index_limits_of(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the extent that each index input must stay below, by name; ``shapes`` are the inputs', all bound."""
    types = inferred(model, shapes)
    limits = _limits(
        (node.output, node.input, has(node, OnnxTrait.CARRIES), _limited(node, types))
        for node in reversed(model.nodes)
    )
    return {name: limit for name, limit in limits.items() if name in model.inputs}


def _limited(
    node: NodeProto, types: Mapping[str, tuple[str, tuple[int | None, ...]]]
) -> Iterator[tuple[str, int]]:
    """Yield the operands of a node that are indices, each with the extent that it stays below."""
    for indices, table in index_operands(node):
        missing = len(node.input) <= max(indices, table) or not node.input[indices]
        if missing or node.input[table] not in types:
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
        if (stated := shape_of(value.type)) is not None:
            shape = tuple(d if isinstance(d, int) else None for d in stated)
            found[value.name] = (DTYPE_NAMES.get(value.type.tensor_type.elem_type, "float32"), shape)
    stored = ((t.name, t.data_type, tuple(t.dims)) for t in whole.graph.initializer)
    return found | {name: (DTYPE_NAMES.get(code, "float32"), dims) for name, code, dims in stored}
