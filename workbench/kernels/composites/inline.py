"""Calls of composites in composites: an elementwise one takes scalars, others become equations."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from workbench.kernels.composites.composite import (
    Composite,
    Condition,
    Equation,
    NotationError,
    Tensor,
    matched,
)
from workbench.kernels.composites.index import ExtentName, IndexExpr, IndexName, Whole, extent_names
from workbench.kernels.composites.scalar import (
    Bound,
    IndexValue,
    Number,
    Parameter,
    Read,
    Scalar,
    rebuilt,
    reindexed,
    scalar_reindexed,
)


def inlined_scalar(called: Composite, operands: Sequence[Scalar], given: Mapping[str, Scalar]) -> Scalar:
    """Return the value of an elementwise composite of scalars.

    Args:
        called: The composite.
        operands: The values of its operands.
        given: The values of its attributes; others have their defaults.

    Raises:
        NotationError: If a whole-number attribute is given another value.
    """
    values = {t.name: e for t, e in zip(called.inputs, operands, strict=True)}
    parameters, extents = _attributes(called, given)
    [equation] = called.equations
    return _replaced(scalar_reindexed(equation.value, _named(extents)), values, parameters)


def _replaced(e: Scalar, values: Mapping[str, Scalar], parameters: Mapping[str, Scalar]) -> Scalar:
    if isinstance(e, Read) and e.tensor in values:
        return values[e.tensor]
    if isinstance(e, Parameter):
        return parameters.get(e.name, e)
    return rebuilt(e, lambda child: _replaced(child, values, parameters))


def _named(extents: Mapping[str, IndexExpr]) -> Callable[[IndexExpr], IndexExpr | None]:
    return lambda e: extents.get(e.name) if isinstance(e, ExtentName) else None


def _attributes(
    called: Composite, given: Mapping[str, Scalar]
) -> tuple[dict[str, Scalar], dict[str, IndexExpr]]:
    """Return the values of attributes: floating-point ones, and whole numbers."""
    parameters: dict[str, Scalar] = {}
    extents: dict[str, IndexExpr] = {}
    for a in called.attributes:
        value = given.get(a.name, Number(a.default))
        if not a.whole:
            parameters[a.name] = value
        elif isinstance(value, IndexValue):
            extents[a.name] = value.value
        elif isinstance(value, Number) and float(value.value).is_integer():
            extents[a.name] = Whole(int(value.value))
        else:
            raise NotationError(f"attribute {a.name} of {called.name} must be a whole number, got {value}")
    return parameters, extents


def inlined_tensors(
    called: Composite, operands: Sequence[Tensor], given: Mapping[str, Scalar], taken: Container[str]
) -> tuple[str, list[Equation], list[Condition]]:
    """Return the equations of a call of a composite on tensors.

    Args:
        called: The composite.
        operands: The tensors that take the place of its operands.
        given: The values of its attributes.
        taken: The names that new tensors must not have.

    Returns:
        The name of the tensor that is the result, the equations, and the conditions that the call puts on
        extents.

    Raises:
        NotationError: If the operands do not fit.
    """
    if len(called.outputs) > 1:
        raise NotationError(f"{called.name} must have one result to be called, got {len(called.outputs)}")
    parameters, extents = _attributes(called, given)
    group = _group(called, operands)
    conditions = _unified(called, operands, extents)
    extra = tuple(f"{called.name}_{k}" for k in range(len(group.dims)))
    names: dict[str, Tensor] = {}
    for t, a in zip(called.inputs, operands, strict=True):
        names[t.name] = a
    result: list[Equation] = []
    for e in called.equations:
        name = _fresh(f"{called.name}_{e.target}", taken, result)
        leading = group.leading and e.leading
        indices = [Bound(n, d) for n, d in zip(extra, group.dims, strict=True)] if e.leading else []
        indices += [Bound(b.name, reindexed(b.extent, _named(extents))) for b in e.indices]
        value = _tensors_replaced(scalar_reindexed(e.value, _named(extents)), names, extra)
        value = _replaced(value, {}, parameters)
        result.append(Equation(name, leading, tuple(indices), value))
        names[e.target] = Tensor(name, "", leading, tuple(b.extent for b in indices))
    return result[-1].target, result, conditions


def _fresh(name: str, taken: Container[str], others: Sequence[Equation]) -> str:
    used = {e.target for e in others}
    number, found = 2, name
    while found in taken or found in used:
        found, number = f"{name}_{number}", number + 1
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    """The axes for which a called composite's ``~`` stands."""

    leading: bool
    dims: tuple[IndexExpr, ...]


def _group(called: Composite, operands: Sequence[Tensor]) -> _Group:
    groups = []
    for t, a in zip(called.inputs, operands, strict=True):
        more = len(a.dims) - len(t.dims)
        if more < 0 or (not t.leading and (more or a.leading)):
            raise NotationError(f"{called.name} takes {t}, got {a}")
        if t.leading:
            groups.append(_Group(a.leading, a.dims[:more]))
    if not groups:
        return _Group(False, ())
    longest = max(groups, key=lambda g: (len(g.dims), g.leading))
    for g in groups:
        if g.dims != longest.dims[len(longest.dims) - len(g.dims) :] or (
            g.leading and g.dims != longest.dims
        ):
            raise NotationError(f"the leading axes of the operands of {called.name} differ")
    return _Group(any(g.leading for g in groups), longest.dims)


def _unified(called: Composite, operands: Sequence[Tensor], extents: dict[str, IndexExpr]) -> list[Condition]:
    """Add the extents of a called composite to ``extents``, and return the equalities that remain."""
    sides: list[tuple[IndexExpr, IndexExpr, str]] = []
    for t, a in zip(called.inputs, operands, strict=True):
        own = a.dims[len(a.dims) - len(t.dims) :]
        sides += [(d, other, f"{called.name} takes {t}") for d, other in zip(t.dims, own, strict=True)]
    later = matched(sides, called.conditions, extents, lambda e: reindexed(e, _named(extents)))
    found = [Condition(reindexed(d, _named(extents)), other, reason) for d, other, reason in later]
    found += [
        Condition(reindexed(w.left, _named(extents)), reindexed(w.right, _named(extents)), w.reason)
        for w in called.conditions
    ]
    dims = [d for t in called.outputs for d in t.dims]
    missing = sorted({n for d in dims for n in extent_names(d)} - set(extents))
    if missing:
        raise NotationError(f"the extent {missing[0]} of {called.name} does not follow from the operands")
    return [w for w in found if w.left != w.right]


def _tensors_replaced(e: Scalar, names: Mapping[str, Tensor], extra: Sequence[str]) -> Scalar:
    """Return an expression that reads the tensors of the call."""

    def place(i: IndexExpr) -> IndexExpr | None:
        return read(i) if isinstance(i, Read) else None

    def read(r: Read) -> Read:
        tensor = names[r.tensor]
        inner = tuple(reindexed(i, place) for i in r.indices)
        more = len(tensor.dims) - len(inner)
        outer = tuple(IndexName(n) for n in extra[len(extra) - more :]) if more else ()
        return Read(tensor.name, tensor.leading, outer + inner)

    def replaced(s: Scalar) -> Scalar:
        if isinstance(s, Read):
            return read(s)
        return rebuilt(scalar_shallow(s), replaced)

    def scalar_shallow(s: Scalar) -> Scalar:
        return IndexValue(reindexed(s.value, place)) if isinstance(s, IndexValue) else s

    return replaced(e)
