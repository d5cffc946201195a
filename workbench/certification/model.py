"""ONNX models as stored on disk, ready to be cut, and their interfaces; no operator is translated.

A piece of a model is itself a model: the nodes between some values and others, with the weights that they
read. Weights in external files stay in these files.
"""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from workbench.frontends.model import ModelError
from workbench.frontends.onnx.file import Source, _check_location, placeholder, read_model, tensor_array
from workbench.frontends.onnx.prepare import read_by
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES, TensorType
from workbench.support.messages import nearest
from workbench.support.mmap import place_of
from workbench.support.orders import postorder, topological
from workbench.symbolic.integers import parsed
from workbench.symbolic.sizes import kind_of

#: A value of a model: a tensor, a sequence of tensors, or None (an absent optional).
Value = Any

#: From this IR version on an initialiser does not have to be listed as an input.
_FREE_INITIALISERS: Final = 4


@dataclass(slots=True, eq=False)
class Model:
    """An ONNX model with its nodes in topological order and an index of the node that makes each value.

    ``inputs`` are the inputs that must be fed. Old files also list initialisers as inputs; these are left out
    here and named in ``cleaned``. ``maker`` maps the name of a value to the number of its node.
    """

    proto: ModelProto
    folder: Path | None
    name: str
    nodes: list[NodeProto]
    weights: dict[str, Any]
    inputs: dict[str, TypeProto]
    outputs: dict[str, TypeProto]
    cleaned: tuple[str, ...]
    maker: dict[str, int]

    @classmethod
    def read(cls, source: Source) -> Model:
        """Read a model from a path, bytes or a ``ModelProto``; raise OSError or ModelError if it cannot be read."""
        file = read_model(source)
        for tensor in file.model.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                _check_location(tensor, file.folder)
            elif tensor.name in file.arrays:  # it stays in the mapped file
                place = place_of(file.arrays[tensor.name])
                if place is None:
                    raise ModelError(f"tensor {tensor.name!r} has no place in a file")
                kind = TensorType.of(file.arrays[tensor.name])
                tensor.CopyFrom(placeholder(tensor.name, kind, (place[0].path.name, place[1])))
        return cls.of(file.model, file.folder, file.name)

    @classmethod
    def of(cls, proto: ModelProto, folder: Path | None, name: str) -> Model:
        """Return a parsed model with its index."""
        graph = proto.graph
        weights: dict[str, Any] = {t.name: t for t in graph.initializer}
        weights |= {t.values.name: t for t in graph.sparse_initializer}
        nodes = _sorted(list(graph.node), name)
        return cls(
            proto=proto,
            folder=folder,
            name=name,
            nodes=nodes,
            weights=weights,
            inputs={v.name: v.type for v in graph.input if v.name not in weights},
            outputs={v.name: v.type for v in graph.output},
            cleaned=tuple(v.name for v in graph.input if v.name in weights),
            maker={o: i for i, node in enumerate(nodes) for o in node.output if o},
        )

    def needed(self, outputs: Iterable[str], given: Iterable[str] = ()) -> list[int]:
        """Return the numbers of the nodes that compute ``outputs`` from ``given``, in order."""
        stop = set(given)
        makers = {name: i for name, i in self.maker.items() if name not in stop}

        def made(names: Iterable[str]) -> list[int]:
            return [makers[name] for name in names if name in makers]

        return sorted(postorder(made(outputs), lambda i: made(read_by(self.nodes[i]))))

    def cut(
        self,
        outputs: Sequence[str],
        given: Mapping[str, Value] | None = None,
        *,
        nodes: Sequence[NodeProto] | None = None,
    ) -> ModelProto:
        """Return the piece of the model that computes ``outputs`` from the model's inputs and ``given``.

        The ``given`` values replace their nodes; only the types of these values matter. ``nodes``, if any,
        are used as the nodes of the piece in place of the model's own.
        """
        given = given or {}
        chosen = [self.nodes[i] for i in self.needed(outputs, given)] if nodes is None else list(nodes)
        reads = {name for node in chosen for name in read_by(node)} | set(outputs)
        piece = ModelProto()
        piece.ir_version = max(self.proto.ir_version, _FREE_INITIALISERS)
        piece.opset_import.extend(self.proto.opset_import)
        piece.functions.extend(self.proto.functions)
        graph = piece.graph
        graph.name = self.proto.graph.name or "piece"
        graph.node.extend(chosen)
        for name, kind in self.inputs.items():
            if name in reads and name not in given:
                graph.input.append(onnx.helper.make_value_info(name, kind))
        for name, value in given.items():
            if name in reads:
                graph.input.append(onnx.helper.make_value_info(name, type_of(value)))
        for name, weight in self.weights.items():
            if name in reads and name not in given:
                kept = graph.initializer if isinstance(weight, TensorProto) else graph.sparse_initializer
                kept.append(weight)
        for name in outputs:
            # The runtime infers the type; a graph input or a weight may be an output as well.
            graph.output.append(ValueInfoProto(name=name))
        return piece

    def weight(self, name: str) -> np.ndarray | None:
        """Return a dense weight, read from its external file if it has one; None if the name is not one."""
        stored = self.weights.get(name)
        return tensor_array(stored, self.folder) if isinstance(stored, TensorProto) else None


