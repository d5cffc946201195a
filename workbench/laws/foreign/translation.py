"""Translate laws of TASO's vocabulary to the rule language.

TASO's tensors imply properties that the rule language states: ``SAME`` pads and groups follow from the
weight, a split cuts where the last concatenation joined, constants are as large as they must be. A translated
rule names these numbers by attribute variables with conditions on the left, and by expressions on the right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, cast

from workbench.laws.foreign.extents import (
    ELEMENTWISE,
    POOLS,
    UNARY,
    Inexpressible,
    Shapes,
    attribute,
    minus,
    over,
    plus,
    vector,
)
from workbench.laws.foreign.vocabulary import SAME, Foreign, Ranks, Term, Variable, below, fitted, variables
from workbench.ops import TASO_ACTIVATIONS
from workbench.rules.language import RuleSyntaxError, parse_rule
from workbench.rules.pattern import (
    App,
    Arith,
    AttrExpr,
    AttrVar,
    Compare,
    DimOf,
    DtypeOf,
    IntExpr,
    Literal,
    RankOf,
    Rule,
    Var,
    format_expr,
    format_rule,
)
from workbench.rules.pattern import Term as Pattern
from workbench.rules.ruleset import Rejected

_AXES: Final = (-4, -3, -2, -1)


@dataclass(frozen=True, slots=True)
class _Place:
    """The extents that a term must have by its place, and the channels of the input whose weight it is."""

    extents: tuple[tuple[int, IntExpr], ...] = ()
    channels: IntExpr | None = None

    def off(self, *axes: int) -> _Place:
        """Return the place without the extents of some axes."""
        return replace(self, extents=tuple(e for e in self.extents if e[0] not in axes))

    def beside(self, more: dict[int, IntExpr]) -> _Place:
        """Return the place with more extents; known ones are not replaced."""
        return replace(self, extents=tuple(sorted((more | dict(self.extents)).items())))


_NOWHERE: Final = _Place()


@dataclass(slots=True)
class _Translation:
    """The translation of one law: its sources, then its targets."""

    ranks: Ranks
    taken: frozenset[str]
    like: str
    left: bool = True
    shapes: Shapes = field(default_factory=Shapes)
    conditions: list[Compare] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    done: dict[tuple[Foreign, _Place], Pattern] = field(default_factory=dict)
    pads: dict[tuple[str, IntExpr], AttrVar] = field(default_factory=dict)
    groups: dict[tuple[IntExpr, IntExpr], AttrVar] = field(default_factory=dict)
    axes: dict[tuple[int, object], IntExpr] = field(default_factory=dict)
    ranked: list[tuple[Pattern, int]] = field(default_factory=list)

    # -- numbers ----------------------------------------------------------------------------------
    def fresh(self, letter: str) -> AttrVar:
        """Return an unused attribute variable."""
        number = self.counts.get(letter, 0)
        while f"{letter}{number}" in self.taken:
            number += 1
        self.counts[letter] = number + 1
        return AttrVar(f"{letter}{number}")

    def require(self, left: IntExpr, relation: str, right: IntExpr) -> None:
        """Add a condition."""
        condition = Compare(relation, left, right)
        if condition not in self.conditions:
            self.conditions.append(condition)

    def given(self, letter: str, value: IntExpr) -> IntExpr:
        """Return an attribute with a value: on the left-hand side a variable, unless it is a number."""
        if not self.left or isinstance(value, Literal):
            return value
        variable = self.fresh(letter)
        self.require(variable, "=", value)
        self.shapes.known[variable.name] = value
        return variable

    def measured(self, term: Pattern, axes: Sequence[int]) -> dict[int, IntExpr]:
        """Return the extents that can be determined."""
        found = {}
        for axis in axes:
            try:
                found[axis] = self.shapes.extent(term, axis)
            except Inexpressible:
                continue
        return found

    def axis(self, term: Term, operands: Sequence[Pattern]) -> IntExpr:
        """Return a term's axis counted from the last; its operands must have the inferred rank."""
        axis, kind, rank = term.number("axis"), self.ranks.root(term), self.ranks.of(term)
        whole = App("concat", tuple(operands))
        if rank is not None:
            if axis >= rank:
                raise Inexpressible(f"the axis must be below the rank {rank}, got {axis}")
            self.ranked.append((whole, rank))
            return Literal(axis - rank)
        if (axis, kind) not in self.axes:
            value = minus(Literal(axis), self.shapes.rank(whole))
            if not self.left:
                return value
            self.axes[axis, kind] = self.fresh("a")
            self.require(self.axes[axis, kind], "=", value)
        return self.axes[axis, kind]

    def half(self, letter: str, kernel: IntExpr) -> IntExpr:
        """Return the pad that preserves the extent under an odd kernel."""
        if isinstance(kernel, Literal):
            assert isinstance(kernel.value, int)
            if kernel.value % 2 == 0:
                raise Inexpressible(f"SAME pads of a kernel of {kernel.value} differ from side to side")
            return Literal(kernel.value // 2)
        if (letter, kernel) in self.pads:
            return self.pads[letter, kernel]
        if not self.left:
            return over(minus(kernel, Literal(1)), Literal(2))
        pad = self.pads[letter, kernel] = self.fresh(letter)
        self.require(kernel, "=", Arith("+", Arith("*", Literal(2), pad), Literal(1)))
        return pad

    # -- terms ------------------------------------------------------------------------------------
    def term(self, term: Foreign, place: _Place = _NOWHERE) -> Pattern:
        """Translate a term; equal terms are translated once, on both sides together."""
        if isinstance(term, Variable):
            return Var(term.name)
        key = (term, place if fitted(term) else _NOWHERE)
        if key not in self.done:
            by_name: dict[str, Callable[[Term, _Place], Pattern]] = {
                "scale": self.scale,
                "matmul": self.matmul,
                "conv2d": self.conv2d,
                "concat": self.concat,
                "part": self.part,
                "transpose": self.transpose,
                "enlarge": self.enlarge,
                "merge": self.merge,
                **dict.fromkeys(UNARY, self.unary),
                **dict.fromkeys(ELEMENTWISE, self.elementwise),
                **dict.fromkeys(POOLS, self.pool),
            }
            self.done[key] = by_name.get(term.op, self.constant)(term, place)
        return self.done[key]

    def pair(self, term: Term, place: Callable[[int, Pattern | None], _Place]) -> tuple[Pattern, Pattern]:
        """Translate two operands, beginning with the one to which the other is fitted."""
        first = 1 if fitted(term.args[0]) and not fitted(term.args[1]) else 0
        one = self.term(term.args[first], place(first, None))
        other = self.term(term.args[1 - first], place(1 - first, one))
        return (other, one) if first else (one, other)

    def unary(self, term: Term, place: _Place) -> Pattern:
        return App(term.op, (self.term(term.args[0], place),))

    def elementwise(self, term: Term, place: _Place) -> Pattern:
        def beside(_: int, other: Pattern | None) -> _Place:
            return place if other is None else place.beside(self.measured(other, _AXES))

        return App(term.op, self.pair(term, beside))

    def scale(self, term: Term, place: _Place) -> Pattern:
        value, factor = self.term(term.args[0], place), self.term(term.args[1])
        if factor not in self.shapes.scalars:
            self.require(self.shapes.rank(factor), "=", Literal(0))
            self.shapes.scalars.add(factor)
            if isinstance(factor, Var):
                self.shapes.ranks[factor.name] = 0
        return App("mul", (value, factor))

    def matmul(self, term: Term, place: _Place) -> Pattern:
        def beside(position: int, other: Pattern | None) -> _Place:
            inner, its = ((-1, -2), (-2, -1))[position]
            here = _Place(place.off(inner).extents)
            found = {} if other is None else self.measured(other, (its,))
            return here.beside({inner: found[its]} if found else {})

        act = TASO_ACTIVATIONS[term.number("act")]
        attrs = () if act == "none" else (("act", Literal(act)),)
        return App("matmul", self.pair(term, beside), attrs)

    def conv2d(self, term: Term, place: _Place) -> Pattern:
        x = self.term(term.args[0])
        channels = self.measured(x, (-3,)).get(-3)
        w = self.term(term.args[1], _Place(channels=channels))
        same = self.same_padded(term)
        sides = (("p", -2), ("q", -1))
        rows, columns = (self.half(n, self.shapes.extent(w, a)) if same else Literal(0) for n, a in sides)
        app = App(
            "conv2d",
            (x, w),
            (
                ("strides", Literal(term.pair("stride"))),
                ("pads", vector(rows, columns, rows, columns)),
                ("dilations", Literal((1, 1))),
                ("groups", self.grouped(channels, w)),
                ("act", Literal(TASO_ACTIVATIONS[term.number("act")])),
            ),
        )
        if same:
            self.shapes.same.add(app)
        return app

    def same_padded(self, term: Term) -> bool:
        # With a larger stride the pads depend on the extent of the input.
        if term.number("pad") == SAME and max(term.pair("stride")) > 2:
            raise Inexpressible(f"SAME pads at stride {max(term.pair('stride'))} are not half the kernel")
        return term.number("pad") == SAME

    def grouped(self, channels: IntExpr | None, w: Pattern) -> IntExpr:
        """Return the groups of a convolution, which TASO infers from its operands."""
        if channels is None:
            if self.left:
                return self.fresh("g")
            raise Inexpressible("the channels of a convolution's input are open")
        columns = self.shapes.extent(w, -3)
        if channels == columns:
            return Literal(1)
        if self.left and (channels, columns) not in self.groups:
            self.groups[channels, columns] = self.fresh("g")
        if (channels, columns) in self.groups:
            return self.groups[channels, columns]
        if isinstance(w, App) and w.op == "merge_gconv":
            return over(*(cast("IntExpr", attribute(w, name)) for name in ("groups", "count")))
        return over(channels, columns)

    def pool(self, term: Term, place: _Place) -> Pattern:
        x = self.term(term.args[0], place.off(-1, -2))
        same = self.same_padded(term)
        rows, columns = (self.half("", Literal(k)) if same else Literal(0) for k in term.pair("kernel"))
        attrs: tuple[tuple[str, AttrExpr], ...] = (
            ("kernel", Literal(term.pair("kernel"))),
            ("strides", Literal(term.pair("stride"))),
            ("pads", vector(rows, columns, rows, columns)),
        )
        if term.op == "avgpool":
            # TASO's run time averages over the elements inside the input.
            attrs += (("include_pad", Literal(0)),)
        app = App(term.op, (x,), attrs)
        if same:
            self.shapes.same.add(app)
        act = TASO_ACTIVATIONS[term.number("act")]
        return app if act == "none" else App(act, (app,))

    def concat(self, term: Term, place: _Place) -> Pattern:
        plain = [self.term(a) for a in term.args if not fitted(a)]
        axis: IntExpr | None = self.axis(term, plain) if plain else None
        here = place
        if plain and isinstance(axis, Literal) and isinstance(axis.value, int):
            here = place.beside(self.measured(plain[0], _AXES)).off(axis.value)
        args = [self.term(a, here if fitted(a) else _NOWHERE) for a in term.args]
        return App("concat", tuple(args), (("axis", axis or self.axis(term, args)),))

    def part(self, term: Term, place: _Place) -> Pattern:
        y = self.term(term.args[0])
        axis = self.axis(term, [y])
        if term.number("count") != 2:
            raise Inexpressible(f"a split into {term.number('count')} leaves the places of its cuts open")
        if not isinstance(axis, Literal) or not isinstance(axis.value, int):
            raise Inexpressible("a split along an axis that depends on the rank has no fixed position")
        first, rest = self.shapes.cut(y, axis.value)
        if term.number("index") == 0:
            start, stop = self.given("j", Literal(0)), self.given("k", first)
        else:
            start, stop = self.given("j", first), self.given("k", plus(first, rest))
        return App("slice", (y,), (("axis", axis), ("start", start), ("stop", stop)))

    def transpose(self, term: Term, place: _Place) -> Pattern:
        perm = term.perm()
        inner = {perm[a] - len(perm): e for a, e in place.extents if -a <= len(perm)}
        return App(
            "transpose", (self.term(term.args[0], _NOWHERE.beside(inner)),), (("perm", Literal(perm)),)
        )

    def enlarge(self, term: Term, place: _Place) -> Pattern:
        w, *reference = (self.term(a, place.off(-1, -2)) for a in term.args)
        pads: list[IntExpr] = []
        wanted: list[IntExpr] = []
        for letter, axis, number in zip("ef", (-2, -1), term.pair("kernel"), strict=True):
            have = self.shapes.extent(w, axis)
            want = self.shapes.extent(reference[0], axis) if reference else Literal(number)
            if reference:
                self.require(have, "<=", want)
            pad: IntExpr = over(minus(want, have), Literal(2))
            if self.left and not isinstance(pad, Literal):
                pad = self.fresh(letter)
                self.require(Arith("+", have, Arith("*", Literal(2), pad)), "=", want)
            pads.append(pad)
            wanted.append(want)
        app = App("enlarge", (w,), (("pads", vector(*pads, *pads)),))
        self.shapes.kernels[app] = (wanted[0], wanted[1])
        return app

    def merge(self, term: Term, place: _Place) -> Pattern:
        w = self.term(term.args[0], place)
        if place.channels is None:
            raise Inexpressible("merge must be in a convolution that determines its groups")
        known = (place.channels, self.shapes.extent(w, -3)) in self.groups
        groups, count = self.grouped(place.channels, w), Literal(term.number("count"))
        if self.left and not known:
            self.require(place.channels, "=", Arith("*", groups, self.shapes.extent(w, -3)))
        if not self.left:
            self.require(Arith("%", groups, count), "=", Literal(0))
        return App("merge_gconv", (w,), (("count", count), ("groups", groups)))

    def constant(self, term: Term, place: _Place) -> Pattern:
        dtype = self.fresh("d") if self.left else DtypeOf(self.like)
        if term.op == "eye":
            # It is square, so either extent can be used: the simpler one.
            sizes = [e for a, e in place.extents if a in (-1, -2)]
            size = min(sizes, key=lambda e: len(format_expr(e)), default=None)
            return App("eye", (), (("size", self.sized("n", size)), ("dtype", dtype)))
        if term.op == "ones":
            rank = self.ranks.of(term)
            known = [extent for axis, extent in place.extents if rank is not None and -rank <= axis]
            # If the number of axes is open, a single element that broadcasts has the same effect.
            whole = vector(*known) if len(known) == rank else Literal(())
            return App("ones", (), (("shape", self.fresh("s") if self.left else whole), ("dtype", dtype)))
        kernel = ("kernel", Literal(term.pair("kernel")))
        channels = self.sized("c", place.channels)
        if self.left and place.channels is not None:
            self.require(channels, "=", place.channels)
        if term.op == "mean_kernel":
            return App("mean_kernel", (), (("channels", channels), kernel, ("dtype", dtype)))
        attrs = (("channels", channels), ("groups", Literal(1)), kernel, ("dtype", dtype))
        return App("identity_kernel", (), attrs)

    def sized(self, letter: str, extent: IntExpr | None) -> IntExpr:
        if self.left:
            variable = self.fresh(letter)
            if extent is not None:
                self.shapes.known[variable.name] = extent
            return variable
        if extent is None:
            raise Inexpressible("the size of a constant on the right-hand side is open")
        return extent

    # -- the whole --------------------------------------------------------------------------------
    def settle(self, roots: Sequence[Pattern]) -> None:
        """Require the ranks with which axes were counted, unless the operators' types determine them."""
        self.shapes.learn(roots)
        # Ranks of variables come first, because they often determine those of terms.
        for operand, rank in sorted(
            self.ranked, key=lambda r: not isinstance(self.shapes.rank(r[0]), RankOf)
        ):
            found = self.shapes.rank(operand)
            if found == Literal(rank):
                continue
            if isinstance(found, Literal):
                raise Inexpressible(f"a tensor would have {found.value} axes and {rank}")
            self.require(found, "=", Literal(rank))
            if self.shapes.alias and isinstance(operand, App):
                # Both roots are restricted alike, so that exchanging them is a renaming.
                for v in (a for a in operand.args if isinstance(a, Var) and a.name not in self.shapes.ranks):
                    self.require(RankOf(v.name), "=", Literal(rank))
            if isinstance(found, RankOf):
                self.shapes.ranks[found.var] = rank
                self.shapes.learn(roots)


def law(
    name: str,
    sources: Sequence[Foreign],
    targets: Sequence[Foreign],
    provenance: tuple[str, ...],
    *,
    either: bool = False,
    planar: bool = False,
    declared: Mapping[str, int] | None = None,
) -> Rule:
    """Return a law as a rule of the rule language.

    A law whose left side is a bare variable is reversed; its provenance then ends in ``reversed``.

    Args:
        name: The name of the rule.
        sources: The terms of the left-hand side.
        targets: The terms of the right-hand side.
        provenance: The origin of the law.
        either: Whether a law that has a form only in the other direction is reversed too.
        planar: See :class:`~workbench.laws.foreign.vocabulary.Ranks`.
        declared: See there.

    Raises:
        Inexpressible: If the law has no form in the rule language.
        RuleSyntaxError: If a variable occurs only on the right-hand side.
    """
    ways = [(sources, targets, provenance)]
    if either or (len(sources) == 1 and isinstance(sources[0], Variable)):
        ways.append((targets, sources, (*provenance, "reversed")))
    free = [[v for v in variables(right) if v not in variables(left)] for left, right, _ in ways]
    if all(free):
        raise RuleSyntaxError(f"{free[0][0]} occurs only on the right-hand side")
    reasons: list[str] = []
    for (left, right, origin), unbound in zip(ways, free, strict=True):
        if unbound:
            reasons.append(f"{unbound[0]} occurs only on the right-hand side")
            continue
        try:
            rule = _translated(name, left, right, Ranks(planar, declared or {}))
        except Inexpressible as error:
            reasons.append(str(error))
            continue
        return replace(rule, provenance=origin)
    raise Inexpressible("; reversed: ".join(reasons))


@dataclass(slots=True)
class Laws:
    """The rules of a file, and the laws that are ill-formed or have no form in the rule language."""

    file: str
    rules: list[Rule] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)

    @contextmanager
    def reading(self, index: int, name: str, where: str) -> Iterator[None]:
        """Reject a law of the file, by its place from 0 and its name, if the block cannot read it at a place."""
        try:
            yield
        except Inexpressible as error:
            self.rejected.append(Rejected(index, name, str(error)))
        except RuleSyntaxError as error:
            reason = str(error) if str(error).startswith(self.file) else f"{where}: {error}"
            self.rejected.append(Rejected(index, name, reason, broken=True))

    def add(self, rule: Rule) -> None:
        """Add a rule of the file."""
        self.rules.append(replace(rule, file=self.file))


