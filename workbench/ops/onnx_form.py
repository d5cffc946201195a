"""The ONNX form of operators: how a family writes its operators as ONNX nodes and reads them back.

Families register here without importing the ``onnx`` package: they read through :class:`OnnxNode`, a view of
one ONNX node whose types are known, and write through :class:`Emitter`. The frontends implement both. An
importer that cannot represent a node exactly raises :class:`NotModelled` with the reason, and the node is
kept opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from workbench.ops.registry import RUNTIME_DOMAINS, own_form, spec_of
from workbench.ops.spec import Names, OnnxExport, Types
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs

if TYPE_CHECKING:
    from onnx import FunctionProto


class NotModelled(Exception):
    """Raised when an ONNX node must stay opaque; the reason is shown in the coverage report."""


class OpsetTooOld(ValueError):
    """Raised when an operator needs a newer operator set; the message names the oldest possible one."""


class OnnxNode(Protocol):
    """A view of one ONNX node from which graph values are built.

    Operands and results are counted from 0; graph values are integers, as in the graph builder.
    """

    #: The ONNX name of the operator, and its domain; the default one is empty.
    op_type: str
    domain: str
    #: The version of the operator set that the node's domain has in the model.
    opset: int
    #: The types of the node's outputs, ``None`` for an omitted output.
    results: Sequence[TensorType | None]

    def wanted(self, index: int) -> bool:
        """Return whether output ``index`` is used."""

    def attr(self, name: str, default: object = None) -> Any:
        """Return an attribute as a Python value, or ``default`` if the node does not have it."""

    def operands(self) -> list[int]:
        """Return all operands that are not omitted."""

    def has(self, index: int) -> bool:
        """Return whether operand ``index`` is given (optional operands may be omitted)."""

    def operand(self, index: int) -> int:
        """Return operand ``index`` as a graph value."""

    def type(self, index: int) -> TensorType:
        """Return the type of operand ``index``."""

    def known(self, index: int) -> np.ndarray | None:
        """Return operand ``index`` if it is a small constant of the model, otherwise ``None``."""

    def is_constant(self, index: int) -> bool:
        """Return whether operand ``index`` depends on weights alone."""

    def op(self, op: str, *values: int, **attrs: Any) -> int:
        """Apply a modelled operator."""

    def constant(self, array: np.ndarray) -> int:
        """Return a weight that holds ``array``."""

    def type_of(self, value: int) -> TensorType:
        """Return the type of a graph value."""

    def made(self, value: int) -> tuple[str, Sequence[int]]:
        """Return the operator that makes a graph value, and its operands."""


class Emitter(Protocol):
    """A writer of ONNX nodes; values are names."""

    @property
    def opset(self) -> int:
        """Return the version of the default operator set to be written."""

    def node(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Write a node with one output and return its name; attributes that are ``None`` are omitted.

        ``op_type`` is the name of an operator of the default domain, or ``domain::name``.
        """

    def constant(self, array: np.ndarray) -> str:
        """Return the name of an initializer that holds ``array``."""

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Return ``name`` in another shape; an initializer is stored anew instead of reshaped at run time."""

    def function(self, given: FunctionProto | str) -> None:
        """Let the model carry a function along: a FunctionProto, or ONNX's textual syntax; once is enough."""


Importer = Callable[[OnnxNode], "int | Sequence[int]"]
Reader = TypeVar("Reader", bound=Importer)

_IMPORTERS: dict[str, Importer] = {}


def imports(*op_types: str) -> Callable[[Reader], Reader]:
    """Register a function as the reader of operators: of ONNX's default domain, or ``domain::type``."""

    def register(function: Reader) -> Reader:
        for op_type in op_types:
            if op_type in _IMPORTERS:
                raise ValueError(f"{op_type} must have one importer, got a second one")
            _IMPORTERS[op_type] = function
        return function

    return register


def importer_of(op_type: str, domain: str = "") -> Importer | None:
    """Return the function that reads an ONNX operator, or None."""
    found = _IMPORTERS.get(f"{domain}::{op_type}" if domain else op_type)
    spec = None if found is not None else own_form(domain, op_type)
    if spec is None:
        return found

    def read(n: OnnxNode) -> int:
        given = {a: value for a in spec.attr_names if (value := n.attr(a)) is not None}
        return n.op(spec.name, *n.operands(), **given)

    return read


def importable() -> Iterator[str]:
    """Yield the names of the ONNX operators that can be modelled, in alphabetical order."""
    yield from sorted(_IMPORTERS)


def without_kernel(name: str) -> bool:
    """Return whether an operator is written in a custom domain, for which ONNX Runtime has no kernel."""
    spec = spec_of(name)
    form = spec.onnx_form
    return form is not None and form[0] not in RUNTIME_DOMAINS and Trait.CARRIED not in spec.traits


def export_as(op_type: str, **renamed: str) -> OnnxExport:
    """Return an export to one node with the same operands; ``renamed`` maps ONNX attributes to ours.

    >>> export_as("Concat", axis="axis")  # doctest: +ELLIPSIS
    <function ...>
    """

    def export(e: Emitter, xs: Names, attrs: Attrs, types: Types, out: TensorType) -> str:
        return e.node(op_type, xs, **{theirs: attrs[ours] for theirs, ours in renamed.items()})

    return export


def export_scalar(e: Emitter, like: TensorType, value: float) -> str:
    """Write a number as an initializer of rank 0 in the dtype of ``like``."""
    return e.constant(np.asarray(value, dtype=like.numpy_dtype()))


def export_ints(e: Emitter, numbers: Sequence[int]) -> str:
    """Write integers as an initializer of int64: a shape, axes, pads."""
    return e.constant(np.asarray(numbers, dtype=np.int64))


def known_number(n: OnnxNode, index: int, what: str) -> float | None:
    """Return operand ``index`` as a number, None if it is omitted; refuse one that is computed at run time."""
    if not n.has(index):
        return None
    value = n.known(index)
    if value is None:
        raise NotModelled(f"{what} is computed at run time")
    return float(value.reshape(-1)[0])


def known_ints(n: OnnxNode, index: int, name: str) -> tuple[int, ...] | None:
    """Return integers given as operand ``index`` or, in older operator sets, as the attribute ``name``.

    Return ``None`` if neither is given. Raise :class:`NotModelled` if the operand is computed at run time.
    """
    if n.has(index):
        value = n.known(index)
        if value is None:
            raise NotModelled(f"the {name} are computed at run time")
        return tuple(int(v) for v in value.reshape(-1))
    value = n.attr(name)
    return None if value is None else tuple(int(v) for v in value)


def from_end(axis: int, rank: int) -> int:
    """Return an axis counted from the last one; raise :class:`NotModelled` if the axis does not exist.

    >>> from_end(1, 4), from_end(-1, 4)
    (-3, -1)
    """
    if not -rank <= axis < rank:
        raise NotModelled(f"axis {axis} of a rank-{rank} tensor")
    return axis if axis < 0 else axis - rank


def only_result(n: OnnxNode) -> TensorType:
    """Return the type of the first result; raise :class:`NotModelled` if another result is used."""
    for i in range(1, len(n.results)):
        if n.wanted(i):
            raise NotModelled(f"result {i} of {n.op_type} is used")
    kind = n.results[0]
    assert kind is not None
    return kind
