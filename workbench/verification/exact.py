"""Evaluate operators in exact arithmetic: what decides whether two sides are equal is never a float.

The operators' own reference semantics run on arrays of other numbers. Sums and products are computed
modulo a prime, with relu and maxima on whole numbers that stay below 2^53, divisions on fractions.
Exponentials and their like have no exact arithmetic: they are computed to 60 decimal digits, which is
weaker evidence, and every verdict that rests on it says so.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from workbench.graph import Node
from workbench.ops import spec_of

#: The largest prime below 2^20: a product of two residues, summed 2^23 times, fits 64 bits.
PRIME: Final = 1_048_573
#: Whole numbers below this are exact in float64.
WHOLE: Final = 1 << 53
#: Decimal digits of the arithmetic for exponentials, and the relative difference that counts as one.
DIGITS: Final = 60
CLOSE: Final = "1e-45"

_MOVES: Final = frozenset(
    {"concat", "slice", "reshape", "transpose", "expand", "enlarge", "merge_gconv", "identity", "gather"}
    | {"eye", "ones", "identity_kernel"}
)
#: Operators that are polynomials in their operands' elements.
POLYNOMIAL: Final = _MOVES | {"add", "sub", "mul", "neg", "matmul", "conv2d", "pad", "reduce_sum"}
#: Operators that compare, on top of those.
ORDERED: Final = POLYNOMIAL | {"relu", "abs", "max", "min", "maxpool", "reduce_max"}
#: Operators that divide, or whose attributes are fractions, on top of those.
RATIONAL: Final = ORDERED | {
    "div", "reciprocal", "avgpool", "reduce_mean", "mean_kernel", "leakyrelu", "clip",
    "batchnorm", "bn_scale", "bn_shift",
}  # fmt: skip

ARITHMETICS: Final = {
    "modular": f"integers modulo {PRIME}",
    "ordered": "whole numbers",
    "rational": "fractions",
    "digits": f"{DIGITS} decimal digits (not exact)",
}


class Inexact(ArithmeticError):
    """Say that a value is not exact in the arithmetic chosen."""


def live_nodes(nodes: Sequence[Node], roots: Iterable[int]) -> list[int]:
    """Return the nodes that ``roots`` depend on, operands first."""
    found: set[int] = set()
    stack = list(roots)
    while stack:
        i = stack.pop()
        if i not in found:
            found.add(i)
            stack += nodes[i].inputs
    return sorted(found)


def arithmetic_for(nodes: Iterable[Node]) -> str:
    """Return the arithmetic that the operators of two sides need: the most exact one that has them."""
    best = 0
    for node in nodes:
        if node.op == "input":
            continue
        act = node.attr("act") if node.op in ("matmul", "conv2d") else "none"
        level = 3
        if act in ("sigmoid", "tanh"):
            level = 3
        elif node.op in POLYNOMIAL:
            level = 0 if act == "none" else 1
            if node.op == "pad" and node.attr("value") != int(node.attr("value")):
                level = 2
        elif node.op in ORDERED:
            level = 1
        elif node.op in RATIONAL:
            level = 2
        best = max(best, level)
    return list(ARITHMETICS)[best]


def degree(nodes: Sequence[Node], root: int) -> int:
    """Return the degree of a polynomial expression in its variables' elements."""
    known: dict[int, int] = {}
    for i in live_nodes(nodes, [root]):
        node = nodes[i]
        below = [known[j] for j in node.inputs]
        if node.op == "input":
            known[i] = 1
        elif node.op in ("mul", "matmul"):
            known[i] = sum(below)
        elif node.op == "conv2d":
            known[i] = max(sum(below[:2]), *below)
        else:
            known[i] = max(below, default=0)
    return known[root]


