"""The types and small constants of an ONNX model's values, and a node as the importers of operators read it.

Types come from ONNX's own shape inference, one node at a time, given the constants found so far. Constants
come from ONNX's reference evaluator. Only operators of shape arithmetic are evaluated, and only if their
operands are small and their results are inferred to be small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto
from onnx.checker import ValidationError
from onnx.defs import OpSchema, SchemaError
from onnx.shape_inference import InferenceError, infer_function_output_types, infer_node_outputs

from workbench.frontends.model import ModelError, check_elements
from workbench.frontends.onnx.file import copied, tensor_array, type_proto
from workbench.frontends.onnx.prepare import Origin, captured, label, read_by
from workbench.frontends.onnx.traits import OnnxTrait, has
from workbench.frontends.runtime import RuntimeFailure, inferred_types, one_node, run_model
from workbench.graph import Builder
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.ops.registry import own_form
from workbench.ops.spec import OpSpec
from workbench.ops.types import DTYPE_NAMES, FLOAT_DTYPES, TensorType, TypeMismatch
from workbench.support.orders import postorder

#: Larger constants are weights and not used in shape arithmetic.
KNOWN_ELEMENTS: Final = 1 << 16

#: Constants up to this size are passed to shape inference.
_SHOWN_ELEMENTS: Final = 1 << 10


def static_type(proto: TypeProto | None, name: str = "", stored: int = 0) -> TensorType | None:
    """Return the tensor type in ONNX's form, or ``None`` unless the dtype and all extents are known.

    Raise :class:`ModelError` if the tensor ``name`` exceeds the limit on elements, and more than are ``stored``.
    """
    if proto is None or not proto.HasField("tensor_type"):
        return None
    tensor = proto.tensor_type
    if tensor.elem_type not in DTYPE_NAMES or not tensor.HasField("shape"):
        return None
    dims = tensor.shape.dim
    if any(not d.HasField("dim_value") or d.dim_value < 0 for d in dims):
        return None
    shape = tuple(d.dim_value for d in dims)
    if math.prod(shape) > stored:
        what = f"tensor {name!r}" if name else "a tensor"
        check_elements(math.prod(shape), f"{what} of shape {shape}")
    return TensorType(DTYPE_NAMES[tensor.elem_type], shape)


def fits(stated: TypeProto, found: TypeProto) -> bool:
    """Return whether two possibly incomplete types of one value are compatible."""
    if not (stated.HasField("tensor_type") and found.HasField("tensor_type")):
        ours, theirs = stated.WhichOneof("value"), found.WhichOneof("value")
        return ours is None or theirs is None or ours == theirs
    a, b = stated.tensor_type, found.tensor_type
    if a.elem_type and b.elem_type and a.elem_type != b.elem_type:
        return False
    if not (a.HasField("shape") and b.HasField("shape")):
        return True
    return len(a.shape.dim) == len(b.shape.dim) and all(
        not (x.HasField("dim_value") and y.HasField("dim_value")) or x.dim_value == y.dim_value
        for x, y in zip(a.shape.dim, b.shape.dim, strict=True)
    )


def show_type(proto: TypeProto | None) -> str:
    """Return a type for a message, with ``?`` for unknown parts."""
    if proto is None or proto.WhichOneof("value") is None:
        return "unknown"
    if not proto.HasField("tensor_type"):
        return "a value that is not a tensor"
    tensor = proto.tensor_type
    dtype = DTYPE_NAMES.get(tensor.elem_type, "?")
    if not tensor.HasField("shape"):
        return f"{dtype}[…]"
    dims = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]
    return f"{dtype}[{', '.join(dims)}]"


def python_value(attr: onnx.AttributeProto) -> object:
    """Return an attribute as a Python value: text, numbers, tuples of them, or an array for a tensor."""
    value = onnx.helper.get_attribute_value(attr)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, TensorProto):
        return tensor_array(value, None)
    if attr.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return tuple(value)
    if attr.type == onnx.AttributeProto.STRINGS:
        return tuple(v.decode(errors="replace") for v in value)
    return value


class Values:
    """The types and the small constants of a model's values, extended node by node."""

    def __init__(self, model: ModelProto) -> None:
        opsets = {o.domain: o.version for o in model.opset_import}
        self.origin = Origin(opsets, {(f.domain, f.name): f for f in model.functions})
        self.types: dict[str, TypeProto] = {}
        self.known: dict[str, np.ndarray] = {}
        self._imports = list(model.opset_import)
        self._ir = model.ir_version
        self._declared = {v.name: v.type for v in (*model.graph.value_info, *model.graph.output)}
        self._shown: dict[str, TensorProto] = {}
        self._schemas: dict[tuple[str, str], OpSchema | None] = {}
        self._stored = 0  # the limit on elements is for shapes without data, not for stored tensors

    def add_constant(self, name: str, array: np.ndarray) -> None:
        """Add a stored tensor: its type, and its value if it is small."""
        self._stored = max(self._stored, array.size)
        self.types[name] = type_proto(TensorType.of(array))
        if array.size <= KNOWN_ELEMENTS:
            self.known[name] = array
            if array.size <= _SHOWN_ELEMENTS and array.dtype.kind != "O":
                self._shown[name] = onnx.numpy_helper.from_array(array, name)

    def tensor(self, name: str) -> TensorType | None:
        """Return the type of a value, or ``None`` if it is not a tensor or not fully known."""
        return static_type(self.types.get(name), name, self._stored)

    def schema(self, node: NodeProto) -> OpSchema | None:
        """Return ONNX's schema of a node's operator, or ``None`` if ONNX does not define it."""
        key = (node.domain, node.op_type)
        if key not in self._schemas:
            # Older inference counts a last window of ceil_mode that starts in the padding; runtimes and the
            # reference evaluator never did.
            least = 22 if has(node, OnnxTrait.POOLS) else 0
            try:
                version = max(self.origin.opsets[node.domain], least)
                self._schemas[key] = onnx.defs.get_schema(node.op_type, version, node.domain)
            except (SchemaError, KeyError):
                self._schemas[key] = None
        return self._schemas[key]

    def visit(self, node: NodeProto) -> None:
        """Infer the types of a node's results, and their values if they are small constants.

        Raise :class:`ModelError` if the node is ill-typed or a result exceeds the limit on elements.
        """
        inferred = self._infer(node)
        for name in node.output:
            if name:
                try:
                    self.types[name] = self._completed(name, inferred.get(name, TypeProto()))
                except ModelError as error:
                    raise ModelError(f"{label(node)}: {error}") from None
        if self._may_evaluate(node):
            self._evaluate(node)

    # ``SizedValues`` overrides the following methods for models that keep symbolic dimensions.
    def sized(self, name: str) -> bool:
        """Return whether a known value depends on the size of a symbolic dimension."""
        return False

    def kept(self, node: NodeProto, view: NodeView) -> str:
        """Return the reason for keeping a node that could be modelled; empty if it need not be kept."""
        return ""

    def computed(self, name: str) -> tuple[Any, list[str], str] | None:
        """Return the computation of a value that depends on a size, or None for any other value."""
        return None

    def read(self, node: NodeProto, index: int) -> np.ndarray | None:
        """Return an operand that an importer reads, if it is a small constant."""
        return self.known.get(node.input[index])

    def _given(self, name: str) -> TypeProto:
        """Return the type of an operand as inference reads it."""
        return self.types[name]

    def opened(self, kind: TypeProto) -> TypeProto:
        """Return a type for the record of an opaque operator, with names for symbolic extents."""
        return kind

    def _completed(self, name: str, found: TypeProto) -> TypeProto:
        """Return the model's own declaration if inference gives less and does not contradict it.

        Declarations of inner values are notes of the exporter, often for another batch; inference wins.
        """
        stated = self._declared.get(name)
        ours, theirs = (static_type(kind, name, self._stored) for kind in (found, stated))
        lacking = stated is not None and ours is None and theirs is not None and fits(stated, found)
        return stated if stated is not None and lacking else found

    def _infer(self, node: NodeProto) -> Mapping[str, TypeProto]:
        for attr in node.attribute:
            if attr.name == "num_outputs" and attr.i != len(node.output):
                # Shape inference trusts this number and would exhaust memory or read past the outputs.
                raise ModelError(f"{label(node)} has {len(node.output)} outputs, but num_outputs is {attr.i}")
        function = self.origin.functions.get((node.domain, node.op_type))
        schema = self.schema(node)
        try:
            if function is not None:
                given = [self._given(i) if i else TypeProto() for i in node.input]
                found = infer_function_output_types(function, given, node.attribute)
                return dict(zip(node.output, found, strict=False))
            if schema is not None:
                names = read_by(node)
                return infer_node_outputs(
                    schema,
                    node,
                    {name: self._given(name) for name in names},
                    {name: self._shown[name] for name in names if name in self._shown},
                    opset_imports=self._imports,
                    ir_version=self._ir,
                )
        except (InferenceError, ValidationError, RuntimeError, ValueError) as error:
            shown = ", ".join(f"{i}: {show_type(self.types.get(i))}" for i in node.input if i)
            text = str(error).replace("[ShapeInferenceError]", "").strip()
            raise ModelError(f"{label(node)} with operands ({shown}): {text}") from None
        spec = own_form(node.domain, node.op_type)
        return self._ask_runtime(node) if spec is None else self._typed(node, spec)

    def _typed(self, node: NodeProto, spec: OpSpec) -> Mapping[str, TypeProto]:
        """Return the types that the type rule of a user's operator gives; none without those of operands."""
        kinds = [self.tensor(i) for i in node.input if i]
        known = [kind for kind in kinds if kind is not None]
        if len(known) < len(kinds) or len(node.output) != 1:
            return {}
        given = {a.name: python_value(a) for a in node.attribute if a.name in spec.attr_names}
        try:
            return {node.output[0]: type_proto(spec.result_type(known, spec.pack(given)))}
        except TypeMismatch:  # it is another operator of this name, and stays as it is
            return self._ask_runtime(node)

    def _ask_runtime(self, node: NodeProto) -> Mapping[str, TypeProto]:
        """Return ONNX Runtime's types for one of its own operators; nothing is run."""
        if captured(node):
            return {}
        given = {i: self.types[i] for i in node.input if i}
        found = inferred_types(node, given, opset_imports=self._imports, ir_version=max(self._ir, 4))
        if node.domain == "" and not found:
            raise ModelError(
                f"{label(node)}: operator set {self.origin.opsets.get('', '?')} has no such operator"
            )
        return found

    def _may_evaluate(self, node: NodeProto) -> bool:
        if node.domain != "" or not has(node, OnnxTrait.FOLDABLE):
            return False
        names = [i for i in node.input if i]
        if has(node, OnnxTrait.OF_TYPE):
            return self.tensor(names[0]) is not None
        if not all(name in self.known for name in names):
            return False
        kinds = [self.tensor(o) for o in node.output if o]
        small = all(kind is not None and kind.elements <= KNOWN_ELEMENTS for kind in kinds)
        return small or has(node, OnnxTrait.SHRINKS)

    @staticmethod
    def _by_runtime(
        node: NodeProto, model: ModelProto, feeds: Mapping[str, np.ndarray]
    ) -> list[np.ndarray] | None:
        """Return ONNX Runtime's results, or ``None`` if the node does not round or the runtime fails."""
        if has(node, OnnxTrait.OF_TYPE):
            return None  # the operand may be a type without data, of any size
        floats = [array for array in feeds.values() if str(array.dtype) in FLOAT_DTYPES]
        # Runtimes differ in how they order NaNs.
        strange = any(np.isnan(array.astype(np.float64)).any() for array in floats)
        if not strange and not (has(node, OnnxTrait.VARIES) and floats):
            return None
        try:
            return list(run_model(model, feeds, threads=1, optimise=False).values())
        except RuntimeFailure:
            return None

    def _computed(self, node: NodeProto) -> list[np.ndarray]:
        """Return the results of a node whose operands are known, by ONNX Runtime or ONNX's reference."""
        if node.op_type == "ConstantOfShape":  # a file of generated weights has hundreds of them
            element = np.zeros(1, dtype=np.float32)
            for attribute in node.attribute:
                element = onnx.numpy_helper.to_array(attribute.t)
            return [np.full(tuple(self.known[node.input[0]]), element.reshape(-1)[0], dtype=element.dtype)]
        feeds = {name: self.known[name] for name in node.input if name}
        given, made = {n: self.types[n] for n in feeds}, {o: self.types[o] for o in node.output if o}
        model = one_node(copied(node), given, made, opset_imports=self._imports, ir_version=self._ir)
        from onnx.reference import ReferenceEvaluator  # imported here because it takes 0.05 s

        results = self._by_runtime(node, model, feeds)
        if results is not None:
            return results
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(model).run(None, feeds))

    def _evaluate(self, node: NodeProto) -> None:
        if has(node, OnnxTrait.OF_TYPE):  # ``Shape`` or ``Size``, from the type of the operand alone
            kind = self.tensor(node.input[0])
            assert kind is not None
            ends = {a.name: a.i for a in node.attribute}
            shape = kind.shape[ends.get("start", 0) : ends.get("end")]
            found = kind.elements if node.op_type == "Size" else shape
            self.add_constant(node.output[0], np.asarray(found, dtype=np.int64))
            return
        try:
            results = self._computed(node)
        except Exception:
            # Nodes that the evaluator does not support stay in the graph and run at run time.
            return
        for name, result in zip((o for o in node.output if o), results, strict=True):
            array = np.asarray(result)
            stated = self.tensor(name)
            if stated is None or TensorType.of(array) == stated:
                self.add_constant(name, array)


