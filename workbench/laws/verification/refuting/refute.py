"""Search for a counterexample: both sides of a rule on small instances, in exact arithmetic."""

from __future__ import annotations

import random
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

from workbench.laws.verification.instances import boundary_values, spaces
from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
from workbench.laws.verification.instances.typings import Enumeration, Menu, converts
from workbench.laws.verification.refuting.cases import Case, Counterexample, case_of, small
from workbench.laws.verification.refuting.exact_arithmetic import PRIME, degree
from workbench.laws.verification.refuting.sampling import draw_instance
from workbench.ops import TensorType, TypeMismatch
from workbench.ops.exact import Inexact
from workbench.ops.types import DTYPE_CODES
from workbench.rules import pattern
from workbench.rules.interpret import holds
from workbench.support import deadline

#: The menu of the first draws, so that a counterexample found among them is already small.
TINY: Final = Menu(
    strides=((1, 1),),
    dilations=((1, 1),),
    groups=(1, 2),
    members=(2,),
    extents=(1, 1, 2),
    kernels=(1, 1, 2),
    pads=(0, 0, 1),
    steps=(1,),
)
FULL: Final = Menu()
#: The menus at a corner, in turn: the other numbers are small, so that one large number is cheap.
_FEW: Final = replace(FULL, acts=("none", "relu"))
_NEAR: Final = replace(
    _FEW, extents=(1, 2, 3, 4), kernels=(1, 2, 3), strides=((2, 2), (1, 1), (3, 2), (5, 5)), remainders=True
)
CORNERS: Final = (
    _NEAR,
    replace(_FEW, extents=(1, 2, 6), kernels=(1, 2)),
    _NEAR,
    replace(TINY, acts=_FEW.acts),
)
#: Sequences of decisions among which a common type of both sides is sought.
DECIDED: Final = 3000
#: Tries per instance that is wanted at a corner.
TRIES: Final = 4
#: The largest number at a corner that kernels and pads may have as well.
WINDOW: Final = 20
#: Largest number of corners next to literals, and of instances at all of them together.
LITERALS: Final = 48
BESIDE_ALL: Final = 240


@dataclass(slots=True)
class Findings:
    """The findings of a search for counterexamples.

    The instances in ``passed`` agreed, counted by arithmetic in ``arithmetics``; those in ``failed`` did
    not. ``unusual`` is the number of them with a number that no menu has. ``bound`` is the chance that one
    polynomial instance passed although its sides differ (Schwartz-Zippel: degree over field size). ``empty``
    means that the two sides have no type in common; ``reason`` is the last reason why an instance could not
    be made, ``failure`` the error that ended the search. ``theorem`` is the number of cases of a proof for all types.
    """

    passed: list[spaces.Instance] = field(default_factory=list)
    failed: list[spaces.Instance] = field(default_factory=list)
    arithmetics: Counter[str] = field(default_factory=Counter)
    counterexample: Counterexample | None = None
    degree: int = 0
    tries: int = 0
    unusual: int = 0
    seconds: float = 0.0
    empty: bool = False
    reason: str = ""
    failure: str = ""
    theorem: int = 0

    @property
    def draws(self) -> int:
        """Return the number of instances evaluated."""
        return len(self.passed) + len(self.failed)

    @property
    def decided(self) -> bool:
        """Return whether no further search is needed for the verdict."""
        return self.fruitless or self.counterexample is not None

    @property
    def fruitless(self) -> bool:
        """Return whether nothing is left to prove: by a proof, without a common type, or after an error."""
        return self.empty or bool(self.failure) or self.theorem > 0

    def joined(self, other: Findings) -> Findings:
        """Return the findings of two searches that found no counterexample."""
        return Findings(
            self.passed + other.passed,
            arithmetics=self.arithmetics + other.arithmetics,
            degree=max(self.degree, other.degree),
            tries=self.tries + other.tries,
            unusual=self.unusual + other.unusual,
            seconds=self.seconds + other.seconds,
            reason=self.reason,
        )

    @property
    def bound(self) -> float | None:
        """Return the error bound per polynomial instance, or None if no instance was polynomial."""
        return self.degree / PRIME if self.arithmetics["modular"] else None


