"""The instances of a rule: all types and attributes under which its two sides mean something.

The operators' own type rules are run on unknown extents. What they require becomes a linear system,
what is no number (an activation, which operand broadcasts, a stride) becomes a decision, so that a
sequence of decisions gives a family of instances with a number of free extents.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.ops import Attr, TensorType, TypeMismatch, spec_of
from workbench.rules.pattern import (
    App,
    Arith,
    AttrVar,
    Compare,
    DimOf,
    DtypeOf,
    Literal,
    RankOf,
    Rule,
    Term,
    Var,
    Vector,
    subterms,
)
from workbench.verification.choices import Choices
from workbench.verification.linear import LEAST, Inconsistent, Linear, NotLinear, System
from workbench.verification.typings import AXES, DTYPE, Menu, SpaceType, SpaceTyping, known

#: An unknown with a bound below this has so few values that each is a case of its own.
FEW: Final = 4
#: Attributes that are unknowns of the system, by name: what they stand for.
_UNKNOWN: Final = {
    "pads": "pad",
    "kernel": "kernel",
    "start": "position",
    "stop": "extent",
    "size": "extent",
    "channels": "extent",
}
_ARITH: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(slots=True)
class Space:
    """Hold one family of instances: the open types and attributes, and what ties them together.

    ``members`` counts those of an ``each`` rule; member ``i`` has its own starred variables ``w_i``.
    """

    rule: Rule
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
        """Return the type of a tensor variable."""
        if name not in self.variables:
            rank = self.system.fresh(f"rank({name})", "rank", AXES)
            dims = tuple(self.system.fresh(f"dim({name}, {a})", "extent") for a in range(-AXES, 0))
            self.variables[name] = SpaceType(rank, dims)
        return self.variables[name]

    def type_of(self, term: Term, *, source: bool, member: int | None = None) -> SpaceType:
        """Return a term's type; a source binds the attributes it leaves open."""
        if isinstance(term, Var):
            starred = term.starred and member is not None
            return self.variable(f"{term.name}_{member}" if starred else term.name)
        operands: list[SpaceType] = []
        for arg in term.args:
            if isinstance(arg, Var) and arg.starred and member is None:
                operands += [self.variable(f"{arg.name}_{i}") for i in range(self.members)]
            else:
                operands.append(self.type_of(arg, source=source, member=member))
        spec = spec_of(term.op)
        assert spec.infer is not None
        values = self.bind(term, operands) if source else self.values(term)
        if not spec.min_inputs <= len(operands) <= spec.max_inputs:
            raise TypeMismatch(f"{term.op} takes {spec.min_inputs} operands or more, not {len(operands)}")
        result: SpaceType = spec.infer(self.typing, operands, values)
        return result

    # -- attributes -----------------------------------------------------------------------------------
    def bind(self, term: App, operands: list[SpaceType]) -> dict[str, Any]:
        """Return the attributes of a source term, made where they are met for the first time."""
        given = dict(term.attrs)
        values: dict[str, Any] = {}
        for attr in spec_of(term.op).attrs:
            if attr.name in given:
                values[attr.name] = self.bound(given[attr.name], attr, operands)
            elif term.row is not None:
                row = self.rows.setdefault(term.row, {})
                if attr.name not in row:
                    row[attr.name] = self.fresh(f"{term.row}.{attr.name}", attr, operands)
                values[attr.name] = row[attr.name]
            else:
                values[attr.name] = attr.default
        return values

    def bound(self, expr: Any, attr: Attr, operands: list[SpaceType], place: int = 0) -> Any:
        """Return the value of a source term's attribute, or of its part at a place of a vector."""
        if isinstance(expr, Literal):
            return self.literal(expr, attr)
        if isinstance(expr, Vector):
            one = Attr(attr.name, "int")
            return tuple(self.bound(item, one, operands, i) for i, item in enumerate(expr.items))
        if isinstance(expr, AttrVar):
            if expr.name not in self.attrs:
                self.attrs[expr.name] = self.fresh(expr.name, attr, operands, place)
            return self.attrs[expr.name]
        return self.value(expr)

    def literal(self, expr: Literal, attr: Attr | None) -> Any:
        """Return a fixed value as the type rules read it."""
        if attr is not None and attr.kind == "ints" and isinstance(expr.value, int):
            return (expr.value,) * attr.length
        return expr.value

    def fresh(self, name: str, attr: Attr, operands: list[SpaceType], place: int = 0) -> Any:
        """Return an attribute that nothing has fixed yet: unknowns, or a decision."""
        menu, pick = self.typing.menu, self.typing.choices.pick
        kind = _UNKNOWN.get(attr.name)
        if kind is not None:
            if attr.kind == "ints":
                return tuple(self.system.fresh(f"{name}[{i}]", kind) for i in range(attr.length))
            return self.system.fresh(name, kind)
        if attr.name in ("strides", "dilations"):
            options = getattr(menu, attr.name)
            return pick(options) if attr.kind == "ints" else self.step(name, attr.name, place)
        if attr.name in ("groups", "count"):
            number = pick(menu.groups)
            self.quotients.append(number)
            return number
        if attr.kind == "act":
            return pick(menu.acts)
        if attr.kind == "dtype":
            return DTYPE
        if attr.name == "axis":
            return pick(tuple(range(-1, -AXES - 1, -1)))
        if attr.name == "step":
            return pick(menu.steps)
        if attr.name == "eps":
            return pick(menu.eps)
        if attr.kind == "float":
            return pick(menu.numbers)
        if attr.kind == "int":
            return pick(menu.flags)
        if attr.kind == "perm":
            return self._permutation()
        if attr.kind == "axes":
            return pick(((-1,), (-2,), (-2, -1), (-3,)))
        if attr.kind == "shape":
            rank = pick(tuple(r for r in menu.ranks if r))
            return tuple(self.system.fresh(f"{name}[{i}]", "extent") for i in range(rank))
        raise NotLinear(f"the attribute {attr.name}")

    def step(self, name: str, kind: str, place: int) -> int:
        """Return a stride or a dilation along one axis.

        With few options the first of an axis is that axis' own number. A later one that a condition
        compares equals it or does not.
        """
        menu, pick = self.typing.menu, self.typing.choices.pick
        options: tuple[tuple[int, int], ...] = getattr(menu, kind)
        if not menu.decide_few:
            return pick(tuple(sorted({number for option in options for number in option})))
        first = (kind, place) not in self.steps
        self.steps.add((kind, place))
        compared = any(name in _names(c.left) | _names(c.right) for c in self.rule.conditions)
        return pick(
            options[0][place:] + options[0][:place] if compared and not first else options[0][place:][:1]
        )

    def _permutation(self) -> tuple[int, ...]:
        left = list(range(self.typing.choices.pick(tuple(r for r in self.typing.menu.ranks if r >= 2))))
        found: list[int] = []
        while left:
            found.append(self.typing.choices.pick(tuple(left)))
            left.remove(found[-1])
        return tuple(found)

    def values(self, term: App) -> dict[str, Any]:
        """Return the attributes of a target term."""
        given = dict(term.attrs)
        values: dict[str, Any] = {}
        for attr in spec_of(term.op).attrs:
            if attr.name in given:
                value = self.value(given[attr.name], attr)
                if attr.kind == "ints" and not isinstance(value, tuple):
                    value = (value,) * attr.length
                if attr.name in ("groups", "count") and isinstance(known(value), Linear):
                    value = self.number(value)
                values[attr.name] = value
            elif term.row is not None and attr.name in self.rows.get(term.row, {}):
                values[attr.name] = self.rows[term.row][attr.name]
            else:
                values[attr.name] = attr.default
        return values

    def value(self, expr: Any, attr: Attr | None = None) -> Any:
        """Return an expression's value in the unknowns."""
        if isinstance(expr, Literal):
            return self.literal(expr, attr)
        if isinstance(expr, AttrVar):
            return self.attrs[expr.name]
        if isinstance(expr, Vector):
            return tuple(self.value(item) for item in expr.items)
        if isinstance(expr, DimOf):
            return self.typing.dim(self.variable(expr.var), expr.axis)
        if isinstance(expr, RankOf):
            return self.variable(expr.var).rank
        if isinstance(expr, DtypeOf):
            return DTYPE
        assert isinstance(expr, Arith), expr
        left, right = self.value(expr.left, attr), self.value(expr.right, attr)
        if expr.operator == "compose":
            if len(left) != len(right):
                raise Inconsistent("permutations of two ranks")
            return tuple(left[i] for i in right)
        if isinstance(left, tuple) or isinstance(right, tuple):
            size = len(left if isinstance(left, tuple) else right)
            lefts = left if isinstance(left, tuple) else (left,) * size
            rights = right if isinstance(right, tuple) else (right,) * size
            return tuple(self.arith(expr.operator, a, b) for a, b in zip(lefts, rights, strict=True))
        return self.arith(expr.operator, left, right)

    def arith(self, sign: str, left: Any, right: Any) -> Any:
        """Return the value of an operation on two integers."""
        if sign == "max":
            return self.typing.maximum(left, right)
        if sign == "min":
            return left + right - self.typing.maximum(left, right)
        if sign == "//" and isinstance(right, Linear) and isinstance(right.reduced(), Linear):
            # Channels divided by the columns of a weight are the groups: a number that is decided,
            # unless one is a multiple of the other whatever the extents are.
            ratio = _ratio(left, right)
            if ratio is not None:
                return ratio
            return self.number(left, right)
        result = _ARITH[sign](left, right)
        reduced = result.reduced() if isinstance(result, Linear) else result
        return int(reduced) if not isinstance(reduced, Linear) and reduced == int(reduced) else result

    def number(self, value: Any, unit: Any = 1) -> int:
        """Decide which multiple of ``unit`` an expression is: groups are numbers, not unknowns."""
        options = sorted({*self.quotients, sum(self.quotients[3:])} - {0})
        number = self.typing.choices.pick(tuple(options))
        self.typing.require(value == unit * number, "a multiple")
        return number

    def condition(self, condition: Compare) -> None:
        """Require a condition of the rule."""
        left, right = self.value(condition.left), self.value(condition.right)
        lefts = left if isinstance(left, tuple) else (left,)
        rights = right if isinstance(right, tuple) else (right,) * len(lefts)
        for a, b in zip(lefts, rights, strict=True):
            self.typing.require(_RELATIONS[condition.relation](a, b), f"condition {condition}")


