"""Definitions of operators: the element of an operator's result at an index, as a comprehension over its operands.

A definition reads operands at integer expressions of the index, and no more: sums, largest elements, guards for
borders and pointwise functions make the rest. Types come from the operators' own type rules.
``tests/laws/theorems/test_definitions.py`` compares every definition with the operator's reference semantics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

from workbench.laws.theorems.axes import REST, Key, NotCovered, Perm, among, key_text, shown
from workbench.laws.theorems.symbolic_typing import Kind, Reading, key_of, signature, whole
from workbench.laws.theorems.terms import (
    Value,
    apply,
    factor,
    guarded,
    indices,
    integer,
    negative,
    note_risk,
    number,
    one,
    over,
    plus,
    summed,
    times,
    top,
    total,
    within,
)
from workbench.ops.activations import operator_of
from workbench.symbolic.integers import Cond, Int, broadcast, call, div, equal, mod, mul, num, single, sub
from workbench.symbolic.integers import add as plus_int

Index = Callable[[Key], Int]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a proof: its type, and its element at an index."""

    kind: Kind
    at: Callable[[Index], Value]

    def dim(self, key: Key) -> Int:
        """Return an extent."""
        return self.kind.dim(key)

    def spread(self, i: Index, whole_kind: Kind) -> Value:
        """Return the element that broadcasting to a type puts at an index."""
        return self.at(lambda key: placed(self.kind.dim(key), i(key), whole_kind.dim(key)))


@dataclass(frozen=True, slots=True)
class Call:
    """An application of an operator: its operands, its attributes, the type of its result and the reading."""

    xs: Sequence[Tensor]
    attrs: Mapping[str, Any]
    kind: Kind
    types: Reading

    def numbers(self, name: str) -> list[Int]:
        """Return an attribute of several integers."""
        return [whole(v) for v in self.attrs[name]]

    def int(self, name: str) -> Int:
        """Return an attribute of one integer."""
        return whole(self.attrs[name])

    def real(self, name: str) -> Value:
        """Return an attribute that is a real number."""
        return real(self.attrs[name])


def placed(extent: Int, place: Int, whole_extent: Int) -> Int:
    """Return the place that an index of a result reads along an axis, its own if the extents agree."""
    return place if extent == whole_extent else broadcast(extent, place)


Definition = Callable[[Call, Index], Value]
DEFINITIONS: Final[dict[str, Definition]] = {}


def defines(name: str) -> Callable[[Definition], Definition]:
    """Return a decorator that makes a function the definition of an operator."""

    def entered(f: Definition) -> Definition:
        DEFINITIONS[name] = f
        return f

    return entered


def put(i: Index, places: Mapping[Any, Int]) -> Index:
    """Return an index with other places along some axes."""
    return lambda key: among(key, places, i)


def real(value: object) -> Value:
    """Return a real number: one that is written, or one that a rule binds."""
    if isinstance(value, int | float):
        return number(value)
    return one(factor("param", str(value)))


def activated(c: Call, value: Value, i: Index) -> Value:
    """Return a value after a call's activation: an operator, or a function of which nothing is known."""
    act = c.attrs["act"]
    if act == "none":
        return value
    if act[0] == "?":
        return apply(act, value)
    spec, attrs = operator_of(act)
    return DEFINITIONS[spec.name](Call([Tensor(c.kind, lambda _: value)], attrs, c.kind, c.types), i)


def largest(*values: Value) -> Value:
    """Return the largest of values."""
    return apply("max", *values)


def inverse(value: Value) -> Value:
    """Return one divided by a value."""
    return apply("reciprocal", value)


def bordered(guards: Sequence[Cond], value: Value) -> Value:
    """Return a value if all guards hold, and 0 otherwise."""
    return total((), guards, value)


def _inside(x: Tensor, places: Mapping[Key, Int]) -> list[Cond]:
    """Return the conditions that places lie inside axes of a tensor."""
    return [g for key, place in places.items() for g in within(place, x.dim(key))]


def _padded(x: Tensor, i: Index, places: Mapping[Key, Int]) -> Value:
    """Return the element of a tensor with other places along some axes, and 0 outside of them."""
    return bordered(_inside(x, places), x.at(put(i, places)))


#: The beginning of the name of a function of integers: the element of a tensor whose name follows.
ELEMENT: Final = "element of "
#: The ratio of a circle's circumference to its diameter; no number that a rule binds has a space in its name.
PI: Final = one(factor("param", "the number pi"))


