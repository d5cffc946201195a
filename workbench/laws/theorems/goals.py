"""The claim of a rule for all types: facts about symbols, and two values that must then be equal.

The facts are those that the engine relies on when it applies a rule: both sides are well-typed and of one
type, and the rule's conditions hold. If a rule binds axes, there is one case for every way in which they may
coincide with axes that have a number. Equations among the facts are solved for symbols and put into all
others, so that most remaining goals are identities of normal forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import isinf
from typing import Any, Final

from workbench.laws.theorems import terms
from workbench.laws.theorems.axes import Key, NotCovered, Perm, key_text, on_rest, place_of
from workbench.laws.theorems.cases import Case, cases, fixed_images, identities, of_one_member
from workbench.laws.theorems.definitions import DEFINITIONS, Call, Index, Tensor
from workbench.laws.theorems.entailment import Facts
from workbench.laws.theorems.symbolic_typing import (
    Axis,
    Kind,
    N,
    NoCase,
    OpenDivisor,
    RankOpen,
    Reading,
    key_of,
    whole,
)
from workbench.ops import Attr, AttrValue, Trait, TypeMismatch, spec_of
from workbench.rules import pattern
from workbench.rules.interpret import (
    RELATIONS,
    Bound,
    RowAttr,
    attributes,
    bound_term,
    compared,
    read_term,
    spread,
)
from workbench.symbolic.integers import (
    NONNEGATIVE,
    RANGES,
    TRUE,
    Cond,
    Int,
    NotPositive,
    add,
    at_least,
    either,
    equal,
    is_positive,
    mul,
    neg,
    num,
    of_atom,
    replaced,
    replaced_in,
    single,
    sub,
    sym,
    symbols,
)
from workbench.symbolic.symint import ARITHMETIC

#: The number of rounds in which equations are solved.
ROUNDS: Final = 40
#: Variables made after a statement are numbered from here on, apart from those of the statement.
LATER: Final = 1_000_000
#: The number of conditions by which a case is divided.
MOST_ASSUMED: Final = 3


class NoValue(NotCovered):
    """Raised when the right-hand side may have no value if the left has one."""

    why = "partial"


@dataclass(frozen=True, slots=True)
class Statement:
    """One case of a rule: its facts, and the values of both sides at one index, for each root.

    ``solved`` are the symbols for which equations were solved, ``axes`` the axes that the rule binds.
    ``reader`` has read the rule, and ``kinds`` are the types of its left-hand sides.
    """

    name: str
    facts: tuple[Cond, ...]
    pairs: tuple[tuple[terms.Value, terms.Value], ...]
    solved: Mapping[str, Int] = field(default_factory=dict)
    axes: Mapping[str, int | Axis] = field(default_factory=dict)
    reader: Reader | None = field(default=None, compare=False, repr=False)
    kinds: tuple[Kind, ...] = field(default=(), compare=False, repr=False)


@dataclass(slots=True)
class Reader(Bound):
    """The algebra in which a rule is read: symbolic types and comprehensions."""

    types: Reading
    places: Mapping[str, Any]
    solved: Mapping[str, Int]
    fixed: Mapping[Key, Key]
    unmoved: frozenset[str]
    assuming: bool = True
    attrs: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    numbers: int = 0

    def symbol(self, name: str) -> Int:
        """Return a symbol, or its value by the equations."""
        found = self.solved.get(name)
        return sym(name) if found is None else found

    # -- attributes
    def fresh(self, attr: Attr, name: str | RowAttr, place: int) -> object:
        """Return the value of a variable that appears for the first time."""
        text = name if isinstance(name, str) else f"{name.row}.{name.name}"
        if attr.kind == "int" and attr.name == "axis":
            return self.places[text]
        if attr.kind == "int":
            return N(self.symbol(text))
        if attr.kind == "ints":
            return tuple(N(self.symbol(f"{text}.{k}")) for k in range(attr.length))
        if attr.kind == "extent":
            return N(self.symbol(f"+{text}"))
        if attr.kind == "float":
            return text
        if attr.kind in ("act", "word", "dtype"):
            return f"?{text}"
        if attr.kind == "perm":
            return Perm(() if text in self.unmoved else (text,), self.fixed)
        if attr.kind == "shape":
            return self.leaf(f"${text}", "")
        raise NotCovered(f"{attr.name} as a variable")

    def literal(self, value: AttrValue, attr: Attr | None) -> AttrValue:
        if attr is not None and attr.kind in ("shape", "axes", "perm") and isinstance(value, int):
            return (value,)
        return value

    def given(self, value: object, attr: Attr) -> object:
        if attr.kind in ("shape", "axes", "perm") and isinstance(value, N | int):
            return (value,)
        return spread(value, attr)

    def dim(self, var: str, axis: object) -> N:
        return N(self.variable(var).dim(key_of(axis)))

    def rank(self, var: str) -> N:
        return N(self.variable(var).kind.rank)

    def dtype(self, var: str) -> str:
        return self.variable(var).kind.dtype

    def arith(self, sign: str, left: object, right: object) -> N:
        return N(ARITHMETIC[sign](whole(left), whole(right)))

    def compose(self, left: object, right: object) -> Perm:
        if isinstance(left, Perm) and isinstance(right, Perm):
            return Perm(left.names + right.names, self.fixed)
        raise NotCovered("a composition with a fixed permutation")

    def inverse(self, perm: object) -> Perm:
        if isinstance(perm, Perm):
            return perm.inverse()
        raise NotCovered("the inverse of a fixed permutation")

    def axis(self, perm: object, axis: object) -> Axis:
        if isinstance(perm, Perm):
            key = perm.forth(key_of(axis))
            return Axis(key, place_of(key))
        raise NotCovered("an axis of a fixed permutation")

    # -- tensors
    def leaf(self, name: str, dtype: str) -> Kind:
        """Return a type of which nothing is known but the facts."""
        rank = self.symbol(f"rank {name}")

        def dim(key: Key) -> Int:
            if rank.value == 0:
                return num(1)
            if rank.value is not None and not isinstance(key, tuple):
                outside = -key > rank.value if isinstance(key, int) else rank.value <= self.types.literal
                if outside:
                    return num(1)
            return self.symbol(f"+{name} {key_text(key)}")

        return Kind(dtype, rank, dim)

    def variable(self, name: str) -> Tensor:
        """Return a variable's tensor: an element for every index, of which nothing is known."""
        if name not in self.tensors:
            kind = self.leaf(name, f"?{name}")
            self.types.note(at_least(kind.rank, num(0)))
            # Keys without a permutation are all axes; images under one are some of them again.
            axes = [k for k in self.types.keys if not isinstance(k, tuple)]
            for key in axes if kind.rank.value is None else ():
                far = at_least(add(place_of(key), kind.rank), num(0))
                self.types.note(either(far, equal(kind.dim(key), num(1))))

            def at(i: Index) -> terms.Value:
                places = [num(0) if kind.dim(k) == num(1) else i(k) for k in axes]
                return terms.one(terms.factor("read", name, *places))

            self.tensors[name] = Tensor(kind, at)
        return self.tensors[name]

    def starred(self, name: str) -> list[Tensor]:
        raise NotCovered("any number of members")

    def typed(self, term: pattern.App, operands: Sequence[Kind], attrs: dict[str, Any]) -> Kind:
        """Return the type of an operator's result."""
        spec = spec_of(term.op)
        if term.op not in DEFINITIONS or spec.infer is None:
            raise NotCovered(f"no definition of {term.op}")
        if self.assuming and Trait.NUMBER in spec.traits and "dtype" not in dict(term.attrs):
            self.numbers += 1
            attrs["dtype"] = f"?number {self.numbers}"
        kind = spec.infer(self.types, operands, attrs)
        for key in self.types.keys:
            self.types.note(at_least(kind.dim(key), num(1)))
        return kind

    def apply(self, term: pattern.App, operands: list[Tensor], attrs: dict[str, Any]) -> Tensor:
        """Return the result of an operator."""
        kind = self.typed(term, [x.kind for x in operands], attrs)
        call = Call(operands, attrs, kind, self.types)
        return Tensor(kind, lambda i: DEFINITIONS[term.op](call, i))