def open_space(rule: Rule, choices: Choices, menu: Menu) -> Space:
    """Run a rule's typing under a sequence of decisions; return the family of instances it leaves.

    Raise :class:`Inconsistent` or TypeMismatch where there is none, :class:`NotLinear` where the
    typing of an operator is beyond linear systems.
    """
    space = Space(rule, SpaceTyping(System(remainders=menu.remainders), choices, menu))
    lefts: list[SpaceType] = []
    if rule.each:
        space.members = choices.pick(menu.members)
    for term in (t for source in rule.sources for t in subterms(source)):
        if isinstance(term, Var):
            for name in [f"{term.name}_{i}" for i in range(space.members)] if term.starred else [term.name]:
                space.variable(name)
    # What conditions say of ranks and extents alone is known before typing starts: an operand that
    # is a scalar, or one number per channel, is no alternative.
    for condition in rule.conditions:
        if condition.relation == "=" and _plain(condition.left) and _plain(condition.right):
            space.condition(condition)
    _fix_ranks(space)
    if rule.each:
        lefts = [space.type_of(rule.sources[0], source=True, member=i) for i in range(space.members)]
    else:
        lefts = [space.type_of(source, source=True) for source in rule.sources]
    for condition in rule.conditions:
        space.condition(condition)
    typing = space.typing
    if rule.each:
        target = rule.targets[0]
        assert isinstance(target, App)
        axis = int(space.values(target)["axis"])
        whole = space.type_of(target.args[0], source=False)
        for left in lefts:
            typing.require_same(left, typing.with_dim(whole, axis, left.dims[axis]), "parts fit")
    else:
        for source, target, left in zip(rule.sources, rule.targets, lefts, strict=True):
            if source != target:
                typing.require_same(left, space.type_of(target, source=False), "both sides have one type")
    _decide(space)
    return space