def _sorted(nodes: list[NodeProto], name: str) -> list[NodeProto]:
    """Return nodes with operands first, otherwise in the order of the file; raise ModelError for a cycle."""
    maker = {o: i for i, node in enumerate(nodes) for o in node.output if o}
    reads = [[maker[n] for n in read_by(node) if n in maker] for node in nodes]
    try:
        return [nodes[i] for i in topological(range(len(nodes)), reads.__getitem__)]
    except graphlib.CycleError as error:
        made = nodes[error.args[1][0]].output[0]
        raise ModelError(f"{name}: the graph has a cycle through {made!r}") from None


def type_of(value: Value) -> TypeProto:
    """Return the ONNX type of a value that is fed; for a tensor the element type without the shape."""
    if isinstance(value, TypeProto):
        return value
    if isinstance(value, list):
        return onnx.helper.make_sequence_type_proto(type_of(value[0]))
    kind = TypeProto()
    kind.tensor_type.elem_type = DTYPE_CODES[TensorType.of(np.asarray(value)).dtype]
    return kind


# -- the interfaces of two models ---------------------------------------------------------------------
#: A dimension: an extent, or the name of a symbol.
Dim = int | str

#: Sizes tried in turn, by the kind of a symbol (:mod:`workbench.symbolic.sizes`), and those of other kinds.
_SIZES: Final = {"batch": (2, 1, 3, 1, 1, 1), "space": (32, 48, 64, 224, 64, 96)}
_OTHERS: Final = (8, 5, 16, 7, 1, 64)
#: At most this many bindings are compared; the other sizes replace those with which the original fails.
BINDINGS: Final = 3
#: Sizes for a model that runs at none of these: a filter over sound needs a hundred samples and more.
_LARGE: Final = (256, 1024)
#: Symbols are bound to sizes below this because of a threshold.
_LARGEST_SIZE: Final = 1025


