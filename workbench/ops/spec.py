"""The specification of an operator: its type rule, semantics, cost features, exact form and ONNX form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from workbench.ops.exact import POLYNOMIAL, ExactForm
from workbench.ops.locality import PartRule
from workbench.ops.traits import Trait
from workbench.ops.types import DTYPE_CODES, TensorType, TypeMismatch
from workbench.ops.typing import CONCRETE, Attrs, TypeRule

if TYPE_CHECKING:
    import torch

AttrValue = int | float | str | tuple[int, ...]

#: The activations of TASO's operators, by its numbers.
TASO_ACTIVATIONS: Final = ("none", "sigmoid", "relu", "tanh")
ACTIVATIONS: Final = (*TASO_ACTIVATIONS, "relu6", "gelu", "silu", "hardswish")
#: The largest number of operands of an operator that has any number.
MANY: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Attr:
    """The declaration of an attribute.

    Kinds: ``int``; ``ints`` (exactly ``length`` of them); ``axes`` (any number of integers);
    ``float``; ``str``; ``act`` (an activation's name); ``word`` (one of ``words``); ``dtype``; ``perm`` (a
    permutation); ``shape`` (the extents of the result). ``tried`` are the values that rules are tested with,
    if they are not those of the kind.
    """

    name: str
    kind: str
    default: AttrValue | None = None
    length: int = 1
    words: tuple[str, ...] = ()
    tried: tuple[AttrValue, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the possible names if the value is a name; a name's position is its number."""
        return ACTIVATIONS if self.kind == "act" else self.words

    def check(self, value: object, op: str) -> AttrValue:
        """Return ``value`` normalised; raise :class:`TypeMismatch` if it is of another kind."""
        if self.kind in ("ints", "axes", "perm", "shape"):
            return self._vector(value, op)
        if self.kind in ("int", "float"):
            return self._number(value, op)
        known = DTYPE_CODES if self.kind == "dtype" else self.names
        if self.kind != "str" and value not in known:
            raise TypeMismatch(f"{op}: {self.name} must be one of {', '.join(known)}, got {value!r}")
        return str(value)

    def _vector(self, value: Any, op: str) -> AttrValue:
        try:
            result = tuple(int(v) for v in value)
        except TypeError:
            result = (int(value),) * self.length if self.kind == "ints" else (int(value),)
        if self.kind == "ints" and len(result) != self.length:
            raise TypeMismatch(f"{op}: {self.name} must be {self.length} integers, got {value!r}")
        if self.kind == "perm" and sorted(result) != list(range(len(result))):
            raise TypeMismatch(f"{op}: {self.name} must be a permutation, got {value!r}")
        return result

    def _number(self, value: Any, op: str) -> AttrValue:
        kind = "a whole number" if self.kind == "int" else "a number"
        try:
            found = int(value) if self.kind == "int" else float(value)
        except (TypeError, ValueError, OverflowError):
            found = None
        if found is None or isinstance(value, str) or (self.kind == "int" and found != value):
            raise TypeMismatch(f"{op}: {self.name} must be {kind}, got {value!r}")
        return found


Evaluate = Callable[[Sequence[np.ndarray], Attrs], np.ndarray]
Flops = Callable[[Attrs, Sequence[TensorType], TensorType], float]
Tensor: TypeAlias = "torch.Tensor"
#: The operator in torch: ``(the torch module, operand tensors, attrs) -> tensor``. The module is an argument,
#: so that the table of operators does not import torch.
TorchForm = Callable[[ModuleType, Sequence[Tensor], Attrs], Tensor]
#: Names of values in an ONNX model, and types of operands.
Names = Sequence[str]
Types = Sequence[TensorType]
#: The operator as ONNX nodes: ``(emitter, input names, attrs, input types, type) -> output name``.
OnnxExport = Callable[[Any, Names, Attrs, Types, TensorType], str]


def per_element(count: float) -> Flops:
    """Return the flops of an operator that does ``count`` operations for each element of its result."""
    return lambda attrs, inputs, out: count * out.elements


_ONE_PER_ELEMENT: Final = per_element(1.0)


