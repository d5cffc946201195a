"""Draw instances of rules whose typing is not linear (a reshape): shapes are proposed and may not fit.

Shapes are proposed to fit their place (the weight of a convolution to its input). Some are then spoiled:
extents of 1 that broadcast, lower ranks, odd and even sizes, groups and depthwise kernels, uneven pads,
strides and dilations. Instances that do not type-check are discarded.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from workbench.laws.verification.instances.boundary_values import coordinate_of, unbounded
from workbench.laws.verification.instances.spaces import Instance, allowed
from workbench.laws.verification.instances.typings import AXES, WHOLE, Coordinate
from workbench.ops import Attr, TensorType, Trait, TypeMismatch, spec_of, with_trait
from workbench.rules.interpret import RowAttr, attributes, holds
from workbench.rules.pattern import App, AttrVar, Compare, Literal, RankOf, Rule, Term, Var, Vector

DTYPE: Final = "float32"
#: Attempts to draw an instance.
TRIES: Final = 60


@dataclass(slots=True)
class Draft:
    """A rule's variables as they are met; the ``scalars`` among them must have no axes."""

    rng: random.Random
    types: dict[str, TensorType] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    fixed: Mapping[Coordinate, Any] = field(default_factory=dict)
    scalars: frozenset[str] = frozenset()
    conditions: tuple[Compare, ...] = ()


def draw_type(draft: Draft, term: Term) -> TensorType:
    """Bind the open variables of a source term and return its type; raise TypeMismatch if it is ill-typed."""
    if isinstance(term, Var):
        if term.name not in draft.types:
            _note(draft, term.name, _anything(draft))
        return draft.types[term.name]
    kinds: list[TensorType] = []
    attrs: dict[str, Any] = {}
    spec = spec_of(term.op)
    if not term.args:
        # The attributes of a constant are proposed to fit one of the tensors that were drawn before.
        seen = list(draft.types.values())
        like = draft.rng.choice(seen) if seen else _anything(draft)
        return spec.result_type([], spec.pack(draw_attrs(draft, term, like)))
    left = term.args[0]
    if len(term.args) == 2 and isinstance(left, Var) and isinstance(term.args[1], App) and not spec.attrs:
        # In an elementwise operator, the variable on the left is fitted to the term on the right.
        right = draw_type(draft, term.args[1])
        if left.name not in draft.types:
            _note(draft, left.name, _operand(draft, term, 1, [right], attrs))
    open_ones: list[int] = []
    for position, arg in enumerate(term.args):
        if isinstance(arg, Var) and arg.name not in draft.types:
            _note(draft, arg.name, _operand(draft, term, position, kinds, attrs))
            open_ones.append(position)
        kinds.append(draw_type(draft, arg))
        if position == 0:
            attrs = draw_attrs(draft, term, kinds[0])
    try:
        return spec.result_type(kinds, spec.pack(attrs))
    except TypeMismatch:
        return _of_whole_numbers(draft, term, kinds, attrs, open_ones)


def _of_whole_numbers(
    draft: Draft, term: App, kinds: list[TensorType], attrs: dict[str, Any], places: list[int]
) -> TensorType:
    """Return the type of a term some of whose variables, at these places, must be of whole numbers."""
    spec = spec_of(term.op)
    for dtypes in product((DTYPE, WHOLE), repeat=len(places)):
        given = dict(zip(places, dtypes, strict=True))
        tried = [TensorType(given.get(i, kind.dtype), kind.shape) for i, kind in enumerate(kinds)]
        with contextlib.suppress(TypeMismatch):
            result = spec.result_type(tried, spec.pack(attrs))
            for i in places:
                arg = term.args[i]
                assert isinstance(arg, Var)
                draft.types[arg.name] = tried[i]
            return result
    raise TypeMismatch(f"{term.op} has no type")


