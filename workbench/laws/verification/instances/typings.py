"""Run the operators' type rules on unknown extents: their requirements become a linear system."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partialmethod
from typing import Any, Final, TypeVar, cast

from workbench.laws.verification.instances.linear import Inconsistent, Linear, NotLinear, Relation, System
from workbench.ops import TensorType, Trait, spec_of
from workbench.ops.types import FLOAT_DTYPES, INDEX_DTYPES, INTEGER_DTYPES
from workbench.ops.typing import Count

T = TypeVar("T")

#: Number of axes of a type in most readings; axes before a tensor's first axis have extent 1.
AXES: Final = 4

#: One number of an instance: its kind (:mod:`~workbench.laws.verification.instances.boundary_values`), the variable or
#: row, and the axis or attribute.
Coordinate = tuple[str, str, int | str]


@dataclass(frozen=True, slots=True)
class Menu:
    """The options of all decisions; an option that is listed twice is chosen twice as often.

    ``extents``, ``kernels`` and ``pads`` are values of free unknowns. ``broadcast`` allows operands to
    broadcast, and with ``spread`` they mostly do; ``members`` are the numbers of members that an ``each``
    rule merges. If ``decide_few``, every value of an unknown with few values is a separate alternative. If
    ``remainders``, equal quotients equate their dividends
    (:class:`~workbench.laws.verification.instances.linear.System`). Types have ``axes`` axes. ``fixed`` are
    coordinates of the instance that have a given value instead of one of the menu.
    """

    ranks: tuple[int, ...] = (2, 4, 4, 3, 1, 0)
    strides: tuple[tuple[int, int], ...] = ((1, 1), (1, 1), (2, 2), (1, 2), (2, 1))
    dilations: tuple[tuple[int, int], ...] = ((1, 1), (1, 1), (1, 1), (2, 1), (2, 2))
    groups: tuple[int, ...] = (1, 1, 2, 2, 3)
    acts: tuple[str, ...] = ("none", "relu", "none", "relu", "sigmoid", "tanh")
    flags: tuple[int, ...] = (0, 1)
    steps: tuple[int, ...] = (1, 1, 2)
    eps: tuple[float, ...] = (0.5, 0.25, 1e-5)
    numbers: tuple[float, ...] = (0.0, 1.0, -2.0)
    members: tuple[int, ...] = (2, 3)
    extents: tuple[int, ...] = (1, 2, 2, 3, 3, 4, 5)
    kernels: tuple[int, ...] = (1, 1, 3, 3, 2)
    pads: tuple[int, ...] = (0, 0, 1, 1, 2)
    broadcast: bool = True
    spread: bool = False
    decide_few: bool = False
    remainders: bool = False
    axes: int = AXES
    fixed: tuple[tuple[Coordinate, Any], ...] = ()

    def given(self, coordinate: Coordinate) -> Any:
        """Return the value that a coordinate must have, or None if it is free."""
        return next((value for known, value in self.fixed if known == coordinate), None)


# -- element types ------------------------------------------------------------------------------------
#: The element type of tensors of which nothing is required, that of whole numbers, that of truth values, and
#: that of numbers of places along an axis.
FLOAT, WHOLE, TRUTH, INDEX = "float32", "int8", "bool", "int64"
_OPEN: Final = frozenset({FLOAT, WHOLE, TRUTH, INDEX})
#: Operators that round nothing, unless they convert.
_PLAIN: Final = Trait.CONVERTS | Trait.UNROUNDED | Trait.SELECTS | Trait.MOVES


def converts(operators: Iterable[str]) -> bool:
    """Return whether some of the operators convert between element types, and the others round nothing.

    Such a rule says something about the numbers of element types: real numbers are never rounded.
    """
    traits = [spec_of(op).traits for op in operators if not spec_of(op).leaf]
    return any(Trait.CONVERTS & t for t in traits) and all(_PLAIN & t for t in traits)


@dataclass(slots=True, eq=False)
class Element:
    """An element type that may still be open; elements that are required to be the same are joined.

    >>> x, y = Element(), Element()
    >>> y.among({"int8"})
    >>> x.same(y)
    >>> x.name, Element().name
    ('int8', 'float32')
    """

    options: frozenset[str] = _OPEN
    joined: Element | None = field(default=None, repr=False)

    @classmethod
    def of(cls, dtype: str | Element) -> Element:
        """Return the element type of a name; one type of each kind represents the others of its kind."""
        if isinstance(dtype, Element):
            return dtype
        kinds = ((FLOAT, FLOAT_DTYPES), (WHOLE, INTEGER_DTYPES), (TRUTH, {TRUTH}), (INDEX, INDEX_DTYPES))
        return cls(frozenset({name for name, kind in kinds if dtype in kind}) or _OPEN)

    @property
    def root(self) -> Element:
        """Return the element that represents all that are joined with this one."""
        found = self
        while found.joined is not None:
            found = found.joined
        return found

    @property
    def name(self) -> str:
        """Return the name of the element type: a floating-point one if nothing else is required."""
        options = self.root.options
        return next(name for name in (FLOAT, WHOLE, TRUTH, INDEX) if name in options)

    def among(self, names: Iterable[str]) -> None:
        """Require one of some element types; raise Inconsistent if it is none of them."""
        root = self.root
        root.options &= frozenset(names)
        if not root.options:
            raise Inconsistent("no element type is left")

    def same(self, other: Element) -> None:
        """Require two element types to be the same."""
        a, b = self.root, other.root
        if a is not b:
            b.among(a.options)
            a.joined = b


# -- decisions ----------------------------------------------------------------------------------------
class Choices(ABC):
    """A search that is written as a plain function: each decision is one of several options."""

    @abstractmethod
    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options; raise :class:`Inconsistent` if there are none."""

    def some(self, options: Sequence[T]) -> T:
        """Return one of some options that do not exhaust the possibilities."""
        return self.pick(options)


