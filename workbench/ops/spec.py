"""What an operator is: one :class:`OpSpec` holds its types, semantics, cost features and ONNX form.

A type rule is written once, against the :class:`Typing` interface. :class:`ConcreteTyping` runs it on
tensors; the rule compiler runs the same function on symbolic extents to derive the guards of a rewrite
rule. Axes are counted from the last one (``-1``), so that a law holds for every rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from workbench.ops.types import DTYPE_CODES, FLOAT_DTYPES, NUMBER_DTYPES, TensorType, TypeMismatch

AttrValue = int | float | str | tuple[int, ...]

ACTIVATIONS: Final = ("none", "sigmoid", "relu", "tanh")


@dataclass(frozen=True, slots=True)
class Attr:
    """Declare an attribute.

    Kinds: ``int``; ``ints`` (exactly ``length`` of them); ``axes`` (any number of integers);
    ``float``; ``str``; ``act`` (an activation's name); ``dtype``; ``perm`` (a permutation);
    ``shape`` (the extents of the result).
    """

    name: str
    kind: str
    default: AttrValue | None = None
    length: int = 1

    def check(self, value: Any, op: str) -> AttrValue:
        """Return ``value`` normalised; raise :class:`TypeMismatch` when it is of another kind."""
        if self.kind in ("ints", "axes", "perm", "shape"):
            try:
                result = tuple(int(v) for v in value)
            except TypeError:
                result = (int(value),) * self.length if self.kind == "ints" else (int(value),)
            if self.kind == "ints" and len(result) != self.length:
                raise TypeMismatch(f"{op}: {self.name} takes {self.length} integers, not {value!r}")
            if self.kind == "perm" and sorted(result) != list(range(len(result))):
                raise TypeMismatch(f"{op}: {self.name} is not a permutation: {value!r}")
            return result
        if self.kind == "int":
            return int(value)
        if self.kind == "float":
            return float(value)
        if self.kind == "act" and value not in ACTIVATIONS:
            raise TypeMismatch(f"{op}: activation is one of {ACTIVATIONS}, not {value!r}")
        if self.kind == "dtype" and value not in DTYPE_CODES:
            raise TypeMismatch(f"{op}: unknown dtype {value!r}")
        return str(value)


class Typing(Protocol):
    """Compute with types; ``T`` is a tensor's type, ``N`` an integer (or a symbol for one)."""

    def rank(self, x: Any) -> Any: ...
    def dim(self, x: Any, axis: Any) -> Any: ...
    def with_dim(self, x: Any, axis: Any, extent: Any) -> Any: ...
    def with_dtype(self, x: Any, dtype: Any) -> Any: ...
    def tensor(self, like: Any, *dims: Any) -> Any: ...
    def constant(self, dtype: Any, *dims: Any) -> Any: ...
    def constant_of_shape(self, dtype: Any, shape: Any) -> Any: ...
    def with_shape(self, x: Any, shape: Any) -> Any: ...
    def permute(self, x: Any, perm: Any) -> Any: ...
    def elements(self, x: Any) -> Any: ...
    def broadcast(self, x: Any, y: Any, keep: int = 0) -> Any: ...
    def maximum(self, a: Any, b: Any) -> Any: ...
    def require(self, condition: Any, message: str) -> None: ...
    def require_same(self, x: Any, y: Any, message: str) -> None: ...
    def require_same_dtype(self, x: Any, y: Any) -> None: ...
    def require_float(self, x: Any) -> None: ...
    def require_number(self, x: Any) -> None: ...
    def require_axis(self, x: Any, axis: Any) -> None: ...
    def concrete(self, what: str) -> None: ...


class ConcreteTyping:
    """Run type rules on :class:`TensorType` values."""

    def rank(self, x: TensorType) -> int:
        return len(x.shape)

    def dim(self, x: TensorType, axis: int) -> int:
        # An axis before the first has extent 1: shapes are aligned at the right, as in broadcasting.
        return x.shape[axis] if -axis <= len(x.shape) else 1

    def with_dim(self, x: TensorType, axis: int, extent: int) -> TensorType:
        self.require_axis(x, axis)
        shape = list(x.shape)
        shape[axis] = extent
        return TensorType(x.dtype, tuple(shape))

    def with_dtype(self, x: TensorType, dtype: str) -> TensorType:
        return TensorType(dtype, x.shape)

    def tensor(self, like: TensorType, *dims: int) -> TensorType:
        return TensorType(like.dtype, tuple(dims))

    def constant(self, dtype: str, *dims: int) -> TensorType:
        for extent in dims:
            self.require(extent >= 1, f"the extents {dims} of a constant are positive")
        return TensorType(dtype, tuple(dims))

    def constant_of_shape(self, dtype: str, shape: tuple[int, ...]) -> TensorType:
        return self.constant(dtype, *shape)

    def with_shape(self, x: TensorType, shape: tuple[int, ...]) -> TensorType:
        return TensorType(x.dtype, tuple(shape))

    def permute(self, x: TensorType, perm: tuple[int, ...]) -> TensorType:
        self.require(len(perm) == len(x.shape), f"permutation {perm} of a rank-{len(x.shape)} tensor")
        return TensorType(x.dtype, tuple(x.shape[p] for p in perm))

    def elements(self, x: TensorType) -> int:
        return math.prod(x.shape)

    def broadcast(self, x: TensorType, y: TensorType, keep: int = 0) -> TensorType:
        """Return ``x`` with its axes before the last ``keep`` broadcast against those of ``y``."""
        rank = max(len(x.shape), len(y.shape))
        dims = []
        for axis in range(-rank, -keep):
            a, b = self.dim(x, axis), self.dim(y, axis)
            self.require(a == b or a == 1 or b == 1, f"{x} does not broadcast with {y}")
            dims.append(max(a, b))
        return TensorType(x.dtype, (*dims, *x.shape[len(x.shape) - keep :]))

    def maximum(self, a: int, b: int) -> int:
        return max(a, b)

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            raise TypeMismatch(message)

    def require_same(self, x: TensorType, y: TensorType, message: str) -> None:
        self.require(x == y, f"{message}: {x} and {y}")

    def require_same_dtype(self, x: TensorType, y: TensorType) -> None:
        self.require(x.dtype == y.dtype, f"element types differ: {x} and {y}")

    def require_float(self, x: TensorType) -> None:
        self.require(x.dtype in FLOAT_DTYPES, f"a floating-point tensor is expected, not {x}")

    def require_number(self, x: TensorType) -> None:
        self.require(x.dtype in NUMBER_DTYPES, f"{x.dtype} does not hold 0 and 1")

    def require_axis(self, x: TensorType, axis: int) -> None:
        self.require(
            -len(x.shape) <= axis < 0,
            f"axis {axis} of {x}: axes count from the last one, -1 to -{len(x.shape)}",
        )

    def concrete(self, what: str) -> None:
        """Accept; a symbolic typing refuses what it cannot express."""


CONCRETE: Final = ConcreteTyping()

Attrs = Mapping[str, Any]
TypeRule = Callable[[Any, Sequence[Any], Attrs], Any]
Evaluate = Callable[[Sequence[np.ndarray], Attrs], np.ndarray]
Flops = Callable[[Attrs, Sequence[TensorType], TensorType], float]
#: Compute in torch: ``(the torch module, operand tensors, attrs) -> tensor``. The module is given, so that
#: the table of operators needs no torch.
TorchForm = Callable[[Any, Sequence[Any], Attrs], Any]
#: Write the operator as ONNX nodes: ``(emitter, input names, attrs, input types, type) -> output name``.
OnnxExport = Callable[[Any, Sequence[str], Attrs, Sequence[TensorType], TensorType], str]


def _one_per_element(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    return float(out.elements)


def no_flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    """Return 0: the operator only moves data."""
    return 0.0


@dataclass(frozen=True, slots=True)
class OpSpec:
    """Hold everything the workbench knows about one operator.

    ``min_inputs`` to ``max_inputs`` operands; ``infer`` gives the result type; ``evaluate`` is the
    reference semantics in numpy (it computes in the dtype of its operands); ``torch`` computes the same
    on a device; ``flops`` counts arithmetic; ``view`` says that an executor may implement it without
    moving data; ``export`` writes it as ONNX. ``leaf`` operators carry their type instead of inferring
    it. An operator that infers its type from no operands is a constant, of the element type that its
    ``dtype`` names; it is folded, and needs no ``torch``.
    """

    name: str
    min_inputs: int
    max_inputs: int
    infer: TypeRule | None
    evaluate: Evaluate | None
    attrs: tuple[Attr, ...] = ()
    flops: Flops = _one_per_element
    view: bool = False
    export: OnnxExport | None = None
    torch: TorchForm | None = None
    doc: str = ""
    attr_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attr_names", tuple(a.name for a in self.attrs))

    @property
    def leaf(self) -> bool:
        """Say whether the operator's type is given rather than inferred."""
        return self.infer is None

    def pack(self, given: Attrs) -> tuple[AttrValue, ...]:
        """Return the attributes in declared order, defaults filled in, each checked."""
        unknown = set(given) - set(self.attr_names)
        if unknown:
            raise TypeMismatch(
                f"{self.name} has no attribute {', '.join(sorted(unknown))}; "
                f"it takes {', '.join(self.attr_names) or 'none'}"
            )
        values = []
        for attr in self.attrs:
            value = given.get(attr.name, attr.default)
            if value is None:
                raise TypeMismatch(f"{self.name} needs the attribute {attr.name}")
            values.append(attr.check(value, self.name))
        return tuple(values)

    @property
    def arity(self) -> str:
        """Return how many operands there may be, in words."""
        if self.max_inputs >= MANY:
            return f"{self.min_inputs} or more operands"
        most = f" to {self.max_inputs}" if self.max_inputs > self.min_inputs else ""
        return f"{self.min_inputs}{most} operand{'' if self.max_inputs == 1 else 's'}"

    def unpack(self, values: Sequence[AttrValue]) -> dict[str, Any]:
        """Return the attributes by name."""
        return dict(zip(self.attr_names, values, strict=True))

    def result_type(self, inputs: Sequence[TensorType], values: Sequence[AttrValue]) -> TensorType:
        """Infer the type of the result; raise :class:`TypeMismatch` with the operator's name."""
        if not self.min_inputs <= len(inputs) <= self.max_inputs:
            raise TypeMismatch(f"{self.name} takes {self.arity}, not {len(inputs)}")
        if self.infer is None:
            raise TypeMismatch(f"the type of {self.name} is given, not inferred")
        for x in inputs:
            if not isinstance(x, TensorType):
                raise TypeMismatch(f"{self.name}: a tensor is expected, not {x}")
            if 0 in x.shape:
                raise TypeMismatch(f"{self.name}: empty tensors are not modelled ({x})")
        try:
            result = self.infer(CONCRETE, inputs, self.unpack(values))
        except TypeMismatch as error:
            raise TypeMismatch(f"{self.name}: {error}") from None
        if any(d <= 0 for d in result.shape):
            raise TypeMismatch(f"{self.name}: the result would be empty ({result})")
        return result


MANY: Final = 1 << 16
