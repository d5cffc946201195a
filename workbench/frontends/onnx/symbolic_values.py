"""Types and constants of a model whose symbolic dimensions have generic extents.

Types and small constants are inferred at two generic bindings. A value that differs between them depends on a
size. Integers that depend on a size guide the import of operators and are computed again at run time; tables
and floats that depend on a size are never stored, and their operators are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto

from workbench.frontends.onnx.file import copied, ir_version_for
from workbench.frontends.onnx.nodes import label
from workbench.frontends.onnx.shape_inference import NodeView, Values, static_type, type_proto
from workbench.frontends.onnx.symbolic_writer import ShapeWriter
from workbench.graph import Opaque
from workbench.ops.inputs_and_opaque import SIZE_KEY
from workbench.ops.types import DTYPE_CODES, TensorType
from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.integers import symbols as symbols_in
from workbench.symbolic.integers import written

#: Sizes are computed for values of at most this many elements; larger values keep their operators.
COMPUTED_ELEMENTS: Final = 64


class TooLong(Undecodable):
    """Raised when a generic extent is longer than a stored table that the model cuts to that length."""

    def __init__(self, symbols: frozenset[str], extent: int) -> None:
        super().__init__(f"{', '.join(sorted(symbols))} cannot be more than {extent}")
        self.symbols, self.extent = symbols, extent


class SizedValues(Values):
    """The types and small constants of a model at generic extents, with the values that depend on sizes.

    ``second`` is the same model at the other generic extents ``extents``. ``sources`` maps every symbol to an
    input and axis that have its size.

    Args:
        model: The model at generic extents.
        second: The same model at the other generic extents.
        generic: The generic extents.
        extents: The other extents by symbol.
        sources: An input and axis of the size of every symbol.
        fold: Whether constants are computed while the model is read.
    """

    def __init__(
        self,
        model: ModelProto,
        second: ModelProto,
        generic: Generic,
        extents: Mapping[str, int],
        sources: Mapping[str, tuple[str, int]],
        *,
        fold: bool = True,
    ) -> None:
        super().__init__(model, fold=fold)
        self.generic = generic
        self._extents = extents
        self._sources = sources
        self._second = Values(second, fold=fold)
        for value in second.graph.input:
            self._second.types[value.name] = value.type
        self._visiting = False
        self._sized: set[str] = set()

    def add_constant(self, name: str, array: np.ndarray) -> None:
        """Add a stored tensor, which is the same at all sizes."""
        super().add_constant(name, array)
        if not self._visiting:
            self._second.add_constant(name, array)

    def visit(self, node: NodeProto) -> None:
        """Infer a node's results at both bindings.

        Raise ModelError if the node is ill-typed, TooLong if it cuts a table that is shorter than a generic
        extent, and Undecodable if a size is not an expression in the symbols.
        """
        self._check_slice(node)
        self._visiting = True
        try:
            super().visit(node)
        finally:
            self._visiting = False
        self._second.visit(node)
        self._check_reshape(node)
        for name in node.output:
            if name:
                self._settle(name, node)

    def sized(self, name: str) -> bool:
        """Return whether a known value depends on a size."""
        return name in self._sized

    def kept(self, node: NodeProto, view: NodeView) -> str:
        """Return the reason for keeping a node that could be modelled; empty if it need not be kept."""
        sized = [i for i, name in enumerate(node.input) if name and self.sized(name)]
        if not sized:
            return ""
        if any(self.known[node.input[i]].dtype.kind not in "iu" for i in sized):
            return "a number in it depends on a symbolic dimension"
        if all(i in sized or view.is_constant(i) for i, name in enumerate(node.input) if name):
            return "it makes a constant whose size depends on a symbolic dimension"
        return ""

    def opened(self, kind: TypeProto) -> TypeProto:
        """Return a type with names for the extents that depend on a symbol."""
        if not kind.HasField("tensor_type"):
            return kind
        found = copied(kind)
        for dim in found.tensor_type.shape.dim if found.tensor_type.HasField("shape") else ():
            size = self.generic.expression(dim.dim_value)
            if size.value is None:
                dim.dim_param = str(size)
        return found

    def computed(self, name: str) -> tuple[Opaque, list[str], str] | None:
        """Return the computation of a known value that depends on a size: record, input names, key."""
        if not self.sized(name):
            return None
        array = self.known[name]
        if array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and (array != np.floor(array)).any()):
            raise Undecodable(f"{name!r} is a number that depends on a symbolic dimension")
        numbers = tuple(int(n) for n in array.reshape(-1))
        symbols = {s for n in numbers for s in symbols_in(self.generic.expression(n))}
        read = list(dict.fromkeys(self._sources[s][0] for s in sorted(symbols)))
        payload = _Payload()
        formal = {actual: f"x{i}" for i, actual in enumerate(read)}
        sources = {s: (formal[self._sources[s][0]], self._sources[s][1]) for s in symbols}
        made = ShapeWriter(payload, self.generic, sources).vector(numbers)
        kind = TensorType.of(array)
        shape = payload.plain(np.asarray(kind.shape, dtype=np.int64))
        if kind.rank != 1:
            made = payload.node("Reshape", [made, shape])
        if kind.dtype != "int64":
            made = payload.node("Cast", [made], to=DTYPE_CODES[kind.dtype])
        payload.nodes[-1].output[0] = "y0"
        version = {"": self.opsets.get("", 13)}
        graph = onnx.helper.make_graph(
            payload.nodes,
            "opaque",
            [onnx.helper.make_value_info(formal[n], self.opened(self.types[n])) for n in read],
            [onnx.helper.make_value_info("y0", type_proto(kind))],
            [onnx.numpy_helper.from_array(v, k) for k, v in payload.arrays.items()],
        )
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid("", version[""])],
            ir_version=ir_version_for(version),
            producer_name="workbench",
        )
        content = model.SerializeToString(deterministic=True)
        record = Opaque("Shape", "", (kind,), content, True, "a size that depends on a symbolic dimension")
        expressions = ",".join(written(self.generic.expression(n)) for n in numbers)
        return record, read, f"{SIZE_KEY}{kind.dtype}{list(kind.shape)}_{expressions}"

    # -- both bindings ----------------------------------------------------------------------------
    def _settle(self, name: str, node: NodeProto) -> None:
        """Compare a value at both bindings: record that it depends on a size, or forget it if it is large."""
        here, there = static_type(self.types[name]), static_type(self._second.types[name])
        if (here is None) != (there is None) or (here and there and here.rank != there.rank):
            raise Undecodable(f"{label(node)}: the rank of the result depends on a symbolic dimension")
        for a, b in zip(here.shape if here else (), there.shape if there else (), strict=True):
            if self.generic.at(a, self._extents) != b:
                raise Undecodable(
                    f"{label(node)}: an extent of the result is not an expression in the symbols"
                )
        ours, theirs = self.known.get(name), self._second.known.get(name)
        if ours is None and theirs is None:
            return
        if ours is not None and theirs is not None and ours.shape == theirs.shape:
            if ours.dtype.kind == "O" or np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"):
                return
            if ours.size <= COMPUTED_ELEMENTS and ours.dtype.kind in "iuf" and self._reads(ours, theirs):
                self._sized.add(name)
                return
        for values in (self, self._second):
            values.known.pop(name, None)
            values._shown.pop(name, None)

    def _reads(self, ours: np.ndarray, theirs: np.ndarray) -> bool:
        """Return whether the numbers at one generic binding determine those at the other."""
        if ours.dtype.kind == "f" and not (np.isfinite(ours) & (ours == np.floor(ours))).all():
            return False
        pairs = zip(ours.reshape(-1).tolist(), theirs.reshape(-1).tolist(), strict=True)
        return all(self.generic.at(int(a), self._extents) == b for a, b in pairs)

    def _check_reshape(self, node: NodeProto) -> None:
        """Reject a reshape to stored extents that fit only one size of a symbolic dimension."""
        if node.op_type != "Reshape" or node.domain != "":
            return
        before, after = self.tensor(node.input[0]), self.tensor(node.output[0])
        if before is not None and after is not None and before.elements != after.elements:
            raise Undecodable(f"{label(node)}: {before} does not reshape to {after}")

    def _check_slice(self, node: NodeProto) -> None:
        if node.op_type != "Slice" or node.domain != "" or len(node.input) < 3:
            return
        kind = self.tensor(node.input[0])
        if kind is None or not any(self.sized(i) for i in node.input[1:3]):
            return
        axes: Any = self.known.get(node.input[3]) if len(node.input) > 3 and node.input[3] else None
        for name in node.input[1:3]:
            ends = self.known.get(name)
            if ends is None or not self.sized(name):
                continue
            along = range(len(ends)) if axes is None else axes
            for end, axis in zip(ends.tolist(), along, strict=True):
                found = self.generic.expression(int(end))
                if found.value is None and end > kind.shape[axis]:
                    raise TooLong(symbols_in(found), kind.shape[axis])


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
