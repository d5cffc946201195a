"""The instances of a rule: all types and attributes under which its two sides are well-typed.

The operators' own type rules are run on unknown extents. Their requirements become a linear system, and
alternatives that are not numbers (an activation, a broadcasting operand, a stride) become decisions. A
sequence of decisions therefore gives a family of instances with some free extents.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from workbench.graph import Builder
from workbench.laws.verification.instances.boundary_values import MEMBERS, axes_of, coordinate_of, unbounded
from workbench.laws.verification.instances.linear import LEAST, Inconsistent, Linear, NotLinear, System
from workbench.laws.verification.instances.typings import (
    AXES,
    Choices,
    Element,
    Extent,
    Menu,
    RandomChoices,
    SpaceType,
    SpaceTyping,
    known,
)
from workbench.ops import Attr, AttrValue, TensorType, Trait, TypeMismatch, spec_of
from workbench.rules import interpret, pattern
from workbench.symbolic.integers import sym

#: Attributes that are decided as numbers, because they divide extents.
GROUPED: Final = ("groups", "count", "block", "times")
#: An unknown with an upper bound below this has so few values that each is a separate case.
FEW: Final = 4
#: Attributes that are unknowns of the system: their name and the kind of unknown.
_UNKNOWN: Final = {
    "pads": "pad",
    "extra": "pad",
    "kernel": "kernel",
    "start": "position",
    "stop": "extent",
    "size": "extent",
    "channels": "extent",
}


@dataclass(slots=True)
class Space(interpret.Bound, interpret.Permutations):
    """One family of instances: the algebra in which terms are types, with open extents and requirements on them.

    Of the ``members`` of an ``each`` rule, number ``i`` has its own starred variables ``w_i``.
    """

    rule: pattern.Rule
    typing: SpaceTyping
    variables: dict[str, SpaceType] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    members: int = 0
    quotients: list[int] = field(default_factory=lambda: [1, 2, 3])
    steps: set[tuple[str, int]] = field(default_factory=set)

    @property
    def system(self) -> System:
        """Return the linear system."""
        return self.typing.system

    # -- types --------------------------------------------------------------------------------------
    def variable(self, name: str) -> SpaceType:
        if name not in self.variables:
            axes = self.typing.axes
            rank = self.system.fresh(f"rank({name})", "rank", axes)
            dims = tuple(self.system.fresh(f"dim({name}, {a})", "extent") for a in range(-axes, 0))
            self.variables[name] = SpaceType(rank, dims)
        return self.variables[name]

    def starred(self, name: str) -> list[SpaceType]:
        return [self.variable(f"{name}_{i}") for i in range(self.members)]

    def apply(self, term: pattern.App, operands: list[SpaceType], attrs: dict[str, Any]) -> SpaceType:
        spec = spec_of(term.op)
        assert spec.infer is not None
        for name, value in attrs.items():
            if value is None:
                raise TypeMismatch(f"{name} has no default and must be given")
        if not spec.min_inputs <= len(operands) <= spec.max_inputs:
            raise TypeMismatch(f"{term.op} takes {spec.min_inputs} operands or more, not {len(operands)}")
        return spec.infer(self.typing, operands, attrs)

    # -- attributes -----------------------------------------------------------------------------------
    def literal(self, value: AttrValue, attr: Attr | None) -> AttrValue:
        return value if attr is None else interpret.spread(value, attr)

    def given(self, value: object, attr: Attr) -> object:
        """Return an expression's value as the type rules expect it: groups are numbers, not unknowns."""
        found = interpret.spread(value, attr)
        open_ = attr.name in ("groups", "count") and isinstance(known(found), Linear)
        return self.number(found) if open_ else found

    def fresh(self, attr: Attr, variable: str | interpret.RowAttr, place: int) -> object:
        """Return an attribute that is not fixed yet, as unknowns or as the result of a decision."""
        menu, pick, some = self.typing.menu, self.typing.choices.pick, self.typing.choices.some
        name = variable if isinstance(variable, str) else f"{variable.row}.{variable.name}"
        fixed = menu.given(coordinate_of(variable))
        if fixed is not None:
            if attr.name in GROUPED:
                self.quotients.append(fixed)
            return some((fixed,))
        kind = _UNKNOWN.get(attr.name)
        if kind is not None:
            if attr.kind == "ints":
                return tuple(self.system.fresh(f"{name}[{i}]", kind) for i in range(attr.length))
            return self.system.fresh(name, kind)
        if attr.name in ("strides", "dilations"):
            options = getattr(menu, attr.name)
            return some(options) if attr.kind == "ints" else self.step(name, attr.name, place)
        if attr.name in GROUPED:
            number = some(menu.groups)
            self.quotients.append(number)
            return number
        if attr.kind == "extent":
            return self.system.fresh(name, "extent")
        if attr.names and attr.kind != "act":
            return pick(attr.names)
        if attr.kind == "dtype":
            return Element()
        if attr.kind == "perm":
            return self._permutation(name)
        if attr.kind == "shape":
            rank = some(tuple(r for r in menu.ranks if r))
            return tuple(self.system.fresh(f"{name}[{i}]", "extent") for i in range(rank))
        options = self._options(attr)
        if not options:
            raise NotLinear(f"the attribute {attr.name}")
        return some(options)

    def _options(self, attr: Attr) -> tuple[Any, ...]:
        """Return the values of an attribute that is neither an unknown nor a word; empty if it has none."""
        menu, axes = self.typing.menu, self.typing.axes
        by_name = {"axis": tuple(range(-1, -axes - 1, -1)), "step": menu.steps, "eps": menu.eps}
        by_kind = {
            "act": menu.acts,
            "float": menu.numbers + unbounded(attr),
            "int": menu.flags,
            "axes": ((-1,), (-2,), (-2, -1), (-3,), *((-axis,) for axis in range(AXES + 1, axes + 1))),
        }
        return by_name.get(attr.name) or attr.tried or by_kind.get(attr.kind, ())

    def step(self, name: str, kind: str, place: int) -> int:
        """Return a stride or a dilation along one axis.

        With few alternatives the first one of an axis is its own number; later ones in conditions may differ.
        """
        menu, pick = self.typing.menu, self.typing.choices.some
        options: tuple[tuple[int, int], ...] = getattr(menu, kind)
        if not menu.decide_few:
            return pick(tuple(sorted({number for option in options for number in option})))
        first = (kind, place) not in self.steps
        self.steps.add((kind, place))
        if first or ("attr", name) not in pattern.names_in(*self.rule.conditions):
            return pick(options[0][place:][:1])
        return pick(options[0][place:] + options[0][:place])

    def _permutation(self, name: str) -> tuple[int, ...]:
        rank = self.typing.choices.some(tuple(r for r in self.typing.menu.ranks if r >= 2))
        if rank > AXES:  # too many to enumerate, and too many to meet a condition by chance
            return self.typing.choices.some(allowed(name, rank, self.rule.conditions))
        found: list[int] = []
        while left := [axis for axis in range(rank) if axis not in found]:
            found.append(self.typing.choices.pick(tuple(left)))
        return tuple(found)

    # -- expressions ----------------------------------------------------------------------------------
    def dim(self, var: str, axis: int) -> Extent:
        return self.typing.dim(self.variable(var), axis)

    def rank(self, var: str) -> Extent:
        return self.variable(var).rank

    def dtype(self, var: str) -> Element:
        return self.variable(var).element

    def arith(self, sign: str, left: Extent, right: Extent) -> Extent:
        # The larger of two extents is that of operands that broadcast; a number is compared either way.
        both = isinstance(left, Linear) and isinstance(right, Linear)
        larger = self.typing.maximum if both else self.typing.larger
        if sign == "max":
            return larger(left, right)
        if sign == "min":
            return left + right - larger(left, right)
        if sign in ("//", "%") and not isinstance(right, Linear) and right == 0:
            raise Inconsistent("a division by 0")
        if sign == "%" and isinstance(known(right), Linear):
            raise NotLinear("a remainder by an unknown")
        if sign == "//" and isinstance(right, Linear) and isinstance(right.reduced(), Linear):
            # Channels divided by the columns of a weight are the groups. Their number is decided, unless
            # one of the two is a multiple of the other for all extents.
            ratio = _ratio(left, right)
            return self.number(left, right) if ratio is None else ratio
        result = interpret.ARITHMETIC[sign](left, right)
        reduced = result.reduced() if isinstance(result, Linear) else result
        return int(reduced) if not isinstance(reduced, Linear) and reduced == int(reduced) else result

    def number(self, value: Extent, unit: Extent = 1) -> int:
        """Decide which multiple of ``unit`` an expression is, because groups are numbers, not unknowns."""
        options = sorted({*self.quotients, sum(self.quotients[3:])} - {0})
        number = self.typing.choices.some(tuple(options))
        self.typing.require(value == unit * number, "a multiple")
        return number

    def condition(self, condition: pattern.Compare) -> None:
        """Require a condition of the rule."""
        for a, b in interpret.compared(condition, self):
            self.typing.require(interpret.RELATIONS[condition.relation](a, b), f"condition {condition}")


