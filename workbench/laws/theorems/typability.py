"""Whether the right-hand side of a rule has the type of the left-hand side whenever that has one.

A theorem assumes that both sides have a type and the same one; the engine checks that where a rule fires. For
many rules it follows from the left-hand side and the conditions alone. Then the right-hand side is *typed*,
otherwise it is *guarded* by the engine.
"""

from __future__ import annotations

from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.axis_cases import Case, cases
from workbench.laws.theorems.entailment import Facts
from workbench.laws.theorems.goals import ROUNDS, Reader, hold, hold_ranks, reader_of, solution, solve
from workbench.laws.theorems.symbolic_typing import RankOpen
from workbench.ops import TypeMismatch
from workbench.rules.interpret import bound_term, read_term
from workbench.rules.pattern import Rule
from workbench.symbolic.integers import Int, NotPositive, replaced_in


def why_guarded(rule: Rule, known: Facts | None = None) -> str:
    """Return why a rule's right-hand side may have no type, or another one; empty if it is typed.

    ``known`` are facts that share the solver's answers and collect its results; new ones by default.
    """
    if rule.each:
        return "members may not fit together"
    shared = Facts() if known is None else known
    return next((why for case in cases(rule) if (why := _why(rule, case, shared))), "")


def _why(rule: Rule, case: Case, known: Facts) -> str:
    solved: dict[str, Int] = {}
    for _ in range(ROUNDS):
        reader = reader_of(rule, case, solved)
        types = reader.types
        try:
            reason = _read_left(rule, reader)
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


def _read_left(rule: Rule, reader: Reader) -> str:
    """Read the left-hand side and the conditions; return their requirements that are not known yet."""
    try:
        for source in rule.sources:
            bound_term(source, reader)
        for condition in rule.conditions:
            hold(condition, reader)
    except RankOpen as error:
        hold_ranks(rule, reader)
        return str(error)
    except NotPositive as error:
        return str(error)
    return ""
