"""Draw small instances of a rule's left-hand side that type-check: shapes, attributes and values.

Shapes are proposed to fit where they stand (the weight of a convolution to its input) and then spoiled
now and then: extents of 1 that broadcast, lower ranks, odd and even sizes, groups and depthwise
kernels, uneven pads, strides and dilations. What does not type-check is thrown away.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.ops import ACTIVATIONS, Attr, TensorType, spec_of
from workbench.rules.expressions import evaluate, holds
from workbench.rules.pattern import App, AttrVar, Compare, Literal, Rule, Term, Var, Vector, subterms

DTYPE = "float64"
_FACTORS = (1, 1, 2, 2, 3, 4)


@dataclass(slots=True)
class Instance:
    """Bind a rule's variables: tensors' types and values, attributes, whole rows of attributes."""

    rng: random.Random
    types: dict[str, TensorType] = field(default_factory=dict)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def describe(self) -> dict[str, str]:
        """Return the instance as text: what a counterexample shows."""
        shown = {name: str(kind) for name, kind in self.types.items()}
        shown |= {name: str(value) for name, value in self.attrs.items()}
        for row, given in self.rows.items():
            shown |= {f"{row}.{name}": str(value) for name, value in given.items()}
        return shown


def positive_variables(rule: Rule) -> set[str]:
    """Return the tensor variables that stand for variances."""
    names: set[str] = set()
    for source in rule.sources:
        for term in subterms(source):
            if isinstance(term, App) and term.op == "batchnorm" and isinstance(term.args[4], Var):
                names.add(term.args[4].name)
    return names


def draw_type(instance: Instance, term: Term) -> TensorType:
    """Bind what a source term leaves open and return its type; raise TypeMismatch where it fails."""
    if isinstance(term, Var):
        if term.name not in instance.types:
            instance.types[term.name] = _anything(instance)
        return instance.types[term.name]
    kinds: list[TensorType] = []
    attrs: dict[str, Any] = {}
    spec = spec_of(term.op)
    if not term.args:
        # A constant: proposed to fit one of the tensors drawn already.
        seen = list(instance.types.values())
        like = instance.rng.choice(seen) if seen else _anything(instance)
        return spec.result_type([], spec.pack(draw_attrs(instance, term, like)))
    left = term.args[0]
    if len(term.args) == 2 and isinstance(left, Var) and isinstance(term.args[1], App) and not spec.attrs:
        # An elementwise operator: fit the variable on the left to the term on the right.
        right = draw_type(instance, term.args[1])
        if left.name not in instance.types:
            instance.types[left.name] = _operand(instance, term, 1, [right], attrs)
    for position, arg in enumerate(term.args):
        if isinstance(arg, Var) and arg.name not in instance.types:
            instance.types[arg.name] = _operand(instance, term, position, kinds, attrs)
        kinds.append(draw_type(instance, arg))
        if position == 0:
            attrs = draw_attrs(instance, term, kinds[0])
    return spec.result_type(kinds, spec.pack(attrs))


# -- shapes ---------------------------------------------------------------------------------------
def _tensor(*shape: int) -> TensorType:
    return TensorType(DTYPE, tuple(shape))


def _anything(instance: Instance) -> TensorType:
    rng = instance.rng
    if instance.types and rng.random() < 0.6:
        kind = rng.choice(list(instance.types.values()))
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


def _image(rng: random.Random) -> TensorType:
    channels = rng.choice((1, 2, 3, 4, 4, 6))
    return _tensor(rng.randint(1, 2), channels, rng.randint(1, 7), rng.randint(1, 7))


def _first(instance: Instance, op: str) -> TensorType:
    rng = instance.rng
    if op in ("conv2d", "maxpool", "avgpool", "batchnorm", "enlarge", "merge_gconv"):
        seen = [k for k in instance.types.values() if k.rank == 4]
        if seen and rng.random() < 0.7:
            kind = rng.choice(seen)
            shape = list(kind.shape)
            if rng.random() < 0.5:
                shape[rng.choice((0, 1))] = rng.choice((1, 2, 3, 4))
            return _tensor(*shape)
        return _image(rng)
    if op == "matmul":
        seen = [k for k in instance.types.values() if k.rank >= 2]
        if seen and rng.random() < 0.6:
            kind = rng.choice(seen)
            if rng.random() < 0.5:
                return _tensor(*kind.shape[:-1], rng.randint(1, 4))
            return kind
        return _tensor(*(rng.randint(1, 3) for _ in range(rng.choice((0, 0, 1, 2)))), *_pair(rng))
    if op in ("bn_scale", "bn_shift"):
        return _tensor(rng.randint(1, 4))
    return _anything(instance)


def _pair(rng: random.Random) -> tuple[int, int]:
    return rng.randint(1, 4), rng.randint(1, 4)


def _operand(
    instance: Instance, term: App, position: int, before: list[TensorType], attrs: dict[str, Any]
) -> TensorType:
    rng = instance.rng
    if position == 0:
        return _first(instance, term.op)
    first = before[0]
    if term.op == "conv2d" and first.rank == 4:
        channels, groups = first.shape[1], int(attrs["groups"])
        if position == 1:
            seen = [k for k in instance.types.values() if k.rank == 4 and k.shape[1] * groups == channels]
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
def draw_attrs(instance: Instance, term: App, first: TensorType) -> dict[str, Any]:
    """Bind the attributes of a source term and return their values."""
    given = dict(term.attrs)
    values: dict[str, Any] = {}
    for attr in spec_of(term.op).attrs:
        if attr.name in given:
            values[attr.name] = _bind(instance, given[attr.name], attr, first)
        elif term.row is not None:
            row = instance.rows.setdefault(term.row, {})
            if attr.name not in row:
                row[attr.name] = _draw(instance.rng, attr, first)
            values[attr.name] = row[attr.name]
        elif attr.default is not None:
            values[attr.name] = attr.default
    return values


def _bind(instance: Instance, expr: Any, attr: Attr, first: TensorType) -> Any:
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, Vector):
        whole = _draw(instance.rng, attr, first)
        items = []
        for i, item in enumerate(expr.items):
            if isinstance(item, AttrVar):
                items.append(instance.attrs.setdefault(item.name, whole[i]))
            else:
                items.append(_bind(instance, item, Attr(attr.name, "int"), first))
        return tuple(items)
    assert isinstance(expr, AttrVar), expr
    if expr.name not in instance.attrs:
        instance.attrs[expr.name] = _draw(instance.rng, attr, first)
    return instance.attrs[expr.name]


def _draw(rng: random.Random, attr: Attr, first: TensorType) -> Any:
    name = attr.name
    if attr.kind == "dtype":
        return DTYPE
    if name == "size":
        return rng.choice(first.shape) if first.shape and rng.random() < 0.8 else rng.randint(1, 4)
    if name == "channels":
        return first.shape[1] if first.rank == 4 and rng.random() < 0.8 else rng.randint(1, 4)
    if name == "groups":
        channels = first.shape[1] if first.rank == 4 else 4
        return rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
    if name == "strides":
        return (rng.choice((1, 1, 2)), rng.choice((1, 1, 2)))
    if name == "dilations":
        return (rng.choice((1, 1, 1, 2)), rng.choice((1, 1, 1, 2)))
    if name == "pads":
        same = rng.choice((0, 0, 1))
        return tuple(same if rng.random() < 0.7 else rng.randint(0, 2) for _ in range(4))
    if name == "kernel":
        return (rng.randint(1, 3), rng.randint(1, 3))
    if attr.kind == "act":
        return rng.choice(ACTIVATIONS)
    if name == "axis":
        return -rng.randint(1, max(1, first.rank))
    if name == "start":
        return rng.choice((0, 0, 1, 2))
    if name == "stop":
        return rng.randint(1, 5)
    if name == "step":
        return rng.choice((1, 1, 2))
    if attr.kind == "perm":
        perm = list(range(first.rank))
        rng.shuffle(perm)
        return tuple(perm)
    if attr.kind == "shape":
        return _reshaped(rng, first)
    if name == "eps":
        return rng.choice((1e-5, 1e-3, 0.5))
    if name in ("ceil", "include_pad", "keepdims", "tanh"):
        return rng.randint(0, 1)
    if attr.kind == "axes":
        return tuple(sorted(rng.sample(range(-first.rank, 0), rng.randint(1, first.rank))))
    if attr.kind == "float":
        return rng.choice((0.0, 0.5, -0.25))
    return rng.randint(1, 4)


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


# -- values ---------------------------------------------------------------------------------------
def integer(instance: Instance, expr: Any) -> Any:
    """Evaluate an attribute expression."""
    return evaluate(expr, instance.attrs.__getitem__, instance.types.__getitem__)


def satisfies(instance: Instance, condition: Compare) -> bool:
    """Say whether a condition holds in an instance."""
    return holds(condition, instance.attrs.__getitem__, instance.types.__getitem__)


def target_attrs(instance: Instance, term: App) -> dict[str, Any]:
    """Return the attributes of a term whose variables are all bound."""
    attrs = {name: integer(instance, expr) for name, expr in term.attrs}
    if term.row is not None:
        row = instance.rows[term.row]
        for name in spec_of(term.op).attr_names:
            if name not in attrs and name in row:
                attrs[name] = row[name]
    return attrs


def value(instance: Instance, term: Term) -> np.ndarray:
    """Evaluate a term in float64; raise TypeMismatch where it is ill-typed."""
    if isinstance(term, Var):
        return instance.values[term.name]
    return apply(term, [value(instance, a) for a in term.args], target_attrs(instance, term))


def apply(term: App, operands: list[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
    """Apply an operator to values, checking types."""
    spec = spec_of(term.op)
    packed = spec.pack(attrs)
    kind = spec.result_type([TensorType(DTYPE, tuple(map(int, o.shape))) for o in operands], packed)
    assert spec.evaluate is not None
    with np.errstate(all="ignore"):
        result = np.asarray(spec.evaluate(operands, spec.unpack(packed)))
    if result.shape != kind.shape:
        raise AssertionError(f"{term.op}: {result.shape} computed where {kind} was inferred")
    return result