# -- statements ----------------------------------------------------------------------------------------
def statements(rule: pattern.Rule) -> list[Statement]:
    """Return the claims of a rule, case by case; cases in which it never applies are left out.

    A rule on any number of members is read as one on a member that is a slice of the whole. Raise NotCovered
    if the rule uses something of which proofs for all types know nothing.
    """
    if rule.each:
        return statements(of_one_member(rule))
    _bounds_stay_bounds(rule)
    found = [s for case in cases(rule) for s in _statements(rule, case, (), {})]
    if not found:
        raise NoCase
    return found


def _bounds_stay_bounds(rule: pattern.Rule) -> None:
    """Raise NotCovered if a bound that may be infinite is used as a number elsewhere than beside max and min."""

    def unbounded(attr: Attr) -> bool:
        return isinstance(attr.default, float) and isinf(attr.default)

    sides = [*pattern.applications(*rule.sources, *rule.targets)]
    pairs = [(term, attr, expr) for term in sides for attr, expr in attributes(term)]
    bounds = {e.name for _, attr, e in pairs if unbounded(attr) and isinstance(e, pattern.AttrVar)}
    beside = {id(x) for term in sides if term.op in ("max", "min") for x in term.args}
    used = [*pattern.names_in(*rule.conditions)]
    for term, attr, expr in pairs:
        if (
            not isinstance(expr, RowAttr | None)
            and not unbounded(attr)
            and not (term.op == "scalar" and id(term) in beside)
        ):
            used += pattern.names_in(expr)
    found = sorted(name for kind, name in used if kind == "attr" and name in bounds)
    if found:
        raise NotCovered(f"{found[0]} as a number, which may be infinite")


