"""Types and small constants of a model whose symbolic dimensions have generic extents.

Every extent, and every integer of shape arithmetic, is inferred as an integer over symbols, which holds at all
sizes. Generic numbers stand for them in the graph. Integers that depend on a size guide the import of
operators and are computed again at run time; what is not such an integer runs as it stands in the model.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto

from workbench.frontends.model import ModelError, Source
from workbench.frontends.onnx.file import copied, type_proto
from workbench.frontends.onnx.prepare import Origin, label
from workbench.frontends.onnx.shape_inference import NodeView, Values, python_value
from workbench.frontends.onnx.symbolic_integers import Array, AtRunTime, Ratio, computed, of_constant
from workbench.frontends.onnx.symbolic_shapes import Dims, shapes_of, slice_bounds
from workbench.frontends.onnx.symbolic_writer import ShapeWriter
from workbench.frontends.onnx.traits import OnnxTrait, has
from workbench.graph import Opaque
from workbench.ops.inputs_and_opaque import SIZE_KEY
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES, TensorType
from workbench.symbolic import Generic
from workbench.symbolic.integers import Int, num, symbols, written

#: Sizes are computed for values of at most this many elements; larger values keep their operators.
COMPUTED_ELEMENTS: Final = 64

#: The operators whose importers understand integers that depend on sizes.
_READ_SIZES: Final = frozenset({"Slice", "Reshape", "Expand", "Pad", "Resize", "Split", "Gather"})
#: No extent: two that must be equal are not excused by it.
_NONE: Final = -1
_WHOLE: Final = frozenset({"int64", "int32", "float32", "float64"})


class Impossible(ModelError):
    """Raised when a model cannot run at any size."""


class Required(Exception):
    """Raised when a model requires a symbol to be what others make of it."""

    def __init__(self, values: Mapping[str, Int], why: str) -> None:
        super().__init__(why)
        self.values = values


class SizedValues(Values):
    """The types and small constants of a model at generic extents, with the integers over symbols behind them.

    ``sources`` maps every symbol to an input's axis that gives its value.
    """

    def __init__(self, model: ModelProto, generic: Generic, sources: Mapping[str, Source]) -> None:
        super().__init__(model)
        self.generic, self._sources = generic, sources
        #: Facts about all sizes that the model accepts.
        self.facts = generic.facts
        #: The version of the default operator set.
        self.opset = self.origin.opsets.get("", 13)
        self._dims: dict[str, Dims] = {}
        self._made: dict[str, Array] = {}
        self._params: dict[str, Int] = {}
        self._node = ""

    # -- what the rules of shapes ask ---------------------------------------------------------------------

    def dims(self, name: str) -> Dims | None:
        """Return the extents of a value over symbols, or None."""
        if name not in self._dims:
            kind = self.tensor(name) if name else None
            if kind is None:
                return None
            self._dims[name] = tuple(self.generic.expression(d) for d in kind.shape)
        return self._dims[name]

    def ints(self, name: str) -> list[Int] | None:
        """Return the integers of a small value that is known, or None."""
        try:
            array = self._array(name)
            return None if array is None else [x.whole() for x in array.reshape(-1)]
        except AtRunTime:
            return None

    def floats(self, name: str) -> list[float] | None:
        """Return the numbers of a small constant, or None."""
        if name not in self.known or self.sized(name):
            return None
        return [float(x) for x in self.known[name].reshape(-1)]

    def equal(self, a: Int, b: Int) -> None:
        """Note that the model requires two extents to be equal; raise :class:`Required` if that gives a symbol."""
        if a == b:
            return
        differ = self.facts.differ(a, b)
        values, more = ({}, []) if differ else self.facts.solved(a, b)
        if differ or values:
            shown = " and ".join(written(self.generic.named(x)) for x in (a, b))
            if differ:
                raise Impossible(f"{self._node} fits no size: {shown} differ")
            raise Required(values, f"{self._node} requires {shown} to be equal")
        for x in more:
            self.facts.add(x)
        if not more:
            self.facts.joined[a, b] = _NONE

    # -- inference ------------------------------------------------------------------------------------
    def add_constant(self, name: str, array: np.ndarray) -> None:
        """Add a stored tensor, which is the same at all sizes."""
        super().add_constant(name, array)
        self._dims[name] = tuple(num(d) for d in array.shape)
        for d in self._dims[name]:
            self.generic.number(d)

    def visit(self, node: NodeProto) -> None:
        """Infer a node's results.

        Raise ModelError if the node is ill-typed, and :class:`Required` if it gives the value of a symbol.
        """
        self._node = label(node)
        attrs = {a.name: python_value(a) for a in node.attribute}
        try:
            inferred = self._infer(node)
        except ModelError as error:  # ONNX knows no sizes here, so it holds for all
            raise Impossible(str(error)) from None
        for name, shape in itertools.zip_longest(node.output, shapes_of(self, node, attrs)):
            if name:
                self._enter(node, name, inferred.get(name, TypeProto()), shape)
        self._fold(node, attrs)

    def _given(self, name: str) -> TypeProto:
        """Return the type of an operand with a name for every extent that depends on a symbol."""
        kind, dims = self.types[name], self._dims.get(name) or self.dims(name)
        if dims is None or all(d.value is not None for d in dims):
            return kind
        found = copied(kind)
        for dim, extent in zip(found.tensor_type.shape.dim, dims, strict=True):
            if extent.value is None:
                dim.dim_param = extent.text
                self._params[extent.text] = extent
        return found

    def _enter(self, node: NodeProto, name: str, found: TypeProto, shape: Dims | None) -> None:
        """Enter the type of a result, of what ONNX infers and what a rule gives."""
        if not found.HasField("tensor_type"):
            self.types[name] = self._completed(name, found)
            return
        tensor, ranked = found.tensor_type, found.tensor_type.HasField("shape")
        dims: list[Int | None] = list(shape or ())
        if ranked:
            same = shape is not None and len(shape) == len(tensor.shape.dim)
            ours = dims if same else [None] * len(tensor.shape.dim)
            dims = []
            for dim, own in zip(tensor.shape.dim, ours, strict=True):
                known = num(dim.dim_value) if dim.HasField("dim_value") else own
                dims.append(self._params.get(dim.dim_param) if known is None else known)
        whole = [d for d in dims if d is not None]
        if (ranked or shape is not None) and len(whole) == len(dims):
            numbers = [self.generic.number(d) for d in whole]
            if all(n >= 0 for n in numbers) and tensor.elem_type in DTYPE_NAMES:
                self._dims[name] = tuple(whole)
                self.types[name] = type_proto(TensorType(DTYPE_NAMES[tensor.elem_type], tuple(numbers)))
                return
        fixed = [None if d is None else d.value for d in dims] if ranked else None
        bare = onnx.helper.make_tensor_type_proto(tensor.elem_type, fixed)
        # The declared type of an operator that ONNX does not define is all that there is.
        self.types[name] = bare if self.schema(node) is not None else self._completed(name, bare)
        self._dims.pop(name, None)

    def _fold(self, node: NodeProto, attrs: Mapping[str, Any]) -> None:
        """Compute the results of shape arithmetic, over symbols if they depend on sizes."""
        if node.domain != "" or not has(node, OnnxTrait.FOLDABLE):
            return
        if has(node, OnnxTrait.OF_TYPE):
            dims = self.dims(node.input[0])
            if dims is None:
                return
            part = dims[attrs.get("start", 0) : attrs.get("end")]
            whole = Ratio(math.prod(dims, start=num(1)))
            made = [Ratio(d) for d in part] if node.op_type == "Shape" else whole
            self._store(node.output[0], np.array(made, dtype=object))
            return
        names = [i for i in node.input if i]
        if not any(i in self._made for i in names):
            if self._may_evaluate(node):
                self._evaluate(node)
            return
        try:
            operands = [self._array(i) if i else None for i in node.input]
            if any(a is None and i for a, i in zip(operands, node.input, strict=True)):
                return
            floats = self._dtype(names[0]).startswith("float")
            found = computed(node, operands, {**attrs, "floats": floats}, self.facts)
        except AtRunTime:
            return
        for name, array in zip((o for o in node.output if o), found, strict=False):
            kind = self.tensor(name)
            if kind is not None and kind.shape == array.shape:
                self._store(name, array)

    def _array(self, name: str) -> Array | None:
        if name in self._made:
            return self._made[name]
        array = self.known.get(name)
        return None if array is None or array.size > COMPUTED_ELEMENTS else of_constant(array)

    def _store(self, name: str, array: Array) -> None:
        kind = self.tensor(name)
        if kind is None or array.size > COMPUTED_ELEMENTS:
            return
        flat, floats = list(array.reshape(-1)), kind.dtype.startswith("float")
        known = [v for x in flat if (v := x.value) is not None]
        if len(known) == len(flat):
            numbers: list[Any] = [*map(float if floats else int, known)]
            self.add_constant(name, np.array(numbers, dtype=kind.numpy_dtype()).reshape(kind.shape))
            return
        self._made[name] = array
        for x in flat:
            self.generic.note(x.top)
        if kind.dtype in _WHOLE and all(x.by == 1 for x in flat):
            numbers = [self.generic.number(x.top) for x in flat]
            self.known[name] = np.array(numbers, np.float64 if floats else np.int64).reshape(kind.shape)

    # -- what the import asks -------------------------------------------------------------------------
    def sized(self, name: str) -> bool:
        """Return whether a value is made of sizes."""
        return name in self._made

    def read(self, node: NodeProto, index: int) -> np.ndarray | None:
        """Return an operand that an importer reads; the ends of a slice are inside its axis."""
        name = node.input[index]
        if node.op_type == "Slice" and node.domain == "" and index in (1, 2) and name in self.known:
            with contextlib.suppress(AtRunTime):
                bounds = slice_bounds(self, node, {a.name: python_value(a) for a in node.attribute})
                if all(step > 0 for _, _, _, step in bounds):
                    ends = [start if index == 1 else stop for _, start, stop, _ in bounds]
                    return np.array([self.generic.number(x) for x in ends], dtype=np.int64)
        return self.known.get(name)

    def kept(self, node: NodeProto, view: NodeView) -> str:
        """Return the reason for keeping a node that could be modelled; empty if it need not be kept."""
        names = [i for i, name in enumerate(node.input) if name]
        sized = [i for i in names if self.sized(node.input[i])]
        depends = "a number in it depends on a symbolic dimension"
        if sized:
            if any(self._dtype(node.input[i]) not in ("int64", "int32") for i in sized):
                return depends
            if all(i in sized or view.is_constant(i) for i in names):
                return "it makes a constant whose size depends on a symbolic dimension"
            several = node.op_type == "Gather" and self._made[node.input[1]].size > 1
            if several or node.op_type not in _READ_SIZES:
                return depends
        dims = self.dims(node.input[0]) if names else None
        if dims is None or all(d.value is not None for d in dims):
            return ""
        auto = next((a.s for a in node.attribute if a.name == "auto_pad"), b"")
        if auto.startswith(b"SAME"):
            strides = next((list(a.ints) for a in node.attribute if a.name == "strides"), [])
            spaces = zip(dims[2:], strides or [1] * (len(dims) - 2), strict=False)
            if not all(d.value is not None or s == 1 or (d // s) * s == d for d, s in spaces):
                return "its padding depends on a symbolic dimension"
        result = self.dims(node.output[0])
        if node.op_type in ("Resize", "Upsample") and result is not None:
            for a, b in zip(dims, result, strict=True):
                if a.value is None and not any(a * k == b for k in range(1, 65)):
                    return "it resizes a symbolic dimension by more than a whole number"
        return ""

    def _dtype(self, name: str) -> str:
        kind = self.tensor(name)
        return "" if kind is None else kind.dtype

    def opened(self, kind: TypeProto) -> TypeProto:
        """Return a type with names for the extents that depend on a symbol."""
        if not kind.HasField("tensor_type"):
            return kind
        found = copied(kind)
        for dim in found.tensor_type.shape.dim:
            size = self.generic.expression(dim.dim_value)
            if size.value is None:
                dim.dim_param = written(self.generic.named(size))
        return found

    def computed(self, name: str) -> tuple[Opaque, list[str], str] | None:
        """Return the computation of a known value that depends on a size: record, input names, key."""
        if not self.sized(name) or name not in self.known:
            return None
        numbers = [x.top for x in self._made[name].reshape(-1)]
        used = sorted({s for n in numbers for s in symbols(n)})
        formal = {name: f"x{i}" for i, name in enumerate(dict.fromkeys(self._sources[s].name for s in used))}
        payload = _Payload()
        sources = {s: replace(self._sources[s], name=formal[self._sources[s].name]) for s in used}
        made = ShapeWriter(payload, self.generic, sources).integers(numbers)
        kind = self.tensor(name)
        assert kind is not None
        shape = payload.plain(np.asarray(kind.shape, dtype=np.int64))
        if kind.rank != 1:
            made = payload.node("Reshape", [made, shape])
        if kind.dtype != "int64":
            made = payload.node("Cast", [made], to=DTYPE_CODES[kind.dtype])
        payload.nodes[-1].output[0] = "y0"
        model = Origin({"": self.opset}).model(
            "opaque",
            payload.nodes,
            {x: self.opened(self.types[n]) for n, x in formal.items()},
            {"y0": type_proto(kind)},
            [onnx.numpy_helper.from_array(v, k) for k, v in payload.arrays.items()],
        )
        content = model.SerializeToString(deterministic=True)
        record = Opaque("Shape", "", (kind,), content, True, "a size that depends on a symbolic dimension")
        expressions = ",".join(written(self.generic.named(n)) for n in numbers)
        return record, list(formal), f"{SIZE_KEY}{kind.dtype}{list(kind.shape)}_{expressions}"


class _Payload:
    """A writer that collects the nodes of a computed size."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.arrays: dict[str, np.ndarray] = {}

    def node(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op_type, list(inputs), [name], **attrs))
        return name

    def plain(self, array: np.ndarray) -> str:
        name = f"c{len(self.arrays)}"
        self.arrays[name] = array
        return name