# -- values -----------------------------------------------------------------------------------------
def draw_values(
    kind: str, nodes: Sequence[Node], live: Sequence[int], rng: random.Random, reach: int = 4
) -> dict[int, np.ndarray]:
    """Return random values of the leaves: residues, or small whole numbers up to ``reach``.

    A variance is drawn so that its sum with the operator's epsilon is the square of a number.
    """
    variances = _variances(nodes, live)
    values: dict[int, np.ndarray] = {}
    for i in live:
        if nodes[i].op != "input":
            continue
        shape = nodes[i].tensor.shape
        size = math.prod(shape)
        if i in variances:
            roots = [Fraction(rng.randint(2, 5)) for _ in range(size)]
            drawn: list[Any] = [r * r - variances[i] for r in roots]
        elif kind == "modular":
            drawn = [rng.randrange(PRIME) for _ in range(size)]
        else:
            drawn = [rng.randint(-reach, reach) for _ in range(size)]
        values[i] = filled(kind, drawn, shape)
    return values


def _variances(nodes: Sequence[Node], live: Sequence[int]) -> dict[int, Fraction]:
    found: dict[int, Fraction] = {}
    for i in live:
        node = nodes[i]
        at = {"batchnorm": 4, "bn_scale": 1, "bn_shift": 3}.get(node.op)
        if at is not None and nodes[node.inputs[at]].op == "input":
            found[node.inputs[at]] = Fraction(node.attr("eps"))
    return found