def _statements(
    rule: pattern.Rule, case: Case, assumed: tuple[Cond, ...], solved: dict[str, Int]
) -> list[Statement]:
    """Return the statements of a case; it is divided further if divisibility depends on extents."""
    name, solved = case[0], dict(solved)
    for _ in range(ROUNDS):
        reader = reader_of(rule, case, solved)
        types, reason, divided = reader.types, "", False
        try:
            for c in assumed:
                types.note(replaced_in(c, solved))
            _read(rule, reader)
        except TypeMismatch:
            return []
        except NotPositive as error:
            reason, divided = str(error), True
        except RankOpen as error:
            reason = str(error)
            hold_ranks(rule, reader)
        try:
            facts = [replaced_in(f, solved) for f in types.facts]
            found = solution(facts)
            if found is None and not reason:
                stated = _stated(rule, case, assumed, solved, facts)
                return [stated] if stated is not None else []
        except NotPositive as error:
            found, reason, divided = None, str(error), True
        if found is None:
            choices = _choices(facts, reason)
            if not choices or len(assumed) >= MOST_ASSUMED:
                raise (OpenDivisor if divided else NotCovered)(reason)
            return [
                s
                for c in choices
                for s in _statements(rule, (f"{name}, {c.text}", *case[1:]), (*assumed, c), solved)
            ]
        with suppress(NotPositive):  # the divisors are known once the rule is read again
            solve(facts, solved)
    raise NotCovered("equations that are not solved in few rounds")


def _stated(
    rule: pattern.Rule, case: Case, assumed: tuple[Cond, ...], solved: dict[str, Int], facts: Sequence[Cond]
) -> Statement | None:
    """Return a case as it reads if these quotients and symbols are at least 0, or None if it contradicts itself."""
    known = [c for c in facts if c.head == "ge" and single(c.args[0]) is not None]
    try:
        _nonnegative(a.text for c in known if (a := single(c.args[0])) is not None)
        reader = reader_of(rule, case, solved)
        pairs = _read(rule, reader)
        more = [replaced_in(f, solved) for f in (*assumed, *reader.types.facts)]
        values = _values(reader.types, pairs, [*known, *more])
        return Statement(case[0], *values, solved, case[1], reader, tuple(x.kind for x, _ in pairs))
    except TypeMismatch:
        return None
    finally:
        _nonnegative(())


def _nonnegative(texts: Iterable[str]) -> None:
    """Take these atoms, and no others, to be at least 0; forget the comparisons made before."""
    now = set(texts)
    if now != NONNEGATIVE:
        NONNEGATIVE.clear()
        NONNEGATIVE.update(now)
        at_least.cache_clear()
        equal.cache_clear()


def _choices(facts: Sequence[Cond], reason: str) -> Sequence[Cond]:
    """Return the alternatives of a fact that names a symbol of the divisor; without one, nothing."""
    for f in facts:
        named = {n for n in symbols(f) if n in reason}
        # Axes without a name stand for several, of which each may meet another alternative.
        if f.head == "or" and named and not on_rest(f):
            return f.args
    return ()


def reader_of(rule: pattern.Rule, case: Case, solved: Mapping[str, Int]) -> Reader:
    """Return the algebra in which a case of a rule is read, with the values of the symbols that are ``solved``.

    An axis that the rule binds, and that has no number, is beyond those that have one.
    """
    terms.restart()
    _, places, literal, keys = case
    types = Reading(keys, literal)
    for k in keys:
        if isinstance(k, str):
            types.note(at_least(num(-literal - 1), sym(f"place {k}")))
    return Reader(types, places, solved, fixed_images(rule), identities(rule))