def open_space(rule: pattern.Rule, choices: Choices, menu: Menu) -> Space:
    """Run a rule's typing under a sequence of decisions; return the resulting family of instances.

    Raise :class:`Inconsistent` or TypeMismatch if the family is empty, and :class:`NotLinear` if the typing
    of an operator is not linear.
    """
    if any(Trait.CONVERTS & spec_of(op).traits for op in pattern.operators_of(rule)):
        raise NotLinear("a conversion between element types")
    menu = replace(menu, axes=max(menu.axes, axes_of(rule)))
    space = Space(rule, SpaceTyping(System(remainders=menu.remainders), choices, menu))
    if rule.each:
        number = menu.given(MEMBERS)
        space.members = choices.some(menu.members if number is None else (number,))
    for term in pattern.subterms(*rule.sources):
        if isinstance(term, pattern.Var):
            (space.starred if term.starred else space.variable)(term.name)
    _fix(space)
    # Conditions on ranks and extents come first: they rule out whole branches before typing starts.
    for condition in rule.conditions:
        if condition.relation == "=" and _plain(condition.left) and _plain(condition.right):
            space.condition(condition)
    _fix_ranks(space)
    members: Iterable[int | None] = range(space.members) if rule.each else (None,)
    lefts = [interpret.bound_term(term, space, member=i) for i in members for term in rule.sources]
    for condition in rule.conditions:
        space.condition(condition)
    typing = space.typing
    if rule.each:
        merged = rule.targets[0]
        assert isinstance(merged, pattern.App)
        axis = interpret.read_attributes(merged, space)["axis"]
        if axis is None:
            raise TypeMismatch("axis has no default and must be given")
        whole = interpret.read_term(merged.args[0], space)
        for left in lefts:
            typing.require_same(left, typing.with_dim(whole, axis, left.dims[axis]), "parts fit")
        typing.require(sum(left.dims[axis] for left in lefts) == whole.dims[axis], "the parts make the whole")
    else:
        for before, after, left in zip(rule.sources, rule.targets, lefts, strict=True):
            if before != after:
                typing.require_same(left, interpret.read_term(after, space), "both sides have one type")
    _decide(space)
    return space


