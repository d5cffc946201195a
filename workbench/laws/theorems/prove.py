"""The search for proofs: it finds the steps that the checker then checks.

Terms of both sides are paired by unification: equal reads of one tensor give linear equations between index
variables, whose solution is the change of index. If terms are left, the proof is split at a condition on
which they depend: the border of a concatenation, or whether an axis broadcasts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import Any, Final

from workbench.laws.theorems import check
from workbench.laws.theorems.axes import NotCovered, on_rest
from workbench.laws.theorems.entailment import Facts, Unavailable
from workbench.laws.theorems.goals import Statement, linear, statements
from workbench.laws.theorems.steps import Rejected, write_condition, write_int
from workbench.laws.theorems.terms import (
    Factor,
    Term,
    Value,
    collected,
    free_symbols,
    in_factor,
    in_value,
    only_factor,
)
from workbench.rules.pattern import Rule
from workbench.support.deadline import OutOfTime
from workbench.symbolic.integers import (
    Cond,
    Int,
    add,
    at_least,
    atoms,
    equal,
    neg,
    negated,
    num,
    replaced,
    single,
    sub,
    sym,
    symbols,
)

#: Sums over at most this many known places are taken apart.
MOST_PLACES = 8
#: Terms are collected if at most one in this number is left.
MANY: Final = 2
#: How often a proof may be split along one branch, and how many pairings of factors are tried.
SPLITS: Final = 7
PAIRINGS: Final = 200


class NotFound(Exception):
    """Raised when the search ends without a proof; the message gives the open remainder."""

    why = "open"


class NeverApplies(NotFound):
    """Raised when the facts of every case of a rule contradict each other."""

    why = "never"


# -- search ------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Search:
    """The search for the proofs of one rule, with a limit on its time.

    If it ends without a proof, the two sides may differ under each of the lists of conditions in ``doubts``.
    """

    seconds: float
    started: float = field(default_factory=time.perf_counter)
    stuck: str = ""
    doubts: list[tuple[Cond, ...]] = field(default_factory=list)

    def tick(self) -> None:
        """Raise OutOfTime if the time is spent."""
        if time.perf_counter() - self.started > self.seconds:
            raise OutOfTime(self.stuck)

    def whole(self, left: Value, right: Value, facts: Facts) -> check.Node:
        """Return a proof that two values are equal, of which equal terms are collected first if they are many."""
        fewer = collected(left), collected(right)
        if MANY * sum(map(len, fewer)) > len(left) + len(right):
            return self._equal(left, right, facts)
        return ["collect", self._equal(*fewer, facts)]

    def _equal(
        self, left: Value, right: Value, facts: Facts, splits: int = SPLITS, quick: bool = False
    ) -> check.Node:
        """Return a proof that two values are equal, in at most ``splits`` splits; a ``quick`` one has no cases."""
        self.tick()
        found, rest = self._sums(left, right, facts, thorough=False)
        if rest:
            facts.missing.clear()
            found, rest = self._sums(left, right, facts, thorough=True)
        if not rest:
            return found
        if quick:
            raise NotFound("terms are left")
        for k, condition in self._places(left, right):
            parts = check.by_parts(left, right, k, condition)
            return ["parts", k, write_condition(condition), self._equal(*parts, facts, splits)]
        self.stuck = "; ".join(t.text for t in rest)[:400]
        # Where a term is left that is not 0, and where a pairing of terms fails.
        self.doubts = [(*facts.known, *t.guards) for t in rest] + list(reversed(facts.missing))
        if facts.absurd():
            return ["absurd"]
        if splits == 0:
            raise NotFound(self.stuck)
        for condition in self._conditions(rest, facts):
            here, there = facts.plus(condition), facts.plus(negated(condition))
            yes = self._equal(left, right, here, splits - 1)
            no = self._equal(left, right, there, splits - 1)
            return ["split", write_condition(condition), yes, no]
        raise NotFound(self.stuck)

    def _places(self, left: Value, right: Value) -> Iterator[tuple[int, Cond]]:
        """Yield the sums over a few known places, each with the condition that the place is the first."""
        for k, t in enumerate((*left, *right)):
            bounds = [g.args[0] for g in t.guards if g.head == "ge"]
            for name in map(sym, t.variables):
                low = max((n for x in bounds if (n := sub(name, x).value) is not None), default=0)
                high = min((n for x in bounds if (n := add(name, x).value) is not None), default=low)
                if low < high < low + MOST_PLACES and at_least(name, num(low)) in t.guards:
                    yield k, at_least(num(low), name)

    def _conditions(self, rest: Sequence[Term], facts: Facts) -> Iterator[Cond]:
        """Yield conditions on free symbols on which terms depend, that the facts do not decide."""
        seen: set[str] = set()
        for c in self._candidates(rest):
            if c.text in seen or on_rest(c) or any(s[0] in "#%" for s in symbols(c)):
                continue
            seen |= {c.text, negated(c).text}
            if not facts.entail(c) and not facts.entail(negated(c)):
                yield c
        for d in (d for c in facts.known if c.head == "or" for d in c.args):
            if not on_rest(d) and not facts.entail(d) and not facts.entail(negated(d)):
                yield d

    def _candidates(self, rest: Sequence[Term]) -> Iterator[Cond]:
        """Yield the guards of terms and the extents that decide broadcasting in them."""
        guards = [g for t in rest for g in t.guards]
        # A remainder divides the places into few cases, which decide most else.
        for g in guards:
            if g.head == "eq" and any(a.head == "div" for a in atoms(g)):
                yield g
        for g in guards:
            yield from (g.args if g.head == "or" else (g,))
        for t in rest:
            for f in t.factors:
                yield from f.guards
                for v in f.values:
                    yield from self._candidates(v)
                for a in (a for x in f.args[1:] for a in atoms(x)) if f.head == "read" else ():
                    if a.head == "bc":
                        yield equal(a.args[0], num(1))
                    if a.head == "ite":
                        yield a.args[0]

    def _sums(
        self, left: Value, right: Value, facts: Facts, *, thorough: bool
    ) -> tuple[check.Node, list[Term]]:
        """Return the step that pairs terms, and the terms that are left; a ``thorough`` one asks which vanish."""
        terms = dict(enumerate((*left, *right)))
        empty = [k for k, t in terms.items() if self._vanishes(t, facts, thorough)]
        for k in empty:
            del terms[k]
        points: list[Any] = []
        for k in list(terms):
            terms[k], steps = self._points(terms[k], facts)
            points += [[k, name, *step] for name, *step in steps]
        weight = {k: t.coef if k < len(left) else -t.coef for k, t in terms.items()}
        classes: list[Any] = []
        left_over: list[int] = []
        open_ = list(terms)
        while open_:
            self.tick()
            first = open_.pop(0)
            members: list[Any] = [[first]]
            total = weight[first]
            for k in list(open_):
                if total == 0:
                    break
                same_side = (k < len(left)) == (first < len(left))
                if same_side and weight[k] * total > 0 and len(open_) > 1 and len(left) == len(right):
                    continue
                change = self._change(terms[k], terms[first], facts)
                if change is not None:
                    members.append([k, *change])
                    total += weight[k]
                    open_.remove(k)
            if total != 0:
                left_over += [m[0] for m in members]
            else:
                classes.append(members)
        return ["sum", empty, points, classes], [terms[k] for k in left_over]

    def _vanishes(self, t: Term, facts: Facts, thorough: bool) -> bool:
        """Return whether the guards of a term contradict each other or the facts."""
        if not t.guards:
            return False
        inside = facts.plus(*t.guards)
        opposite = {negated(c).text for c in inside.known}
        if any(c.text in opposite for c in t.guards):
            return True
        return thorough and any(g not in facts.known for g in t.guards) and inside.absurd()

    def _points(self, t: Term, facts: Facts) -> tuple[Term, list[list[Any]]]:
        """Return a term without the variables that have one value or do not matter, and the steps."""
        steps: list[list[Any]] = []
        with suppress(Rejected):
            while (found := next(self._point(t), None)) is not None:
                t = check.one_point(t, *found, facts)
                steps.append([found[0], write_int(found[1])])
        for name in t.variables:
            if any(name in free_symbols(f) for f in t.factors):
                continue
            for extent in self._extents(t, name):
                with suppress(Rejected):
                    t = check.counted(t, name, extent, facts)
                    steps.append([name, "count", write_int(extent)])
                    break
        return t, steps

    def _extents(self, t: Term, name: str) -> Iterator[Int]:
        """Yield possible values of a variable's extent, from the guards that bound it above."""
        for g in t.guards:
            if g.head == "ge" and name in symbols(g):
                extent = add(g.args[0], sym(name), num(1))
                if name not in symbols(extent) and len(extent.terms) == 1:
                    yield extent

    def _point(self, t: Term) -> Iterator[tuple[str, Int]]:
        """Yield variables with the one value that guards leave them."""
        bounds = {g.args[0].text for g in t.guards if g.head == "ge"}
        for g in t.guards:
            if g.head not in ("eq", "ge") or (g.head == "ge" and neg(g.args[0]).text not in bounds):
                continue
            for name in t.variables:
                found = solve([name], [(g.args[0], num(0))])
                if name in found:
                    yield name, found[name]

    # -- changes of index
    def _change(self, t: Term, head: Term, facts: Facts) -> list[Any] | None:
        """Return the step that turns a term into another one by a change of index, or None."""
        if len(t.factors) != len(head.factors):
            return None
        ways = islice(pairings(t.factors, head.factors), PAIRINGS)
        found = (self._by_pairing(t, head, pairing, facts) for pairing in ways)
        return next((step for step in found if step is not None), None)

    def _by_pairing(self, t: Term, head: Term, pairing: Sequence[int], facts: Facts) -> list[Any] | None:
        """Return the step in which each factor of a term has a partner, by its position in ``head``, or None."""
        self.tick()
        pairs: list[tuple[Int, Int]] = []
        other = {n: f"~{n}" for n in head.variables}
        apart = {n: sym(o) for n, o in other.items()}
        for f, k in zip(t.factors, pairing, strict=True):
            g = only_factor(in_factor(head.factors[k], apart))
            if g is None:
                return None
            pairs += unknowns(f, g)
        for forth, back in self._maps(t, head, other, pairs):
            there, here = ({n: write_int(x) for n, x in by.items()} for by in (forth, back))
            try:
                scopes = (t.variables, t.guards), (head.variables, head.guards)
                inside = check.check_bijection(*scopes, there, here, facts)
            except Rejected:
                continue
            partners = []
            for f, k in zip(t.factors, pairing, strict=True):
                how = self._factor(f, head.factors[k], forth, inside)
                if how is False:
                    break
                partners.append([k, how])
            else:
                return [there, here, partners]
        return None

    def _maps(
        self, t: Term, head: Term, other: Mapping[str, str], pairs: Sequence[tuple[Int, Int]]
    ) -> Iterator[tuple[dict[str, Int], dict[str, Int]]]:
        """Yield changes of index that equations allow, in which ``other`` are names of the variables of ``head``."""
        named = {o: sym(n) for n, o in other.items()}
        solved = solve(list(other.values()), pairs)
        forth = {n: solved[o] for n, o in other.items() if o in solved}
        back = solve(list(t.variables), pairs)
        back = {n: replaced(x, named) for n, x in back.items()}
        mine = [n for n in t.variables if n not in back]
        yours = [n for n in head.variables if n not in forth]
        if len(mine) > 4 or len(mine) != len(yours):
            if not mine and not yours:
                yield forth, back
            return
        for order in permutations(yours):
            yield (
                forth | {y: sym(m) for m, y in zip(mine, order, strict=True)},
                back | {m: sym(y) for m, y in zip(mine, order, strict=True)},
            )

    def _factor(
        self, f: Factor, g: Factor, forth: Mapping[str, Int], facts: Facts
    ) -> list[Any] | bool | None:
        """Return how a factor equals another after a change of its index, or False."""
        how: Any = None
        changed = only_factor(in_factor(g, forth))
        if changed is None or changed.head != f.head:
            return False
        if f != changed and f.head in ("fn", "top"):
            how = self._function(f, changed, facts) if f.head == "fn" else self._largest(f, changed, facts)
            if how is None:
                return False
        try:
            check.check_factor(f, g, forth, how, facts, 0)
        except Rejected:
            return False
        return how

    def _function(self, f: Factor, g: Factor, facts: Facts) -> list[Any] | None:
        """Return how the operands of a function are equal."""
        if f.args[0] != g.args[0] or len(f.args) != len(g.args):
            return None
        count = len(f.args) - 1
        orders = permutations(range(count)) if f.args[0] in check.COMMUTATIVE else [tuple(range(count))]
        for order in orders:
            with suppress(NotFound):
                return [
                    [k, self._equal(v, g.args[1 + k], facts, quick=True)]
                    for v, k in zip(f.args[1:], order, strict=True)
                ]
        return None

    def _largest(self, f: Factor, g: Factor, facts: Facts) -> list[Any] | None:
        """Return how two largest values are equal: by a change of index and a proof of their values."""
        own, guards, value = f.args
        others, other_guards, other_value = g.args
        if len(own) != len(others):
            return None
        for order in permutations(own) if len(own) < 5 else [own]:
            there = dict(zip(others, order, strict=True))
            here = {m: o for o, m in there.items()}
            by = {o: sym(m) for o, m in there.items()}
            with suppress(Rejected, NotFound):
                inside = check.check_bijection((own, guards), (others, other_guards), there, here, facts)
                return [there, here, self._equal(value, in_value(other_value, by), inside, quick=True)]
        return None