class NodeView:
    """A node of a model under import, implementing :class:`workbench.ops.onnx_form.OnnxNode`.

    The types and constants around the ``node`` are ``values``, its graph value is made in a ``builder``. ``value_of``
    maps a name of the model to its graph value; ``wanted`` are the names that are read.
    """

    def __init__(
        self,
        node: NodeProto,
        values: Values,
        builder: Builder,
        value_of: Callable[[str], int],
        wanted: Collection[str],
    ) -> None:
        self.op_type, self.domain = str(node.op_type), str(node.domain)
        self.opset = values.origin.opsets.get(node.domain, 1)
        self.results: Sequence[TensorType | None] = [values.tensor(o) if o else None for o in node.output]
        self.op, self.type_of = builder.op, builder.type
        self._node = node
        self._values = values
        self._builder = builder
        self._value_of = value_of
        self._wanted = wanted
        self._attrs = {a.name: a for a in node.attribute}

    def wanted(self, index: int) -> bool:
        """Return whether output ``index`` is read."""
        return index < len(self._node.output) and self._node.output[index] in self._wanted

    def attr(self, name: str, default: object = None) -> Any:
        """Return an attribute as a Python value, or ``default`` if the node does not have it."""
        default = float(np.float32(default)) if isinstance(default, float) else default  # as a file has it
        return python_value(self._attrs[name]) if name in self._attrs else default

    def has(self, index: int) -> bool:
        """Return whether operand ``index`` is present."""
        return index < len(self._node.input) and bool(self._node.input[index])

    def operand(self, index: int) -> int:
        """Return operand ``index`` as a graph value."""
        return self._value_of(self._node.input[index])

    def operands(self) -> list[int]:
        """Return all operands that are present, as graph values."""
        return [self._value_of(name) for name in self._node.input if name]

    def type(self, index: int) -> TensorType:
        """Return the type of operand ``index``."""
        kind = self._values.tensor(self._node.input[index])
        assert kind is not None, self._node.input[index]
        return kind

    def known(self, index: int) -> np.ndarray | None:
        """Return operand ``index`` if it is a small constant of the model, otherwise ``None``."""
        return self._values.read(self._node, index)

    def is_constant(self, index: int) -> bool:
        """Return whether operand ``index`` depends on weights alone."""
        nodes = self._builder.nodes
        below = postorder([self.operand(index)], lambda i: nodes[i].inputs)
        return not any(nodes[i].op in RUNTIME for i in below)

    def constant(self, array: np.ndarray) -> int:
        """Return a weight with the data ``array``, named after the node's result."""
        first = next(o for o in self._node.output if o)
        names = itertools.chain([first], (f"{self._node.output[0]}_{k}" for k in itertools.count(1)))
        return self._builder.weight(data=array, name=next(n for n in names if n not in self._builder.weights))

    def made(self, value: int) -> tuple[str, Sequence[int]]:
        """Return the operator that makes a graph value, and its operands."""
        node = self._builder.nodes[value]
        return node.op, node.inputs