def bound_left(rule: pattern.Rule, reader: Reader) -> list[Tensor]:
    """Return the left-hand sides, after their types and the conditions are noted as facts."""
    left = [bound_term(s, reader) for s in rule.sources]
    for condition in rule.conditions:
        hold(condition, reader)
    return left


def _read(rule: pattern.Rule, reader: Reader) -> list[tuple[Tensor, Tensor]]:
    left = bound_left(rule, reader)
    reader.assuming = False
    right = [read_term(t, reader) for t in rule.targets]
    for x, y in zip(left, right, strict=True):
        reader.types.require_same(x.kind, y.kind, "the sides have different types")
    return list(zip(left, right, strict=True))


def hold_ranks(rule: pattern.Rule, reader: Reader) -> None:
    """Note the conditions that give a rank, before the terms that ask for it are read."""
    for c in rule.conditions:
        if c.relation == "=" and isinstance(c.left, pattern.RankOf) and isinstance(c.right, pattern.Literal):
            reader.types.require(N(reader.variable(c.left.var).kind.rank) == c.right.value, "a condition")


def hold(condition: pattern.Compare, reader: Reader) -> None:
    """Note that a condition holds."""
    if any(name not in reader.tensors for name in pattern.measured(condition)):
        raise NotCovered("a condition on a tensor that the left-hand side does not have")
    relation = RELATIONS[condition.relation]
    for a, b in compared(condition, reader):
        if isinstance(a, str) and isinstance(b, str):
            # Of element types nothing else is assumed: a proof with fewer hypotheses proves more.
            if condition.relation in ("<=", ">="):
                reader.types.within.add((a, b) if condition.relation == "<=" else (b, a))
            continue
        if condition.relation == "=" and isinstance(a, Perm) and a == b:
            continue  # the images of axes already state this condition
        reader.types.require(relation(N(whole(a)), N(whole(b))), "a condition")


def _values(
    types: Reading, pairs: Sequence[tuple[Tensor, Tensor]], facts: Sequence[Cond]
) -> tuple[tuple[Cond, ...], tuple[tuple[terms.Value, terms.Value], ...]]:
    more: list[Cond] = []
    values = []
    for n, (x, y) in enumerate(pairs):
        at = {}
        for k in types.keys:
            extent = x.kind.dim(k)
            at[k] = num(0) if extent == num(1) else sym(f"i{n} {key_text(k)}")
            if at[k].symbol is not None:
                RANGES[str(at[k].symbol)] = extent
            more += terms.within(at[k], extent)

        def index(key: Key, at: Mapping[Key, Int] = at, n: int = n) -> Int:
            return at[key] if key in at else sym(f"i{n} {key_text(key)}")

        (left, known), (right, risks) = (terms.with_risks(partial(t.at, index)) for t in (x, y))
        if not risks <= known:
            raise NoValue(min(risks - known))
        values.append((left, right))
    terms.restart(LATER)
    kept = {f.text: f for f in (*facts, *more) if f != TRUE}
    return tuple(kept.values()), tuple(values)


# -- types of right-hand sides ---------------------------------------------------------------------------
def why_guarded(rule: pattern.Rule, known: Facts | None = None) -> str:
    """Return why a rule's right-hand side may have no type, or another one; empty if it is typed.

    A theorem assumes that both sides have a type and the same one; the engine checks that where a rule fires, which
    *guards* the right-hand side. It is *typed* if that follows from the left-hand side and the conditions alone.
    ``known`` are facts that share the solver's answers and collect its results; new ones by default.
    """
    if rule.each:
        return "members may not fit together"
    shared = Facts() if known is None else known
    return next((why for case in cases(rule) if (why := _why_guarded(rule, case, shared))), "")


