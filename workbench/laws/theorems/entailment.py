"""Which conditions follow from which: by normal form, and by an SMT solver if one is installed.

Every product of symbols is one unknown of linear arithmetic, to which products of known inequalities with
positive symbols are added; only if that is not enough is the solver asked about products themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import product
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from workbench.symbolic.integers import (
    FALSE,
    TRUE,
    Atom,
    Cond,
    Int,
    add,
    at_least,
    atoms,
    divided,
    equal,
    is_positive,
    mul,
    negated,
    num,
    of_atom,
    sub,
    symbols,
)

if TYPE_CHECKING:
    import z3

#: Work of the solver for one question, in its own deterministic units.
EFFORT: Final = 400_000

#: Bounds under which a model puts as many symbols as it can, one after another.
SMALL: Final = (1, 2, 4, 8)
#: The share of the work for a model that is spent on each such bound.
LESS: Final = 20

#: Functions of an index, an extent and another extent whose value is a place inside the first extent.
PLACES: Final = ("first", "second", "nearest")

#: The message if the solver is needed and not installed.
UNAVAILABLE: Final = "this proof needs an SMT solver (try installing workbench[proofs])"


class Unavailable(ImportError):
    """Raised when a condition needs the solver and ``z3`` is not installed."""

    why = "solver"


@lru_cache(maxsize=1)
def solver() -> ModuleType | None:
    """Return the module ``z3``, or None if it is not installed."""
    try:
        import z3
    except ImportError:
        return None
    return z3


@dataclass(slots=True)
class Facts:
    """Conditions that hold: of a rule's left-hand side, of a case, or of the guards around a position.

    ``asked`` are the answers to questions by their texts, which facts of other rules may share. ``open``
    collects the obligations that were met by the solver: facts and a condition, by their texts. ``missing``
    collects those that were not, as what would hold then: the facts and the opposite of the condition.
    """

    known: tuple[Cond, ...] = ()
    asked: dict[tuple[str, ...], bool] = field(default_factory=dict)
    open: dict[tuple[str, ...], tuple[tuple[Cond, ...], Cond]] = field(default_factory=dict)
    missing: list[tuple[Cond, ...]] = field(default_factory=list)
    effort: int = EFFORT

    def plus(self, *more: Cond) -> Facts:
        """Return these facts with more."""
        new = tuple(c for c in flat(more) if c not in self.known)
        return Facts((*self.known, *new), self.asked, self.open, self.missing, self.effort) if new else self

    def entail(self, goal: Cond) -> bool:
        """Return whether a condition follows, as far as is found with the effort."""
        if goal == TRUE or goal in self.known or FALSE in self.known:
            return True
        if goal.head == "and":
            return all(self.entail(g) for g in goal.args)
        if goal.head == "or" and any(g in self.known for g in goal.args):
            return True
        # Linear questions of few facts and of many are cheaper than one about products.
        for linear, facts in product((True, False), nearer(self.known, goal)):
            key = (str(linear), *sorted(f.text for f in facts), goal.text)
            if key not in self.asked:
                self.asked[key] = follows(facts, goal, self.effort, linear=linear)
            if self.asked[key]:
                self.open.setdefault(key, (facts, goal))
                return True
        self.missing.append((*self.known, negated(goal)))
        return False

    def absurd(self) -> bool:
        """Return whether the facts contradict each other, as far as is found."""
        if FALSE in self.known:
            return True
        opposite = {negated(c).text for c in self.known}
        return any(c.text in opposite for c in self.known) or self.entail(FALSE)

    def symbols(self) -> frozenset[str]:
        """Return the symbols of which the facts speak."""
        return frozenset().union(*(symbols(c) for c in self.known))

    def same(self, x: Int, y: Int) -> bool:
        """Return whether two integers are equal."""
        return x == y or self.entail(equal(x, y))


def flat(conditions: Iterable[Cond]) -> list[Cond]:
    """Return conditions with conjunctions taken apart and truths left out."""
    return [d for c in conditions for d in (c.args if c.head == "and" else (c,)) if d != TRUE]


def nearer(known: Sequence[Cond], goal: Cond) -> list[tuple[Cond, ...]]:
    """Return facts that share symbols with a goal, and more of them: those that share some with these."""
    if goal == FALSE:
        return [tuple(known)]
    names, left, kept = set(symbols(goal)), list(known), []
    found: list[tuple[Cond, ...]] = []
    while near := [c for c in left if symbols(c) & names]:
        kept += near
        left = [c for c in left if c not in near]
        names = names.union(*(symbols(c) for c in near))
        found.append(tuple(kept))
    return [found[0], found[-1]] if len(found) > 1 else found or [()]


def follows(facts: Sequence[Cond], goal: Cond, effort: int, *, linear: bool) -> bool:
    """Return whether the solver shows that facts entail a goal, with every product as an unknown or not.

    Args:
        facts: The conditions that hold.
        goal: The condition to be shown.
        effort: The limit on the solver's work, in its own units.
        linear: Whether every product is an unknown of its own.
    """
    return Question(linear).refuted((*facts, negated(goal)), effort)


class Question:
    """Conditions as a solver reads them; ``linear`` makes every product an unknown of its own.

    Raise Unavailable without a solver.
    """

    def __init__(self, linear: bool) -> None:
        z3 = solver()
        if z3 is None:
            raise Unavailable(UNAVAILABLE)
        self.z3: Any = z3
        self.linear = linear
        self.made: dict[str, Any] = {}
        self.side: list[Any] = []

    def problem(self, conditions: Sequence[Cond]) -> list[Any]:
        """Return the conditions with the known facts on their atoms."""
        found = [self.condition(c) for c in conditions]
        if self.linear:
            found += [self.condition(c) for c in hints(conditions)]
        return found + self.side

    def refuted(self, conditions: Sequence[Cond], effort: int) -> bool:
        """Return whether conditions contradict each other."""
        return bool(self._solving(conditions, effort).check() == self.z3.unsat)

    def _solving(self, conditions: Sequence[Cond], effort: int) -> z3.Solver:
        solving = self.z3.SolverFor("QF_UFLIA") if self.linear else self.z3.Solver()
        solving.set("rlimit", effort)
        solving.set("timeout", 60_000)
        solving.add(*self.problem(conditions))
        return solving

    def model(self, conditions: Sequence[Cond], effort: int) -> dict[str, int] | None:
        """Return numbers for symbols with which the conditions hold, small ones first, if some are found."""
        solving = self._solving(conditions, effort)
        if solving.check() != self.z3.sat:
            return None
        model = solving.model()
        named = {n: v for n, v in self.made.items() if n[:1] != "("}
        solving.set("rlimit", max(1, effort // LESS))
        for v in (named[n] for n in sorted(named, key=_importance)):
            found = model.eval(v, model_completion=True).as_long()
            for most in (m for m in SMALL if found > m):
                solving.push()
                solving.add(v <= most, v >= -most)
                if solving.check() == self.z3.sat:
                    model = solving.model()
                    break
                solving.pop()
        return {n: model.eval(v, model_completion=True).as_long() for n, v in named.items()}

    def condition(self, c: Cond) -> z3.BoolRef:
        """Return a condition as the solver's."""
        z3 = self.z3
        if c in (TRUE, FALSE):
            return z3.BoolVal(c == TRUE)
        if c.head == "ge":
            return self.integer(c.args[0]) >= 0
        if c.head == "eq":
            return self.integer(c.args[0]) == 0
        parts = [self.condition(d) for d in c.args]
        return z3.Not(parts[0]) if c.head == "not" else z3.And(*parts) if c.head == "and" else z3.Or(*parts)

    def integer(self, x: Int) -> z3.ArithRef:
        """Return an integer as the solver's."""
        return sum((c * self.product(m) for m, c in x.terms), start=self.z3.IntVal(0))

    def product(self, mono: tuple[Atom, ...]) -> z3.ArithRef:
        """Return a product of atoms."""
        if self.linear and len(mono) > 1:
            text = "(" + "*".join(a.text for a in mono)
            factors = [self.atom(a) for a in mono]
            if text not in self.made:
                self.made[text] = self.z3.Int(text)
                if all(a.positive for a in mono):
                    self.side += [self.made[text] >= factor for factor in factors]
            return self.made[text]
        return prod(map(self.atom, mono[1:]), start=self.atom(mono[0])) if mono else 1

    def atom(self, a: Atom) -> z3.ArithRef:
        """Return an atom; known facts on it are added to the problem."""
        if a.head == "sym":
            if a.text not in self.made:
                self.made[a.text] = self.z3.Int(a.text)
                if a.positive:
                    self.side.append(self.made[a.text] >= 1)
            return self.made[a.text]
        text = "(" + a.text
        if text in self.made:
            return self.made[text]
        z3 = self.z3
        if a.head == "ite":
            self.made[text] = z3.If(self.condition(a.args[0]), *map(self.integer, a.args[1:]))
        elif a.head == "bc":
            self.made[text] = z3.If(self.integer(a.args[0]) == 1, z3.IntVal(0), self.integer(a.args[1]))
        elif a.head == "max":
            self.made[text] = reduce(lambda x, y: z3.If(x >= y, x, y), [self.integer(i) for i in a.args])
        elif a.head == "div":
            self.made[text] = z3.Int(text)
            left = sub(a.args[0], mul(of_atom(a), a.args[1]))
            for x in (left, sub(a.args[1], add(left, num(1)))):
                self.side.append(self.integer(x) >= 0)
        else:
            f = z3.Function(a.head, *([z3.IntSort()] * (len(a.args) + 1)))
            self.made[text] = f(*map(self.integer, a.args))
            # No number lies below an extent of 0, so such a function has a value for positive extents alone.
            if a.head.split(" ")[0] in PLACES and is_positive(a.args[1]):
                self.side += [self.made[text] >= 0, self.made[text] < self.integer(a.args[1])]
        return self.made[text]