# -- unification -------------------------------------------------------------------------------------------
def equations(x: Int, y: Int) -> list[tuple[Int, Int]]:
    """Return equations that make two indices equal: of their parts, if they are one operation alike."""
    a, b = single(x), single(y)
    if a is None or b is None or (a.head, len(a.args)) != (b.head, len(b.args)) or a.head in ("sym", "ite"):
        return [(x, y)]
    if a.head == "bc" and a.args[0] != b.args[0]:
        return [(x, y)]
    return [e for p, q in zip(a.args, b.args, strict=True) for e in equations(p, q)]


def solve(wanted: Sequence[str], pairs: Sequence[tuple[Int, Int]]) -> dict[str, Int]:
    """Return the values that equations give to wanted variables; variables without one are left out."""
    found: dict[str, Int] = {}
    todo = [sub(x, y) for x, y in pairs]
    while True:
        before = len(found)
        for e in (replaced(e, found) for e in todo):
            for name, c, rest in linear(e):
                known = symbols(rest) & (set(wanted) - set(found))
                if name in wanted and abs(c) == 1 and name not in found and not known:
                    found[name] = neg(rest) if c == 1 else rest
                    break
        if len(found) == before:
            return found


def pairings(mine: Sequence[Factor], yours: Sequence[Factor]) -> Iterator[list[int]]:
    """Yield the ways in which factors of one kind and name may be paired."""

    def sort(f: Factor) -> tuple[str, str]:
        return f.head, str(f.args[0]) if f.head in ("read", "fn", "param") else ""

    def extend(k: int, used: tuple[int, ...]) -> Iterator[list[int]]:
        if k == len(mine):
            yield list(used)
            return
        for n, g in enumerate(yours):
            if n not in used and sort(g) == sort(mine[k]):
                yield from extend(k + 1, (*used, n))

    if sorted(map(sort, mine)) == sorted(map(sort, yours)):
        yield from extend(0, ())