def _fix(space: Space) -> None:
    """Require the extents, ranks and element types that the menu fixes."""
    for (kind, name, at), value in space.typing.menu.fixed:
        if name not in space.variables or kind not in ("dim", "rank", "dtype"):
            continue
        space.typing.choices.some((value,))
        variable = space.variables[name]
        if kind == "dtype":
            variable.element.among({value})
        elif kind == "rank":
            space.typing.require(variable.rank == value, "a rank")
        elif isinstance(at, int):
            space.typing.require(variable.rank >= -at, "the axis exists")
            space.typing.require(variable.dims[at] == value, "an extent")


def _ratio(left: Extent, right: Linear) -> int | None:
    above, below = known(left), right.row()
    if not isinstance(above, Linear):
        return None
    unknown, factor = next(iter(below.terms.items()))
    ratio = above.row().terms.get(unknown, 0) / factor
    whole = int(ratio)
    return whole if whole == ratio >= 1 and (above == right * whole) is True else None


def _plain(expr: Any) -> bool:
    if isinstance(expr, pattern.Arith):
        return expr.operator in "+-*" and _plain(expr.left) and _plain(expr.right)
    return isinstance(expr, pattern.Literal | pattern.RankOf) or (
        isinstance(expr, pattern.DimOf) and isinstance(expr.axis, int)
    )


def _fix_ranks(space: Space) -> None:
    # A missing axis has extent 1: the type vectors are aligned at the right.
    for kind in space.variables.values():
        rank = known(kind.rank)
        if not isinstance(rank, Linear):
            for i in range(len(kind.dims) - rank):
                space.typing.require(kind.dims[i] == 1, "no such axis")


