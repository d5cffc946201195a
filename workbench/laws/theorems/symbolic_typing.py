"""A fourth reading of type rules: on symbolic types of any rank, whose conditions become facts of a proof.

Axes are named by keys (:mod:`workbench.laws.theorems.axes`), so a proof holds for tensors of every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partialmethod
from typing import Any, cast

from workbench.laws.theorems.axes import REST, Key, NotCovered, Perm, among, shown
from workbench.ops import TensorType, TypeMismatch
from workbench.ops.types import FLOAT_DTYPES, INDEX_DTYPES, INTEGER_DTYPES, NUMBER_DTYPES, TRUTH_DTYPES
from workbench.symbolic.integers import (
    FALSE,
    TRUE,
    Cond,
    Int,
    add,
    at_least,
    call,
    either,
    equal,
    largest,
    mul,
    neg,
    num,
    sym,
    truth,
)
from workbench.symbolic.symint import SymInt


class OpenDivisor(NotCovered):
    """Raised when something divides that is not known to be positive."""

    why = "divisor"


class NoCase(NotCovered):
    """Raised when a rule has no case in which it applies."""

    why = "never"


class N(SymInt):
    """An integer in a type rule or in a rule's arithmetic; a comparison gives a condition."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise NotCovered("a choice by a number that is a variable")

    def whole(self, value: object) -> Int:
        """Return an integer, or the place of an axis, as a polynomial."""
        return whole(value)


class RankOpen(Exception):
    """Raised when a type rule asks for all extents of a tensor whose rank is not yet known."""


def whole(value: object) -> Int:
    """Return an integer as a polynomial."""
    if isinstance(value, N):
        return value.x
    if isinstance(value, Axis):
        return value.place
    if isinstance(value, int):
        return num(value)
    what = "permutations" if isinstance(value, Perm) else "values that are not integers"
    raise NotCovered(f"arithmetic with {what}")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that a rule binds: its key, and its place counted from the last."""

    key: Key
    place: Int

    def __lt__(self, other: Any) -> Any:
        return N(self.place) < other


@dataclass(frozen=True, slots=True)
class Kind:
    """A tensor's type: an element type, a rank and the extents by key."""

    dtype: str
    rank: Int
    dim: Callable[[Key], Int]