def _ratio(left: Any, right: Linear) -> int | None:
    above, below = known(left), known(right)
    if not isinstance(above, Linear):
        return None
    unknown, factor = next(iter(below.terms.items()))
    ratio = above.terms.get(unknown, 0) / factor
    return (
        int(ratio) if ratio >= 1 and ratio == int(ratio) and (above == below * int(ratio)) is True else None
    )


def _names(expr: Any) -> set[str]:
    """Return the attribute variables of an expression."""
    if isinstance(expr, Arith):
        return _names(expr.left) | _names(expr.right)
    if isinstance(expr, Vector):
        return set().union(*map(_names, expr.items))
    return {expr.name} if isinstance(expr, AttrVar) else set()


def _plain(expr: Any) -> bool:
    if isinstance(expr, Arith):
        return expr.operator in "+-*" and _plain(expr.left) and _plain(expr.right)
    return isinstance(expr, Literal | DimOf | RankOf)


def _fix_ranks(space: Space) -> None:
    # An axis that a tensor does not have has extent 1: the type vectors are aligned at the right.
    for kind in space.variables.values():
        rank = known(kind.rank)
        if not isinstance(rank, Linear):
            for i in range(AXES - rank):
                space.typing.require(kind.dims[i] == 1, "no such axis")


def _decide(space: Space) -> None:
    """Settle broadcasting and the ranks that are open."""
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
            typing.require(kind.rank == typing.choices.pick(typing.menu.ranks), "a rank")
    _fix_ranks(space)
    space.system.check()
    while typing.menu.decide_few:
        few = next(((u, top) for u, top in space.system.bounds().items() if top < FEW), None)
        if few is None:
            break
        unknown = Linear(space.system, 0, {few[0]: 1})
        least = LEAST[space.system.kinds[few[0]]]
        if few[1] < least:
            raise Inconsistent(f"an extent would be below {least}")
        typing.require(unknown == typing.choices.pick(tuple(range(least, few[1] + 1))), "one of few")
        space.system.check()


def tensor_type(kind: SpaceType, values: dict[int, int]) -> TensorType:
    """Return the type that an assignment of the unknowns gives."""

    def number(x: Any) -> int:
        return int(x.value(values)) if isinstance(x, Linear) else int(x)

    rank = number(kind.rank)
    dims = tuple(number(d) for d in kind.dims)
    return TensorType(DTYPE, dims[AXES - rank :] if rank else ())


def plain(x: Any, values: dict[int, int]) -> Any:
    """Return an attribute with its unknowns replaced by numbers."""
    if isinstance(x, tuple):
        return tuple(plain(v, values) for v in x)
    return int(x.value(values)) if isinstance(x, Linear) else x