@dataclass(slots=True)
class RandomChoices(Choices):
    """Random decisions; an option that is listed twice is twice as likely."""

    rng: random.Random

    def pick(self, options: Sequence[T]) -> T:
        if not options:
            raise Inconsistent("nothing to choose from")
        return options[0] if len(options) == 1 else self.rng.choice(options)


@dataclass(slots=True)
class Enumeration(Choices):
    """All sequences of decisions, one after another, depth first.

    The function that decides is run again for every sequence; :meth:`advance` moves to the next sequence
    and skips those that share a failed prefix. ``limited`` means that the current sequence has a decision
    between some of the possibilities only.

    >>> walk, seen = Enumeration(), []
    >>> while True:
    ...     seen.append((walk.pick("ab"), walk.pick("xy")))
    ...     if not walk.advance():
    ...         break
    >>> ["".join(s) for s in seen]
    ['ax', 'ay', 'bx', 'by']
    """

    path: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    at: int = 0
    limited: bool = False

    def pick(self, options: Sequence[T]) -> T:
        if not options:
            raise Inconsistent("nothing to choose from")
        if self.at == len(self.path):
            self.path.append(0)
            self.sizes.append(len(options))
        choice = options[self.path[self.at]]
        self.at += 1
        return choice

    def some(self, options: Sequence[T]) -> T:
        self.limited = True
        return self.pick(options)

    def advance(self) -> bool:
        """Go to the next sequence, if any; decisions after the last one made are dropped."""
        del self.path[self.at :], self.sizes[self.at :]
        self.at = 0
        self.limited = False
        while self.path and self.path[-1] + 1 >= self.sizes[-1]:
            self.path.pop()
            self.sizes.pop()
        if not self.path:
            return False
        self.path[-1] += 1
        return True


# -- types --------------------------------------------------------------------------------------------
#: An integer in this reading: a number, or an expression in unknowns.
Extent = int | Linear


@dataclass(frozen=True, slots=True, eq=False)
class SpaceType:
    """A tensor's type: its rank, the extents of its last axes, and its element type."""

    rank: Extent
    dims: tuple[Extent, ...]
    element: Element = field(default_factory=Element)

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.dims))}]"


def known(x: Extent) -> Extent:
    """Return a number if an expression has only one value left, otherwise the reduced expression."""
    reduced = x.reduced() if isinstance(x, Linear) else x
    return reduced if isinstance(reduced, Linear) else int(reduced)


class _Product:
    """A product of unknowns: it counts as below any bound on sizes and cannot be compared for equality."""

    def __le__(self, other: object) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        raise NotLinear("a product of two unknowns")

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A type of which a type rule reads the rank as a number."""

    rank: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Raise NotLinear: the extents are unknowns."""
        raise NotLinear("a type rule that needs extents as numbers")


@dataclass(slots=True)
class _Broadcast:
    """A broadcast that is not decided yet: its operands, its result, the axes still open."""

    x: SpaceType
    y: SpaceType
    out: SpaceType
    axes: list[int]
    ranked: bool = False