# -- elementwise ---------------------------------------------------------------------------------------
def _pointwise(f: Callable[..., Value]) -> Definition:
    """Return the definition of an operator whose elements are a function of its operands', after broadcasting."""
    return lambda c, i: f(*(x.spread(i, c.kind) for x in c.xs))


@defines("clip")
def _clip(c: Call, i: Index) -> Value:
    x = c.xs[0].at(i)
    for name, f in (("low", "max"), ("high", "min")):
        bound = c.attrs[name]
        if not (isinstance(bound, float) and math.isinf(bound)):
            x = apply(f, x, c.real(name))
        elif (bound > 0) == (name == "low"):
            raise NotCovered("a bound of the wrong infinity")
    return x


@defines("gelu")
def _gelu(c: Call, i: Index) -> Value:
    x = c.xs[0].at(i)
    if not isinstance(c.attrs["tanh"], int):
        return apply(f"gelu {whole(c.attrs['tanh'])}", x)
    if c.attrs["tanh"]:
        cubic = times(number(0.044715), times(x, times(x, x)))
        bent = apply("tanh", times(plus(x, cubic), apply("sqrt", times(number(2), inverse(PI)))))
    else:
        bent = apply("erf", times(x, inverse(apply("sqrt", number(2)))))
    return times(times(x, plus(bent, number(1))), number(0.5))


def _hardswish(x: Value) -> Value:
    inner = apply("min", largest(plus(x, number(3)), number(0)), number(6))
    return times(times(x, inner), inverse(number(6)))


for _name in (
    "min", "pow", "select", "sigmoid", "tanh", "erf", "exp", "log", "cos", "sin", "sqrt", "abs", "is_nan"
):  # fmt: skip
    DEFINITIONS[_name] = _pointwise(partial(apply, _name))
DEFINITIONS.update(
    {
        "add": _pointwise(plus),
        "sub": _pointwise(lambda x, y: plus(x, negative(y))),
        "mul": _pointwise(times),
        "div": _pointwise(lambda x, y: times(x, inverse(y))),
        "max": _pointwise(largest),
        "relu": _pointwise(lambda x: largest(x, number(0))),
        "neg": _pointwise(negative),
        "identity": _pointwise(lambda x: x),
        "expand": _pointwise(lambda x: x),
        "reciprocal": _pointwise(inverse),
        "hardswish": _pointwise(_hardswish),
        "dequantize": _pointwise(lambda q, s, z: times(plus(q, negative(z)), s)),
        "leakyrelu": lambda c, i: apply("leakyrelu", c.xs[0].at(i), c.real("alpha")),
        "swish": lambda c, i: times(x := c.xs[0].at(i), apply("sigmoid", times(x, c.real("alpha")))),
    }
)


@defines("cast")
def _cast(c: Call, i: Index) -> Value:
    source, to = c.types.dtype(c.xs[0].kind.dtype), c.types.dtype(c.attrs["to"])
    x = c.xs[0].at(i)
    # A number that the other type has too is kept as it is.
    return x if c.types.contains(to, source) else apply(f"cast {source} to {to}", x)


@defines("quantize")
def _quantize(c: Call, i: Index) -> Value:
    x, s, z = (t.spread(i, c.kind) for t in c.xs)
    return apply(f"quantize to {c.types.dtype(c.attrs['to'])}", times(x, inverse(s)), z)


# -- layout --------------------------------------------------------------------------------------------
@defines("concat")
def _concat(c: Call, i: Index) -> Value:
    key = key_of(c.attrs["axis"])
    start, parts = num(0), []
    for x in c.xs:
        place = sub(i(key), start)
        parts.append(_padded(x, i, {key: place}))
        start = plus_int(start, x.dim(key))
    return plus(*parts)


@defines("rotary")
def _rotary(c: Call, i: Index) -> Value:
    heads, cosines, sines = c.xs
    half, here = cosines.dim(-1), i(-1)

    def turned(place: Int, partner: Int, row: Int) -> tuple[Value, Value]:
        table = put(i, {-1: row, -3: num(0), -4: num(0)})
        return (
            times(heads.at(put(i, {-1: place})), cosines.at(table)),
            times(heads.at(put(i, {-1: partner})), sines.at(table)),
        )

    back = sub(here, half)
    (x, y), (z, w) = turned(here, plus_int(here, half), here), turned(here, back, back)
    first, second = plus(x, negative(y)), plus(z, w)
    return plus(bordered(within(here, half), first), bordered(within(back, half), second))