def no_flops(attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    """Return 0: the operator only moves data."""
    return 0.0


@dataclass(frozen=True, slots=True)
class OpSpec:
    """An operator: everything that the workbench knows about it.

    An operator that infers its type from no operands is a constant, of the element type that its ``dtype``
    names; it is folded, and needs no ``torch``. A *leaf* carries its type instead of inferring it.

    Args:
        name: The name in rules and graphs.
        inputs: The number of operands, or the least and the largest, which is :data:`MANY` for any number.
        infer: The type rule, or None for a leaf.
        evaluate: The reference semantics in numpy, in the element type of the operands.
        attrs: The attributes.
        flops: The number of arithmetic operations.
        traits: Facts that other parts of the workbench act on.
        export: The operator as ONNX nodes.
        torch: The semantics in torch, on a device.
        exact: The semantics in exact arithmetic; without it, rules are judged in decimals by ``evaluate``.
        weights_from: Operands from this position on are weights in real models.
        variance: The position of the operand that is a variance: positive, and added to ``eps``.
        places: The position of the operand whose elements are numbers of places along the axis of the first
            operand that the attribute ``axis`` names.
        neutral: For an operator of two operands, the number of each that leaves the other as it is, or None.
        parts: What a part of the result needs of the operands; without it, any part of them.
        doc: The meaning in a few words.
        onnx_form: The domain and type of the ONNX operator that is read as this one, if it is not built in.
        module: The module that defines the operator, if it is not built in.
    """

    name: str
    inputs: int | tuple[int, int]
    infer: TypeRule | None
    evaluate: Evaluate | None
    attrs: tuple[Attr, ...] = ()
    flops: Flops = _ONE_PER_ELEMENT
    traits: Trait = Trait.NONE
    export: OnnxExport | None = None
    torch: TorchForm | None = None
    exact: ExactForm | None = None
    weights_from: int | None = None
    variance: int | None = None
    places: int | None = None
    neutral: tuple[float | None, ...] = ()
    parts: PartRule | None = None
    doc: str = ""
    onnx_form: tuple[str, str] | None = None
    module: str = ""
    min_inputs: int = field(init=False)
    max_inputs: int = field(init=False)
    attr_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        least, most = (self.inputs, self.inputs) if isinstance(self.inputs, int) else self.inputs
        object.__setattr__(self, "min_inputs", least)
        object.__setattr__(self, "max_inputs", most)
        object.__setattr__(self, "attr_names", tuple(a.name for a in self.attrs))

    @property
    def leaf(self) -> bool:
        """Return whether the operator's type is given rather than inferred."""
        return self.infer is None

    @property
    def variadic(self) -> bool:
        """Return whether any number of operands may be given."""
        return self.max_inputs >= MANY

    def pack(self, given: Attrs) -> tuple[AttrValue, ...]:
        """Return the attributes in declared order, checked and with defaults filled in."""
        unknown = set(given) - set(self.attr_names)
        if unknown:
            raise TypeMismatch(
                f"{self.name} has no attribute {', '.join(sorted(unknown))} "
                f"(try {', '.join(self.attr_names) or 'none'})"
            )
        values = []
        for attr in self.attrs:
            value = given.get(attr.name, attr.default)
            if value is None:
                raise TypeMismatch(f"{self.name} must have the attribute {attr.name}, got none")
            values.append(attr.check(value, self.name))
        return tuple(values)

    @property
    def arity(self) -> str:
        """Return the possible numbers of operands, in words."""
        if self.variadic:
            return f"{self.min_inputs} or more operands"
        most = f" to {self.max_inputs}" if self.max_inputs > self.min_inputs else ""
        return f"{self.min_inputs}{most} operand{'' if self.max_inputs == 1 else 's'}"

    def unpack(self, values: Sequence[AttrValue]) -> dict[str, Any]:
        """Return the attributes by name; raise :class:`TypeMismatch` if another definition packed them."""
        if len(values) != len(self.attr_names):
            raise TypeMismatch(
                f"{self.name} must have the attributes {', '.join(self.attr_names) or 'none'}, got "
                f"{len(values)} values (try building the graph again: the operator was replaced)"
            )
        return dict(zip(self.attr_names, values, strict=True))

    def result_type(self, inputs: Sequence[TensorType], values: Sequence[AttrValue]) -> TensorType:
        """Infer the type of the result; raise :class:`TypeMismatch` with the operator's name."""
        if not self.min_inputs <= len(inputs) <= self.max_inputs:
            raise TypeMismatch(f"{self.name} takes {self.arity}, got {len(inputs)}")
        if self.infer is None:
            raise TypeMismatch(f"the type of {self.name} must be given, as it cannot be inferred")
        for x in inputs:
            if not isinstance(x, TensorType):
                raise TypeMismatch(f"{self.name}: the operand must be a tensor, got {x}")
            if 0 in x.shape:
                raise TypeMismatch(f"{self.name}: operands must not be empty, got {x}")
        try:
            result = self.infer(CONCRETE, inputs, self.unpack(values))
        except TypeMismatch as error:
            raise TypeMismatch(f"{self.name}: {error}") from None
        if any(d <= 0 for d in result.shape):
            raise TypeMismatch(f"{self.name}: the result must not be empty, got {result}")
        return result


#: An operator whose elements are those of its operands, or numbers that it fixes: it computes nothing.
moving: Final = partial(OpSpec, flops=no_flops, exact=POLYNOMIAL)