class SpaceTyping:
    """The reading on unknown extents: requirements go into a linear system, alternatives are decided."""

    def __init__(self, system: System, choices: Choices, menu: Menu) -> None:
        self.system = system
        self.choices = choices
        self.menu = menu
        self.axes = menu.axes
        #: Whether operands broadcast somewhere in this family of instances although they do not have to.
        self.broadcasts = False
        self.pending: list[_Broadcast] = []

    def rank(self, x: SpaceType) -> Extent:
        return x.rank

    def dim(self, x: SpaceType, axis: Extent) -> Extent:
        assert isinstance(axis, int)
        if -axis <= len(x.dims):
            return x.dims[axis]
        return self.choices.some((1,)) if isinstance(known(x.rank), Linear) else 1

    def with_dim(self, x: SpaceType, axis: Extent, extent: Extent) -> SpaceType:
        assert isinstance(axis, int)
        self.require_axis(x, axis)
        if -axis > len(x.dims):
            raise Inconsistent(f"more than {self.axes} axes", limited=True)
        dims = list(x.dims)
        dims[axis] = extent
        return SpaceType(x.rank, tuple(dims), x.element)

    def with_dtype(self, x: SpaceType, dtype: str | Element) -> SpaceType:
        return SpaceType(x.rank, x.dims, Element.of(dtype))

    def tensor(self, like: SpaceType, *dims: Extent) -> SpaceType:
        return self.constant(like.element, *dims)

    def constant(self, dtype: str | Element, *dims: Extent) -> SpaceType:
        if len(dims) > self.axes:
            raise Inconsistent(f"more than {self.axes} axes", limited=True)
        return SpaceType(len(dims), (1,) * (self.axes - len(dims)) + tuple(dims), Element.of(dtype))

    def with_shape(self, x: SpaceType, shape: Sequence[Extent]) -> SpaceType:
        return self.tensor(x, *shape)

    def constant_of_shape(self, dtype: str | Element, shape: Sequence[Extent]) -> SpaceType:
        return self.constant(dtype, *shape)

    def permute(self, x: SpaceType, perm: Sequence[int]) -> SpaceType:
        self.require(x.rank == len(perm), "a permutation fits its operand's rank")
        dims = x.dims[self.axes - len(perm) :]
        return self.tensor(x, *(dims[p] for p in perm))

    def elements(self, x: SpaceType) -> Count:
        product: Extent = 1
        for d in x.dims:
            try:
                product = product * d
            except NotLinear:
                return _Product()
        return product

    def broadcast(self, x: SpaceType, y: SpaceType, keep: int = 0) -> SpaceType:
        # Which operand broadcasts is decided when everything else is known: often one choice is left.
        axes = self.axes - keep
        rank = self.system.fresh("a rank", "rank", self.axes)
        dims = tuple(self.system.fresh("a broadcast extent", "extent") for _ in range(axes))
        out = SpaceType(rank, dims + x.dims[axes:], x.element)
        self.pending.append(_Broadcast(x, y, out, list(range(axes))))
        return out

    def forced(self) -> bool:
        """Derive broadcasting as far as other facts determine it; return whether anything was derived."""
        before = len(self.pending), sum(len(p.axes) for p in self.pending)
        for p in self.pending:
            p.axes = [i for i in p.axes if not self._forced_axis(p.x.dims[i], p.y.dims[i], p.out.dims[i])]
            if p.ranked:
                continue
            rank: Extent | None = None
            match known(p.x.rank), known(p.y.rank):
                case int(a), int(b):
                    rank = max(a, b)
                case _, int(b) if b == 0:
                    rank = p.x.rank
                case int(a), _ if a == 0:
                    rank = p.y.rank
                case _ if (p.x.rank == p.y.rank) is True:
                    rank = p.x.rank
            if rank is not None:
                self.require(p.out.rank == rank, "the larger rank")
                p.ranked = True
        self.pending = [p for p in self.pending if p.axes or not p.ranked]
        return before != (len(self.pending), sum(len(p.axes) for p in self.pending))

    def _forced_axis(self, x: Extent, y: Extent, out: Extent) -> bool:
        a, b, o = known(x), known(y), known(out)
        if isinstance(a, int) and a == 1:
            self.require(o == b, "the right extent")
        elif isinstance(b, int) and b == 1:
            self.require(o == a, "the left extent")
        elif isinstance(o, int) and o == 1:
            self.require(a == 1, "nothing broadcasts")
            self.require(b == 1, "nothing broadcasts")
        elif (isinstance(a, int) and isinstance(b, int)) or (a == b) is True:
            self.require(a == b, "the extents agree")
            self.require(o == a, "the extents agree")
        else:
            return False
        return True

    def settle(self) -> None:
        """Decide the first open question about broadcasting."""
        p = self.pending[0]
        if self.menu.broadcast:
            often = "broadcast" if self.menu.spread else "alike"
            alike = self.choices.pick(("alike", often, "broadcast")) == "alike"
        else:
            alike = self.choices.some((True,))
        if alike:
            if not p.ranked:
                self.require(p.x.rank == p.y.rank, "the ranks agree")
            for i in p.axes:
                self.require(p.x.dims[i] == p.y.dims[i], "the extents agree")
            return
        self.broadcasts = True
        if not p.ranked:
            order = self.choices.pick(("equal", "less", "more"))
            if order == "equal":
                self.require(p.x.rank == p.y.rank, "the ranks agree")
            else:
                less, more = (p.x, p.y) if order == "less" else (p.y, p.x)
                self.require(less.rank < more.rank, "one operand has fewer axes")
                self.require(p.out.rank == more.rank, "the larger rank")
                p.ranked = True
        for i in p.axes:
            case = self.choices.pick(("equal", "left", "right"))
            if case == "equal":
                self.require(p.x.dims[i] == p.y.dims[i], "the extents agree")
            else:
                self.require((p.x if case == "left" else p.y).dims[i] == 1, "an operand broadcasts")

    def picked(self, x: SpaceType, axis: Extent, places: SpaceType) -> SpaceType:
        assert isinstance(axis, int)
        self.require_axis(x, axis)
        whole, found = (y.dims[self.axes - self.number_of_axes(y) :] for y in (x, places))
        at = len(whole) + axis
        return self.tensor(x, *whole[:at], *found, *whole[at + 1 :])

    def number_of_axes(self, x: SpaceType) -> int:
        """Return a rank as a number, which is decided if it is open; the missing axes then have extent 1."""
        rank = known(x.rank)
        if isinstance(rank, Linear):
            rank = self.choices.some(self.menu.ranks)
            self.require(x.rank == rank, "a rank")
        for d in x.dims[: self.axes - rank]:
            self.require(d == 1, "no such axis")
        return rank

    def maximum(self, a: Extent, b: Extent) -> Extent:
        # If nothing broadcasts, the extents of two operands of which a type rule takes the larger are equal.
        if not self.menu.broadcast and (isinstance(a, Linear) or isinstance(b, Linear)):
            self.choices.some(("left",))
            self.require(a >= b, "the left number is the larger one")
            return a
        return self.larger(a, b)

    def larger(self, a: Extent, b: Extent) -> Extent:
        """Return the larger of two numbers; which one that is, is decided."""
        if not isinstance(a, Linear) and not isinstance(b, Linear):
            return max(a, b)
        if self.choices.pick(("left", "right")) == "left":
            self.require(a >= b, "the left number is the larger one")
            return a
        self.require(a < b, "the right number is the larger one")
        return b

    def require(self, condition: object, message: str) -> None:
        assert isinstance(condition, (bool, Relation))
        self.system.require(condition)

    def require_same(self, x: SpaceType, y: SpaceType, message: str) -> None:
        x.element.same(y.element)
        self.require(x.rank == y.rank, message)
        for a, b in zip(x.dims, y.dims, strict=True):
            self.require(a == b, message)

    def require_same_dtype(self, x: SpaceType, y: SpaceType) -> None:
        x.element.same(y.element)

    def _among(self, x: SpaceType, name: str) -> None:
        x.element.among({name})

    require_float = partialmethod(_among, name=FLOAT)
    require_integer = partialmethod(_among, name=WHOLE)
    require_index = partialmethod(_among, name=INDEX)
    require_truth = partialmethod(_among, name=TRUTH)

    def require_number(self, x: SpaceType) -> None:
        """Accept: the element types of instances hold 0 and 1."""

    def require_axis(self, x: SpaceType, axis: Extent) -> None:
        assert isinstance(axis, int)
        self.require(axis < 0, "an axis is counted from the last")
        self.require(x.rank >= -axis, "the axis exists")

    def concrete(self, what: str, *xs: SpaceType) -> Sequence[TensorType]:
        if not xs:
            raise NotLinear(what)
        return [cast("TensorType", Ranked(self.number_of_axes(x))) for x in xs]