def _decide(space: Space) -> None:
    """Decide broadcasting and the ranks that are still open."""
    typing = space.typing
    _fix_ranks(space)
    while typing.pending:
        while typing.forced():
            _fix_ranks(space)
        if typing.pending:
            typing.settle()
            _fix_ranks(space)
    for kind in space.variables.values():
        if isinstance(known(kind.rank), Linear):
            typing.require(kind.rank == typing.choices.some(typing.menu.ranks), "a rank")
    _fix_ranks(space)
    space.system.check()
    while typing.menu.decide_few:
        few = next(((u, top) for u, top in space.system.bounds().items() if top < FEW), None)
        if few is None:
            break
        unknown = Linear(space.system, sym(str(few[0])))
        least = LEAST[space.system.kinds[few[0]]]
        if few[1] < least:
            raise Inconsistent(f"an extent would be below {least}")
        typing.require(unknown == typing.choices.pick(tuple(range(least, few[1] + 1))), "one of few")
        space.system.check()


def tensor_type(kind: SpaceType, values: dict[int, int]) -> TensorType:
    """Return the type for an assignment of numbers to the unknowns."""
    rank, *dims = (int(x.value(values)) if isinstance(x, Linear) else int(x) for x in (kind.rank, *kind.dims))
    return TensorType(kind.element.name, tuple(dims[len(dims) - rank :]))


def plain(x: object, values: dict[int, int]) -> object:
    """Return an attribute with its unknowns replaced by numbers."""
    if isinstance(x, tuple):
        return tuple(plain(v, values) for v in x)
    if isinstance(x, Element):
        return x.name
    return int(x.value(values)) if isinstance(x, Linear) else x


# -- permutations ----------------------------------------------------------------------------------------
#: Of more axes than this, only those at the end are brought into every order, and all into some random ones.
MOVED: Final = 6
RANDOM: Final = 500


@lru_cache(maxsize=256)
def allowed(name: str, rank: int, conditions: tuple[pattern.Compare, ...]) -> tuple[tuple[int, ...], ...]:
    """Return permutations of a rank, all of few axes, that meet those conditions that name one attribute alone."""
    alone = [c for c in conditions if {*pattern.names_in(c)} == {("attr", name)}]
    first, rng = max(0, rank - MOVED), random.Random(rank)
    moved = ((*range(first), *last) for last in itertools.permutations(range(first, rank)))
    drawn = (tuple(rng.sample(range(rank), rank)) for _ in range(RANDOM if first else 0))
    return tuple(p for p in itertools.chain(moved, drawn) if all(_holds(c, p) for c in alone))


def _holds(condition: pattern.Compare, perm: tuple[int, ...]) -> bool:
    no_tensors: dict[str, TensorType] = {}
    try:
        return interpret.holds(condition, lambda name: perm, no_tensors.__getitem__)
    except (TypeMismatch, IndexError):
        return False


# -- instances -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a rule: types by tensor variable, attributes by variable, and attributes by row."""

    rule: pattern.Rule
    types: Mapping[str, TensorType]
    attrs: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]
    members: int = 0
    broadcasts: bool = False

    def settings(self) -> dict[str, Any]:
        """Return the attributes by name, those of a row as ``row.attribute``."""
        of_rows = {f"{row}.{name}": v for row, given in self.rows.items() for name, v in given.items()}
        return {**self.attrs, **of_rows}


#: A family of instances, and the numbers of one of them for its unknowns.
Family = tuple[Space, dict[int, int]]


def instance_of(space: Space, values: dict[int, int]) -> Instance:
    """Return the instance for an assignment of numbers to a space's unknowns."""
    return Instance(
        space.rule,
        {name: tensor_type(kind, values) for name, kind in space.variables.items()},
        {name: plain(x, values) for name, x in space.attrs.items()},
        {row: {name: plain(x, values) for name, x in given.items()} for row, given in space.rows.items()},
        space.members,
        space.typing.broadcasts,
    )


# -- numbers ----------------------------------------------------------------------------------------
def options(space: Space, unknown: int, menu: Menu) -> tuple[int, ...]:
    """Return the values to try for a free unknown."""
    kind = space.system.kinds[unknown]
    found = {"extent": menu.extents, "kernel": menu.kernels, "pad": menu.pads}.get(kind, (0, 1, 2, 3))
    top = space.system.top.get(unknown, 1 << 60)
    return tuple(v for v in found if LEAST[kind] <= v <= top) or (LEAST[kind],)


def sample(space: Space, rng: random.Random, menu: Menu, tries: int = 40) -> dict[int, int] | None:
    """Return random values of a menu for all unknowns of a space, or None if no attempt succeeds.

    Args:
        space: A family of instances.
        rng: The source of random numbers.
        menu: The values to choose from.
        tries: The number of attempts.
    """
    free = space.system.free()
    for _ in range(tries):
        found = space.system.complete({u: rng.choice(options(space, u, menu)) for u in free})
        if found is not None:
            return found
    return None


