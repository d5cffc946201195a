"""Definitions of products, windows, reductions, normalisations, resampling and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.laws.theorems.applications import (
    DEFINITIONS,
    PI,
    Call,
    Index,
    Tensor,
    activated,
    bordered,
    defines,
    inverse,
    placed,
    put,
)
from workbench.laws.theorems.axes import Key, NotCovered, among
from workbench.laws.theorems.symbolic_typing import key_of, whole
from workbench.laws.theorems.terms import (
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
from workbench.symbolic.integers import Cond, Int, call, div, equal, mod, mul, num, sub, sym
from workbench.symbolic.integers import add as plus_int


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


@defines("conv2d")
def _conv(c: Call, i: Index) -> Value:
    x, w = c.xs[:2]
    strides, dilations, pads = map(c.numbers, ("strides", "dilations", "pads"))
    groups = c.int("groups")
    first = mul(group_of(i(-3), w.dim(-4), groups), w.dim(-3))

    def product(at: list[Int]) -> Value:
        j, u, v = at
        row = sub(plus_int(mul(strides[0], i(-2)), mul(dilations[0], u)), pads[0])
        column = sub(plus_int(mul(strides[1], i(-1)), mul(dilations[1], v)), pads[1])
        weight = w.at(put(i, {-4: i(-3), -3: j, -2: u, -1: v}))
        place = x.at(put(i, {-3: plus_int(first, j), -2: row, -1: column}))
        return bordered([*within(row, x.dim(-2)), *within(column, x.dim(-1))], times(weight, place))

    value = summed([w.dim(-3), w.dim(-2), w.dim(-1)], product)
    if len(c.xs) == 3:
        value = plus(value, c.xs[2].spread(i, c.kind))
    return activated(c, value, i)


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
    return plus(value, c.xs[2].spread(i, c.kind)) if len(c.xs) == 3 else value


@defines("enlarge")
def _enlarge(c: Call, i: Index) -> Value:
    (w,), (t, left, _, _) = c.xs, c.numbers("pads")
    places = {-2: sub(i(-2), t), -1: sub(i(-1), left)}
    return bordered([g for k, p in places.items() for g in within(p, w.dim(k))], w.at(put(i, places)))


@defines("merge_gconv")
def _merge(c: Call, i: Index) -> Value:
    (w,), count, groups = c.xs, c.int("count"), c.int("groups")
    own = mod(group_of(i(-4), w.dim(-4), groups), count)
    place = sub(i(-3), mul(own, w.dim(-3)))
    return bordered(within(place, w.dim(-3)), w.at(put(i, {-3: place})))


# -- windows and reductions ----------------------------------------------------------------------------
def _window(c: Call, i: Index, at: Sequence[Int]) -> tuple[Index, list[Any]]:
    (x,), pads, strides = c.xs, c.numbers("pads"), c.numbers("strides")
    dilations = c.numbers("dilations") if "dilations" in c.attrs else [num(1), num(1)]
    places: dict[Key, Int] = {}
    guards: list[Cond] = []
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
            return bordered(guards, value(place))

        return summed(kernel, inside)

    if not isinstance(c.attrs["include_pad"], int) and not all(p == num(0) for p in c.numbers("pads")):
        flag = integer(whole(c.attrs["include_pad"]))
        count = plus(
            times(flag, times(integer(kernel[0]), integer(kernel[1]))),
            times(plus(number(1), negative(flag)), over_window(lambda _: number(1))),
        )
        return times(over_window(c.xs[0].at), inverse(count))
    if all(p == num(0) for p in c.numbers("pads")) or c.attrs["include_pad"]:
        return times(over_window(c.xs[0].at), times(over(kernel[0]), over(kernel[1])))
    return times(over_window(c.xs[0].at), inverse(over_window(lambda _: number(1))))


def reduced(x: Tensor, i: Index, keys: Sequence[Key]) -> Value:
    """Return the sum over axes."""
    return summed([x.dim(k) for k in keys], lambda at: x.at(put(i, dict(zip(keys, at, strict=True)))))


def mean(x: Tensor, i: Index, keys: Sequence[Key]) -> Value:
    """Return the mean over axes."""
    value = reduced(x, i, keys)
    for k in keys:
        value = times(value, over(x.dim(k)))
    return value


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
    names = [variable() for _ in keys]
    guards = [g for n, k in zip(names, keys, strict=True) for g in within(sym(n), x.dim(k))]
    return top(names, guards, x.at(put(i, {k: sym(n) for n, k in zip(names, keys, strict=True)})))


# -- normalisation -------------------------------------------------------------------------------------
def _deviation(variance: Value, eps: Value) -> Value:
    return inverse(apply("sqrt", plus(variance, eps)))


def _channel(x: Tensor, place: Int) -> Value:
    return x.at(put(lambda _: num(0), {-1: place}))


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
    if affine:
        value = times(value, affine[0].spread(i, c.kind))
    return plus(value, affine[1].spread(i, c.kind)) if len(affine) > 1 else value


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
    }
)


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
    return bordered(met, number(1))