def unknowns(f: Factor, g: Factor) -> list[tuple[Int, Int]]:
    """Return the equations between indices that make two factors equal, as far as they are simple."""
    if f.head != g.head:
        return []
    if f.head == "read":
        return [e for x, y in zip(f.args[1:], g.args[1:], strict=False) for e in equations(x, y)]
    if f.head == "fn" and len(f.args) != len(g.args):
        return []
    sides = (zip(v, w, strict=False) for v, w in zip(f.values, g.values, strict=True))
    pairs = (p for terms in sides for s, t in terms for p in zip(s.factors, t.factors, strict=False))
    return [e for p, q in pairs if p.head == q.head and p.args[0] == q.args[0] for e in unknowns(p, q)]


# -- rules -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of a search: the proof, or the name and detail of the reason why there is none; its seconds.

    ``workbench.laws.theorems.store.REASONS`` has the names of reasons.
    """

    rule: str
    proof: dict[str, Any] | None
    why: str
    detail: str
    seconds: float


def attempt(rule: Rule, seconds: float = 20.0) -> Attempt:
    """Return a proof that a rule holds for all types, or why none was found."""
    search = Search(seconds)
    try:
        found = [prove_case(s, search) for s in statements(rule)]
        if all(node == ["absurd"] for nodes in found for node in nodes):
            raise NeverApplies
        proof, why, detail = {"cases": found}, "", ""
    except (NotCovered, NotFound, Unavailable) as error:
        proof, why, detail = None, error.why, str(error)
    except OutOfTime as error:
        proof, why, detail = None, "time", str(error)
    return Attempt(rule.name, proof, why, detail, time.perf_counter() - search.started)


def prove_case(statement: Statement, search: Search) -> list[check.Node]:
    """Return the proof of one case: a node for every root."""
    facts = Facts(statement.facts)
    found = []
    for left, right in statement.pairs:
        node = search.whole(left, right, facts)
        check.check_equal(left, right, node, facts)
        found.append(node)
    return found
