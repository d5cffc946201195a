"""Small tensors of integers that depend on sizes: the shape arithmetic of a model, over symbols.

Elements are integers over symbols (:mod:`workbench.symbolic.integers`); truth values are 0 and 1. Numbers of
floats that exporters compute from sizes are fractions: an integer and the number that divides it. What has no
such form, or is rounded, is left to run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from typing import Any, Final

import numpy as np
from onnx import NodeProto

from workbench.ops.types import DTYPE_CODES
from workbench.ops.typing import Attrs
from workbench.symbolic.facts import Facts
from workbench.symbolic.integers import Cond, Int, at_least, both, div, either, equal, negated, num, single

#: An array of :class:`Ratio`.
Array = np.ndarray

#: Floats with a larger denominator are rounded, so that products with them are not exact.
_DENOMINATOR: Final = 1 << 8
_INTEGERS: Final = frozenset({DTYPE_CODES["int64"], DTYPE_CODES["int32"]})
_FLOATS: Final = frozenset({DTYPE_CODES[n] for n in ("float32", "float64")})


class AtRunTime(Exception):
    """Raised when a value has no form over symbols, so that it is computed when the model runs."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """An integer divided by a positive number."""

    top: Int
    by: int = 1

    @property
    def value(self) -> Fraction | None:
        """Return the number, or None if it depends on a symbol."""
        return None if self.top.value is None else Fraction(self.top.value, self.by)

    def whole(self) -> Int:
        """Return the integer that this is."""
        if self.by != 1:
            raise AtRunTime
        return self.top


def of_constant(array: np.ndarray) -> Array:
    """Return a constant as an array of fractions."""
    return _each(_number, array)


def _number(x: Any) -> Ratio:
    if isinstance(x, (bool, np.bool_, int, np.integer)):
        return Ratio(num(int(x)))
    if not isinstance(x, (float, np.floating)) or not np.isfinite(x):
        raise AtRunTime
    exact = Fraction(float(x))
    if exact.denominator > _DENOMINATOR:
        raise AtRunTime
    return Ratio(num(exact.numerator), exact.denominator)


def _each(function: Callable[..., Ratio], *arrays: np.ndarray) -> Array:
    given = np.broadcast_arrays(*arrays)
    found = np.empty(given[0].shape, dtype=object)
    for place in np.ndindex(*found.shape):
        found[place] = function(*(a[place] for a in given))
    return found


def computed(node: NodeProto, operands: Sequence[Array | None], attrs: Attrs, facts: Facts) -> list[Array]:
    """Return the results of an operator on small tensors over symbols.

    Args:
        node: The node of the model.
        operands: Its operands; None for one that is omitted.
        attrs: Its attributes by name, and ``floats``: whether the operands are floats.
        facts: What is known of all sizes.

    Raises:
        AtRunTime: The results have no form over symbols.
    """
    rule = _RULES.get(node.op_type)
    if rule is None or node.domain != "":
        raise AtRunTime
    try:
        found = rule(facts, attrs, *operands)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise AtRunTime from error
    return found if isinstance(found, list) else [found]


# -- arithmetic --------------------------------------------------------------------------------------
def _sum(a: Ratio, b: Ratio) -> Ratio:
    if a.by == b.by:
        return _reduced(a.top + b.top, a.by)
    return _reduced(a.top * b.by + b.top * a.by, a.by * b.by)


def _reduced(top: Int, by: int) -> Ratio:
    if by > 1:
        shared = np.gcd.reduce([by, *(c for _, c in top.terms)])
        if shared > 1:
            return Ratio(div(top, num(int(shared))), by // int(shared))
    return Ratio(top, by)


def _minus(a: Ratio) -> Ratio:
    return Ratio(-a.top, a.by)


def _times(a: Ratio, b: Ratio) -> Ratio:
    if a.by.bit_count() > 1 or b.by.bit_count() > 1:
        raise AtRunTime  # such a float is rounded: only its whole part is exact
    return _reduced(a.top * b.top, a.by * b.by)


def _over(facts: Facts, floats: bool, a: Ratio, b: Ratio) -> Ratio:
    if not floats:
        return _quotient(facts, a.whole(), b.whole())
    value = b.value
    if value is None or value <= 0:
        raise AtRunTime
    return _reduced(a.top * value.denominator, a.by * value.numerator)


def _quotient(facts: Facts, top: Int, by: Int) -> Ratio:
    found = facts.quotient(top, by)
    if found is None:
        raise AtRunTime
    return Ratio(found)


def _modulo(facts: Facts, a: Ratio, b: Ratio) -> Ratio:
    if not facts.at_least(b.whole(), 1):
        raise AtRunTime
    return Ratio(a.whole() % b.whole())


def _larger(facts: Facts, sign: int, a: Ratio, b: Ratio) -> Ratio:
    x, y = a.top * b.by * sign, b.top * a.by * sign
    return _reduced(facts.greatest(x, y) * sign, a.by * b.by)


def _truth(facts: Facts, c: Cond) -> Ratio:
    return Ratio(facts.choice(c, num(1), num(0)))


def _comparison(make: Callable[[Int, Int], Cond]) -> Callable[..., Array]:
    def rule(facts: Facts, attrs: Any, a: Array, b: Array) -> Array:
        return _each(lambda x, y: _truth(facts, make(x.top * y.by, y.top * x.by)), a, b)

    return rule


def _connective(make: Callable[..., Cond]) -> Callable[..., Array]:
    return lambda facts, attrs, *a: _each(lambda *x: _truth(facts, make(*map(_of_truth, x))), *a)


def _of_truth(t: Ratio) -> Cond:
    """Return the condition of a truth value that is a choice of 1 and 0, in its own form if possible."""
    atom = single(t.top)
    if atom is not None and atom.head == "ite" and atom.args[1:] == (num(1), num(0)):
        condition: Cond = atom.args[0]
        return condition
    return equal(t.top, num(1))


def _cast(facts: Facts, attrs: Any, a: Array) -> Array:
    to = attrs["to"]
    if to == DTYPE_CODES["bool"]:
        return _each(lambda x: Ratio(num(1) - facts.choice(equal(x.top, num(0)), num(1), num(0))), a)
    if to in _FLOATS:
        return a
    if to not in _INTEGERS:
        raise AtRunTime
    return _each(lambda x: x if x.by == 1 else _quotient(facts, x.top, num(x.by)), a)


def _sign(facts: Facts, x: Ratio) -> Ratio:
    negative = facts.choice(at_least(-x.top, num(1)), num(-1), num(0))
    return Ratio(facts.choice(at_least(x.top, num(1)), num(1), negative))


def _clip(facts: Facts, attrs: Any, a: Array, *bounds: Array | None) -> Array:
    for sign, bound in zip((1, -1), bounds, strict=False):
        a = a if bound is None else _each(partial(_larger, facts, sign), a, bound)
    return a


# -- arrangement -------------------------------------------------------------------------------------
def _ints(a: Array | None) -> list[int]:
    assert a is not None
    values = [x.value for x in a.reshape(-1)]
    if any(v is None or v.denominator != 1 for v in values):
        raise AtRunTime
    return [int(v) for v in values if v is not None]


def _axes(attrs: Attrs, given: Array | None) -> tuple[int, ...] | None:
    return tuple(_ints(given)) if given is not None else attrs.get("axes")


def _gather(facts: Facts, attrs: Any, a: Array, places: Array) -> Array:
    index = np.asarray(_ints(places), dtype=np.int64).reshape(places.shape)
    return np.asarray(np.take(a, index, axis=attrs.get("axis", 0)), dtype=object)


def _slice(facts: Facts, attrs: Any, a: Array, *given: Array | None) -> Array:
    rows = [None if g is None else _ints(g) for g in given] + [None] * (4 - len(given))
    if not given:
        rows = [list(attrs["starts"]), list(attrs["ends"]), attrs.get("axes"), None]
    starts, ends, axes, steps = rows
    assert starts is not None
    assert ends is not None
    index: list[slice] = [slice(None)] * a.ndim
    for i, start in enumerate(starts):
        step = 1 if steps is None else steps[i]
        stop = None if step < 0 and ends[i] < -(1 << 31) + 2 else ends[i]
        index[i if axes is None else axes[i]] = slice(start, stop, step)
    return np.asarray(a[tuple(index)], dtype=object)


def _split(facts: Facts, attrs: Any, a: Array, sizes: Array | None = None) -> list[Array]:
    given = _ints(sizes) if sizes is not None else attrs.get("split")
    if given is None:
        raise AtRunTime
    return list(np.split(a, np.cumsum(given)[:-1], axis=attrs.get("axis", 0)))


def _reshape(facts: Facts, attrs: Any, a: Array, shape: Array) -> Array:
    asked = _ints(shape)
    if not attrs.get("allowzero", 0):
        asked = [a.shape[i] if n == 0 else n for i, n in enumerate(asked)]
    return a.reshape(asked)


def _reduced_by(step: Callable[[Ratio, Ratio], Ratio]) -> Callable[..., Array]:
    def rule(facts: Facts, attrs: Any, a: Array, axes: Array | None = None) -> Array:
        chosen = _axes(attrs, axes)
        if chosen not in (None, (0,), (-1,)) or a.ndim > 1 or not a.size:
            raise AtRunTime
        total = reduce(step, a.reshape(-1))
        return np.full((1,) * a.ndim if attrs.get("keepdims", 1) else (), total, dtype=object)

    return rule


def _map(function: Callable[..., Ratio]) -> Callable[..., Array]:
    return lambda facts, attrs, *a: _each(function, *a)


def _known(function: Callable[..., Ratio], *more: Any) -> Callable[..., Array]:
    """Return the rule of a function of one element, or of a pair, that needs the facts."""
    return lambda facts, attrs, a, *b: _each(partial(function, facts, *more), a, *b)


def _with(make: Callable[[Facts], Callable[..., Ratio]]) -> Callable[..., Array]:
    return lambda facts, attrs, *a: reduce(lambda x, y: _each(make(facts), x, y), a)


_RULES: Final[Mapping[str, Callable[..., Any]]] = {
    "Add": _map(_sum),
    "Sub": _map(lambda a, b: _sum(a, _minus(b))),
    "Mul": _map(_times),
    "Neg": _map(_minus),
    "Div": lambda facts, attrs, a, b: _each(partial(_over, facts, bool(attrs.get("floats"))), a, b),
    "Mod": _with(lambda facts: partial(_modulo, facts)),
    "Max": _with(lambda facts: partial(_larger, facts, 1)),
    "Min": _with(lambda facts: partial(_larger, facts, -1)),
    "Abs": _known(lambda facts, x: _larger(facts, 1, x, _minus(x))),
    "Floor": _map(lambda a: Ratio(div(a.top, num(a.by)))),
    "Ceil": _map(lambda a: Ratio(-div(-a.top, num(a.by)))),
    "Sign": _known(_sign),
    "Clip": _clip,
    "Equal": _comparison(equal),
    "GreaterOrEqual": _comparison(at_least),
    "LessOrEqual": _comparison(lambda x, y: at_least(y, x)),
    "Greater": _comparison(lambda x, y: at_least(x, y + 1)),
    "Less": _comparison(lambda x, y: at_least(y, x + 1)),
    "Not": _connective(negated),
    "And": _connective(both),
    "Or": _connective(either),
    "Where": _known(lambda facts, t, x, y: Ratio(facts.choice(_of_truth(t), x.whole(), y.whole()))),
    "Cast": _cast,
    "Identity": lambda facts, attrs, a: a,
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "Concat": lambda facts, attrs, *a: np.concatenate(a, axis=attrs["axis"]),
    "Unsqueeze": lambda facts, attrs, a, axes=None: np.expand_dims(a, _axes(attrs, axes) or ()),
    "Squeeze": lambda facts, attrs, a, axes=None: np.squeeze(a, _axes(attrs, axes)),
    "Reshape": _reshape,
    "Flatten": lambda facts, attrs, a: a.reshape(1, -1) if a.ndim == 1 else a,
    "Transpose": lambda facts, attrs, a: np.transpose(a, attrs.get("perm")),
    "Expand": lambda facts, attrs, a, s: np.array(
        np.broadcast_to(a, np.broadcast_shapes(a.shape, tuple(_ints(s)))), dtype=object
    ),
    "Tile": lambda facts, attrs, a, s: np.tile(a, _ints(s)),
    "ReduceProd": _reduced_by(_times),
    "ReduceSum": _reduced_by(_sum),
    "ReduceMax": lambda facts, attrs, *a: _reduced_by(partial(_larger, facts, 1))(facts, attrs, *a),
    "ReduceMin": lambda facts, attrs, *a: _reduced_by(partial(_larger, facts, -1))(facts, attrs, *a),
}