def _importance(name: str) -> tuple[int, str]:
    """Return the place of a symbol among those that a model makes small: ranks, extents, the others."""
    return (0 if name.startswith("rank ") else 1 if name[0] == "+" else 2, name)


def hints(conditions: Sequence[Cond]) -> list[Cond]:
    """Return inequalities that follow from conditions by multiplication with positive symbols.

    If ``x <= y`` is known and ``c * x`` occurs, then so do ``c * x <= c * y``.
    """
    products: dict[str, set[Atom]] = {}
    ints = [d.args[0] for c in conditions for d in parts(c) if d.head in ("ge", "eq")]
    divisions = [a for x in ints for a in atoms(x) if a.head == "div"]
    ints += [i for a in divisions for i in (mul(of_atom(a), a.args[1]), a.args[0])]
    for m in (m for x in ints for m, _ in x.terms):
        for k, a in enumerate(m) if len(m) > 1 else ():
            products.setdefault(a.text, set()).update(b for b in m[:k] + m[k + 1 :] if b.positive)
    known = [d for d in flat(conditions) if d.head in ("ge", "eq")]
    found = {d.text: d for d in quotients(known, ints)}
    for c in [*known, *found.values()]:
        by = {b for m, _ in c.args[0].terms if len(m) == 1 for b in products.get(m[0].text, ())}
        for b in sorted(by, key=lambda b: b.text):
            scaled = mul(of_atom(b), c.args[0])
            # Not by at_least, which would divide by the factor again.
            d = Cond(c.head, (scaled,), f"{c.head}({scaled.text})")
            found[d.text] = d
    return [found[k] for k in sorted(found)][:60]