@defines("slice")
def _slice(c: Call, i: Index) -> Value:
    key = key_of(c.attrs["axis"])
    return c.xs[0].at(put(i, {key: plus_int(c.int("start"), mul(i(key), c.int("step")))}))


@defines("transpose")
def _transpose(c: Call, i: Index) -> Value:
    perm = c.attrs["perm"]
    if isinstance(perm, Perm):
        return c.xs[0].at(lambda key: i(perm.back(key)))
    return c.xs[0].at(put(i, {shown(perm, k): i(k) for k in range(-len(perm), 0)}))


@defines("gather")
def _gather(c: Call, i: Index) -> Value:
    # Row n of a matrix, where n is an element of the places at the other indices of the result. All axes
    # without a number share one index, which stands for theirs. Nothing is known of n, not even that a shorter
    # matrix has such a row, or that a negative number counts from the same end.
    def moved(key: Any) -> Int:
        return i(key - 1 if isinstance(key, int) and -key < c.types.literal else REST)

    matrix, places = c.xs
    read = places.at(moved)
    if len(read) != 1 or [f.head for f in read[0].factors] != ["read"] or read != one(*read[0].factors):
        raise NotCovered("places that are computed")
    name, *indices = read[0].factors[0].args
    row = call(ELEMENT + name, *indices, matrix.dim(-2))
    note_risk(row.text)
    return matrix.at(put(i, {-2: row}))


@defines("repeat")
def _repeat(c: Call, i: Index) -> Value:
    key = key_of(c.attrs["axis"])
    return c.xs[0].at(put(i, {key: div(i(key), c.int("times"))}))


def _behind_pads(c: Call, i: Index) -> dict[Key, Int]:
    """Return the places of the operand of a call with pads, which may lie in the pads."""
    above, left, _, _ = c.numbers("pads")
    return {-2: sub(i(-2), above), -1: sub(i(-1), left)}


@defines("pad")
def _pad(c: Call, i: Index) -> Value:
    x, places, value = c.xs[0], _behind_pads(c, i), c.real("value")
    outside = plus(value, negative(bordered(_inside(x, places), value)))
    return plus(_padded(x, i, places), outside)


@defines("reshape")
def _reshape(c: Call, i: Index) -> Value:
    (x,) = c.xs
    if signature(c.types, x.kind) == signature(c.types, c.kind):
        return x.at(i)
    numbered, there = range(-1, -c.types.literal - 1, -1), _leading(c, x.kind)
    row, inner = _row(c, i), num(1)
    for k in numbered:
        row = plus_int(row, mul(inner, i(k)))
        inner = mul(inner, c.kind.dim(k))
    places: dict[Any, Int] = {}
    inner = num(1)
    for k in numbered:
        extent = x.dim(k)
        outermost = there is None and all(x.dim(o) == num(1) for o in numbered if o < k)
        place = num(0) if extent == num(1) else div(row, inner)
        places[k] = place if outermost or extent == num(1) else mod(place, extent)
        inner = mul(inner, extent)
    if there is None:
        return x.at(put(lambda _: num(0), places))
    lead = div(row, inner)
    return x.at(put(lambda key: call(f"place {key_text(key)} {there}", lead), places))


def _leading(c: Call, kind: Kind) -> str | None:
    """Return the extents of the axes without a number, as text, or None if they are all 1."""
    others = [k for k in c.types.keys if isinstance(k, str)]
    if all(kind.dim(k) == num(1) for k in others):
        return None
    return "|".join(kind.dim(k).text for k in others)


def _row(c: Call, i: Index) -> Int:
    """Return the number of elements before the index, in the shape without its numbered axes, times theirs.

    The place of an index in the row of all elements is a function of index and shape; that of an index which
    was made from such a place is the place itself.
    """
    here = _leading(c, c.kind)
    if here is None:
        return num(0)
    others = [k for k in c.types.keys if isinstance(k, str)]
    indices = [i(k) for k in others]
    sources = set()
    for k, x in zip(others, indices, strict=True):
        atom = single(x)
        sources.add(atom.args[0] if atom is not None and atom.head == f"place {k} {here}" else None)
    (first, *more) = sources
    found = first if first is not None and not more else call(f"row {here}", *indices)
    for n in range(-1, -c.types.literal - 1, -1):
        found = mul(found, c.kind.dim(n))
    return found


