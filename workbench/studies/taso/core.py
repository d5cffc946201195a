"""TASO's graph class on the workbench: it never ends the process, and its tensors stay valid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from workbench.costs import graph_cost, node_costs
from workbench.costs.analytic import AnalyticCost
from workbench.graph import Builder, Graph
from workbench.graph import evaluate as evaluate_graph
from workbench.ops import AttrValue, TypeMismatch

#: The names in TASO's module ``core``.
__all__ = ["PyGraph", "PyTensor", "get_activation_mode", "get_data_type", "get_padding_mode", "op_table"]


class TasoError(ValueError):
    """Raised when TASO would end the process; the message has the operator, the norm and the value."""


#: TASO's operator numbers and their names in Python; TASO has no names for the other numbers.
op_table: Final[dict[int, str]] = {
    0: "Input", 1: "Weight", 3: "Conv", 4: "Dropout", 6: "MaxPool", 7: "AveragePool", 8: "Relu",
    9: "Sigmoid", 10: "Tanh", 11: "BatchNormalization", 12: "Concat", 13: "Split", 14: "Reshape",
    15: "Transpose", 16: "Add", 17: "Mul", 18: "MatMul", 26: "Squeeze", 27: "Unsqueeze", 28: "Sub",
    29: "Div", 30: "Equal", 31: "Greater", 32: "Less", 33: "Max", 34: "Min", 35: "ArgMax", 36: "ArgMin",
    37: "ReduceMax", 38: "ReduceMean", 39: "ReduceMin", 40: "ReduceProd", 41: "ReduceSum", 42: "Pad",
    43: "Shape", 44: "Size", 45: "TopK", 46: "Where", 47: "Ceil", 48: "Cast", 49: "Exp", 50: "Round",
    51: "Log", 52: "Not", 53: "Sqrt", 55: "Slice", 56: "Resize", 57: "PRelu", 61: "Add",
}  # fmt: skip

ACTIVATIONS: Final = {"NONE": "none", "SIGMOID": "sigmoid", "RELU": "relu", "TANH": "tanh"}
_DTYPES: Final = {
    "FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "INT8": "int8",
    "UINT8": "uint8", "INT32": "int32", "INT64": "int64", "BOOL": "bool",
}  # fmt: skip


def get_padding_mode(padding: str) -> int:
    """Return TASO's number of a padding: SAME 0, VALID 1."""
    if padding not in ("SAME", "VALID"):
        raise TasoError(f'padding must be "SAME" or "VALID", got {padding!r}')
    return int(padding == "VALID")


def get_activation_mode(activation: str) -> int:
    """Return TASO's number of an activation: NONE 0, SIGMOID 1, RELU 2, TANH 3."""
    if activation not in ACTIVATIONS:
        raise TasoError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    return list(ACTIVATIONS).index(activation)


def get_data_type(datatype: str) -> str:
    """Return the dtype for TASO's name of a data type."""
    if datatype not in _DTYPES:
        raise TasoError(f"datatype must be one of {', '.join(_DTYPES)}, got {datatype!r}")
    return _DTYPES[datatype]