def search(
    rule: pattern.Rule,
    draws: int = 60,
    *,
    seed: int = 0,
    broadcast: bool = True,
    go_on: int = 0,
    seconds: float = 20.0,
    corners: Sequence[boundary_values.Corner] | None = None,
) -> Findings:
    """Evaluate both sides of a rule on random instances, small ones first, then on unusual ones.

    The search stops at the first counterexample, or ``go_on`` instances later: further failures and passes
    show in which region the rule holds. The same seed gives the same search for all renamings of a rule,
    unless the time limit ends it.

    Args:
        rule: The rule.
        draws: Number of instances.
        seed: Seed of the random instances.
        broadcast: Whether the shapes of element-wise operands may differ.
        go_on: Number of instances after the first counterexample.
        seconds: Time limit.
        corners: Coordinates at values that are evaluated besides; by default those next to the rule's
            literals, every axis that may broadcast, and one unusual value for every fourth draw.
    """
    one = _Search(rule, random.Random(seed_of(rule, seed)), broadcast, min(seconds, deadline.left()))
    if corners is None:
        unusual = boundary_values.wild(rule)
        one.rng.shuffle(unusual)
        spread = boundary_values.spread_axes(rule) if broadcast else []
        beside = boundary_values.beside_literals(rule)[:LITERALS]
        most = BESIDE_ALL // max(1, len(beside))  # fewer instances at each if they are many
        beside = [replace(corner, instances=min(corner.instances, most)) for corner in beside]
        corners = beside + spread + unusual[: draws // 4] + boundary_values.of_more_axes(rule)
    one.random(draws, go_on)
    if not one.found.empty:
        one.at_corners(corners, go_on)
    one.found.seconds = time.perf_counter() - one.began
    return one.found


def seed_of(rule: pattern.Rule, seed: int) -> int:
    """Return the seed for a law: that of all rules that differ only in names."""
    terms, conditions = pattern.canonical([*rule.sources, *rule.targets], rule.conditions)
    text = f"{terms} {sorted(map(repr, conditions))} {len(rule.sources)} {rule.each}"
    return seed * 1_000_003 + zlib.crc32(text.encode())


@dataclass(slots=True)
class _Search:
    """The state of one search; ``left`` is the number of instances that are still wanted."""

    rule: pattern.Rule
    rng: random.Random
    broadcast: bool
    seconds: float
    found: Findings = field(default_factory=Findings)
    left: int = 0
    curved: int = 0
    began: float = field(default_factory=time.perf_counter)
    converts: bool = field(init=False)
    plain: pattern.Rule = field(init=False)

    def __post_init__(self) -> None:
        self.converts = converts(pattern.operators_of(self.rule))
        # An instance is drawn with one element type first, so conditions on others come later.
        conditions = tuple(c for c in self.rule.conditions if pattern.measured(c) and not c.of_dtypes)
        self.plain = replace(self.rule, conditions=conditions) if self.converts else self.rule

    def out_of_time(self) -> bool:
        return time.perf_counter() - self.began >= self.seconds

    def random(self, draws: int, go_on: int) -> None:
        """Evaluate instances of the menus."""
        found = self.found
        tiny, full = (replace(menu, broadcast=self.broadcast) for menu in (TINY, FULL))
        self.left = draws
        while self.left > 0 and found.tries < 60 * (draws + go_on) and not self.out_of_time():
            # Small instances first, unless hardly any of them is well-typed.
            rare = found.tries > 20 * (found.draws + 10)
            self.one(full if rare or found.draws >= draws // 3 else tiny, go_on)
            if found.tries == 200 and not found.draws and not self.curved and typed(self.rule, full) is False:
                found.empty = True
                return

    def at_corners(self, corners: Sequence[boundary_values.Corner], go_on: int) -> None:
        """Evaluate instances at corners, until a counterexample is found."""
        for corner in corners:
            if self.found.counterexample is not None:
                return
            if corner.broadcasts and not self.broadcast:
                continue
            self.left = corner.instances
            for turn in range(TRIES * corner.instances):
                if self.left <= 0 or self.out_of_time():
                    break
                menu = replace(_fitting(CORNERS[turn % len(CORNERS)], corner), broadcast=self.broadcast)
                before = self.found.draws
                self.one(menu, go_on)
                self.found.unusual += self.found.draws - before

    def one(self, menu: Menu, go_on: int) -> None:
        """Evaluate one instance, if one can be made."""
        rule, rng, found = self.rule, self.rng, self.found
        found.tries += 1
        family: spaces.Family | None = None
        try:
            if self.curved < 12 or (found.draws and self.curved < found.tries // 2):
                family = spaces.draw_family(rule, rng, menu)
                drawn = None if family is None else spaces.instance_of(*family)
            else:
                drawn = draw_instance(self.plain, rng, fixed=dict(menu.fixed))
            if drawn is None:
                return
            if self.converts:
                drawn = retyped(replace(drawn, rule=self.rule), self.rng)
            case = case_of(drawn)
            if case.large:
                found.reason = "too many elements"
                return
        except NotLinear as error:
            # Some sequences of decisions are not linear (ceil_mode), or all of them (a reshape).
            self.curved, found.reason = self.curved + 1, str(error)
            return
        except (Inconsistent, TypeMismatch) as error:
            found.reason = str(error)
            return
        try:
            outcome = _evaluated(case, rng)
        except Inexact as error:
            found.reason = str(error)
            return
        self.left -= 1
        found.arithmetics[case.kind] += 1
        if case.kind == "modular" and not found.degree:
            found.degree = max(max(degree(case.nodes, a), degree(case.nodes, b)) for a, b in case.pairs)
        if outcome is None:
            found.passed.append(case.instance)
            return
        if found.counterexample is None:
            shown = small(case, family, rng, menu)
            if shown is None:  # whole numbers of this size do not show the difference: try another instance
                found.arithmetics[case.kind] -= 1
                return
            found.counterexample = shown
            self.left = go_on
        found.failed.append(case.instance)


def _fitting(menu: Menu, corner: boundary_values.Corner) -> Menu:
    """Return a menu in which instances at a corner exist: a large step needs an extent that is as large."""
    given = [v for _, value in corner.fixed for v in (value if isinstance(value, tuple) else (value,))]
    whole = max((v for v in given if isinstance(v, int)), default=0)
    real = max((v for v in given if isinstance(v, float)), default=0.0)
    window = tuple(v for v in (whole, whole + 1) if v <= WINDOW)
    return replace(
        corner.within(menu),
        extents=menu.extents + ((whole, whole + 1, 2 * whole + 1) if whole > 2 else ()),
        kernels=menu.kernels + window,
        pads=menu.pads + window[:1],
        numbers=menu.numbers + ((real, 2 * real + 10.0) if real else ()),
    )


def _evaluated(case: Case, rng: random.Random) -> tuple[int, tuple[int, ...]] | None:
    """Return the place at which the sides of an instance differ on random values, or None.

    Other values are tried if a divisor is 0, and the weaker arithmetic if a root is not a fraction. Raise
    Inexact if that does not help.
    """
    for attempt in range(6):
        if attempt >= 3 and case.kind == "rational":
            case.kind = "digits"
        try:
            return case.differs(case.kind, case.draw(rng))
        except Inexact as error:
            reason = error
    raise reason


def typed(rule: pattern.Rule, menu: Menu) -> bool | None:
    """Return whether the two sides of a rule have a type in common.

    None means that no sequence of decisions leads to one, but that some decisions were among few of the
    possibilities: another stride, or a larger rank, may lead to a type.
    """
    walk, limited = Enumeration(), False
    for _ in range(DECIDED):
        deadline.check()
        try:
            spaces.open_space(rule, walk, menu)
        except (Inconsistent, TypeMismatch) as error:
            limited |= walk.limited or (isinstance(error, Inconsistent) and error.limited)
        except NotLinear:
            limited = True
        else:
            return True
        if not walk.advance():
            return None if limited else False
    return None


# -- random element types --------------------------------------------------------------------------------
#: The element types of instances.
DTYPES: Final = (
    "float16", "bfloat16", "float32", "float64", "bool", "int8", "uint8", "int16", "uint16", "int32", "int64",
)  # fmt: skip
#: Part of the instances in which all variables have one element type.
_ALIKE: Final = 0.7


def retyped(instance: spaces.Instance, rng: random.Random) -> spaces.Instance:
    """Return an instance with random element types of its variables and attributes."""
    one = rng.choice(DTYPES)
    alike = rng.random() < _ALIKE
    kinds = instance.types.items()
    types = {n: TensorType(one if alike else rng.choice(DTYPES), kind.shape) for n, kind in kinds}
    attrs = {name: _other(value, rng) for name, value in instance.attrs.items()}
    rows = {
        row: {name: _other(value, rng) for name, value in given.items()}
        for row, given in instance.rows.items()
    }
    return replace(instance, types=types, attrs=attrs, rows=rows)


def _other(value: object, rng: random.Random) -> object:
    """Return a random element type in place of an element type, and any other attribute as it is."""
    return rng.choice(DTYPES) if isinstance(value, str) and value in DTYPE_CODES else value


# -- regions ---------------------------------------------------------------------------------------
# A refuted rule may hold in a region: under a condition that excludes every failed instance.
#: A condition counts only if at least this many instances passed under it.
ENOUGH: Final = 12


@dataclass(frozen=True, slots=True)
class Region:
    """A condition under which a rule was not refuted, and the rule with that condition as its guard."""

    conditions: tuple[pattern.Compare, ...]
    rule: pattern.Rule
    draws: int

    def __str__(self) -> str:
        return ", ".join(map(pattern.format_condition, self.conditions))


def find_region(
    rule: pattern.Rule, findings: Findings, *, broadcast: bool, draws: int = 60, seed: int = 0
) -> Region | None:
    """Return the widest of the tried conditions that excludes all failures, or None.

    Conditions on attributes come before those on extents, and single conditions before pairs. Ties are
    broken by the number of instances that passed. The rule with the condition is searched again for
    counterexamples, so that the region is tested as well as any rule.

    Args:
        rule: The refuted rule.
        findings: Its passed and failed instances.
        broadcast: Whether element-wise operands may broadcast.
        draws: Instances that the guarded rule must pass.
        seed: Seed of the random instances.
    """
    candidates = [
        (guard, rank, _under(guard, findings.passed))
        for guard, rank in dict(_guards(rule, findings.failed + findings.passed)).items()
    ]
    useful = [c for c in candidates if c[2] >= ENOUGH]
    excluding = [c for c in useful if not _under(c[0], findings.failed)]
    partial = [c for c in useful if 0 < _under(c[0], findings.failed) < len(findings.failed)]
    pairs = []
    for one, two in combinations(sorted(partial, key=lambda c: (c[1], -c[2]))[:30], 2):
        guard = tuple(dict.fromkeys(one[0] + two[0]))
        count = 0 if _under(guard, findings.failed) else _under(guard, findings.passed)
        if count >= ENOUGH:
            pairs.append((guard, one[1] + two[1] + 1, count))
    for guard, _, _ in sorted(excluding + pairs, key=lambda c: (c[1], -c[2]))[:4]:
        guarded = replace(rule, conditions=rule.conditions + guard)
        again = search(guarded, draws, seed=seed + 1, broadcast=broadcast)
        if again.counterexample is None and len(again.passed) >= draws:
            return Region(guard, guarded, len(again.passed))
    return None


def _under(guard: Sequence[pattern.Compare], instances: Sequence[spaces.Instance]) -> int:
    """Return how many instances meet a guard."""
    values = [(i.attrs.__getitem__, i.types.__getitem__) for i in instances]
    return sum(all(holds(c, *value) for c in guard) for value in values)


def _guards(
    rule: pattern.Rule, instances: Sequence[spaces.Instance]
) -> Iterator[tuple[tuple[pattern.Compare, ...], int]]:
    """Yield conditions that may separate failing from passing instances, and a rank (0: most natural)."""
    if rule.each or not instances:
        return
    for name, value in instances[0].attrs.items():
        if isinstance(value, int | tuple) and not isinstance(value, bool):
            yield (pattern.Compare("=", pattern.AttrVar(name), pattern.Literal(1)),), 0
            yield (pattern.Compare("=", pattern.AttrVar(name), pattern.Literal(0)),), 2
    convs: list[tuple[str, str]] = []
    for term in pattern.applications(*rule.sources):
        groups = dict(term.attrs).get("groups")
        if (
            term.op == "conv2d"
            and isinstance(term.args[1], pattern.Var)
            and isinstance(groups, pattern.AttrVar)
        ):
            convs.append((term.args[1].name, groups.name))
    for (w, g), (v, h) in combinations(convs, 2):  # equal output channels per group: O / G = P / H
        left = pattern.Arith("*", pattern.DimOf(w, -4), pattern.AttrVar(h))
        yield (pattern.Compare("=", left, pattern.Arith("*", pattern.DimOf(v, -4), pattern.AttrVar(g))),), 1
    variables = pattern.tensor_variables(*rule.sources)
    for one, two in combinations(variables, 2):
        extents = [
            pattern.Compare("=", pattern.DimOf(one, axis), pattern.DimOf(two, axis))
            for axis in range(-1, -5, -1)
        ]
        yield (pattern.Compare("=", pattern.RankOf(one), pattern.RankOf(two)), *extents), 2
        yield from (((extent,), 3) for extent in extents)
    for variable in variables:
        for axis in range(-1, -5, -1):
            yield (pattern.Compare("=", pattern.DimOf(variable, axis), pattern.Literal(1)),), 4
