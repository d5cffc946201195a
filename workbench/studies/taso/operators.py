"""TASO's operators: each has a method that adds it to a graph under construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from workbench.graph import Builder
from workbench.ops import TypeMismatch
from workbench.studies.taso.modes import (
    ACTIVATIONS,
    TasoError,
    explicit_pads,
    get_activation_mode,
    get_data_type,
)


class PyTensor:
    """A reference to a value of a :class:`~workbench.studies.taso.core.PyGraph`."""

    def __init__(self, graph: Operators, value: int) -> None:
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
    def method(self: Operators, input: PyTensor, inplace: bool = False) -> PyTensor:
        return self._named(name, input)

    method.__doc__ = doc
    return method


def _binary(name: str, doc: str) -> Callable[[Operators, PyTensor, PyTensor], PyTensor]:
    def method(self: Operators, x: PyTensor, y: PyTensor) -> PyTensor:
        return self._named(name, x, y)

    method.__doc__ = doc
    return method


def _reduction(name: str, doc: str) -> Callable[..., PyTensor]:
    def method(self: Operators, input: PyTensor, axes: Sequence[int], keepdims: bool = True) -> PyTensor:
        given: dict[str, Any] = {"keepdims": int(keepdims)}
        if name.islower():
            return self._apply(name, input, axes=tuple(self._axis(input, a) for a in axes), **given)
        given |= {"axis": _one(axes)} if name.startswith("Arg") else {"axes": list(axes)}
        return self._onnx(name, [input], **given)[0]

    method.__doc__ = doc
    return method


def _pooling(name: str, doc: str) -> Callable[..., PyTensor]:
    def method(
        self: Operators,
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


class Operators:
    """A mixin with TASO's methods that add operators to a graph under construction.

    Every addition resets ``_outputs`` to None, because it can change which values are outputs.
    """

    _builder: Builder
    _outputs: list[tuple[str, int]] | None

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
        self, op_type: str, tensors: Sequence[PyTensor], count: int = 1, **attrs: Any
    ) -> list[PyTensor]:
        """Add an operator that the core does not model, by its ONNX definition."""
        ids = [self._id(t, op_type) for t in tensors]
        self._outputs = None
        try:
            values = _splice(self._builder, op_type, ids, count, attrs)
        except ValueError as error:
            raise TasoError(f"{op_type}: {error}") from None
        return [PyTensor(self, v) for v in values]

    def _named(self, name: str, *tensors: PyTensor) -> PyTensor:
        """Add an operator of the core, or an ONNX operator if the name has capitals."""
        return self._apply(name, *tensors) if name.islower() else self._onnx(name, tensors)[0]

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
        return self._onnx("PRelu", [x, slope])[0]

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

        Raises:
            TasoError: The operands do not fit, or an option is unknown.
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


def _one(axes: Sequence[int]) -> int:
    if len(axes) != 1:
        raise TasoError(f"axes must be exactly one axis, got {tuple(axes)}")
    return int(axes[0])


def _splice(
    builder: Builder, op_type: str, operands: Sequence[int], count: int, attrs: Mapping[str, Any]
) -> list[int]:
    """Append an ONNX operator to a graph under construction.

    Args:
        builder: The builder of the graph.
        op_type: The operator's name in ONNX.
        operands: The operands' values in the builder.
        count: The number of results.
        attrs: The attributes; ``axes`` become an input of the operator.

    Returns:
        The results' values in the builder.

    Raises:
        ValueError: The operands do not fit the operator; the message has the reason.
    """
    import onnx
    from onnx import TensorProto, helper

    from workbench.frontends import import_onnx
    from workbench.ops.types import DTYPE_CODES

    axes = attrs.get("axes")
    plain = {k: v for k, v in attrs.items() if k != "axes"}
    names = [f"x{k}" for k in range(len(operands))]
    constants = []
    if axes is not None:  # the axes are an input since operator set 18
        constants.append(helper.make_tensor("axes", TensorProto.INT64, [len(axes)], list(axes)))
    node = helper.make_node(
        op_type, names + [c.name for c in constants], [f"y{k}" for k in range(count)], **plain
    )
    inputs = [
        helper.make_tensor_value_info(n, DTYPE_CODES[builder.type(i).dtype], list(builder.type(i).shape))
        for n, i in zip(names, operands, strict=True)
    ]
    outputs = [onnx.ValueInfoProto(name=f"y{k}") for k in range(count)]
    model = helper.make_model(
        helper.make_graph([node], op_type, inputs, outputs, constants),
        opset_imports=[helper.make_opsetid("", 18)],
    )
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    inner = import_onnx(inferred).graph
    place = dict(zip(inner.inputs, operands, strict=True))
    for i, item in enumerate(inner.nodes):
        if i in place:
            continue
        if item.op == "weight":
            name = f"{op_type.lower()}_{len(builder.weights)}"
            builder.weights[name] = inner.weights[str(item.attrs[0])]
            place[i] = builder.apply("weight", (), (name,))
        elif item.op == "opaque":
            key = str(item.attrs[0])
            builder.opaques.setdefault(key, inner.opaques[key])
            place[i] = builder.apply("opaque", [place[j] for j in item.inputs], (key,))
        else:
            place[i] = builder.apply(item.op, [place[j] for j in item.inputs], item.attrs)
    return [place[i] for i in inner.output_ids]