def explicit_pads(
    padding: str, size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return the pads (top, left, bottom, right) of a window under TASO's padding.

    TASO pads ``(total + 1) // 2`` on both sides, unlike ONNX's SAME_UPPER. If that would give more rows or
    columns than ``ceil(n / s)``, TASO fails an assertion; here the end gets the rest of the total instead.

    Args:
        padding: ``"SAME"`` or ``"VALID"``.
        size: Height and width of the input.
        kernel: Height and width of the window.
        strides: Vertical and horizontal stride.
    """
    if get_padding_mode(padding):
        return (0, 0, 0, 0)
    before, after = [], []
    for n, k, s in zip(size, kernel, strides, strict=True):
        total = max(k - s if n % s == 0 else k - n % s, 0)
        half = (total + 1) // 2
        fits = (n + 2 * half - k) // s + 1 == -(-n // s)
        before.append(half)
        after.append(half if fits else total - half)
    return (before[0], before[1], after[0], after[1])


#: TASO's names of operators.
_TYPE_NAMES: Final[dict[str, str]] = {
    "conv2d": "Conv", "maxpool": "MaxPool", "avgpool": "AveragePool", "relu": "Relu",
    "sigmoid": "Sigmoid", "tanh": "Tanh", "batchnorm": "BatchNormalization", "concat": "Concat",
    "slice": "Slice", "reshape": "Reshape", "transpose": "Transpose", "add": "Add", "mul": "Mul",
    "sub": "Sub", "div": "Div", "max": "Max", "min": "Min", "matmul": "MatMul", "identity": "Dropout",
    "enlarge": "Enlarge", "merge_gconv": "MergeGConv", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "cast": "Cast", "reduce_sum": "ReduceSum", "reduce_mean": "ReduceMean", "reduce_max": "ReduceMax",
    "leakyrelu": "LeakyRelu", "pad": "Pad", "softmax": "Softmax",
}  # fmt: skip


class PyTensor:
    """A reference to a value of a :class:`PyGraph`."""

    def __init__(self, graph: PyGraph, value: int) -> None:
        self._graph, self._value = graph, value

    @property
    def tensor(self) -> int:
        """Return the value's position in its graph."""
        return self._value

    @property
    def nDim(self) -> int:
        """Return the number of axes."""
        return self._graph._builder.type(self._value).rank

    def dim(self, idx: int) -> int:
        """Return the extent of an axis."""
        shape = self._graph._builder.type(self._value).shape
        if not 0 <= idx < len(shape):
            raise TasoError(f"axis must be from 0 to {len(shape) - 1}, got {idx}")
        return shape[idx]

    def __repr__(self) -> str:
        return f"PyTensor({self._graph._builder.type(self._value)})"


# -- methods of one form -----------------------------------------------------------------------------
# A name in small letters is an operator of the core; any other is an ONNX operator, which the core lacks.
def _unary(name: str, doc: str) -> Callable[..., PyTensor]:
    def method(self: PyGraph, input: PyTensor, inplace: bool = False) -> PyTensor:
        return self._apply(name, input) if name.islower() else self._onnx(name, input)

    method.__doc__ = doc
    return method


def _binary(name: str, doc: str) -> Callable[[PyGraph, PyTensor, PyTensor], PyTensor]:
    def method(self: PyGraph, x: PyTensor, y: PyTensor) -> PyTensor:
        return self._apply(name, x, y) if name.islower() else self._onnx(name, x, y)

    method.__doc__ = doc
    return method


def _reduction(name: str, doc: str) -> Callable[..., PyTensor]:
    def method(self: PyGraph, input: PyTensor, axes: Sequence[int], keepdims: bool = True) -> PyTensor:
        kept = int(keepdims)
        if name.islower():
            return self._apply(name, input, axes=tuple(self._axis(input, a) for a in axes), keepdims=kept)
        if not name.startswith("Arg"):
            return self._onnx(name, input, axes=list(axes), keepdims=kept)
        if len(axes) != 1:
            raise TasoError(f"axes must be exactly one axis, got {tuple(axes)}")
        return self._onnx(name, input, axis=int(axes[0]), keepdims=kept)

    method.__doc__ = doc
    return method


def _pooling(name: str, doc: str) -> Callable[..., PyTensor]:
    def method(
        self: PyGraph,
        input: PyTensor,
        kernels: Sequence[int],
        strides: Sequence[int],
        padding: str,
        activation: str = "NONE",
    ) -> PyTensor:
        if input.nDim != 4:
            raise TasoError(f"{name}: the input must have four axes, got {input.nDim}")
        kernel = (int(kernels[0]), int(kernels[1]))
        pads = self._pads(input, kernel, strides, padding)
        out = self._apply(name, input, kernel=kernel, strides=tuple(strides), pads=pads)
        act = self._act(activation)
        return out if act == "none" else self._apply(act, out)

    method.__doc__ = f"""{doc}

        Args:
            input: The input [N, C, H, W].
            kernels: Height and width of the window.
            strides: The vertical and the horizontal stride.
            padding: ``"SAME"`` or ``"VALID"``.
            activation: The name of an activation that follows, ``"NONE"`` for none.
        """
    return method


class PyGraph:
    """A graph that is built through TASO's interface (``taso._cython.core.PyGraph``).

    Shapes and semantics are the workbench's: "SAME" is TASO's symmetric padding, the groups of a
    convolution follow from the weight's shape, and everything is float32 unless cast. An operand that does
    not fit raises :class:`TasoError`; TASO would end the process. Outputs are the values that no operator
    reads.
    """

    def __init__(self, graph: Graph | None = None) -> None:
        self._builder = Builder("taso" if graph is None else graph.name, share=False)
        #: Every addition resets the outputs to None, because it can change which values are outputs.
        self._outputs: list[tuple[str, int]] | None = None
        if graph is not None:
            self._builder.nodes, self._builder.inputs = list(graph.nodes), list(graph.inputs)
            self._builder.weights, self._builder.opaques = dict(graph.weights), dict(graph.opaques)
            self._outputs = list(graph.outputs)

    def graph(self) -> Graph:
        """Return the graph so far; its outputs are what nothing reads. Raise TasoError if it has no operator."""
        if self._outputs is None:
            read = {j for node in self._builder.nodes for j in node.inputs}
            made = [i for i, node in enumerate(self._builder.nodes) if node.op not in ("input", "weight")]
            last = [i for i in made if i not in read]
            if not last:
                raise TasoError("the graph must have at least one operator, got none")
            self._outputs = [(f"output_{k}" if k else "output", i) for k, i in enumerate(last)]
        return self._builder.graph(self._outputs)

    def cost(self) -> float:
        """Return the sum of the operators' costs in milliseconds, under the analytic model."""
        return graph_cost(self.graph(), AnalyticCost()) / 1000

    def run_time(self) -> float:
        """Return the median milliseconds of a run in ONNX Runtime on this machine's CPU."""
        from workbench.devices.ranking import compare

        return compare(self.graph(), self.graph(), seconds=2.0).before / 1000

    def print_measurements(self) -> None:
        """Print the cost of every operator in milliseconds, under the analytic model."""
        graph = self.graph()
        for node, cost in zip(graph.nodes, node_costs(graph, AnalyticCost()), strict=True):
            if cost:
                print(f"{_TYPE_NAMES.get(node.op, node.op)} {node.type}: {cost / 1000:.4f} ms")

    def optimize(self, alpha: float, budget: int, print_subst: bool = False) -> PyGraph:
        """Return the optimised graph; see :func:`workbench.studies.taso.optimize`."""
        return optimize(self, alpha, budget, print_subst)

    def evaluate(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Return the outputs for inputs in the order of declaration (not part of TASO's interface)."""
        graph = self.graph()
        names = list(graph.input_types)
        return list(evaluate_graph(graph, dict(zip(names, arrays, strict=True))).values())

    # -- helpers ----------------------------------------------------------------------------------
    def _id(self, tensor: PyTensor, what: str) -> int:
        if not isinstance(tensor, PyTensor):
            raise TasoError(f"{what}: operands must be tensors of this graph, got {type(tensor).__name__}")
        if tensor._graph is not self:
            raise TasoError(f"{what}: operands must be tensors of this graph, got one of another graph")
        return tensor._value

    def _apply(self, op: str, *tensors: PyTensor, **attrs: Any) -> PyTensor:
        ids = [self._id(t, op) for t in tensors]
        self._outputs = None
        try:
            return PyTensor(self, self._builder.op(op, *ids, **attrs))
        except TypeMismatch as error:
            raise TasoError(str(error)) from None

    def _onnx(
        self, op_type: str, *tensors: PyTensor, axes: list[int] | None = None, **attrs: Any
    ) -> PyTensor:
        """Add an operator that the core does not model, by its ONNX definition; ``axes`` become its last input."""
        import onnx
        from onnx import TensorProto, helper

        from workbench.frontends import import_onnx
        from workbench.ops.types import DTYPE_CODES

        ids, builder = [self._id(t, op_type) for t in tensors], self._builder
        self._outputs = None
        listed = [] if axes is None else [axes]
        constants = [helper.make_tensor("axes", TensorProto.INT64, [len(a)], a) for a in listed]
        inputs = [
            helper.make_tensor_value_info(f"x{k}", DTYPE_CODES[kind.dtype], list(kind.shape))
            for k, kind in enumerate(map(builder.type, ids))
        ]
        node = helper.make_node(op_type, [v.name for v in (*inputs, *constants)], ["y"], **attrs)
        alone = helper.make_graph([node], op_type, inputs, [onnx.ValueInfoProto(name="y")], constants)
        model = helper.make_model(alone, opset_imports=[helper.make_opsetid("", 18)])
        try:
            inner = import_onnx(onnx.shape_inference.infer_shapes(model, strict_mode=True)).graph
        except ValueError as error:
            raise TasoError(f"{op_type}: {error}") from None
        place = dict(zip(inner.inputs, ids, strict=True))
        for i, item in enumerate(inner.nodes):
            given = item.attrs
            if i in place:
                continue
            if item.op == "weight":
                given = (f"{op_type.lower()}_{len(builder.weights)}",)
                builder.weights[given[0]] = inner.weights[str(item.attrs[0])]
            elif item.op == "opaque":
                builder.opaques.setdefault(str(given[0]), inner.opaques[str(given[0])])
            place[i] = builder.apply(item.op, [place[j] for j in item.inputs], given)
        return PyTensor(self, place[inner.output_ids[0]])

    def _axis(self, tensor: PyTensor, axis: int) -> int:
        rank = tensor.nDim
        if not -rank <= axis < rank:
            raise TasoError(f"axis must be from {-rank} to {rank - 1}, got {axis}")
        return axis if axis < 0 else axis - rank

    def _act(self, activation: str) -> str:
        get_activation_mode(activation)
        return ACTIVATIONS[activation]

    # -- leaves -----------------------------------------------------------------------------------
    def new_input(self, dims: Sequence[int]) -> PyTensor:
        """Declare an input; the names of inputs are data, data_1 and so on."""
        count = len(self._builder.inputs)
        name = "data" if not count else f"data_{count}"
        self._outputs = None
        return PyTensor(self, self._builder.input(name, tuple(dims)))

    def new_weight(self, dims: Sequence[int], data: ArrayLike | None = None) -> PyTensor:
        """Declare a weight with the given data, an array or nested lists, or with seeded random elements."""
        shape = tuple(int(d) for d in dims)
        array = None if data is None else np.asarray(data, dtype=np.float32, order="C")
        if array is not None and array.shape != shape:
            raise TasoError(f"new_weight: the data must have shape {shape}, got {array.shape}")
        self._outputs = None
        return PyTensor(self, self._builder.weight(shape, data=array))

    # -- arithmetic -------------------------------------------------------------------------------
    add = _binary("add", "Return x + y, broadcast.")
    mul = _binary("mul", "Return x * y, broadcast.")
    sub = _binary("sub", "Return x - y, broadcast.")
    div = _binary("div", "Return x / y, broadcast.")
    max = _binary("max", "Return the larger of x and y.")
    min = _binary("min", "Return the smaller of x and y.")
    equal = _binary("Equal", "Return a boolean tensor: whether x equals y.")
    greater = _binary("Greater", "Return a boolean tensor: whether x is greater than y.")
    less = _binary("Less", "Return a boolean tensor: whether x is less than y.")
    exp = _unary("exp", "Return e ** x.")
    log = _unary("log", "Return the natural logarithm.")
    sqrt = _unary("sqrt", "Return the square root.")
    relu = _unary("relu", "Return max(x, 0).")
    sigmoid = _unary("sigmoid", "Return 1 / (1 + exp(-x)).")
    tanh = _unary("tanh", "Return the hyperbolic tangent.")
    ceil = _unary("Ceil", "Return x rounded up.")
    round = _unary("Round", "Return x rounded to the nearest integer.")
    logical_not = _unary("Not", "Return the negation of a boolean tensor.")

    def prelu(self, x: PyTensor, slope: PyTensor) -> PyTensor:
        """Return x for positive elements, slope * x for the others."""
        return self._onnx("PRelu", x, slope)

    def leakyrelu(self, input: PyTensor, alpha: float, inplace: bool = False) -> PyTensor:
        """Return x for positive elements, alpha * x for the others (TASO ignores alpha)."""
        return self._apply("leakyrelu", input, alpha=alpha)

    def cast(self, input: PyTensor, datatype: str) -> PyTensor:
        """Return the tensor in another data type."""
        return self._apply("cast", input, to=get_data_type(datatype))

    # -- layers -----------------------------------------------------------------------------------
    def conv2d(
        self,
        input: PyTensor,
        weight: PyTensor,
        strides: Sequence[int],
        padding: str,
        activation: str = "NONE",
    ) -> PyTensor:
        """Return a convolution; the number of groups is C / weight.dim(1).

        Args:
            input: The input [N, C, H, W].
            weight: The kernel [O, C / groups, kh, kw].
            strides: The vertical and the horizontal stride.
            padding: ``"SAME"`` or ``"VALID"``.
            activation: The name of the fused activation, ``"NONE"`` for none.
        """
        if input.nDim != 4 or weight.nDim != 4:
            raise TasoError(
                f"conv2d: input and weight must have four axes, got {input.nDim} and {weight.nDim}"
            )
        if input.dim(1) % weight.dim(1):
            raise TasoError(
                f"conv2d: the channels must be a multiple of the weight's {weight.dim(1)}, got {input.dim(1)}"
            )
        pads = self._pads(input, (weight.dim(2), weight.dim(3)), strides, padding)
        return self._apply(
            "conv2d",
            input,
            weight,
            strides=tuple(strides),
            pads=pads,
            groups=input.dim(1) // weight.dim(1),
            act=self._act(activation),
        )

    def _pads(
        self, input: PyTensor, kernel: tuple[int, int], strides: Sequence[int], padding: str
    ) -> tuple[int, int, int, int]:
        if len(strides) != 2 or min(strides) < 1:
            raise TasoError(f"strides must be two positive numbers, got {tuple(strides)}")
        size = (input.dim(2), input.dim(3))
        return explicit_pads(padding, size, kernel, (int(strides[0]), int(strides[1])))

    def matmul(self, input: PyTensor, weight: PyTensor, activation: str = "NONE") -> PyTensor:
        """Return act(input @ weight)."""
        return self._apply("matmul", input, weight, act=self._act(activation))

    maxpool2d = _pooling("maxpool", "Return the maximum of each window.")
    avgpool2d = _pooling(
        "avgpool", "Return the mean of each window; padding does not count, as in TASO's runtime."
    )

    def batchnorm(
        self,
        input: PyTensor,
        scale: PyTensor,
        bias: PyTensor,
        mean: PyTensor,
        var: PyTensor,
        epsilon: float = -1,
    ) -> PyTensor:
        """Return the batch normalisation with stored statistics.

        Args:
            input: The input [N, C, H, W].
            scale: The factors [C].
            bias: The shifts [C].
            mean: The stored means [C].
            var: The stored variances [C].
            epsilon: The number added to variances; a negative one means 1e-5.
        """
        return self._apply("batchnorm", input, scale, bias, mean, var, eps=1e-5 if epsilon < 0 else epsilon)

    def dropout(self, input: PyTensor, rate: float = 0) -> PyTensor:
        """Return the operand, because dropout has no effect at inference."""
        return self._apply("identity", input)

    identity = _unary("identity", "Return the operand.")

    # -- layout -----------------------------------------------------------------------------------
    def concat(self, axis: int, inputs: Sequence[PyTensor]) -> PyTensor:
        """Return any number of operands joined along an axis."""
        if not inputs:
            raise TasoError("concat: there must be at least one tensor, got none")
        return self._apply("concat", *inputs, axis=self._axis(inputs[0], axis))

    def split(self, input: PyTensor, axis: int, sizes: int | Sequence[int]) -> list[PyTensor]:
        """Return parts of the given sizes, or ``sizes`` equal parts if it is a number."""
        extent = input.dim(axis if axis >= 0 else input.nDim + axis)
        if isinstance(sizes, int):
            if sizes < 1 or extent % sizes:
                raise TasoError(f"split: the number of parts must divide {extent}, got {sizes}")
            sizes = [extent // sizes] * sizes
        try:
            parts = self._builder.split(self._id(input, "split"), self._axis(input, axis), list(sizes))
        except TypeMismatch as error:
            raise TasoError(f"split: {error}") from None
        self._outputs = None
        return [PyTensor(self, p) for p in parts]

    def reshape(self, input: PyTensor, shape: Sequence[int]) -> PyTensor:
        """Return the tensor in another shape; 0 copies an extent, and one -1 is inferred."""
        dims = [input.dim(i) if d == 0 else int(d) for i, d in enumerate(shape)]
        if dims.count(-1) == 1:
            known = int(np.prod([d for d in dims if d != -1]))
            total = self._builder.type(self._id(input, "reshape")).elements
            if known == 0 or total % known:
                raise TasoError(f"reshape: the shape must hold {total} elements, got {tuple(shape)}")
            dims[dims.index(-1)] = total // known
        return self._apply("reshape", input, shape=tuple(dims))

    def transpose(self, input: PyTensor, perm: Sequence[int], shuffle: bool = False) -> PyTensor:
        """Return the tensor with permuted axes."""
        return self._apply("transpose", input, perm=tuple(perm))

    def squeeze(self, input: PyTensor, axes: Sequence[int]) -> PyTensor:
        """Return the tensor without axes of extent 1."""
        drop = {a % input.nDim for a in axes}
        if any(input.dim(a) != 1 for a in drop):
            raise TasoError(f"squeeze: axes must have extent 1, got axes {tuple(axes)} of {input}")
        kept = [input.dim(a) for a in range(input.nDim) if a not in drop]
        return self._apply("reshape", input, shape=tuple(kept))

    def unsqueeze(self, input: PyTensor, axes: Sequence[int]) -> PyTensor:
        """Return the tensor with inserted axes of extent 1."""
        rank = input.nDim + len(axes)
        new = {a % rank for a in axes}
        rest = iter(input.dim(a) for a in range(input.nDim))
        return self._apply("reshape", input, shape=tuple(1 if a in new else next(rest) for a in range(rank)))

    def slice(
        self,
        input: PyTensor,
        start: Sequence[int],
        end: Sequence[int],
        axes: Sequence[int] | None = None,
        steps: Sequence[int] | None = None,
    ) -> PyTensor:
        """Return the elements from start to end of the given axes.

        Args:
            input: The tensor.
            start: The first index per axis; negative indices count from the end.
            end: The index after the last one per axis.
            axes: The axes; by default the first ones.
            steps: The positive steps; by default 1.

        Raises:
            TasoError: A slice is empty or its step is not positive.
        """
        axes = range(len(start)) if axes is None else axes
        steps = [1] * len(start) if steps is None else steps
        out = input
        for s, e, axis, step in zip(start, end, axes, steps, strict=True):
            extent = out.dim(axis % out.nDim)
            part = range(extent)[s:e]
            if step < 1 or not part:
                raise TasoError(
                    f"slice: a part must be non-empty and forward, got {s}:{e}:{step} of {extent} elements"
                )
            where = self._axis(out, axis)
            out = self._apply("slice", out, axis=where, start=part.start, stop=part.stop, step=step)
        return out

    shape = _unary("Shape", "Return the extents as a tensor.")
    size = _unary("Size", "Return the number of elements as a tensor.")

    # -- reductions -------------------------------------------------------------------------------
    reduce_sum = _reduction("reduce_sum", "Return the sum over axes.")
    reduce_mean = _reduction("reduce_mean", "Return the mean over axes.")
    reduce_max = _reduction("reduce_max", "Return the maximum over axes.")
    reduce_min = _reduction("ReduceMin", "Return the minimum over axes.")
    reduce_prod = _reduction("ReduceProd", "Return the product over axes.")
    reduce_argmax = _reduction("ArgMax", "Return the index of the maximum along an axis.")
    reduce_argmin = _reduction("ArgMin", "Return the index of the minimum along an axis.")

    # -- inspection -------------------------------------------------------------------------------
    def get_operator_list(self) -> list[dict[str, int]]:
        """Return the operators in topological order, without inputs and weights."""
        return [
            {"guid": i, "ptr": i}
            for i, node in enumerate(self._builder.nodes)
            if node.op not in ("input", "weight", "project")
        ]

    def get_input_edges(self, op: dict[str, int]) -> list[dict[str, Any]]:
        """Return the edges into an operator."""
        node = self._builder.nodes[op["guid"]]
        return [
            {"srcOp": {"guid": j, "ptr": j}, "dstOp": op, "srcIdx": 0, "dstIdx": k}
            for k, j in enumerate(node.inputs)
        ]

    def get_input_dims(self, op: dict[str, int], idx: int) -> list[int]:
        """Return the shape of an operand."""
        return list(self._builder.type(self._builder.nodes[op["guid"]].inputs[idx]).shape)

    def get_output_dims(self, op: dict[str, int], idx: int) -> list[int]:
        """Return the shape of a result."""
        return list(self._builder.type(op["guid"]).shape)

    def get_num_outputs(self, op: dict[str, int]) -> int:
        """Return the number of results, which is always 1."""
        return 1

    def get_weight_value(self, op: dict[str, int]) -> np.ndarray:
        """Return the data of a weight."""
        node = self._builder.nodes[op["guid"]]
        if node.op != "weight":
            raise TasoError(f"operator {op['guid']} must be a weight, got {node.op}")
        return self._builder.weights[str(node.attrs[0])].value()

    def get_split_lens(self, op: dict[str, int]) -> list[int]:
        """Return the sizes of the parts of a split, each of which is an operator here; any of them will do."""
        node = self._builder.nodes[op["guid"]]
        if node.op != "slice":
            raise TasoError(f"operator {op['guid']} must be a part of a split, got {node.op}")
        parts = {
            (other.attr("start"), other.attr("stop"))
            for other in self._builder.nodes
            if other.op == "slice" and (other.inputs, other.attr("axis")) == (node.inputs, node.attr("axis"))
        }
        return [stop - start for start, stop in sorted(parts)]

    def get_operator_type(self, op: dict[str, int]) -> str:
        """Return TASO's name of an operator's type."""
        node = self._builder.nodes[op["guid"]]
        if node.op == "opaque":
            return self._builder.opaques[str(node.attrs[0])].op_type
        return _TYPE_NAMES.get(node.op, {"input": "Input", "weight": "Weight"}.get(node.op, node.op))

    def get_operator_attr(self, op: dict[str, int], attrname: str) -> AttrValue | list[int]:
        """Return an attribute by its ONNX name."""
        node = self._builder.nodes[op["guid"]]
        ours = {"kernel_shape": "kernel", "group": "groups", "epsilon": "eps"}.get(attrname, attrname)
        if attrname == "split":
            return self.get_split_lens(op)
        if attrname == "kernel_shape" and node.op == "conv2d":
            return list(self.get_input_dims(op, 1)[2:])
        named = node.named_attrs()
        if ours not in named:
            raise TasoError(
                f"{node.op} has no attribute {attrname!r}. There are: {', '.join(named) or 'none'}"
            )
        value = named[ours]
        if ours == "axis":
            return value + len(self.get_output_dims(op, 0))
        return list(value) if isinstance(value, tuple) else value

    def __repr__(self) -> str:
        return f"PyGraph({self.graph()!r})" if self.get_operator_list() else "PyGraph(empty)"


def optimize(
    graph: PyGraph,
    alpha: float = 1.0,
    budget: int = 1000,
    print_subst: bool = False,
    *,
    method: str = "search",
    **options: Any,
) -> PyGraph:
    """Return an equivalent graph that costs less; the given graph stays unchanged.

    Args:
        graph: The graph to optimise.
        alpha: The search drops graphs that cost more than ``alpha`` times the best; at least 1.
        budget: The number of graphs that the search expands; at least 0.
        print_subst: Whether to print the rules that made the result.
        method: ``"search"`` is TASO's backtracking search (:class:`~workbench.studies.search.BacktrackingSearch`).
            By default it runs sound rules, including TASO's merge of two convolutions of one input.
            ``"saturation"`` also finds graphs that the search cannot reach, and ignores ``alpha`` and
            ``budget``.
        options: Further arguments of :func:`~workbench.studies.search.optimize.search_optimize`, whose modes can run
            TASO's own rules, or of :func:`workbench.optimize`.

    Raises:
        TasoError: ``graph`` is none of TASO's, or ``alpha``, ``budget`` or ``method`` is out of its range.
    """
    if not isinstance(graph, PyGraph):
        raise TasoError(f"the graph must be one of new_graph or load_onnx, got {type(graph).__name__}")
    right = isinstance(alpha, int | float) and alpha >= 1.0
    if not (right and isinstance(budget, int | float) and budget >= 0):
        raise TasoError(f"alpha must be at least 1 and budget at least 0, got {alpha} and {budget}")
    if method == "search":
        from workbench.rules import rule_set
        from workbench.studies.search.modes import guarded_merges
        from workbench.studies.search.optimize import search_optimize

        if options.get("mode", "sound") == "sound":
            options.setdefault("rules", rule_set("default") + guarded_merges())
        searched = search_optimize(graph.graph(), alpha=alpha, budget=budget, **options)
        found, names = searched.graph, searched.history
    elif method == "saturation":
        from workbench.optimizer.pipeline import optimize as optimise

        result = optimise(graph.graph(), **options)
        found, names = result.graph, result.rules
    else:
        raise TasoError(f'method must be "search" or "saturation", got {method!r}')
    if print_subst:
        for name in names:
            print(name)
    return PyGraph(found)