# -- products ------------------------------------------------------------------------------------------
@defines("matmul")
def _matmul(c: Call, i: Index) -> Value:
    x, y = c.xs

    def product(k: list[Int]) -> Value:
        left, right = put(i, {-1: k[0]}), put(i, {-2: k[0]})
        return times(*(t.at(batched(t, at)) for t, at in ((x, left), (y, right))))

    def batched(t: Tensor, at: Index) -> Index:
        table = {k: at(k) for k in (-1, -2)}
        return lambda key: among(key, table, lambda k: placed(t.dim(k), at(k), c.kind.dim(k)))

    return activated(c, summed([x.dim(-1)], product), i)


def group_of(o: Int, channels: Int, groups: Int) -> Int:
    """Return the group of an output channel."""
    return num(0) if groups == num(1) else div(o, div(channels, groups))


def _biased(c: Call, i: Index, value: Value) -> Value:
    return plus(value, c.xs[2].spread(i, c.kind)) if len(c.xs) == 3 else value


def _window(c: Call, i: Index, at: Sequence[Int]) -> dict[Key, Int]:
    """Return the places of the operand that an element of a window reads, which may lie in the pads."""
    pads, strides = c.numbers("pads"), c.numbers("strides")
    dilations = c.numbers("dilations") if "dilations" in c.attrs else [num(1), num(1)]
    return {
        key: sub(plus_int(mul(strides[n], i(key)), mul(dilations[n], at[n])), pads[n])
        for n, key in enumerate((-2, -1))
    }


@defines("conv2d")
def _conv(c: Call, i: Index) -> Value:
    x, w = c.xs[:2]
    first = mul(group_of(i(-3), w.dim(-4), c.int("groups")), w.dim(-3))

    def product(at: list[Int]) -> Value:
        j, *window = at
        places = _window(c, i, window)
        weight = w.at(put(i, {-4: i(-3), -3: j, -2: window[0], -1: window[1]}))
        place = x.at(put(i, {-3: plus_int(first, j), **places}))
        return bordered(_inside(x, places), times(weight, place))

    value = summed([w.dim(-3), w.dim(-2), w.dim(-1)], product)
    return activated(c, _biased(c, i, value), i)


@defines("conv_transpose")
def _conv_transpose(c: Call, i: Index) -> Value:
    x, w = c.xs[:2]
    strides, dilations, pads = map(c.numbers, ("strides", "dilations", "pads"))
    groups = c.int("groups")
    per_in = div(x.dim(-3), groups)
    group, own = (num(0), i(-3)) if groups == num(1) else (div(i(-3), w.dim(-3)), mod(i(-3), w.dim(-3)))

    def product(at: list[Int]) -> Value:
        j, h, v, a, b = at
        met = [
            equal(plus_int(i(-2), pads[0]), plus_int(mul(strides[0], h), mul(dilations[0], a))),
            equal(plus_int(i(-1), pads[1]), plus_int(mul(strides[1], v), mul(dilations[1], b))),
        ]
        channel = plus_int(mul(group, per_in), j)
        taken = times(
            x.at(put(i, {-3: channel, -2: h, -1: v})), w.at(put(i, {-4: channel, -3: own, -2: a, -1: b}))
        )
        return bordered(met, taken)

    value = summed([per_in, x.dim(-2), x.dim(-1), w.dim(-2), w.dim(-1)], product)
    return _biased(c, i, value)


@defines("merge_gconv")
def _merge(c: Call, i: Index) -> Value:
    (w,), count, groups = c.xs, c.int("count"), c.int("groups")
    own = mod(group_of(i(-4), w.dim(-4), groups), count)
    return _padded(w, i, {-3: sub(i(-3), mul(own, w.dim(-3)))})


# -- windows and reductions ----------------------------------------------------------------------------
DEFINITIONS["enlarge"] = lambda c, i: _padded(c.xs[0], i, _behind_pads(c, i))


@defines("maxpool")
def _maxpool(c: Call, i: Index) -> Value:
    names, at, guards = indices(c.numbers("kernel"))
    places = _window(c, i, at)
    return top(names, [*_inside(c.xs[0], places), *guards], c.xs[0].at(put(i, places)))