@dataclass(frozen=True, slots=True)
class Known:
    """A type of which a type rule reads the rank as a number."""

    dtype: str
    rank: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Raise NotCovered: the extents are symbols."""
        raise NotCovered("a type rule that needs extents as numbers")


def key_of(axis: object) -> Key:
    """Return the key of an axis: a number, or one that a rule binds."""
    if isinstance(axis, Axis):
        return axis.key
    if isinstance(axis, int):
        return axis
    raise NotCovered("an axis that is computed")


@dataclass(slots=True)
class Reading:
    """The type rules' reading on symbolic types; every condition is noted as a fact.

    ``keys`` are the axes of which conditions on all axes speak, ``literal`` the number of those that have a
    number. ``same`` maps element types to equal ones, ``within`` are pairs of them: every number of the first
    is one of the second. A ``strict`` reading learns nothing more of element types.
    """

    keys: tuple[Key, ...]
    literal: int
    facts: list[Cond] = field(default_factory=list)
    same: dict[str, str] = field(default_factory=dict)
    classes: set[tuple[str, str]] = field(default_factory=set)
    within: set[tuple[str, str]] = field(default_factory=set)
    strict: bool = False

    def note(self, condition: Cond) -> None:
        """Add a fact."""
        if condition == FALSE:
            raise TypeMismatch("the conditions contradict each other")
        if condition != TRUE:
            self.facts.append(condition)

    def dtype(self, name: str) -> str:
        """Return the name by which an element type is known."""
        while name in self.same:
            name = self.same[name]
        return name

    def contains(self, wide: str, narrow: str) -> bool:
        """Return whether it is known that all numbers of an element type are numbers of another."""
        own, other = self.dtype(narrow), self.dtype(wide)
        return own == other or any((self.dtype(a), self.dtype(b)) == (own, other) for a, b in self.within)

    def rank(self, x: Kind) -> N:
        return N(x.rank)

    def dim(self, x: Kind, axis: object) -> N:
        return N(x.dim(key_of(axis)))

    def with_dim(self, x: Kind, axis: object, extent: object) -> Kind:
        self.require_axis(x, axis)
        at, size = key_of(axis), whole(extent)
        return Kind(x.dtype, x.rank, lambda key: among(key, {at: size}, x.dim))

    def with_dtype(self, x: Kind, dtype: str) -> Kind:
        return Kind(dtype, x.rank, x.dim)

    def tensor(self, like: Kind, *dims: object) -> Kind:
        return self.explicit(like.dtype, dims)

    def explicit(self, dtype: str, dims: Sequence[Any]) -> Kind:
        """Return a type whose extents are all given."""
        sizes = [whole(d) for d in dims]
        if len(sizes) > self.literal:
            raise NotCovered(f"a tensor of {len(sizes)} axes")

        table = {k: sizes[k] for k in range(-len(sizes), 0)}
        return Kind(dtype, num(len(sizes)), lambda key: among(key, table, lambda _: num(1)))

    def constant(self, dtype: str, *dims: object) -> Kind:
        for d in dims:
            self.require(at_least(whole(d), num(1)), "the extents of a constant must be positive")
        return self.explicit(dtype, dims)

    def constant_of_shape(self, dtype: str, shape: object) -> Kind:
        if isinstance(shape, tuple):
            return self.constant(dtype, *shape)
        return self.with_shape(self.explicit(dtype, ()), shape)

    def with_shape(self, x: Kind, shape: object) -> Kind:
        if isinstance(shape, tuple):
            return self.explicit(x.dtype, shape)
        if isinstance(shape, Kind):
            return Kind(x.dtype, shape.rank, shape.dim)
        raise NotCovered("a shape that is computed")

    def permute(self, x: Kind, perm: Perm | tuple[int, ...]) -> Kind:
        if isinstance(perm, Perm):
            for name in perm.names:
                self.note(equal(x.rank, sym(f"rank of {name.rstrip('-')}")))
            return Kind(x.dtype, x.rank, lambda key: x.dim(perm.forth(key)))
        if sorted(perm) != list(range(len(perm))):
            raise TypeMismatch(f"{perm} is not a permutation")
        self.note(equal(x.rank, num(len(perm))))
        table = {k: x.dim(shown(perm, k)) for k in range(-len(perm), 0)}
        return Kind(x.dtype, num(len(perm)), lambda key: among(key, table, x.dim))

    def elements(self, x: Kind) -> N:
        if x.rank.value is not None and x.rank.value <= self.literal:
            product = num(1)
            for axis in range(-x.rank.value, 0):
                product = mul(product, x.dim(axis))
            return N(product)
        return N(sym(f"+elements({signature(self, x)})"))

    def broadcast(self, x: Kind, y: Kind, keep: int = 0) -> Kind:
        kept = set(range(-keep, 0))
        for key in self.keys:
            # An image under a permutation may be one of the axes that do not broadcast.
            if key not in kept and not (kept and isinstance(key, tuple)):
                a, b = x.dim(key), y.dim(key)
                self.note(either(equal(a, b), equal(a, num(1)), equal(b, num(1))))

        table = {k: x.dim(k) for k in kept}
        return Kind(
            x.dtype,
            largest(x.rank, y.rank),
            lambda key: among(key, table, lambda k: largest(x.dim(k), y.dim(k))),
        )

    def picked(self, x: Kind, axis: object, places: Kind) -> Kind:
        """Return the type of rows of a matrix: the extents of places move up by one axis."""
        if axis != -2 or self.literal < 2:
            raise NotCovered("places along another axis than that of a matrix's rows")
        if x.rank.value is None:
            raise RankOpen("rows of a tensor")
        if x.rank.value != 2 or any(not isinstance(k, int) and k != REST for k in self.keys):
            raise NotCovered("places along an axis of a tensor of other rank than 2, or with named axes")
        table = {-1: x.dim(-1), **{k: places.dim(k + 1) for k in range(-self.literal, -1)}}
        # The extent of an axis without a number depends on the type of the places alone.
        rest = largest(num(1), call("moved up", places.rank, *(places.dim(k) for k in self.keys)))
        return Kind(x.dtype, add(places.rank, num(1)), lambda key: among(key, table, lambda _: rest))

    def maximum(self, a: object, b: object) -> N:
        return N(largest(whole(a), whole(b)))

    def require(self, condition: object, message: str) -> None:
        if isinstance(condition, bool):
            condition = truth(condition)
        if not isinstance(condition, Cond):
            raise NotCovered(f"a condition on something that is not an integer: {message}")
        if condition == FALSE:
            raise TypeMismatch(message)
        self.note(condition)

    def require_same(self, x: Kind, y: Kind, message: str) -> None:
        self.require_same_dtype(x, y)
        self.require(equal(x.rank, y.rank), message)
        for key in self.keys:
            self.require(equal(x.dim(key), y.dim(key)), message)

    def require_same_dtype(self, x: Kind, y: Kind) -> None:
        a, b = self.dtype(x.dtype), self.dtype(y.dtype)
        if a == b:
            return
        if self.strict or (a[0] != "?" and b[0] != "?"):
            raise TypeMismatch(f"element types differ: {a} and {b}")
        self.same[max(a, b, key=lambda n: (n[0] == "?", n))] = min(a, b, key=lambda n: (n[0] == "?", n))

    def _of(self, x: Kind, name: str, dtypes: frozenset[str]) -> None:
        own = self.dtype(x.dtype)
        if own[0] == "?" and self.strict:
            known = {n for d, n in self.classes if self.dtype(d) == own}
            if name not in known and not (name == "number" and known):
                raise TypeMismatch(f"the element type may not be {name}")
        elif own[0] == "?":
            self.classes.add((x.dtype, name))
        elif self.dtype(x.dtype) not in dtypes:
            raise TypeMismatch(f"the element type must be {name}, got {x.dtype}")

    require_float = partialmethod(_of, name="float", dtypes=FLOAT_DTYPES)
    require_integer = partialmethod(_of, name="integer", dtypes=INTEGER_DTYPES)
    require_index = partialmethod(_of, name="index", dtypes=INDEX_DTYPES)
    require_truth = partialmethod(_of, name="truth", dtypes=TRUTH_DTYPES)
    require_number = partialmethod(_of, name="number", dtypes=NUMBER_DTYPES)

    def require_axis(self, x: Kind, axis: object) -> None:
        self.require(at_least(x.rank, neg(whole(axis))), "the axis must exist")

    def concrete(self, what: str, *xs: Kind) -> Sequence[TensorType]:
        """Return types whose ranks are numbers, for a type rule that counts axes."""
        if not xs or any(x.rank.value is not None and x.rank.value > self.literal for x in xs):
            raise NotCovered(what)
        if any(x.rank.value is None for x in xs):
            raise RankOpen(what)
        return cast("list[TensorType]", [Known(x.dtype, x.rank.value or 0) for x in xs])


def signature(t: Reading, x: Kind) -> str:
    """Return a text that two types have in common only if their extents are equal."""
    return f"{x.rank.text}|{'|'.join(x.dim(k).text for k in t.keys)}"