def draw_family(rule: pattern.Rule, rng: random.Random, menu: Menu) -> Family | None:
    """Return a random family of instances of a rule with random values, or None if no values fit."""
    space = open_space(rule, RandomChoices(rng), menu)
    values = sample(space, rng, menu)
    return None if values is None else (space, values)


# -- both sides as nodes ------------------------------------------------------------------------------
@dataclass(slots=True)
class Ground:
    """The two sides of instances in one builder; equal terms are one node.

    If ``canonical``, a variable is named by its type and by the number of earlier variables of that type in
    its instance, so that the instances of many rules share their leaves.
    """

    builder: Builder = field(default_factory=Builder)
    canonical: bool = False
    leaves: dict[str, int] = field(default_factory=dict)

    def leaf(self, name: str, kind: TensorType) -> int:
        """Return the node of a variable."""
        if name not in self.leaves:
            self.leaves[name] = self.builder.input(name, kind.shape, kind.dtype)
        return self.leaves[name]

    def add(self, instance: Instance) -> list[tuple[int, int]]:
        """Add both sides of an instance; return their pairs of roots, or raise TypeMismatch if they do not fit."""
        return _Grounding(self, instance).pairs()


class _Grounding(interpret.Bound, interpret.Numbers):
    """The algebra of one instance's nodes."""

    def __init__(self, ground: Ground, instance: Instance) -> None:
        self.ground, self.instance = ground, instance
        self.attrs, self.rows = instance.attrs, instance.rows
        self.names: dict[str, str] = {}

    def kind(self, name: str) -> TensorType:
        return self.instance.types[name]

    def variable(self, name: str) -> int:
        kind = self.kind(name)
        if name not in self.names:
            count = sum(self.kind(n) == kind for n in self.names)
            self.names[name] = f"{count}:{kind}" if self.ground.canonical else name
        return self.ground.leaf(self.names[name], kind)

    def starred(self, name: str) -> list[int]:
        return [self.variable(f"{name}_{i}") for i in range(self.instance.members)]

    def apply(self, term: pattern.App, operands: list[int], attrs: dict[str, Any]) -> int:
        return self.ground.builder.op(term.op, *operands, **attrs)

    def pairs(self) -> list[tuple[int, int]]:
        rule, builder = self.instance.rule, self.ground.builder
        if not all(self.holds(c) for c in rule.conditions):
            raise TypeMismatch("a condition of the rule does not hold")
        if rule.each:
            merged = rule.targets[0]
            assert isinstance(merged, pattern.App)
            lefts = [
                interpret.read_term(rule.sources[0], self, member=i) for i in range(self.instance.members)
            ]
            axis = interpret.read_attributes(merged, self)["axis"]
            whole = interpret.read_term(merged.args[0], self)
            rights = [
                builder.op("slice", whole, **given) for given in pattern.parts(map(builder.type, lefts), axis)
            ]
        else:
            # A root that is the same on both sides only gives context, but it must be well-typed.
            sources = [interpret.read_term(s, self) for s in rule.sources]
            changed = [s != t for s, t in zip(rule.sources, rule.targets, strict=True)]
            lefts = [left for left, c in zip(sources, changed, strict=True) if c]
            rights = [interpret.read_term(t, self) for t, c in zip(rule.targets, changed, strict=True) if c]
        for left, right in zip(lefts, rights, strict=True):
            if builder.type(left) != builder.type(right):
                raise TypeMismatch(f"{builder.type(left)} on the left, {builder.type(right)} on the right")
        return list(zip(lefts, rights, strict=True))


def broadcasting_mismatch(rule: pattern.Rule, seed: int = 0) -> str:
    """Return an instance whose left-hand side broadcasts and whose right-hand side has another type.

    Such an instance is not a counterexample, but a system that applies the rule without checking types
    breaks. The text names the shapes; it is empty if no such instance was found.
    """
    rng = random.Random(seed)
    menu = Menu()
    for _ in range(60):
        try:
            space = open_space(replace(rule, targets=rule.sources), RandomChoices(rng), menu)
        except (Inconsistent, TypeMismatch):
            continue
        values = sample(space, rng, menu, 6) if space.typing.broadcasts else None
        if values is None:
            continue
        instance = instance_of(space, values)
        with suppress(TypeMismatch):
            Ground().add(instance)
            try:
                Ground().add(replace(instance, rule=rule))
            except TypeMismatch as error:
                shapes = ", ".join(f"{n}{list(t.shape)}" for n, t in instance.types.items())
                return f"{shapes}: {error}"
    return ""