def _note(draft: Draft, name: str, kind: TensorType) -> None:
    """Bind a tensor variable to a type, its fixed rank and extents changed."""
    shape = [] if name in draft.scalars else list(kind.shape)
    rank = draft.fixed.get(("rank", name, ""), len(shape))
    shape = [draft.rng.randint(1, 3) for _ in range(rank - len(shape))] + shape[len(shape) - rank :]
    dtype = draft.fixed.get(("dtype", name, ""), kind.dtype)
    for axis in range(-len(shape), 0):
        shape[axis] = draft.fixed.get(("dim", name, axis), shape[axis])
    draft.types[name] = TensorType(dtype, tuple(shape))


# -- shapes ---------------------------------------------------------------------------------------
def _tensor(*shape: int) -> TensorType:
    return TensorType(DTYPE, tuple(shape))


def _anything(draft: Draft) -> TensorType:
    rng = draft.rng
    if draft.types and rng.random() < 0.6:
        kind = rng.choice(list(draft.types.values()))
        return _spoiled(rng, kind) if rng.random() < 0.4 else kind
    rank = rng.choice((1, 2, 2, 3, 4, 4))
    return _tensor(*(rng.randint(1, 5) for _ in range(rank)))


def _spoiled(rng: random.Random, kind: TensorType) -> TensorType:
    shape = list(kind.shape)
    if not shape:
        return kind
    choice = rng.random()
    if choice < 0.5:
        return _tensor(*(1 if rng.random() < 0.5 else d for d in shape))
    if choice < 0.7:
        return _tensor(*shape[rng.randint(0, len(shape)) :])
    shape[rng.randrange(len(shape))] = rng.randint(1, 5)
    return _tensor(*shape)


def _first(draft: Draft, op: str) -> TensorType:
    rng = draft.rng
    if op in with_trait(Trait.FOUR_AXES):
        seen = [k for k in draft.types.values() if k.rank == 4]
        if seen and rng.random() < 0.7:
            kind = rng.choice(seen)
            shape = list(kind.shape)
            if rng.random() < 0.5:
                shape[rng.choice((0, 1))] = rng.choice((1, 2, 3, 4))
            return _tensor(*shape)
        channels = rng.choice((1, 2, 3, 4, 4, 6))
        return _tensor(rng.randint(1, 2), channels, rng.randint(1, 7), rng.randint(1, 7))
    if op == "matmul":
        seen = [k for k in draft.types.values() if k.rank >= 2]
        if seen and rng.random() < 0.6:
            kind = rng.choice(seen)
            if rng.random() < 0.5:
                return _tensor(*kind.shape[:-1], rng.randint(1, 4))
            return kind
        batch = [rng.randint(1, 3) for _ in range(rng.choice((0, 0, 1, 2)))]
        return _tensor(*batch, rng.randint(1, 4), rng.randint(1, 4))
    if op in ("bn_scale", "bn_shift"):
        return _tensor(rng.randint(1, 4))
    return _anything(draft)


