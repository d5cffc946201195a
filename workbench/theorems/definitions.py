"""What every operator is: the element of its result at an index, as a comprehension over its operands.

A definition reads operands at integer expressions of the index, and no more: sums, largest elements, guards
for borders and pointwise functions make the rest. Types come from the operators' own type rules.
``tests/theorems/test_definitions.py`` compares every definition with the operator's reference semantics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workbench.theorems.integers import Int, broadcast, call, div, equal, mod, mul, num, single, sub, sym
from workbench.theorems.integers import add as plus_int
from workbench.theorems.reading import Key, Kind, NotCovered, Perm, Reading, key_of, shown, signature, whole
from workbench.theorems.terms import (
    Value,
    apply,
    factor,
    guarded,
    integer,
    negative,
    number,
    one,
    over,
    plus,
    summed,
    times,
    top,
    variable,
    within,
)

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
    """Return the place that an index of a result reads along an axis, which is its own if the extents agree."""
    return place if extent == whole_extent else broadcast(extent, place)


Definition = Callable[[Call, Index], Value]
DEFINITIONS: Final[dict[str, Definition]] = {}


def defines(*names: str) -> Callable[[Definition], Definition]:
    """Return a decorator that makes a function the definition of operators."""

    def entered(f: Definition) -> Definition:
        for name in names:
            DEFINITIONS[name] = f
        return f

    return entered


def put(i: Index, places: Mapping[Any, Int]) -> Index:
    """Return an index with other places along some axes."""
    return lambda key: places[key] if key in places else i(key)


def real(value: Any) -> Value:
    """Return a real number: one that is written, or one that a rule binds."""
    if isinstance(value, int | float):
        return number(value)
    return one(factor("param", str(value)))


def activated(act: str, value: Value) -> Value:
    """Return a value after an activation; one that a rule binds is a function of which nothing is known."""
    if act == "none":
        return value
    return largest(value, number(0)) if act == "relu" else apply(act, value)


def largest(*values: Value) -> Value:
    """Return the largest of values."""
    return apply("max", *values)


def inverse(value: Value) -> Value:
    """Return one divided by a value."""
    return apply("reciprocal", value)


# -- elementwise ---------------------------------------------------------------------------------------
def _binary(f: Callable[[Value, Value], Value]) -> Definition:
    return lambda c, i: f(c.xs[0].spread(i, c.kind), c.xs[1].spread(i, c.kind))


def _unary(f: Callable[[Value, Call], Value]) -> Definition:
    return lambda c, i: f(c.xs[0].at(i), c)


def _named(name: str) -> Definition:
    return _unary(lambda x, c: apply(name, x))


def _clip(x: Value, c: Call) -> Value:
    for name, f in (("low", "max"), ("high", "min")):
        bound = c.attrs[name]
        if not (isinstance(bound, float) and math.isinf(bound)):
            x = apply(f, x, c.real(name))
        elif (bound > 0) == (name == "low"):
            raise NotCovered("a bound of the wrong infinity")
    return x


def _gelu(x: Value, c: Call) -> Value:
    if not isinstance(c.attrs["tanh"], int):
        return apply(f"gelu {whole(c.attrs['tanh'])}", x)
    if c.attrs["tanh"]:
        cubic = times(number(0.044715), times(x, times(x, x)))
        bent = apply("tanh", times(plus(x, cubic), apply("sqrt", times(number(2), inverse(_PI)))))
    else:
        bent = apply("erf", times(x, inverse(apply("sqrt", number(2)))))
    return times(times(x, plus(bent, number(1))), number(0.5))


def _hardswish(x: Value, c: Call) -> Value:
    inner = apply("min", largest(plus(x, number(3)), number(0)), number(6))
    return times(times(x, inner), inverse(number(6)))


def _leaky(x: Value, c: Call) -> Value:
    return apply("leakyrelu", x, c.real("alpha"))


_PI: Final = one(factor("param", "pi"))
DEFINITIONS.update(
    {
        "add": _binary(plus),
        "sub": _binary(lambda x, y: plus(x, negative(y))),
        "mul": _binary(times),
        "div": _binary(lambda x, y: times(x, inverse(y))),
        "max": _binary(largest),
        "min": _binary(lambda x, y: apply("min", x, y)),
        "pow": _binary(lambda x, y: apply("pow", x, y)),
        "relu": _unary(lambda x, c: largest(x, number(0))),
        "neg": _unary(lambda x, c: negative(x)),
        "identity": _unary(lambda x, c: x),
        "reciprocal": _unary(lambda x, c: inverse(x)),
        "clip": _unary(_clip),
        "leakyrelu": _unary(_leaky),
        "gelu": _unary(_gelu),
        "swish": _unary(lambda x, c: times(x, apply("sigmoid", times(x, c.real("alpha"))))),
        "hardswish": _unary(_hardswish),
        **{name: _named(name) for name in ("sigmoid", "tanh", "erf", "exp", "log", "sqrt", "abs")},
    }
)


@defines("cast")
def _cast(c: Call, i: Index) -> Value:
    source, to = c.types.dtype(c.xs[0].kind.dtype), c.types.dtype(c.attrs["to"])
    x = c.xs[0].at(i)
    return x if source == to else apply(f"cast {source} to {to}", x)


@defines("quantize")
def _quantize(c: Call, i: Index) -> Value:
    x, s, z = (t.spread(i, c.kind) for t in c.xs)
    return apply(f"quantize to {c.types.dtype(c.attrs['to'])}", times(x, inverse(s)), z)


@defines("dequantize")
def _dequantize(c: Call, i: Index) -> Value:
    q, s, z = (t.spread(i, c.kind) for t in c.xs)
    return times(plus(q, negative(z)), s)


# -- layout --------------------------------------------------------------------------------------------
@defines("concat")
def _concat(c: Call, i: Index) -> Value:
    key = key_of(c.attrs["axis"])
    start, parts = num(0), []
    for x in c.xs:
        place = sub(i(key), start)
        inside = within(place, x.dim(key))
        part = x.at(put(i, {key: place}))
        for condition in inside:
            part = guarded(condition, part)
        parts.append(part)
        start = plus_int(start, x.dim(key))
    return plus(*parts)


@defines("slice")
def _slice(c: Call, i: Index) -> Value:
    key = key_of(c.attrs["axis"])
    return c.xs[0].at(put(i, {key: plus_int(c.int("start"), mul(i(key), c.int("step")))}))


@defines("transpose")
def _transpose(c: Call, i: Index) -> Value:
    perm = c.attrs["perm"]
    if isinstance(perm, Perm):
        return c.xs[0].at(lambda key: i(perm.back(key)))
    n = len(perm)
    back = {shown(perm, k): k for k in range(-n, 0)}
    return c.xs[0].at(lambda key: i(back.get(key, key)))


@defines("expand")
def _expand(c: Call, i: Index) -> Value:
    return c.xs[0].spread(i, c.kind)


@defines("repeat")
def _repeat(c: Call, i: Index) -> Value:
    key = key_of(c.attrs["axis"])
    return c.xs[0].at(put(i, {key: div(i(key), c.int("times"))}))


@defines("pad")
def _pad(c: Call, i: Index) -> Value:
    (x,), (t, left, _, _) = c.xs, c.numbers("pads")
    places = {-2: sub(i(-2), t), -1: sub(i(-1), left)}
    inside = [g for key, p in places.items() for g in within(p, x.dim(key))]
    outside = plus(c.real("value"), negative(_if(inside, c.real("value"))))
    return plus(_if(inside, x.at(put(i, places))), outside)


def _if(guards: Sequence[Any], value: Value) -> Value:
    for g in guards:
        value = guarded(g, value)
    return value


@defines("reshape")
def _reshape(c: Call, i: Index) -> Value:
    (x,) = c.xs
    if signature(c.types, x.kind) == signature(c.types, c.kind):
        return x.at(i)
    numbered = range(-1, -c.types.literal - 1, -1)
    row = _row(c, i)
    inner = num(1)
    for k in numbered:
        row = plus_int(row, mul(inner, i(k)))
        inner = mul(inner, c.kind.dim(k))
    places: dict[Any, Int] = {}
    inner = num(1)
    for k in numbered:
        extent = x.dim(k)
        outer = _leading(c, x.kind) is None and all(x.dim(o) == num(1) for o in numbered if o < k)
        place = num(0) if extent == num(1) else div(row, inner)
        places[k] = place if outer or extent == num(1) else mod(place, extent)
        inner = mul(inner, extent)
    there = _leading(c, x.kind)
    if there is None:
        return x.at(lambda key: places.get(key, num(0)))
    lead = div(row, inner)
    return x.at(lambda key: places[key] if key in places else call(f"place {key} {there}", lead))


def _leading(c: Call, kind: Kind) -> str | None:
    """Return the extents of the axes without a number, as text, or None if they are all 1."""
    others = [k for k in c.types.keys if not isinstance(k, int)]
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
    others = [k for k in c.types.keys if not isinstance(k, int)]
    indices = [i(k) for k in others]
    sources = set()
    for k, x in zip(others, indices, strict=True):
        atom = single(x)
        sources.add(atom.args[0] if atom is not None and atom.head == f"place {k} {here}" else None)
    (first, *more) = sources
    found = first if first is not None and not more else call(f"row {here}", *indices)
    for k in range(-1, -c.types.literal - 1, -1):
        found = mul(found, c.kind.dim(k))
    return found


# -- products ------------------------------------------------------------------------------------------
@defines("matmul")
def _matmul(c: Call, i: Index) -> Value:
    x, y = c.xs

    def product(k: list[Int]) -> Value:
        left, right = put(i, {-1: k[0]}), put(i, {-2: k[0]})
        return times(
            x.at(lambda key: left(key) if key in (-1, -2) else placed(x.dim(key), left(key), c.kind.dim(key))),
            y.at(lambda key: right(key) if key in (-1, -2) else placed(y.dim(key), right(key), c.kind.dim(key))),
        )

    return activated(c.attrs["act"], summed([x.dim(-1)], product))


def group_of(o: Int, channels: Int, groups: Int) -> Int:
    """Return the group of an output channel."""
    return num(0) if groups == num(1) else div(o, div(channels, groups))


@defines("conv2d")
def _conv(c: Call, i: Index) -> Value:
    x, w = c.xs[:2]
    strides, dilations, pads, groups = c.numbers("strides"), c.numbers("dilations"), c.numbers("pads"), c.int("groups")
    first = mul(group_of(i(-3), w.dim(-4), groups), w.dim(-3))

    def product(at: list[Int]) -> Value:
        j, u, v = at
        row = sub(plus_int(mul(strides[0], i(-2)), mul(dilations[0], u)), pads[0])
        column = sub(plus_int(mul(strides[1], i(-1)), mul(dilations[1], v)), pads[1])
        weight = w.at(put(i, {-4: i(-3), -3: j, -2: u, -1: v}))
        place = x.at(put(i, {-3: plus_int(first, j), -2: row, -1: column}))
        return _if([*within(row, x.dim(-2)), *within(column, x.dim(-1))], times(weight, place))

    value = summed([w.dim(-3), w.dim(-2), w.dim(-1)], product)
    if len(c.xs) == 3:
        value = plus(value, c.xs[2].spread(i, c.kind))
    return activated(c.attrs["act"], value)


@defines("conv_transpose")
def _conv_transpose(c: Call, i: Index) -> Value:
    x, w = c.xs[:2]
    strides, dilations, pads, groups = c.numbers("strides"), c.numbers("dilations"), c.numbers("pads"), c.int("groups")
    per_in = div(x.dim(-3), groups)
    group, own = (num(0), i(-3)) if groups == num(1) else (div(i(-3), w.dim(-3)), mod(i(-3), w.dim(-3)))

    def product(at: list[Int]) -> Value:
        j, h, v, a, b = at
        met = [
            equal(plus_int(i(-2), pads[0]), plus_int(mul(strides[0], h), mul(dilations[0], a))),
            equal(plus_int(i(-1), pads[1]), plus_int(mul(strides[1], v), mul(dilations[1], b))),
        ]
        channel = plus_int(mul(group, per_in), j)
        taken = times(x.at(put(i, {-3: channel, -2: h, -1: v})), w.at(put(i, {-4: channel, -3: own, -2: a, -1: b})))
        return _if(met, taken)

    value = summed([per_in, x.dim(-2), x.dim(-1), w.dim(-2), w.dim(-1)], product)
    return plus(value, c.xs[2].spread(i, c.kind)) if len(c.xs) == 3 else value


@defines("enlarge")
def _enlarge(c: Call, i: Index) -> Value:
    (w,), (t, left, _, _) = c.xs, c.numbers("pads")
    places = {-2: sub(i(-2), t), -1: sub(i(-1), left)}
    return _if([g for k, p in places.items() for g in within(p, w.dim(k))], w.at(put(i, places)))


@defines("merge_gconv")
def _merge(c: Call, i: Index) -> Value:
    (w,), count, groups = c.xs, c.int("count"), c.int("groups")
    own = mod(group_of(i(-4), w.dim(-4), groups), count)
    place = sub(i(-3), mul(own, w.dim(-3)))
    return _if(within(place, w.dim(-3)), w.at(put(i, {-3: place})))


# -- windows and reductions ----------------------------------------------------------------------------
def _window(c: Call, i: Index, at: Sequence[Int]) -> tuple[Index, list[Any]]:
    (x,), pads, strides = c.xs, c.numbers("pads"), c.numbers("strides")
    dilations = c.numbers("dilations") if "dilations" in c.attrs else [num(1), num(1)]
    places, guards = {}, []
    for n, key in enumerate((-2, -1)):
        places[key] = sub(plus_int(mul(strides[n], i(key)), mul(dilations[n], at[n])), pads[n])
        guards += within(places[key], x.dim(key))
    return put(i, places), guards


@defines("maxpool")
def _maxpool(c: Call, i: Index) -> Value:
    names = [variable(), variable()]
    at = [sym(n) for n in names]
    place, guards = _window(c, i, at)
    for p, k in zip(at, c.numbers("kernel"), strict=True):
        guards += within(p, k)
    return top(names, guards, c.xs[0].at(place))


@defines("avgpool")
def _avgpool(c: Call, i: Index) -> Value:
    kernel = c.numbers("kernel")

    def over_window(value: Callable[[Index], Value]) -> Value:
        def inside(at: list[Int]) -> Value:
            place, guards = _window(c, i, at)
            return _if(guards, value(place))

        return summed(kernel, inside)

    if not isinstance(c.attrs["include_pad"], int) and not all(p == num(0) for p in c.numbers("pads")):
        flag = real_int(c.attrs["include_pad"])
        count = plus(
            times(flag, times(integer(kernel[0]), integer(kernel[1]))),
            times(plus(number(1), negative(flag)), over_window(lambda _: number(1))),
        )
        return times(over_window(c.xs[0].at), inverse(count))
    if c.attrs["include_pad"] or all(p == num(0) for p in c.numbers("pads")):
        return times(over_window(c.xs[0].at), times(over(kernel[0]), over(kernel[1])))
    return times(over_window(c.xs[0].at), inverse(over_window(lambda _: number(1))))


def real_int(value: Any) -> Value:
    """Return an integer attribute as a number."""
    return integer(whole(value))


def reduced(x: Tensor, i: Index, keys: Sequence[Key]) -> Value:
    """Return the sum over axes."""
    return summed([x.dim(k) for k in keys], lambda at: x.at(put(i, dict(zip(keys, at, strict=True)))))


def mean(x: Tensor, i: Index, keys: Sequence[Key]) -> Value:
    """Return the mean over axes."""
    value = reduced(x, i, keys)
    for k in keys:
        value = times(value, over(x.dim(k)))
    return value


@defines("reduce_sum")
def _reduce_sum(c: Call, i: Index) -> Value:
    return reduced(c.xs[0], i, c.attrs["axes"])


@defines("reduce_mean")
def _reduce_mean(c: Call, i: Index) -> Value:
    return mean(c.xs[0], i, c.attrs["axes"])


@defines("reduce_max")
def _reduce_max(c: Call, i: Index) -> Value:
    (x,), keys = c.xs, c.attrs["axes"]
    names = [variable() for _ in keys]
    guards = [g for n, k in zip(names, keys, strict=True) for g in within(sym(n), x.dim(k))]
    return top(names, guards, x.at(put(i, {k: sym(n) for n, k in zip(names, keys, strict=True)})))


# -- normalisation -------------------------------------------------------------------------------------
def _deviation(variance: Value, eps: Value) -> Value:
    return inverse(apply("sqrt", plus(variance, eps)))


def _channel(x: Tensor, place: Int) -> Value:
    return x.at(lambda key: place if key == -1 else num(0))


@defines("batchnorm")
def _batchnorm(c: Call, i: Index) -> Value:
    s, b, m, v = (_channel(t, i(-3)) for t in c.xs[1:])
    a = times(s, _deviation(v, c.real("eps")))
    return plus(times(c.xs[0].at(i), a), b, negative(times(a, m)))


@defines("bn_scale")
def _bn_scale(c: Call, i: Index) -> Value:
    s, v = (_channel(t, i(-3)) for t in c.xs)
    return times(s, _deviation(v, c.real("eps")))


@defines("bn_shift")
def _bn_shift(c: Call, i: Index) -> Value:
    s, b, m, v = (_channel(t, i(-3)) for t in c.xs)
    return plus(b, negative(times(times(s, _deviation(v, c.real("eps"))), m)))


def _trailing(c: Call) -> list[Key]:
    axis = key_of(c.attrs["axis"])
    if not isinstance(axis, int):
        raise NotCovered("a normalisation over axes whose number is a variable")
    return list(range(axis, 0))


@defines("layernorm")
def _layernorm(c: Call, i: Index) -> Value:
    x, *affine = c.xs
    keys = _trailing(c)
    centred = Tensor(x.kind, lambda j: plus(x.at(j), negative(mean(x, j, keys))))
    squares = Tensor(x.kind, lambda j: times(centred.at(j), centred.at(j)))
    value = times(centred.at(i), _deviation(mean(squares, i, keys), c.real("eps")))
    for t, f in zip(affine, (times, plus), strict=False):
        value = f(value, t.spread(i, c.kind))
    return value


@defines("rmsnorm")
def _rmsnorm(c: Call, i: Index) -> Value:
    x, s = c.xs
    squares = Tensor(x.kind, lambda j: times(x.at(j), x.at(j)))
    value = times(x.at(i), _deviation(mean(squares, i, _trailing(c)), c.real("eps")))
    return times(value, s.spread(i, c.kind))


@defines("softmax")
def _softmax(c: Call, i: Index) -> Value:
    (x,), key = c.xs, key_of(c.attrs["axis"])
    powers = Tensor(x.kind, lambda j: apply("exp", x.at(j)))
    return times(powers.at(i), inverse(reduced(powers, i, [key])))


# -- resampling ----------------------------------------------------------------------------------------
@defines("resize")
def _resize(c: Call, i: Index) -> Value:
    (x,), size = c.xs, c.numbers("size")
    how = " ".join(str(c.attrs[n]) for n in ("mode", "coords", "rounding"))
    if c.attrs["mode"] == "nearest":
        return x.at(put(i, {k: _nearest(c, i(k), x.dim(k), s) for k, s in zip((-2, -1), size, strict=True)}))

    def between(key: Key, size: Int, value: Callable[[Index], Value], j: Index) -> Value:
        extent = x.dim(key)
        if extent == size:
            return value(j)
        near, far = (put(j, {key: call(f"{n} {how}", j(key), extent, size)}) for n in ("first", "second"))
        share = one(factor("read", f"share {how}", j(key), extent, size))
        return plus(times(plus(number(1), negative(share)), value(near)), times(share, value(far)))

    return between(-2, size[0], lambda j: between(-1, size[1], x.at, j), i)


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
@defines("ones")
def _ones(c: Call, i: Index) -> Value:
    return number(1)


@defines("eye")
def _eye(c: Call, i: Index) -> Value:
    return guarded(equal(i(-2), i(-1)), number(1))


@defines("scalar")
def _scalar(c: Call, i: Index) -> Value:
    return c.real("value")


@defines("pi")
def _pi(c: Call, i: Index) -> Value:
    return _PI


@defines("mean_kernel")
def _mean_kernel(c: Call, i: Index) -> Value:
    height, width = c.numbers("kernel")
    return times(over(height), over(width))


@defines("identity_kernel")
def _identity_kernel(c: Call, i: Index) -> Value:
    height, width = c.numbers("kernel")
    met = [
        equal(i(-3), num(0) if c.kind.dim(-3) == num(1) else mod(i(-4), c.kind.dim(-3))),
        equal(i(-2), div(height, num(2))),
        equal(i(-1), div(width, num(2))),
    ]
    return _if(met, number(1))

