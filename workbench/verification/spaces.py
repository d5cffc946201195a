"""The instances of a rule: all types and attributes under which its two sides mean something.

The operators' own type rules are run on unknown extents. What they require becomes a linear system,
what is no number (an activation, which operand broadcasts, a stride) becomes a decision, so that a
sequence of decisions gives a family of instances with a number of free extents.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from workbench.ops import ACTIVATIONS, Attr, TensorType, TypeMismatch, spec_of
from workbench.rules.pattern import (
    App,
    Arith,
    AttrVar,
    Compare,
    DimOf,
    Literal,
    RankOf,
    Rule,
    Term,
    Var,
    Vector,
    subterms,
)
from workbench.verification.choices import Choices
from workbench.verification.linear import Inconsistent, Linear, NotLinear, System

#: Axes of a type; extents before a tensor's first axis are 1.
AXES: Final = 4
DTYPE: Final = "float32"


@dataclass(frozen=True, slots=True)
class Menu:
    """List what the decisions choose among; an option that stands twice is taken twice as often.

    ``extents``, ``kernels`` and ``pads`` are values of free unknowns; ``broadcast`` says whether
    operands may broadcast, ``members`` how many an ``each`` rule merges.
    """

    ranks: tuple[int, ...] = (2, 4, 4, 3, 1, 0)
    strides: tuple[tuple[int, int], ...] = ((1, 1), (1, 1), (2, 2), (1, 2), (2, 1))
    dilations: tuple[tuple[int, int], ...] = ((1, 1), (1, 1), (1, 1), (2, 1), (2, 2))
    groups: tuple[int, ...] = (1, 1, 2, 2, 3)
    acts: tuple[str, ...] = ("none", "relu")
    flags: tuple[int, ...] = (0, 1)
    steps: tuple[int, ...] = (1, 1, 2)
    eps: tuple[float, ...] = (0.5, 0.25)
    numbers: tuple[float, ...] = (0.0, 1.0, -2.0)
    members: tuple[int, ...] = (2, 3)
    extents: tuple[int, ...] = (1, 2, 2, 3, 3, 4, 5)
    kernels: tuple[int, ...] = (1, 1, 3, 3, 2)
    pads: tuple[int, ...] = (0, 0, 1, 1, 2)
    broadcast: bool = True


#: What every instance of which is tried for an axiom: few options, small extents.
SMALL: Final = Menu(
    ranks=(1, 2, 3, 4),
    strides=((1, 1), (2, 1)),
    dilations=((1, 1), (1, 2)),
    groups=(1, 2),
    acts=("none", "relu"),
    steps=(1, 2),
    eps=(0.5,),
    numbers=(0.0,),
    members=(2,),
    extents=(1, 2),
    kernels=(1, 2, 3),
    pads=(0, 1),
)


@dataclass(frozen=True, slots=True, eq=False)
class SpaceType:
    """Hold a tensor's type: its rank and the extents of its last axes."""

    rank: Any
    dims: tuple[Any, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.dims))}]"