def filled(kind: str, elements: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of numbers of an arithmetic."""
    if kind == "modular":
        return np.array([int(e) % PRIME for e in elements], dtype=np.int64).reshape(shape)
    if kind == "ordered":
        return np.array([float(e) for e in elements], dtype=np.float64).reshape(shape)
    array = np.empty(len(elements), dtype=object)
    convert = Fraction if kind == "rational" else _digits
    for k, e in enumerate(elements):
        array[k] = convert(e)
    return array.reshape(shape)


def _digits(value: Any) -> Any:
    import mpmath

    mpmath.mp.dps = DIGITS
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return mpmath.mpf(int(value) if isinstance(value, np.integer) else value)


# -- operators --------------------------------------------------------------------------------------
def run(
    kind: str, nodes: Sequence[Node], live: Sequence[int], leaves: Mapping[int, np.ndarray]
) -> dict[int, np.ndarray]:
    """Evaluate nodes in an arithmetic; raise :class:`Inexact` where it does not carry."""
    if kind == "ordered":
        _check_bound(nodes, live, leaves)
    values: dict[int, np.ndarray] = dict(leaves)
    with np.errstate(all="ignore"):
        for i in live:
            if i in values:
                continue
            node = nodes[i]
            values[i] = _apply(kind, node, [values[j] for j in node.inputs])
    return values


def _apply(kind: str, node: Node, operands: list[np.ndarray]) -> np.ndarray:
    attrs = node.named_attrs()
    evaluate = spec_of(node.op).evaluate
    assert evaluate is not None, node.op
    if kind == "modular":
        return np.asarray(evaluate(operands, attrs)).astype(np.int64) % PRIME
    if kind == "ordered":
        return np.asarray(evaluate(operands, attrs), dtype=np.float64)
    special = _EXACT.get(node.op)
    if special is not None:
        result = special(kind, operands, attrs)
    else:
        act = attrs.get("act", "none")
        if act != "none":
            attrs = dict(attrs) | {"act": "none"}
        if node.op == "pad":
            attrs = dict(attrs) | {"value": _number(kind, attrs["value"])}
        result = np.asarray(evaluate(operands, attrs), dtype=object)
        if act == "relu":
            result = np.maximum(result, 0)
        elif act != "none":
            result = _each(getattr(_functions(), act), result)
    result = np.asarray(result, dtype=object)
    if kind == "digits":
        return _each(_digits, result)
    if not operands:
        return _each(Fraction, result)  # a constant of whole numbers
    if any(isinstance(e, float) for e in result.flat):
        raise Inexact(f"{node.op} leaves the fractions")
    return _each(Fraction, result)


def _check_bound(nodes: Sequence[Node], live: Sequence[int], leaves: Mapping[int, np.ndarray]) -> None:
    """Require that no sum of products can reach 2^53."""
    bound: dict[int, int] = {}
    for i in live:
        node = nodes[i]
        below = [bound[j] for j in node.inputs]
        if i in leaves:
            bound[i] = int(np.abs(leaves[i]).max(initial=0))
        elif node.op == "mul":
            bound[i] = below[0] * below[1]
        elif node.op == "matmul":
            bound[i] = below[0] * below[1] * nodes[node.inputs[0]].tensor.shape[-1]
        elif node.op == "conv2d":
            terms = math.prod(nodes[node.inputs[1]].tensor.shape[1:])
            bound[i] = below[0] * below[1] * terms + sum(below[2:])
        elif node.op in ("add", "sub"):
            bound[i] = sum(below)
        elif node.op == "reduce_sum":
            bound[i] = below[0] * nodes[node.inputs[0]].tensor.elements
        elif node.op == "pad":
            bound[i] = max(below[0], int(abs(node.attr("value"))))
        else:
            bound[i] = max(below, default=1)
        if bound[i] >= WHOLE:
            raise Inexact(f"{node.op} may leave the whole numbers below 2^53")


def _each(f: Callable[[Any], Any], array: np.ndarray) -> np.ndarray:
    out = np.empty(array.size, dtype=object)
    for k, e in enumerate(array.flat):
        out[k] = f(e)
    return out.reshape(array.shape)


def _number(kind: str, value: float) -> Any:
    return Fraction(value) if kind == "rational" else _digits(value)


def _root(kind: str, value: Any) -> Any:
    if kind == "digits":
        return _functions().sqrt(value)
    up, down = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if up * up != value.numerator or down * down != value.denominator:
        raise Inexact(f"the root of {value} is not a fraction")
    return Fraction(up, down)


class _Functions:
    """Offer the functions of the operators to 60 digits."""

    def __init__(self) -> None:
        import mpmath

        mpmath.mp.dps = DIGITS
        self.mp = mpmath.mp

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + self.mp.exp(-x))

    def tanh(self, x: Any) -> Any:
        return self.mp.tanh(x)

    def erf(self, x: Any) -> Any:
        return self.mp.erf(x)

    def exp(self, x: Any) -> Any:
        return self.mp.exp(x)

    def log(self, x: Any) -> Any:
        if x == 0:
            return -self.mp.inf
        return self.mp.log(x) if x > 0 else self.mp.nan

    def power(self, x: Any, y: Any) -> Any:
        if x == 0 and y < 0:
            return self.mp.inf
        return self.mp.nan if x < 0 and y != int(y) else self.mp.power(x, y)

    def sqrt(self, x: Any) -> Any:
        return self.mp.sqrt(x) if x >= 0 else self.mp.nan

    def gelu(self, x: Any) -> Any:
        return x * (1 + self.mp.erf(x / self.mp.sqrt(2))) / 2

    def gelu_tanh(self, x: Any) -> Any:
        # The factor is part of the operator's definition, not an approximation of a number.
        inner = self.mp.sqrt(2 / self.mp.pi) * (x + self.mp.mpf("0.044715") * x**3)
        return x * (1 + self.mp.tanh(inner)) / 2


_CACHE: list[_Functions] = []


def _functions() -> _Functions:
    if not _CACHE:
        _CACHE.append(_Functions())
    return _CACHE[0]


def _elementwise(name: str) -> Callable[[str, list[np.ndarray], Any], np.ndarray]:
    return lambda kind, xs, attrs: _each(getattr(_functions(), name), xs[0])


def _gelu(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    f = _functions()
    return _each(f.gelu_tanh if attrs["tanh"] else f.gelu, xs[0])


def _softmax(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    e = _each(_functions().exp, xs[0])
    return np.asarray(e / e.sum(axis=attrs["axis"], keepdims=True))


def _layernorm(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    x = xs[0]
    axes = tuple(range(attrs["axis"], 0))
    count = math.prod(x.shape[a] for a in axes)
    centred = x - x.sum(axis=axes, keepdims=True) / count
    variance = (centred * centred).sum(axis=axes, keepdims=True) / count
    out = centred / _each(lambda v: _root(kind, v + _number(kind, attrs["eps"])), variance)
    for v, f in zip(xs[1:], (np.multiply, np.add), strict=False):
        out = f(out, v)
    return np.asarray(out)


def _affine(kind: str, scale: np.ndarray, var: np.ndarray, eps: float) -> np.ndarray:
    return np.asarray(scale / _each(lambda v: _root(kind, v + _number(kind, eps)), var))


def _vectors(xs: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [v.reshape(1, -1, 1, 1) for v in xs]


def _bn_scale(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    scale, var = _vectors(xs)
    return _affine(kind, scale, var, attrs["eps"])


def _bn_shift(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    scale, bias, mean, var = _vectors(xs)
    return np.asarray(bias - _affine(kind, scale, var, attrs["eps"]) * mean)


def _batchnorm(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    scale, bias, mean, var = _vectors(xs[1:])
    a = _affine(kind, scale, var, attrs["eps"])
    return np.asarray(xs[0] * a + (bias - a * mean))


def _leakyrelu(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    alpha = _number(kind, attrs["alpha"])
    return _each(lambda e: e if e >= 0 else e * alpha, xs[0])


def _clip(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    out = xs[0]
    if attrs["low"] > -math.inf:
        out = np.maximum(out, _number(kind, attrs["low"]))
    if attrs["high"] < math.inf:
        out = np.minimum(out, _number(kind, attrs["high"]))
    return np.asarray(out)


def _mean_kernel(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    kh, kw = attrs["kernel"]
    out = np.empty((attrs["channels"], 1, kh, kw), dtype=object)
    out[...] = Fraction(1, kh * kw) if kind == "rational" else _digits(1) / (kh * kw)
    return out


def _power(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    return np.asarray(np.frompyfunc(_functions().power, 2, 1)(xs[0], xs[1]))


def _quotient(kind: str, xs: list[np.ndarray], attrs: Any) -> np.ndarray:
    top, bottom = (xs[0], xs[1]) if len(xs) == 2 else (1, xs[0])
    if any(e == 0 for e in bottom.flat):
        raise Inexact("a division by zero")
    return np.asarray(top / bottom)


_EXACT: Final[dict[str, Callable[[str, list[np.ndarray], Any], np.ndarray]]] = {
    **{name: _elementwise(name) for name in ("sigmoid", "tanh", "erf", "exp", "log", "sqrt")},
    "gelu": _gelu,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "batchnorm": _batchnorm,
    "bn_scale": _bn_scale,
    "bn_shift": _bn_shift,
    "leakyrelu": _leakyrelu,
    "clip": _clip,
    "mean_kernel": _mean_kernel,
    "pow": _power,
    "div": _quotient,
    "reciprocal": _quotient,
}


def differs(kind: str, left: np.ndarray, right: np.ndarray) -> tuple[int, ...] | None:
    """Return where two results differ, or None where they are equal."""
    if left.shape != right.shape:
        return ()
    if kind in ("modular", "ordered"):
        wrong = np.argwhere(left != right)
        return tuple(int(v) for v in wrong[0]) if len(wrong) else None
    for index in np.ndindex(left.shape):
        a, b = left[index], right[index]
        if kind == "rational":
            if a != b:
                return index
            continue
        if a != a or b != b:  # not a number on both sides, or it differs
            if (a != a) != (b != b):
                return index
            continue
        if a == b:
            continue
        if not (abs(a) < math.inf and abs(b) < math.inf) or abs(a - b) > _digits(CLOSE) * max(
            1, abs(a), abs(b)
        ):
            return index
    return None