@dataclass(frozen=True, slots=True)
class Interface:
    """The result of comparing two interfaces.

    ``problems`` are differences that make the models unequal; ``notes`` are differences to report. ``shapes``
    are the shapes of the inputs; a dimension is an int if either model fixes it.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    shapes: Mapping[str, tuple[Dim, ...] | None]

    @property
    def symbols(self) -> list[str]:
        """Return the symbols to bind, without sums and products of other symbols."""
        names = dict.fromkeys(d for s in self.shapes.values() for d in s or () if isinstance(d, str))
        return [name for name in names if parsed(name, dict.fromkeys(names, _LARGEST_SIZE)) is None]


def compare(a: Model, b: Model) -> Interface:
    """Compare the interfaces of two models."""
    problems: list[str] = []
    notes: list[str] = []
    for what, ours, theirs in (("input", a.inputs, b.inputs), ("output", a.outputs, b.outputs)):
        problems += [f"{what} {n!r} is missing in B" for n in ours if n not in theirs]
        problems += [f"{what} {n!r} is not in A" for n in theirs if n not in ours]
        common = [n for n in ours if n in theirs]
        if common != [n for n in theirs if n in ours]:
            notes.append(f"the {what}s have a different order in B")
        for n in common:
            problems += _types(f"{what} {n!r}", ours[n], theirs[n], notes, given=what == "input")
    shapes = {
        name: _merged(shape_of(kind, name), shape_of(b.inputs.get(name, kind), name))
        for name, kind in a.inputs.items()
    }
    cleaned = (("A", len(a.cleaned)), ("B", len(b.cleaned)))
    notes += [f"{one} lists {n} initialisers among its inputs: they are not drawn" for one, n in cleaned if n]
    return Interface(tuple(problems), tuple(notes), shapes)


def _types(what: str, ours: TypeProto, theirs: TypeProto, notes: list[str], *, given: bool) -> list[str]:
    if ours.WhichOneof("value") != theirs.WhichOneof("value"):
        if None in (ours.WhichOneof("value"), theirs.WhichOneof("value")):
            return []
        return [f"{what} is a {_kind(ours)} in A, a {_kind(theirs)} in B"]
    if ours.WhichOneof("value") != "tensor_type":
        return []
    first, second = ours.tensor_type.elem_type, theirs.tensor_type.elem_type
    if first != second and first and second:
        return [f"{what} is {DTYPE_NAMES.get(first, first)} in A, {DTYPE_NAMES.get(second, second)} in B"]
    one, other = shape_of(ours), shape_of(theirs)
    if one is None or other is None:
        return []
    if len(one) != len(other):
        return [f"{what} has {len(one)} axes in A, {len(other)} in B"]
    problems = []
    for axis, (x, y) in enumerate(zip(one, other, strict=True)):
        if isinstance(x, int) and isinstance(y, int):
            problems += [f"axis {axis} of {what} is {x} in A, {y} in B"] if x != y else []
        elif isinstance(y, int):
            notes.append(f"axis {axis} of {what} is symbolic ({x or 'unnamed'}) in A, fixed at {y} in B")
        elif isinstance(x, int) and given:
            notes.append(f"axis {axis} of {what} is fixed at {x} in A, symbolic ({y or 'unnamed'}) in B")
    return problems


def _kind(kind: TypeProto) -> str:
    return str(kind.WhichOneof("value")).removesuffix("_type")


def shape_of(kind: TypeProto, name: str = "") -> tuple[Dim, ...] | None:
    """Return a shape, or None if the rank is unknown; a dimension without a name is called ``name[axis]``."""
    if kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return None
    dims: list[Dim] = []
    for axis, dim in enumerate(kind.tensor_type.shape.dim):
        unnamed = f"{name}[{axis}]" if name else ""
        dims.append(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or unnamed)
    return tuple(dims)


def _merged(ours: tuple[Dim, ...] | None, theirs: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    if ours is None or theirs is None or len(ours) != len(theirs):
        return ours if ours is not None else theirs
    return tuple(
        y if isinstance(y, int) and isinstance(x, str) else x for x, y in zip(ours, theirs, strict=True)
    )


def bindings(
    interface: Interface, chosen: Mapping[str, int] | None, near: Iterable[float] = ()
) -> tuple[list[dict[str, int]], list[dict[str, int]], list[dict[str, int]]]:
    """Return the bindings of the symbols to try, in order, large ones, and those at and above thresholds ``near``.

    Without symbols, the first list has one empty binding. ``chosen`` fixes the sizes of symbols. The large ones are
    for a model that runs at none of the first: all symbols but batches are large, or one alone is.
    Raise ValueError, with the nearest names, if one is unknown.
    """
    chosen = dict(chosen or {})
    symbols = interface.symbols
    known = {d for s in interface.shapes.values() for d in s or () if isinstance(d, str)}
    for name in chosen:
        if name not in known:
            among = f"; there are: {', '.join(sorted(known))}" if known else "; the model has none"
            hint = nearest(name, known, 0.3) or among
            raise ValueError(f"--dim must name a symbolic dimension, got {name!r}{hint}")
    kinds = {name: _kind_of(name, interface) for name in symbols}
    sizes_of = {name: _SIZES.get(kind, _OTHERS) for name, kind in kinds.items()}
    found: list[dict[str, int]] = []
    for turn in range(len(_OTHERS)):
        binding = {name: sizes_of[name][turn] for name in symbols} | chosen
        found += [binding] if binding not in found else []
    long = [name for name, kind in kinds.items() if kind != "batch"]
    large = [
        {name: size if name in grown else 1 for name in symbols} | chosen
        for grown in (long, *([name] for name in long if len(long) > 1))
        for size in _LARGE
    ]
    sizes = sorted({int(k) for k in near if k == int(k) and 1 <= k < _LARGEST_SIZE})[:BINDINGS]
    beside = [dict.fromkeys(symbols, k + by) | chosen for k in sizes for by in (0, 1)]
    return found, large if long else [], [b for b in beside if b not in found[:BINDINGS] and symbols]


def _kind_of(name: str, interface: Interface) -> str:
    """Return the kind of a symbol, from its name or its first place."""
    shapes = (s for s in interface.shapes.values() if s is not None and name in s)
    first = next(shapes, ())
    return kind_of(name, first.index(name) if first else 0, len(first))


def bound(shape: tuple[Dim, ...] | None, binding: Mapping[str, int]) -> tuple[int, ...]:
    """Return a shape with its symbols bound; (2, 3) if the rank is unknown."""
    dims = (2, 3) if shape is None else shape
    return tuple(d if isinstance(d, int) else extent(d, binding) for d in dims)


def extent(symbol: str, binding: Mapping[str, int]) -> int:
    """Return the size of a symbol, or of a sum, difference, product or quotient of symbols; 1 if unknown."""
    if symbol in binding:
        return binding[symbol]
    found = parsed(symbol, binding)
    return 1 if found is None else max(0, found.at({}))