@defines("avgpool")
def _avgpool(c: Call, i: Index) -> Value:
    (x,), kernel, weight = c.xs, c.numbers("kernel"), c.attrs["include_pad"]
    is_padded = any(p != num(0) for p in c.numbers("pads"))

    def elements() -> Value:
        return summed(kernel, lambda at: _padded(x, i, _window(c, i, at)))

    def inner() -> Value:
        return summed(kernel, lambda at: bordered(_inside(x, _window(c, i, at)), number(1)))

    if is_padded and not isinstance(weight, int):
        flag = integer(whole(weight))
        every = times(flag, times(*map(integer, kernel)))
        count = plus(every, times(plus(number(1), negative(flag)), inner()))
        return times(elements(), inverse(count))
    if not is_padded or weight:
        return times(elements(), times(*map(over, kernel)))
    return times(elements(), inverse(inner()))


def reduced(x: Tensor, i: Index, keys: Sequence[Key]) -> Value:
    """Return the sum over axes."""
    return summed([x.dim(k) for k in keys], lambda at: x.at(put(i, dict(zip(keys, at, strict=True)))))


def mean(x: Tensor, i: Index, keys: Sequence[Key]) -> Value:
    """Return the mean over axes."""
    return reduce(times, (over(x.dim(k)) for k in keys), reduced(x, i, keys))


def _reduction(c: Call, i: Index) -> tuple[Tensor, Index, list[Key]]:
    """Return the operand of a reduction, the index of it that is kept, and the axes that are reduced."""
    (x,), keys = c.xs, [key_of(a) for a in c.attrs["axes"]]
    if c.attrs["keepdims"]:
        return x, i, keys
    rank = x.kind.rank.value or 0
    kept = [k for k in range(-rank, 0) if k not in keys]
    return x, put(lambda _: num(0), {k: i(n) for n, k in enumerate(kept, -len(kept))}), keys


DEFINITIONS["reduce_sum"] = lambda c, i: reduced(*_reduction(c, i))
DEFINITIONS["reduce_mean"] = lambda c, i: mean(*_reduction(c, i))


@defines("reduce_max")
def _reduce_max(c: Call, i: Index) -> Value:
    x, i, keys = _reduction(c, i)
    names, at, guards = indices([x.dim(k) for k in keys])
    return top(names, guards, x.at(put(i, dict(zip(keys, at, strict=True)))))


# -- normalisation -------------------------------------------------------------------------------------
def _deviation(c: Call, variance: Value) -> Value:
    return inverse(apply("sqrt", plus(variance, c.real("eps"))))


def _channels(c: Call, i: Index, first: int = 0) -> list[Value]:
    """Return the elements for a channel of a call's operands from the first on that has one for each."""
    return [x.at(put(lambda _: num(0), {-1: i(-3)})) for x in c.xs[first:]]


@defines("batchnorm")
def _batchnorm(c: Call, i: Index) -> Value:
    s, b, m, v = _channels(c, i, 1)
    a = times(s, _deviation(c, v))
    return plus(times(c.xs[0].at(i), a), b, negative(times(a, m)))


@defines("bn_scale")
def _bn_scale(c: Call, i: Index) -> Value:
    s, v = _channels(c, i)
    return times(s, _deviation(c, v))


@defines("bn_shift")
def _bn_shift(c: Call, i: Index) -> Value:
    s, b, m, v = _channels(c, i)
    return plus(b, negative(times(times(s, _deviation(c, v)), m)))


def _trailing(c: Call) -> list[Key]:
    axis = key_of(c.attrs["axis"])
    if not isinstance(axis, int):
        raise NotCovered("a normalisation over axes whose number is a variable")
    return list(range(axis, 0))


def _of_mean_square(c: Call, x: Tensor, i: Index) -> Value:
    """Return the element of a tensor divided by the root of the mean of its squares."""
    squares = Tensor(x.kind, lambda j: times(x.at(j), x.at(j)))
    return times(x.at(i), _deviation(c, mean(squares, i, _trailing(c))))


@defines("layernorm")
def _layernorm(c: Call, i: Index) -> Value:
    x, keys = c.xs[0], _trailing(c)
    value = _of_mean_square(c, Tensor(x.kind, lambda j: plus(x.at(j), negative(mean(x, j, keys)))), i)
    if len(c.xs) > 1:
        value = times(value, c.xs[1].spread(i, c.kind))
    return _biased(c, i, value)


@defines("rmsnorm")
def _rmsnorm(c: Call, i: Index) -> Value:
    x, s = c.xs
    return times(_of_mean_square(c, x, i), s.spread(i, c.kind))