def quotients(known: Sequence[Cond], ints: Sequence[Int]) -> list[Cond]:
    """Return bounds of quotients: from ``a < b * z`` follows ``a div b < z``, and so for ``>=``."""
    divisions = {a.text: a for x in ints for a in atoms(x) if a.head == "div"}
    found: dict[str, Cond] = {}
    for _ in range(2):  # the second round bounds quotients of quotients
        for c in [*known, *found.values()]:
            for a in divisions.values():
                top, below = a.args
                if c.head != "ge" or not symbols(c) & symbols(top):
                    continue
                above, left = divided(add(c.args[0], top, num(1)), below)
                under, over = divided(sub(top, c.args[0]), below)
                bounds = [at_least(above, add(of_atom(a), num(1)))] if not left.terms else []
                bounds += [at_least(of_atom(a), under)] if not over.terms else []
                found |= {d.text: d for d in bounds}
    return [d for d in found.values() if d not in (TRUE, FALSE)]


def parts(c: Cond) -> Iterable[Cond]:
    """Yield a condition and those inside it."""
    yield c
    for d in c.args:
        if isinstance(d, Cond):
            yield from parts(d)


def smt(facts: Sequence[Cond], goal: Cond) -> str:
    """Return the obligation that a goal follows, as SMT-LIB: ``unsat`` is expected."""
    question = Question(linear=False)
    solving = question.z3.Solver()
    solving.add(*question.problem((*facts, negated(goal))))
    return str(solving.to_smt2())
