"""The checker: whether stored steps prove the claim of a rule for all types.

It reads the rule, the operators' definitions and the steps. Every step names a law; the checker decides for
itself whether the law applies where the step says so, and rejects the proof otherwise. Nothing here searches,
and nothing is imported from the search. ``rules/kernel.md`` describes the steps.

A proof is one *node* for every pair of values of every case:

* ``["absurd"]``: the facts contradict each other, so there is nothing to show.
* ``["split", condition, node, node]``: one proof if a condition holds and one if it does not.
* ``["parts", k, condition, node]``: term ``k`` is its sum over the places where a condition holds, plus that over
  the others.
* ``["collect", node]``: terms of one side that differ in the names of their variables alone are one.
* ``["sum", empty, points, classes]``: the terms of both sides are divided into classes of equal terms, and
  the coefficients of each class agree. ``empty`` lists the terms whose guards contradict each other, and
  ``points`` those with variables that can have one value only, or on which the product does not depend.
* A member of a class is equal to its first member by a change of index, one to one in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.laws.theorems.axes import NotCovered, on_rest
from workbench.laws.theorems.cases import bounds
from workbench.laws.theorems.entailment import Facts
from workbench.laws.theorems.goals import statements, why_guarded
from workbench.laws.theorems.links import Chain, NoLink
from workbench.laws.theorems.steps import Rejected, check_words, read_condition, read_int
from workbench.laws.theorems.symbolic_typing import N
from workbench.laws.theorems.terms import (
    Factor,
    Term,
    Value,
    collected,
    free_symbols,
    guarded,
    in_factor,
    in_term,
    integer,
    only_factor,
    term,
    times,
    total,
    within,
)
from workbench.rules.interpret import RELATIONS
from workbench.rules.pattern import Rule
from workbench.symbolic.integers import Cond, Int, at_least, negated, num, replaced, replaced_in, sym, symbols

Node = list[Any]
#: Answers and results of the solver, by the texts of the questions.
Answers = dict[tuple[str, ...], bool]
Obligations = dict[tuple[str, ...], tuple[tuple[Cond, ...], Cond]]

#: Variables, and the conditions on them.
Scope = tuple[Sequence[str], Sequence[Cond]]

#: Functions whose operands may be in any order.
COMMUTATIVE = ("max", "min")
#: How deep the nodes of a proof may be.
DEEPEST = 40


# -- nodes -----------------------------------------------------------------------------------------------
def check_equal(left: Value, right: Value, node: object, facts: Facts, depth: int = 0) -> None:
    """Check that two values are equal if facts hold; raise Rejected otherwise.

    Args:
        left: A value.
        right: A value.
        node: The step of the proof, as data.
        facts: The conditions that hold.
        depth: The number of steps around this one.
    """
    if depth > DEEPEST:
        raise Rejected("the proof is too deep")
    if not isinstance(node, list) or not node:
        raise Rejected(f"no step: {node!r}")
    law = node[0]
    if law == "absurd" and len(node) == 1:
        _require(facts.absurd(), "absurd", "the facts do not contradict each other")
    elif law == "split" and len(node) == 4:
        condition = read_condition(node[1])
        # Axes without a name stand for several, of which each may be in another case.
        _require(not on_rest(condition), "split", "the condition is on axes without a name")
        check_equal(left, right, node[2], facts.plus(condition), depth + 1)
        check_equal(left, right, node[3], facts.plus(negated(condition)), depth + 1)
    elif law == "parts" and len(node) == 4:
        left, right = by_parts(left, right, node[1], read_condition(node[2]))
        check_equal(left, right, node[3], facts, depth + 1)
    elif law == "collect" and len(node) == 2:
        check_equal(collected(left), collected(right), node[1], facts, depth + 1)
    elif law == "sum" and len(node) == 4:
        _check_sum(left, right, node, facts, depth)
    else:
        raise Rejected(f"no such step: {law!r}")


def by_parts(left: Value, right: Value, k: object, condition: Cond) -> tuple[Value, Value]:
    """Return two values of which a term is in two: where a condition holds, and where it does not.

    Args:
        left: A value.
        right: A value.
        k: The number of the term, those of the right value after those of the left one.
        condition: The condition, which speaks of no other sum's variables.
    """
    terms = (*left, *right)
    if type(k) is not int or not 0 <= k < len(terms):
        raise Rejected(f"parts: unknown term {k}")
    others = [n for n in symbols(condition) if n[0] in "#%" and n not in terms[k].variables]
    _require(not others and not on_rest(condition), "parts", "the condition is on something else")
    halves = (*guarded(condition, (terms[k],)), *guarded(negated(condition), (terms[k],)))
    if k < len(left):
        return (*left[:k], *halves, *left[k + 1 :]), right
    k -= len(left)
    return left, (*right[:k], *halves, *right[k + 1 :])


def _require(condition: bool, law: str, message: str) -> None:
    if not condition:
        raise Rejected(f"{law}: {message}")


def _check_sum(left: Value, right: Value, node: Node, facts: Facts, depth: int) -> None:
    _, empty, points, classes = node
    terms = dict(enumerate((*left, *right)))
    signs = {k: 1 if k < len(left) else -1 for k in terms}
    _require(list(empty) == sorted(empty), "empty", "the terms are out of order")
    for k in empty:
        t = _taken(terms, k)
        inside = _inside(facts, t.variables, t.guards)
        _require(inside.absurd(), "empty", f"the guards of term {k} may hold")
    for k, name, *place in points:
        _require(isinstance(k, int) and k in terms, "one-point", f"unknown term {k}")
        is_step = len(place) == 1 or (len(place) == 2 and place[0] == "count")
        _require(is_step, "one-point", "the step is incomplete")
        law = one_point if len(place) == 1 else counted
        terms[k] = law(terms[k], name, read_int(place[-1]), facts)
    for members in classes:
        _require(len(members) > 0 and len(members[0]) == 1, "ring", "a class begins with no term")
        first = members[0][0]
        head = _taken(terms, first)
        total = signs[first] * head.coef
        for k, *change in members[1:]:
            _require(len(change) == 3, "change of index", "the step is incomplete")
            t = _taken(terms, k)
            _check_change(t, head, change, facts, depth)
            total += signs[k] * t.coef
        _require(total == 0, "ring", f"the coefficients of a class differ by {total}")
    _require(not terms, "ring", f"terms are left: {sorted(terms)}")


def _taken(terms: dict[int, Term], k: Any) -> Term:
    """Return a term that has not been taken yet, and take it: every term is in one class, once."""
    _require(isinstance(k, int) and not isinstance(k, bool) and k in terms, "ring", f"unknown term {k}")
    return terms.pop(k)


def one_point(t: Term, name: str, place: Int, facts: Facts) -> Term:
    """Return a sum over a variable that has one value only, without the variable.

    Args:
        t: The sum.
        name: The variable.
        place: Its only value.
        facts: The conditions that hold around the sum.
    """
    _require(name in t.variables, "one-point", f"unknown variable {name}")
    _require(name not in symbols(place), "one-point", f"the place of {name} is itself")
    inside = _inside(facts, t.variables, t.guards)
    _require(inside.same(sym(name), place), "one-point", f"{name} may differ from {place}")
    found = in_term(Term(t.coef, (), t.guards, t.factors), {name: place})
    _require(len(found) == 1, "one-point", "the term becomes several")
    (u,) = found
    return Term(u.coef, (*(n for n in t.variables if n != name), *u.variables), u.guards, u.factors)


def counted(t: Term, name: str, extent: Int, facts: Facts) -> Term:
    """Return a sum over a variable that its product does not have, as the number of its values times it.

    Args:
        t: The sum.
        name: The variable.
        extent: The number of its values.
        facts: The conditions that hold around the sum.
    """
    _require(name in t.variables, "constant sum", f"unknown variable {name}")
    _require(name not in symbols(extent), "constant sum", f"the extent of {name} is itself")
    _require(
        all(name not in free_symbols(f) for f in t.factors), "constant sum", f"the product depends on {name}"
    )
    own = [g for g in t.guards if name in symbols(g)]
    rest = [g for g in t.guards if g not in own]
    others = [n for n in t.variables if n != name]
    outside = _inside(facts, t.variables, rest)
    inside, span = outside.plus(*own), within(sym(name), extent)
    _require(outside.entail(at_least(extent, num(0))), "constant sum", f"{extent} may be negative")
    for g in span:
        _require(inside.entail(g), "constant sum", f"{g} may not hold")
    for g in own:
        _require(outside.plus(*span).entail(g), "constant sum", f"{g} may not hold")
    found = total(others, rest, times(integer(extent), term(t.coef, (), (), t.factors)))
    _require(len(found) == 1, "constant sum", "the term becomes several")
    return found[0]


def _inside(facts: Facts, variables: Sequence[str], guards: Sequence[Cond]) -> Facts:
    """Return the facts under a sum: those outside know nothing of its variables."""
    known = facts.symbols()
    _require(not known & set(variables), "guards", f"the facts speak of {sorted(known & set(variables))}")
    return facts.plus(*guards)


def _check_change(t: Term, head: Term, change: Sequence[Any], facts: Facts, depth: int) -> None:
    """Check that a term is another one after a change of index, up to their coefficients.

    The change is each variable of ``head`` in terms of those of ``t``, each variable of ``t`` in terms of those of
    ``head``, and for every factor of ``t`` its equal one of ``head`` and how it is equal.
    """
    forth, back, partners = change
    inside = check_bijection((t.variables, t.guards), (head.variables, head.guards), forth, back, facts)
    there = {n: read_int(forth[n]) for n in head.variables}
    _require(len(partners) == len(t.factors) == len(head.factors), "change of index", "the factors differ")
    taken = [p[0] for p in partners]
    _require(sorted(taken) == list(range(len(head.factors))), "change of index", "a factor has no partner")
    for f, (k, how) in zip(t.factors, partners, strict=True):
        check_factor(f, head.factors[k], there, how, inside, depth)


def check_bijection(
    own: Scope, other: Scope, forth: Mapping[str, Any], back: Mapping[str, Any], facts: Facts
) -> Facts:
    """Check that a change of index is one to one between guarded variables; return the facts inside.

    Args:
        own: The variables of one sum, and the conditions on them.
        other: Those of the other sum.
        forth: Each of the other variables, expressed by the own ones, as data.
        back: Each of the own variables, expressed by the other ones, as data.
        facts: The conditions that hold around the sums.
    """
    (names, guards), (others, other_guards) = own, other
    is_whole = set(forth) == set(others) and set(back) == set(names)
    _require(is_whole, "change of index", "variables are missing")
    there = {n: read_int(d) for n, d in forth.items()}
    here = {n: read_int(d) for n, d in back.items()}
    for by, mine, yours in ((there, {*names}, {*others}), (here, {*others}, {*names})):
        # A place may use the variables that it is expressed in, and none that are bound elsewhere.
        wrong = frozenset().union(*map(symbols, by.values())) & {n for n in yours - mine if n[0] in "#%"}
        _require(not wrong, "change of index", f"{sorted(wrong)} are not bound here")
    inside, outside = _inside(facts, names, guards), _inside(facts, others, other_guards)
    ways = ((inside, names, there, here, other_guards), (outside, others, here, there, guards))
    for known, variables, by, returned, wanted in ways:
        for g in wanted:
            _require(known.entail(replaced_in(g, by)), "change of index", f"{g} may not hold")
        for n in variables:
            _require(known.same(replaced(returned[n], by), sym(n)), "change of index", f"{n} does not return")
    return inside


def check_factor(
    f: Factor, other: Factor, there: Mapping[str, Int], how: object, facts: Facts, depth: int
) -> None:
    """Check that a factor equals another one after a change of index.

    Args:
        f: A factor.
        other: The factor that it should equal.
        there: The change of index, applied to the other factor.
        how: The step of the proof, as data; None if the factors are equal as they are.
        facts: The conditions that hold.
        depth: The number of steps around this one.
    """
    g = only_factor(in_factor(other, there))
    if g is None:
        raise Rejected(f"congruence: {other} is not a factor after the change of index")
    _require(f.head == g.head, "congruence", f"{f} is not {g}")
    if f == g or f.head not in ("fn", "top"):
        _require(how is None, "congruence", f"a step is given for {f}, which needs none")
    if f == g:
        return
    if f.head == "read":
        _require(f.args[0] == g.args[0], "congruence", f"{f.args[0]} is not {g.args[0]}")
        _require(len(f.args) == len(g.args), "congruence", "the indices differ in number")
        for x, y in zip(f.args[1:], g.args[1:], strict=True):
            _require(facts.same(x, y), "congruence", f"the index {x} may differ from {y}")
    elif f.head in ("int", "over"):
        _require(facts.same(f.args[0], g.args[0]), "congruence", f"{f} may differ from {g}")
    elif f.head == "fn":
        _check_function(f, g, how, facts, depth)
    elif f.head == "top":
        own, theirs = f.args[:2], g.args[:2]
        if not isinstance(how, list) or len(how) != 3:
            raise Rejected("largest: the step is incomplete")
        forth, back, node = how
        inside = check_bijection(own, theirs, forth, back, facts)
        changes = {n: read_int(forth[n]) for n in theirs[0]}
        changed_value = tuple(u for t in g.args[2] for u in in_term(t, changes))
        check_equal(f.args[2], changed_value, node, inside, depth + 1)
    else:
        raise Rejected(f"congruence: {f} is not {g}")


def _check_function(f: Factor, g: Factor, how: Any, facts: Facts, depth: int) -> None:
    _require(f.args[0] == g.args[0], "congruence", f"{f.args[0]} is not {g.args[0]}")
    _require(len(f.args) == len(g.args), "congruence", "the operands differ in number")
    _require(isinstance(how, list) and len(how) == len(f.args) - 1, "congruence", "the step is incomplete")
    order = [k for k, _ in how]
    straight = list(range(len(order)))
    _require(sorted(order) == straight, "congruence", "an operand has no partner")
    _require(order == straight or f.args[0] in COMMUTATIVE, "congruence", f"{f.args[0]} does not commute")
    for value, (k, node) in zip(f.args[1:], how, strict=True):
        check_equal(value, g.args[1 + k], node, facts, depth + 1)


# -- proofs ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Checked:
    """A proof that was checked: its rule, the number of its cases and the obligations that the solver met.

    ``theorems`` are those that the links of a chain apply.
    """

    rule: str
    cases: int
    obligations: tuple[tuple[tuple[Cond, ...], Cond], ...]
    theorems: tuple[str, ...] = ()


def _check_bounds(rule: Rule, asked: Answers, obligations: Obligations) -> None:
    """Check that all members of a rule with any number of them, and their results, have the same bounds."""
    for of_one, axis, relation, extent in bounds(rule):
        for statement in statements(of_one):
            assert statement.reader is not None
            facts = Facts(statement.facts, asked, obligations)
            result, own = N(statement.kinds[0].dim(axis)), statement.reader.dim(extent.var, extent.axis)
            why = f"the extent of the result may not be {relation} that of {extent.var}"
            _require(facts.entail(RELATIONS[relation](result, own)), "members", why)


def _check_chain(
    rule: Rule, chain: Any, theorems: Mapping[str, Rule], asked: Answers, obligations: Obligations
) -> Checked:
    """Check that theorems rewrite both sides of a rule to one term, in every case."""
    made = statements(rule)
    _require(not rule.each and isinstance(chain, list), "chain", "the rule has any number of members")
    _require(len(chain) == len(rule.sources), "chain", f"the rule has {len(rule.sources)} roots")
    used: dict[str, None] = {}
    applies = False
    for statement in made:
        case = Chain.of(rule, statement, Facts(statement.facts, asked, obligations))
        applies |= not case.facts.absurd()
        for pair, sides in zip(case.pairs, chain, strict=True):
            ends = []
            for tree, links in zip(pair, sides, strict=True):
                for name, backwards, place in links:
                    _require(name in theorems and name != rule.name, "chain", f"{name} is not a theorem")
                    tree = case.linked(tree, theorems[name], bool(backwards), place)
                    used[name] = None
                ends.append(tree)
            _require(case.alike(*ends), "chain", f"{ends[0].text} is not {ends[1].text}")
    _require(applies, "cases", "the rule never applies")
    return Checked(rule.name, len(made), tuple(obligations.values()), tuple(used))


def check(
    rule: Rule,
    proof: Mapping[str, Any],
    asked: Answers | None = None,
    theorems: Mapping[str, Rule] | None = None,
) -> Checked:
    """Check a proof that a rule holds for all types; raise Rejected if a step does not apply.

    Args:
        rule: The rule.
        proof: Its steps: ``cases``, or a ``chain`` of theorems; and ``typed`` if the right-hand side has a
            type whenever the left has one.
        asked: The solver's answers so far by the texts of the questions; rules may share them.
        theorems: The rules that a chain may use, by name. Their own proofs are not checked here.
    """
    asked = {} if asked is None else asked
    obligations: Obligations = {}
    proof = proof if isinstance(proof, Mapping) else {}
    if proof.get("typed"):
        why = why_guarded(rule, Facts((), asked, obligations))
        _require(not why, "typed", f"{rule.name}: {why}")
    if "chain" in proof:
        try:
            return _check_chain(rule, proof["chain"], theorems or {}, asked, obligations)
        except NoLink as error:
            raise Rejected(f"{rule.name}: chain: {error}") from None
        except (TypeError, KeyError, IndexError, AttributeError, ValueError) as error:
            if isinstance(error, Rejected | NotCovered):
                raise
            raise Rejected(f"{rule.name}: the links are malformed: {error!r}") from None
    made = statements(rule)
    cases = proof.get("cases")
    if not isinstance(cases, list):
        raise Rejected("cases: the proof has no cases")
    _require(len(cases) == len(made), "cases", f"the rule has {len(made)} cases, the proof {len(cases)}")
    applies = [n for n in cases if isinstance(n, list) and any(node != ["absurd"] for node in n)]
    _require(bool(applies), "cases", "the rule never applies")
    if rule.each:
        _check_bounds(rule, asked, obligations)
    for statement, nodes in zip(made, cases, strict=True):
        facts = Facts(statement.facts, asked, obligations)
        try:
            check_words(nodes, statement.facts, statement.pairs)
            roots = len(statement.pairs)
            _require(len(nodes) == roots, "cases", f"the case has {roots} roots")
            for (left, right), node in zip(statement.pairs, nodes, strict=True):
                check_equal(left, right, node, facts)
        except (TypeError, KeyError, IndexError, AttributeError, ValueError) as error:
            if isinstance(error, Rejected):
                raise Rejected(f"{rule.name}, {statement.name}: {error}") from None
            raise Rejected(f"{rule.name}, {statement.name}: the steps are malformed: {error!r}") from None
    return Checked(rule.name, len(made), tuple(obligations.values()))