def _joined(targets: Sequence[Foreign]) -> dict[tuple[str, int], str]:
    """Return the extents of variables that agree because a law of several roots joins the variables."""
    alias: dict[tuple[str, int], str] = {}
    for term in (t for target in targets for t in below(target)):
        if isinstance(term, Term) and term.op == "concat" and term.has("rank"):
            first, *rest = term.args
            rank, own = term.number("rank"), term.number("axis") - term.number("rank")
            others = [axis for axis in range(-rank, 0) if axis != own]
            for other in rest:
                if isinstance(first, Variable) and isinstance(other, Variable) and first != other:
                    alias |= {(other.name, axis): first.name for axis in others}
    return alias


def _translated(name: str, sources: Sequence[Foreign], targets: Sequence[Foreign], ranks: Ranks) -> Rule:
    names = variables(sources)
    ranks.note(sources, targets)
    translation = _Translation(ranks, frozenset(names), names[0] if names else "")
    if len(sources) > 1:
        translation.shapes.alias = _joined(targets)
    lefts = [translation.term(s) for s in sources]
    if any(isinstance(s, Var) for s in lefts):
        raise Inexpressible("a source is a bare variable")
    translation.left = False
    rights = []
    for left, target in zip(lefts, targets, strict=True):
        place = _NOWHERE.beside(translation.measured(left, _AXES)) if fitted(target) else _NOWHERE
        rights.append(translation.term(target, place))
    translation.settle([*lefts, *rights])
    for (one, axis), other in translation.shapes.alias.items():
        for condition in list(translation.conditions):
            if condition.left == DimOf(other, axis):
                translation.require(DimOf(one, axis), condition.relation, condition.right)
    apps = tuple(s for s in lefts if isinstance(s, App))
    rule = Rule(name, apps, tuple(rights), tuple(translation.conditions))
    try:
        (again,) = parse_rule(format_rule(rule))
    except RuleSyntaxError as error:
        raise Inexpressible(str(error)) from None
    if again != rule:
        raise Inexpressible("the written rule does not parse back to the same rule")
    return rule
