"""Evaluate operators in exact arithmetic, so that floats never decide whether two sides are equal.

The operators' own reference semantics, or their exact forms, run on arrays of other numbers. Sums and
products are computed modulo a prime, relu and maxima on whole numbers that stay below 2^53,
and divisions on fractions. Exponentials and similar functions have no exact arithmetic: they are computed
to 60 decimal digits. This is weaker evidence, and every verdict that rests on it states so. A user's
operator of which only the semantics in floating point are known is computed in float64 and compared within a
tolerance, which is the weakest evidence.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from workbench.graph import Node
from workbench.laws.verification.instances.typings import converts
from workbench.ops import TensorType, Trait, spec_of
from workbench.ops.exact import Arithmetic, Inexact, Number, Numbers, each, largest_bound, largest_degree
from workbench.ops.types import FLOAT_DTYPES, INTEGER_DTYPES
from workbench.support.orders import postorder

#: The largest prime below 2^20: a product of two residues, summed 2^23 times, fits 64 bits.
PRIME: Final = 1_048_573
#: Whole numbers below this are exact in float64.
WHOLE: Final = 1 << 53
#: Decimal digits of the arithmetic for exponentials, and the relative difference that counts as equal.
DIGITS: Final = 60
CLOSE: Final = Fraction(1, 10**45)
#: The relative difference, of the largest element of either side, that counts as equal in float64.
NEAR: Final = 1e-9

#: The arithmetics by name, in the order of :class:`~workbench.ops.exact.Arithmetic`.
ARITHMETICS: Final = {
    "modular": f"integers modulo {PRIME}",
    "ordered": "whole numbers",
    "rational": "fractions",
    "digits": f"{DIGITS} decimal digits (not exact)",
    "float64": f"float64 within {NEAR:.0e} (the weakest evidence)",
}
_NAMES: Final = dict(zip(Arithmetic, ARITHMETICS, strict=True))
#: The arithmetic of rules that convert between element types: every value in its own type.
MACHINE: Final = "machine"
ARITHMETICS[MACHINE] = "the element types' own numbers"


#: Nodes of a graph by their number, operands first.
Live = Mapping[int, Node]


class NoValue(Inexact):
    """Raised when an operator has no value: a row outside a table, or a division by zero."""


def live_nodes(nodes: Sequence[Node], roots: Iterable[int]) -> Live:
    """Return the nodes that ``roots`` depend on, operands first, by their number."""
    return {i: nodes[i] for i in sorted(postorder(roots, lambda i: nodes[i].inputs))}


def arithmetic_for(nodes: Iterable[Node]) -> str:
    """Return the most exact arithmetic that supports the operators of two sides."""
    both = list(nodes)
    if converts(node.op for node in both):
        return MACHINE
    needed = Arithmetic.POLYNOMIAL
    for node in both:
        spec = spec_of(node.op)
        if spec.places is not None:  # a place that is counted from the end is negative
            needed = max(needed, Arithmetic.ORDERED)
        if not spec.leaf:
            own = Arithmetic.DIGITS if spec.exact is None else spec.exact.arithmetic(node.named_attrs())
            needed = max(needed, own)
    return whole_numbers(both) if needed is Arithmetic.ORDERED else _NAMES[needed]


def whole_numbers(nodes: Iterable[Node]) -> str:
    """Return an arithmetic with whole numbers for polynomials: that of fractions if nothing bounds the results."""
    forms = (spec_of(node.op).exact for node in nodes)
    unbounded = any(form is not None and form.bound is None for form in forms)
    return _NAMES[Arithmetic.RATIONAL if unbounded else Arithmetic.ORDERED]


def degree(nodes: Sequence[Node], root: int) -> int:
    """Return the degree of a polynomial expression in its variables' elements."""
    known: dict[int, int] = {}
    for i, node in live_nodes(nodes, [root]).items():
        exact = spec_of(node.op).exact
        below = [known[j] for j in node.inputs]
        if node.op == "input":
            known[i] = 1
        else:
            known[i] = (largest_degree if exact is None else exact.degree)(below)
    return known[root]


