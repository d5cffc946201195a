"""Comparison of two interfaces: names, element types and shapes of inputs and outputs; sizes of symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from onnx import TypeProto

from workbench.certification.model import Model
from workbench.ops.types import DTYPE_NAMES
from workbench.support.messages import nearest
from workbench.symbolic.integers import parsed
from workbench.symbolic.sizes import kind_of

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