@defines("softmax")
def _softmax(c: Call, i: Index) -> Value:
    (x,), key = c.xs, key_of(c.attrs["axis"])
    powers = Tensor(x.kind, lambda j: apply("exp", x.at(j)))
    return times(powers.at(i), inverse(reduced(powers, i, [key])))


@defines("attention")
def _attention(c: Call, i: Index) -> Value:
    q, k, v = c.xs
    heads = c.int("heads")
    first = mul(div(i(-1), div(v.dim(-1), heads)), size := div(q.dim(-1), heads))

    def power(row: Int) -> Value:
        def product(at: list[Int]) -> Value:
            place = plus_int(first, at[0])
            return times(q.at(put(i, {-1: place})), k.at(put(i, {-2: row, -1: place})))

        return apply("exp", times(c.real("scale"), summed([size], product)))

    total = inverse(summed([k.dim(-2)], lambda at: power(at[0])))
    return summed([k.dim(-2)], lambda at: times(times(power(at[0]), total), v.at(put(i, {-2: at[0]}))))


# -- resampling ----------------------------------------------------------------------------------------
@defines("resize")
def _resize(c: Call, i: Index) -> Value:
    """Define resizing by weights that sum to 1: the first place, and weighted differences from it."""
    (x,), size = c.xs, c.numbers("size")
    if c.attrs["mode"] == "nearest":
        return x.at(put(i, {k: _nearest(c, i(k), x.dim(k), s) for k, s in zip((-2, -1), size, strict=True)}))

    def resized(key: Key, size: Int, value: Callable[[Index], Value], j: Index) -> Value:
        extent = x.dim(key)
        if extent == size:
            return value(j)
        first = value(put(j, {key: num(0)}))

        def difference(at: list[Int]) -> Value:
            share = _share(c, j(key), at[0], extent, size)
            return times(share, plus(value(put(j, {key: at[0]})), negative(first)))

        return plus(first, summed([extent], difference))

    return resized(-2, size[0], lambda j: resized(-1, size[1], x.at, j), i)


def _share(c: Call, *places: Int) -> Value:
    how = " ".join(str(c.attrs[n]) for n in ("mode", "coords", "cubic"))
    return one(factor("read", f"share {how}", *places))


@defines("interpolation")
def _interpolation(c: Call, i: Index) -> Value:
    extent, size = c.int("extent"), c.int("size")
    if extent == size:
        return guarded(equal(i(-2), i(-1)), number(1))
    others = summed([extent], lambda at: _share(c, i(-2), at[0], extent, size))
    own = _share(c, i(-2), i(-1), extent, size)
    return plus(own, guarded(equal(i(-1), num(0)), plus(number(1), negative(others))))


def _nearest(c: Call, i: Int, extent: Int, size: Int) -> Int:
    if extent == size:
        return i
    if c.attrs["coords"] == "asymmetric" and c.attrs["rounding"] == "floor":
        return div(mul(i, extent), size)
    return call(f"nearest {c.attrs['coords']} {c.attrs['rounding']}", i, extent, size)


@defines("depth_to_space")
def _to_space(c: Call, i: Index) -> Value:
    (x,), block = c.xs, c.int("block")
    row, column = mod(i(-2), block), mod(i(-1), block)
    depth = div(x.dim(-3), mul(block, block))
    if c.attrs["order"] == "DCR":
        channel = plus_int(mul(plus_int(mul(row, block), column), depth), i(-3))
    elif c.attrs["order"] == "CRD":
        channel = plus_int(mul(plus_int(mul(i(-3), block), row), block), column)
    else:
        raise NotCovered("an order of channels that is a variable")
    return x.at(put(i, {-3: channel, -2: div(i(-2), block), -1: div(i(-1), block)}))


# -- constants -----------------------------------------------------------------------------------------
DEFINITIONS.update(
    {
        "ones": lambda c, i: number(1),
        "eye": lambda c, i: guarded(equal(i(-2), i(-1)), number(1)),
        "scalar": lambda c, i: c.real("value"),
        "pi": lambda c, i: PI,
        "mean_kernel": lambda c, i: times(*map(over, c.numbers("kernel"))),
    }
)


@defines("identity_kernel")
def _identity_kernel(c: Call, i: Index) -> Value:
    height, width = c.numbers("kernel")
    met = [
        equal(i(-3), num(0) if c.kind.dim(-3) == num(1) else mod(i(-4), c.kind.dim(-3))),
        equal(i(-2), div(height, num(2))),
        equal(i(-1), div(width, num(2))),
    ]
    return bordered(met, number(1))