# -- values -----------------------------------------------------------------------------------------
def draw_values(
    kind: str, live: Live, rng: random.Random, reach: int = 4, left: Live = MappingProxyType({})
) -> dict[int, np.ndarray]:
    """Return random values of the leaves: residues, or whole numbers from ``-reach`` to ``reach``.

    If a constant is larger than ``reach``, some values lie beside it and beyond it. In fractions, half of the
    tensors of whole numbers have values near the bounds of their element type. A variance is drawn such that
    its sum with the operator's epsilon is the square of a number, and numbers of places such that the axes of
    the left-hand side have them: those of the right-hand side must have them, too.

    Args:
        kind: The arithmetic.
        live: The nodes to evaluate.
        rng: The source of random numbers.
        reach: The largest absolute value of whole numbers.
        left: The nodes of the left-hand side.
    """
    variances, extents = _variances(live), _extents(live) | _extents(left)
    far = beyond(live, reach) if kind in ("ordered", "rational", "digits") else []
    values: dict[int, np.ndarray] = {}
    for i, node in live.items():
        if node.op != "input":
            continue
        shape, dtype = node.tensor.shape, node.tensor.dtype
        size = math.prod(shape)
        if i in variances:
            roots = [Fraction(rng.randint(2, 5)) for _ in range(size)]
            drawn: list[Any] = [r * r - variances[i] for r in roots]
        elif i in extents:  # counted from the first place, or from the last one as a negative number
            drawn = [rng.randrange(-extents[i], extents[i]) for _ in range(size)]
        elif kind == MACHINE:
            drawn = _machine_numbers({node.tensor.dtype for node in live.values()}, size, rng)
        elif dtype == "bool":
            drawn = [rng.randint(0, 1) for _ in range(size)]
        elif kind == "float64":
            drawn = [rng.uniform(-reach, reach) for _ in range(size)]
        elif kind == "modular":
            drawn = [rng.randrange(PRIME) for _ in range(size)]
        elif kind == "rational" and dtype in INTEGER_DTYPES and rng.random() < 0.5:
            limits = np.iinfo(dtype)  # quantising cuts off there
            ends = [*range(limits.min, limits.min + 3), *range(limits.max - 2, limits.max + 1)]
            drawn = rng.choices(ends, k=size)
        else:
            drawn = [rng.randint(-reach, reach) for _ in range(size)]
            if far and rng.random() < 0.4:
                drawn = [rng.choice(far) if rng.random() < 0.5 else d for d in drawn]
        values[i] = filled(kind, drawn, shape)
    return values


def _machine_numbers(kinds: set[str], size: int, rng: random.Random) -> list[float]:
    """Return random numbers of all magnitudes; small ones if they may become whole numbers of few bits.

    Where a number lies outside a type of whole numbers, the result of the conversion is not defined.
    """
    if kinds <= FLOAT_DTYPES:
        return [rng.choice((-1, 1)) * rng.random() * 2.0 ** rng.randint(-160, 130) for _ in range(size)]
    if kinds & FLOAT_DTYPES:
        return [rng.choice((0.0, 0.25, 0.5, 0.75)) + rng.randint(0, 126) for _ in range(size)]
    return [float(rng.randint(-(1 << 40), 1 << 40) >> rng.randint(0, 40)) for _ in range(size)]


def _variances(live: Live) -> dict[int, Fraction]:
    found: dict[int, Fraction] = {}
    for node in live.values():
        at = spec_of(node.op).variance
        if at is not None and live[node.inputs[at]].op == "input":
            found[node.inputs[at]] = as_written(node.attr("eps"))
    return found


def _extents(live: Live) -> dict[int, int]:
    """Return the least extent of the axes along which the elements of a leaf number places, by leaf."""
    found: dict[int, int] = {}
    for node in live.values():
        at = spec_of(node.op).places
        if at is not None:
            x, places = (node.inputs[k] for k in (0, at))
            extent = live[x].tensor.shape[node.attr("axis")]
            found[places] = min(found.get(places, extent), extent)
    return found