def _operand(
    draft: Draft, term: App, position: int, before: list[TensorType], attrs: dict[str, Any]
) -> TensorType:
    rng = draft.rng
    if position == 0:
        return _first(draft, term.op)
    first = before[0]
    if term.op == "conv2d" and first.rank == 4:
        channels, groups = first.shape[1], int(attrs["groups"])
        if groups < 1:
            raise TypeMismatch(f"groups must be positive, got {groups}")
        if position == 1:
            seen = [k for k in draft.types.values() if k.rank == 4 and k.shape[1] * groups == channels]
            if seen and rng.random() < 0.5:
                return rng.choice(seen)
            kh, kw = rng.choice(((1, 1), (1, 1), (3, 3), (3, 3), (1, 3), (3, 1), (2, 2), (2, 3)))
            return _tensor(groups * rng.choice((1, 2, 3)), max(1, channels // groups), kh, kw)
        return _tensor(1, before[1].shape[0], 1, 1)
    if term.op == "matmul" and first.rank >= 2:
        columns = rng.randint(1, 4)
        batch = first.shape[:-2]
        if rng.random() < 0.3:
            batch = tuple(rng.choice((1, d)) for d in batch)
        if rng.random() < 0.5:
            batch = ()
        return _tensor(*batch, first.shape[-1], columns)
    if term.op == "batchnorm" and first.rank == 4:
        return _tensor(first.shape[1])
    if term.op in ("bn_scale", "bn_shift"):
        return first
    if term.op == "concat":
        axis = attrs.get("axis", -1)
        shape = list(first.shape)
        if -len(shape) <= axis:
            shape[axis] = rng.choice((shape[axis], rng.randint(1, 4)))
        return _tensor(*shape)
    choice = rng.random()
    if choice < 0.35:
        return first
    if choice < 0.55 and first.rank == 4:
        return _tensor(1, first.shape[1], 1, 1)
    if choice < 0.65 and first.rank >= 3:
        return _tensor(first.shape[-3], 1, 1)
    if choice < 0.75 and first.rank >= 1:
        return _tensor(first.shape[-1])
    if choice < 0.82 and first.rank >= 2:
        return _tensor(first.shape[-2], 1)
    if choice < 0.88:
        return _tensor(*([1] * rng.randint(0, 4)))
    return _spoiled(rng, first)


# -- attributes -----------------------------------------------------------------------------------
def draw_attrs(draft: Draft, term: App, first: TensorType) -> dict[str, Any]:
    """Bind the attributes of a source term and return their values."""
    values: dict[str, Any] = {}
    for attr, expr in attributes(term):
        if isinstance(expr, RowAttr):
            row = draft.rows.setdefault(expr.row, {})
            if attr.name not in row:
                given = draft.fixed.get(coordinate_of(expr))
                row[attr.name] = _draw(draft.rng, attr, first) if given is None else given
            values[attr.name] = row[attr.name]
        elif expr is not None:
            values[attr.name] = _bind(draft, expr, attr, first)
    return values


def _bind(draft: Draft, expr: Any, attr: Attr, first: TensorType) -> Any:
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, Vector):
        whole = _several(draft, expr, attr, first)
        items = []
        for i, item in enumerate(expr.items):
            if isinstance(item, AttrVar):
                given = draft.fixed.get(coordinate_of(item.name), whole[i])
                items.append(draft.attrs.setdefault(item.name, given))
            else:
                items.append(_bind(draft, item, Attr(attr.name, "int"), first))
        return tuple(items)
    assert isinstance(expr, AttrVar), expr
    if expr.name not in draft.attrs:
        given = draft.fixed.get(coordinate_of(expr.name))
        if given is None and attr.kind == "perm" and first.rank > AXES:
            given = draft.rng.choice(allowed(expr.name, first.rank, draft.conditions) or (None,))
        draft.attrs[expr.name] = _draw(draft.rng, attr, first) if given is None else given
    return draft.attrs[expr.name]


def _several(draft: Draft, expr: Vector, attr: Attr, first: TensorType) -> tuple[Any, ...]:
    """Return as many values of an attribute as a vector has; raise TypeMismatch if there are fewer."""
    if attr.kind == "shape":
        return _split(draft, expr, first)
    count = len(expr.items)
    if attr.kind == "axes" and count <= first.rank:
        return tuple(draft.rng.sample(range(-first.rank, 0), count))
    drawn: tuple[Any, ...] = _draw(draft.rng, attr, first)
    if len(drawn) != count:
        raise TypeMismatch(f"{attr.name} has {len(drawn)} values, not {count}")
    return drawn


#: The values of attributes of two numbers, and of those of one, by name.
_PAIRS: Final = {"extra": (0, 0, 1), "strides": (1, 1, 2), "dilations": (1, 1, 1, 2), "kernel": (1, 2, 3)}
_NUMBERS: Final[dict[str, tuple[float, ...]]] = {
    "start": (0, 0, 1, 2),
    "stop": (1, 2, 3, 4, 5),
    "step": (1, 1, 2),
    "eps": (1e-5, 1e-3, 0.5),
    **dict.fromkeys(("ceil", "include_pad", "keepdims", "tanh"), (0, 1)),
}


def _draw(rng: random.Random, attr: Attr, first: TensorType) -> Any:
    name = attr.name
    if attr.kind == "dtype":
        return rng.choice((DTYPE, DTYPE, WHOLE))
    if name in _PAIRS:
        return (rng.choice(_PAIRS[name]), rng.choice(_PAIRS[name]))
    if name == "size" and attr.kind == "ints":
        return tuple(rng.randint(1, 6) for _ in range(attr.length))
    if name == "size":
        return rng.choice(first.shape) if first.shape and rng.random() < 0.8 else rng.randint(1, 4)
    if name == "channels":
        return first.shape[1] if first.rank == 4 and rng.random() < 0.8 else rng.randint(1, 4)
    if name == "groups":
        channels = first.shape[1] if first.rank == 4 else 4
        return rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
    if name == "pads":
        same = rng.choice((0, 0, 1))
        return tuple(same if rng.random() < 0.7 else rng.randint(0, 2) for _ in range(4))
    if attr.names:
        return rng.choice(attr.names)
    if name == "axis":
        return -rng.randint(1, max(1, first.rank))
    if name in _NUMBERS:
        return rng.choice(_NUMBERS[name])
    if attr.kind == "perm":
        perm = list(range(first.rank))
        rng.shuffle(perm)
        return tuple(perm)
    if attr.kind == "shape":
        return _reshaped(rng, first)
    if attr.kind == "axes":
        return tuple(sorted(rng.sample(range(-first.rank, 0), rng.randint(min(1, first.rank), first.rank))))
    if attr.tried:
        return rng.choice(attr.tried)
    if attr.kind == "float":
        return rng.choice((0.0, 0.5, -0.25, *unbounded(attr)))
    return rng.randint(1, 4)


def _split(draft: Draft, pattern: Vector, kind: TensorType) -> tuple[int, ...]:
    """Return a shape of as many extents as a pattern has: axes of a tensor split in two, or joined.

    Every other time, one axis more is split than is needed, so that a factor moves to a neighbour. If the
    pattern has an extent of 1 somewhere, the shape has it there.
    """
    shape, units = list(kind.shape), [i for i, item in enumerate(pattern.items) if item == Literal(1)]
    count = len(pattern.items) - len(units)
    more = draft.rng.random() < 0.5
    while len(shape) < count + more:
        at = draft.rng.choice((len(shape), draft.rng.randint(0, len(shape)))) - 1
        whole = shape[at] if at >= 0 else 1
        part = draft.rng.choice([f for f in range(1, whole + 1) if whole % f == 0])
        shape[max(at, 0) : at + 1] = [part, whole // part] if at >= 0 else [1]
    while len(shape) > max(1, count):
        at = draft.rng.choice((len(shape) - 2, draft.rng.randint(0, len(shape) - 2)))
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    for place in units:
        shape.insert(place, 1)
    return tuple(shape)


def _reshaped(rng: random.Random, kind: TensorType) -> tuple[int, ...]:
    if rng.random() < 0.3:
        return kind.shape
    left, shape = kind.elements, []
    for factor in range(2, left + 1):
        while left % factor == 0 and rng.random() < 0.7:
            shape.append(factor)
            left //= factor
    shape.append(left)
    while len(shape) > 4:
        shape[-2:] = [shape[-2] * shape[-1]]
    rng.shuffle(shape)
    return tuple(shape)


# -- whole instances --------------------------------------------------------------------------------
def draw_instance(
    rule: Rule, rng: random.Random, *, fixed: Mapping[Coordinate, Any] | None = None
) -> Instance | None:
    """Return an instance on which the left-hand side of a rule is well-typed, or None if none was found.

    ``fixed`` are the values of attributes and extents that are not drawn.
    """
    if rule.each:
        return None
    numbers = frozenset(
        c.left.var
        for c in rule.conditions
        if c.relation == "=" and isinstance(c.left, RankOf) and c.right == Literal(0)
    )
    for _ in range(TRIES):
        draft = Draft(rng, fixed=fixed or {}, scalars=numbers, conditions=rule.conditions)
        try:
            for source in rule.sources:
                draw_type(draft, source)
            if all(holds(c, draft.attrs.__getitem__, draft.types.__getitem__) for c in rule.conditions):
                return Instance(rule, draft.types, draft.attrs, draft.rows)
        except TypeMismatch:
            continue
    return None