def _why_guarded(rule: pattern.Rule, case: Case, known: Facts) -> str:
    solved: dict[str, Int] = {}
    for _ in range(ROUNDS):
        reader = reader_of(rule, case, solved)
        types = reader.types
        try:
            reason = ""
            try:
                bound_left(rule, reader)
            except RankOpen as error:
                hold_ranks(rule, reader)
                reason = str(error)
            except NotPositive as error:
                reason = str(error)
            facts = [replaced_in(f, solved) for f in types.facts]
            if solution(facts) is None:
                break
            solve(facts, solved)
        except TypeMismatch:
            return ""  # the left-hand side has no type in this case
        except NotCovered as error:
            return str(error)
        except NotPositive:
            continue
    else:
        return "equations that are not solved in few rounds"
    if reason:
        return reason
    given = known.plus(*facts)
    noted = len(types.facts)
    types.strict, reader.assuming = True, False
    try:
        left = [read_term(s, reader) for s in rule.sources]
        del types.facts[noted:]
        for x, term in zip(left, rule.targets, strict=True):
            y = read_term(term, reader)
            types.require_same(x.kind, y.kind, "the sides have different types")
        for fact in types.facts[noted:]:
            if not given.entail(replaced_in(fact, solved)):
                return f"{fact.text} may not hold"
    except TypeMismatch as error:
        return "" if given.absurd() else str(error)
    except (NotCovered, NotPositive, RankOpen) as error:
        return str(error)
    return ""


# -- equations among the facts, solved for symbols -------------------------------------------------------
def solve(facts: Sequence[Cond], solved: dict[str, Int]) -> list[Cond]:
    """Return facts with the values of symbols that they give, until they give no more; ``solved`` collects these."""
    while (found := solution(facts)) is not None:
        by = dict([found])
        solved.update({k: replaced(v, by) for k, v in solved.items()} | by)
        facts = [replaced_in(f, by) for f in facts]
    return list(facts)


def solution(facts: Sequence[Cond]) -> tuple[str, Int] | None:
    """Return a symbol and its value according to one of the facts, or None if no fact gives a symbol."""
    for c in facts:
        if c.head == "ge":
            name = add(c.args[0], num(1)).symbol
            if name is not None and name[0] != "+" and not name.startswith("place"):
                return name, sym("+" + name)
    for c in facts:
        if c.head == "ge":
            for name, k, rest in linear(c.args[0]):
                if k == -1 and rest == num(1) and name[0] == "+":
                    return name, num(1)
                start = neg(add(rest, num(1)))
                may_be_shorter = name[0] != "+" and not name.startswith(("place", "rank"))
                if k == 1 and may_be_shorter and start.symbol is not None:
                    return name, add(start, sym(f"+length {name}"))
        if c.head == "eq" and (found := _ones(c.args[0]) or _solved(c.args[0])) is not None:
            return found
    return None


def linear(x: Int) -> Iterator[tuple[str, int, Int]]:
    """Yield the symbols that an integer has multiples of, each with the number and what else is added."""
    for m, k in x.terms:
        if len(m) == 1 and m[0].head == "sym":
            name = str(m[0].args[0])
            yield name, k, sub(x, mul(num(k), sym(name)))


def _solved(x: Int) -> tuple[str, Int] | None:
    candidates = []
    for name, k, rest in linear(x):
        value = neg(rest) if k == 1 else rest
        if abs(k) != 1 or name in symbols(rest) or name.startswith("place"):
            continue
        if name[0] != "+" or is_positive(value):
            simple = 0 if value.value is not None else 1 if name[0] == "+" and value.symbol else 2
            candidates.append((simple, name[0] != "+", name, value))
    if candidates:
        _, _, name, value = min(candidates, key=lambda c: (c[0], c[1], -len(c[2]), c[2]))
        return name, value
    return _divided(x)


def _ones(x: Int) -> tuple[str, Int] | None:
    """Return a symbol as 1, if the equation says that a product of positive symbols is 1."""
    found = dict(x.terms)
    products = [m for m in found if m]
    is_one = len(products) == 1 and found.get((), 0) * found[products[0]] == -1
    if is_one and all(a.positive and a.head == "sym" for a in products[0]):
        return str(products[0][0].args[0]), num(1)
    return None


def _divided(x: Int) -> tuple[str, Int] | None:
    """Return a symbol as a multiple, if the equation says that a remainder is 0."""
    for a in (a for m, _ in x.terms for a in m if a.head == "div"):
        top, below = a.args
        if sub(top, mul(below, of_atom(a))) not in (x, neg(x)):
            continue
        for name, k, rest in linear(top):
            if k != 1 or name in symbols(rest) | symbols(below) or (name[0] == "+" and rest != num(0)):
                continue
            fresh = sym(("+" if name[0] == "+" else "") + f"quotient {name.lstrip('+')}")
            return name, sub(mul(below, fresh), rest)
    return None