def filled(kind: str, elements: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of the numbers of an arithmetic."""
    if kind == "modular":
        return np.array([int(e) % PRIME for e in elements], dtype=np.int64).reshape(shape)
    if kind in ("ordered", "float64", MACHINE):
        return np.array([float(e) for e in elements], dtype=np.float64).reshape(shape)
    array = np.empty(len(elements), dtype=object)
    array[:] = list(map(numbers_of(kind).number, elements))
    return array.reshape(shape)


def as_written(value: float) -> Fraction:
    """Return the shortest decimal that is read as a float: a law means it, not the binary number nearby.

    >>> as_written(0.001), as_written(2.0)
    (Fraction(1, 1000), Fraction(2, 1))
    """
    return Fraction(repr(float(value)))


# -- numbers ----------------------------------------------------------------------------------------
class Fractions:
    """Fractions, of a float the decimal as it is written: without a value for any function but the root of a square."""

    def number(self, value: float | Fraction) -> Number:
        if isinstance(value, float) and not math.isfinite(value):
            raise Inexact(f"{value} is not a fraction")
        return as_written(value) if isinstance(value, float) else Fraction(value)

    def root(self, x: Number) -> Number:
        up, down = math.isqrt(x.numerator), math.isqrt(x.denominator)
        if up * up != x.numerator or down * down != x.denominator:
            raise Inexact(f"the root of {x} is not a fraction")
        return Fraction(up, down)

    def _none(self, *values: Number) -> Number:
        raise Inexact("a function without a fraction for a value")

    exp = log = tanh = erf = cos = sin = power = pi = _none


class Decimals:
    """Decimals of 60 digits, with every function that operators have."""

    def __init__(self) -> None:
        import mpmath

        mpmath.mp.dps = DIGITS
        self.mp = mp = mpmath.mp
        self.exp, self.tanh, self.erf, self.cos, self.sin = mp.exp, mp.tanh, mp.erf, mp.cos, mp.sin

    def number(self, value: float | Fraction | np.integer[Any]) -> Number:
        self.mp.dps = DIGITS
        if isinstance(value, float) and math.isfinite(value):
            value = as_written(value)
        if isinstance(value, Fraction):
            return self.mp.mpf(value.numerator) / value.denominator
        return self.mp.mpf(int(value) if isinstance(value, np.integer) else value)

    def root(self, x: Number) -> Number:
        return self.mp.sqrt(x) if x >= 0 else self.mp.nan

    def log(self, x: Number) -> Number:
        if x == 0:
            return -self.mp.inf
        return self.mp.log(x) if x > 0 else self.mp.nan

    def power(self, x: Number, y: Number) -> Number:
        if x == 0 and y < 0:
            raise ZeroDivisionError("a negative power of 0")
        return self.mp.nan if x < 0 and not self.mp.isint(y) else self.mp.power(x, y)

    def pi(self) -> Number:
        return +self.mp.pi


@lru_cache(maxsize=2)
def numbers_of(kind: str) -> Numbers:
    """Return the numbers of an arithmetic: ``rational`` or ``digits``."""
    return Fractions() if kind == "rational" else Decimals()


# -- operators --------------------------------------------------------------------------------------
def run(kind: str, live: Live, leaves: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Evaluate nodes in an arithmetic from the values of the leaves; raise :class:`Inexact` if a value leaves it."""
    if kind == "ordered":
        _check_bound(live, leaves)
    values: dict[int, np.ndarray] = dict(leaves)
    with np.errstate(all="ignore"):
        if kind == MACHINE:
            values = {i: _own(value, live[i].tensor) for i, value in leaves.items() if i in live}
        for i, node in live.items():
            if i in values:
                continue
            try:
                values[i] = _apply(kind, node, [values[j] for j in node.inputs])
            except (IndexError, ZeroDivisionError) as error:
                raise NoValue(f"{node.op}: {error or 'a division by zero'}") from None
    return values


def _apply(kind: str, node: Node, operands: list[np.ndarray]) -> np.ndarray:
    attrs, spec = node.named_attrs(), spec_of(node.op)
    assert spec.evaluate is not None, node.op
    if kind == MACHINE:
        return np.asarray(spec.evaluate(operands, attrs), node.tensor.numpy_dtype())
    if kind == "modular":
        own = Trait.OWN in spec.traits  # of any degree: 64 bits may not hold the powers of a residue
        operands = [np.asarray(x, dtype=object) for x in operands] if own else operands
        values = np.asarray(spec.evaluate(operands, attrs))
        if own and not all(isinstance(v, int | np.integer) for v in values.flat):
            raise Inexact(f"{node.op} leaves the whole numbers")
        return np.asarray(values % PRIME, dtype=np.int64)
    if kind in ("ordered", "float64"):
        return np.asarray(spec.evaluate(operands, attrs), dtype=np.float64)
    numbers = numbers_of(kind)
    try:
        if spec.exact is not None and spec.exact.compute is not None:
            result = spec.exact.compute(numbers, operands, attrs)
        else:
            result = spec.evaluate(operands, attrs)
    except OverflowError as error:
        raise Inexact(f"{node.op}: {error}") from None
    result = np.asarray(result, dtype=object)
    # The elements of a constant are whole numbers, which evaluation makes as floats.
    if kind == "rational" and operands and any(isinstance(e, float) for e in result.flat):
        raise Inexact(f"{node.op} leaves the fractions")
    return each(numbers.number, result)


def _own(value: np.ndarray, kind: TensorType) -> np.ndarray:
    """Return whole or other numbers in an element type; those beyond whole numbers of few bits wrap."""
    if kind.dtype in FLOAT_DTYPES or kind.dtype == "bool":
        return value.astype(kind.numpy_dtype())
    return value.astype(np.int64).astype(kind.numpy_dtype())


def _check_bound(live: Live, leaves: Mapping[int, np.ndarray]) -> None:
    """Raise :class:`Inexact` if a sum of products may reach 2^53."""
    bound: dict[int, int] = {}
    for i, node in live.items():
        if i in leaves:
            bound[i] = int(np.abs(leaves[i]).max(initial=0))
        else:
            exact, below = spec_of(node.op).exact, [bound[j] for j in node.inputs]
            shapes = [live[j].tensor.shape for j in node.inputs]
            rule = None if exact is None else exact.bound
            bound[i] = (rule or largest_bound)(below, shapes, node.named_attrs())
        if bound[i] >= WHOLE:
            raise Inexact(f"{node.op} may leave the whole numbers below 2^53")


def differs(
    kind: str, left: np.ndarray, right: np.ndarray, *, allowed: Fraction = Fraction(0)
) -> tuple[int, ...] | None:
    """Return the index at which two results differ, or None if they are equal.

    Args:
        kind: The arithmetic.
        left: One result.
        right: The other one.
        allowed: A relative difference that counts as equal in fractions and decimals, beside that of the
            arithmetic itself.
    """
    if left.shape != right.shape:
        return ()
    if kind in ("modular", "ordered", "float64", MACHINE):
        wrong = np.argwhere(~_same(kind, *(side.astype(np.float64) for side in (left, right))))
        return tuple(int(v) for v in wrong[0]) if len(wrong) else None
    apart = numbers_of(kind).number(max(allowed, CLOSE) if kind == "digits" else allowed)
    for index in np.ndindex(left.shape):
        a, b = left[index], right[index]
        if (a != a) != (b != b):  # one side is not a number
            return index
        if a == a and a != b:
            finite = abs(a) < math.inf and abs(b) < math.inf
            if not finite or abs(a - b) > apart * max(1, abs(a), abs(b)):
                return index
    return None


def _same(kind: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return where two results in numbers of the machine are equal, in float64 within the tolerance."""
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if kind == "float64":
        finite = np.isfinite(left) & np.isfinite(right)
        largest = max(float(np.abs(side[finite]).max(initial=0.0)) for side in (left, right))
        with np.errstate(all="ignore"):
            same |= (np.abs(left - right) <= NEAR * max(1.0, largest)) & finite
    return same


# -- the numbers written in a rule -----------------------------------------------------------------------
# clip[low=-1000.0, high=1000.0](x) => x is wrong only beyond a thousand, so values are drawn there.
# 0.7071067811865476 stands for the root of one half, which no decimal is: with it, both sides of a true law
# differ in the sixteenth digit.
#: The least number of significant digits by which a number counts as rounded.
_ROUNDED: Final = 15
#: The relative difference that is allowed between the sides of a law with a rounded number.
ROUNDED_BY: Final = Fraction(1, 10**12)
#: The largest number beside which values are drawn: sums of few such numbers are whole in 53 bits.
_LARGEST: Final = 2.0**40


def beyond(live: Live, reach: int) -> list[int]:
    """Return whole numbers beside and beyond the constants of some nodes, of either sign.

    Constants up to ``reach``, which is drawn anyway, are left out, and so are inverses of small ones.
    """
    found: set[int] = set()
    for node in live.values():
        for value in _written(node):
            # A factor of 0.001 moves a bound of 1 to 1000.
            inverse = 1 / value if node.op == "scalar" and value else 0.0
            for at in (abs(value), abs(inverse)):
                if reach < at <= _LARGEST:
                    whole = math.ceil(at)
                    found |= {whole - 1, whole, whole + 1, 2 * whole + 1}
    return sorted(found | {-n for n in found})


def rounded(live: Live) -> bool:
    """Return whether a constant of some nodes is a rounded number: it has 15 significant digits or more."""
    return any(_digits(value) >= _ROUNDED for node in live.values() for value in _written(node))


def _written(node: Node) -> list[float]:
    return [value for value in node.attrs if isinstance(value, float) and math.isfinite(value)]


def _digits(value: float) -> int:
    """Return the number of significant digits of the shortest text of a number.

    >>> _digits(0.25), _digits(1e-9), _digits(0.7071067811865476)
    (2, 1, 16)
    """
    return len(repr(value).partition("e")[0].replace(".", "").strip("-0"))