class SpaceTyping:
    """Run type rules on :class:`SpaceType`: requirements go into the system, alternatives are decided."""

    def __init__(self, system: System, choices: Choices, menu: Menu) -> None:
        self.system = system
        self.choices = choices
        self.menu = menu
        #: Whether operands broadcast somewhere in this family of instances.
        self.broadcasts = False

    def rank(self, x: SpaceType) -> Any:
        return x.rank

    def dim(self, x: SpaceType, axis: int) -> Any:
        return x.dims[axis] if -axis <= AXES else 1

    def with_dim(self, x: SpaceType, axis: int, extent: Any) -> SpaceType:
        self.require_axis(x, axis)
        dims = list(x.dims)
        dims[axis] = extent
        return SpaceType(x.rank, tuple(dims))

    def with_dtype(self, x: SpaceType, dtype: Any) -> SpaceType:
        return x

    def tensor(self, like: SpaceType, *dims: Any) -> SpaceType:
        return self.constant(DTYPE, *dims)

    def constant(self, dtype: Any, *dims: Any) -> SpaceType:
        if len(dims) > AXES:
            raise Inconsistent(f"more than {AXES} axes")
        return SpaceType(len(dims), (1,) * (AXES - len(dims)) + tuple(dims))

    def with_shape(self, x: SpaceType, shape: Any) -> SpaceType:
        return self.tensor(x, *shape)

    def constant_of_shape(self, dtype: Any, shape: Any) -> SpaceType:
        return self.constant(dtype, *shape)

    def permute(self, x: SpaceType, perm: Sequence[int]) -> SpaceType:
        self.require(x.rank == len(perm), "a permutation fits its operand's rank")
        dims = x.dims[AXES - len(perm) :]
        return self.tensor(x, *(dims[p] for p in perm))

    def elements(self, x: SpaceType) -> Any:
        product: Any = 1
        for d in x.dims:
            product = product * d
        return product

    def broadcast(self, x: SpaceType, y: SpaceType, keep: int = 0) -> SpaceType:
        axes = range(AXES - keep)
        if isinstance(y.rank, int) and y.rank == 0 and not keep:
            return x
        if not self.menu.broadcast or self.choices.pick(("alike", "alike", "broadcast")) == "alike":
            self.require(x.rank == y.rank, "the ranks agree")
            for i in axes:
                self.require(x.dims[i] == y.dims[i], "the extents agree")
            return x
        self.broadcasts = True
        rank = x.rank
        order = self.choices.pick(("equal", "less", "more"))
        if order == "equal":
            self.require(x.rank == y.rank, "the ranks agree")
        elif order == "less":
            self.require(x.rank < y.rank, "the left operand has fewer axes")
            rank = y.rank
        else:
            self.require(x.rank > y.rank, "the left operand has more axes")
        dims = list(x.dims)
        for i in axes:
            a, b = x.dims[i], y.dims[i]
            if a is b or (isinstance(a, int) and a == 1):
                dims[i] = b
                continue
            if isinstance(b, int) and b == 1:
                continue
            case = self.choices.pick(("equal", "left", "right"))
            if case == "left":
                self.require(a == 1, "the left operand broadcasts")
                dims[i] = b
            else:
                self.require(b == (a if case == "equal" else 1), "the right operand broadcasts")
        return SpaceType(rank, tuple(dims))

    def maximum(self, a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        if self.choices.pick(("left", "right")) == "left":
            self.require(a >= b, "the left number is the larger one")
            return a
        self.require(a < b, "the right number is the larger one")
        return b

    def require(self, condition: Any, message: str) -> None:
        self.system.require(condition)

    def require_same(self, x: SpaceType, y: SpaceType, message: str) -> None:
        self.require(x.rank == y.rank, message)
        for a, b in zip(x.dims, y.dims, strict=True):
            self.require(a == b, message)

    def require_same_dtype(self, x: SpaceType, y: SpaceType) -> None:
        """Accept: the tensors of an instance have one element type."""

    def require_float(self, x: SpaceType) -> None:
        """Accept: the tensors of an instance are floating-point."""

    def require_number(self, x: SpaceType) -> None:
        """Accept: the tensors of an instance are floating-point."""

    def require_axis(self, x: SpaceType, axis: int) -> None:
        self.require(x.rank >= -axis, "the axis exists")

    def concrete(self, what: str) -> None:
        raise NotLinear(what)


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

    ``members`` counts those of an ``each`` rule; member ``i`` has its own starred variables ``w#i``.
    """

    rule: Rule
    typing: SpaceTyping
    variables: dict[str, SpaceType] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    members: int = 0
    quotients: list[int] = field(default_factory=lambda: [1, 2, 3])

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
            return self.variable(f"{term.name}#{member}" if starred else term.name)
        operands: list[SpaceType] = []
        for arg in term.args:
            if isinstance(arg, Var) and arg.starred and member is None:
                operands += [self.variable(f"{arg.name}#{i}") for i in range(self.members)]
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

    def bound(self, expr: Any, attr: Attr, operands: list[SpaceType]) -> Any:
        """Return the value of a source term's attribute."""
        if isinstance(expr, Literal):
            return self.literal(expr, attr)
        if isinstance(expr, Vector):
            one = Attr(attr.name, "int")
            return tuple(self.bound(item, one, operands) for item in expr.items)
        if isinstance(expr, AttrVar):
            if expr.name not in self.attrs:
                self.attrs[expr.name] = self.fresh(expr.name, attr, operands)
            return self.attrs[expr.name]
        return self.value(expr)

    def literal(self, expr: Literal, attr: Attr | None) -> Any:
        """Return a fixed value as the type rules read it."""
        if attr is not None and attr.kind == "ints" and isinstance(expr.value, int):
            return (expr.value,) * attr.length
        return expr.value

    def fresh(self, name: str, attr: Attr, operands: list[SpaceType]) -> Any:
        """Return an attribute that nothing has fixed yet: unknowns, or a decision."""
        menu, pick = self.typing.menu, self.typing.choices.pick
        kind = _UNKNOWN.get(attr.name)
        if kind is not None:
            if attr.kind == "ints":
                return tuple(self.system.fresh(f"{name}[{i}]", kind) for i in range(attr.length))
            return self.system.fresh(name, kind)
        if attr.name in ("strides", "dilations"):
            options = getattr(menu, attr.name)
            return pick(options) if attr.kind == "ints" else pick(options)[0]
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
        if not isinstance(expr, Arith):
            return DTYPE  # the element type of a variable
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
            # Channels divided by the columns of a weight: the groups, a number that is decided.
            known = sorted({*self.quotients, sum(self.quotients[3:])} - {0})
            number = self.typing.choices.pick(tuple(known))
            self.typing.require(left == right * number, "the division is exact")
            return number
        result = _ARITH[sign](left, right)
        reduced = result.reduced() if isinstance(result, Linear) else result
        return int(reduced) if not isinstance(reduced, Linear) and reduced == int(reduced) else result

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
    space = Space(rule, SpaceTyping(System(), choices, menu))
    lefts: list[SpaceType] = []
    # Ranks that a condition fixes are known before typing starts: a scalar operand is no decision.
    for condition in rule.conditions:
        sides = (condition.left, condition.right)
        if all(isinstance(s, RankOf | Literal) for s in sides) and condition.relation == "=":
            space.condition(condition)
            for side in sides:
                if isinstance(side, RankOf):
                    _fix_rank(space, side.var)
    if rule.each:
        space.members = choices.pick(menu.members)
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
    _decide_ranks(space)
    return space


def _fix_rank(space: Space, name: str) -> None:
    kind = space.variables[name]
    rank = kind.rank.reduced()
    if not isinstance(rank, Linear):
        dims = tuple(1 if i < AXES - rank else d for i, d in enumerate(kind.dims))
        space.variables[name] = SpaceType(int(rank), dims)


def _decide_ranks(space: Space) -> None:
    # An axis that a tensor does not have has extent 1: the type vectors are aligned at the right.
    for name in list(space.variables):
        kind = space.variables[name]
        rank = kind.rank.reduced() if isinstance(kind.rank, Linear) else kind.rank
        if isinstance(rank, Linear):
            rank = space.typing.choices.pick(space.typing.menu.ranks)
            space.typing.require(kind.rank == rank, "a rank")
        for i in range(AXES - int(rank)):
            space.typing.require(kind.dims[i] == 1, "no such axis")
    for relation in space.system.relations:
        if all(space.system.kinds[u] == "rank" for u in relation.linear.terms):
            space.system.require(_again(relation.kind, relation.linear))


def _again(kind: str, linear: Linear) -> Any:
    return linear == 0 if kind == "=" else linear != 0 if kind == "!=" else linear >= 0


def variables_of(rule: Rule) -> list[str]:
    """Return a rule's tensor variables in order of appearance."""
    names: dict[str, None] = {}
    for source in rule.sources:
        for term in subterms(source):
            if isinstance(term, Var):
                names.setdefault(term.name)
    return list(names)


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


__all__ = ["ACTIVATIONS", "SMALL", "Menu", "Space", "open_space"]
