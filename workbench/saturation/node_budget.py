"""Rules that would exceed the e-node limit, predicted from their match counts or learned from earlier iterations.

An iteration never exceeds its limit on e-nodes. One that would is undone and repeated rule by rule; these
counts keep most rules that are the cause from being tried again.

The engine cannot be stopped within an iteration, and a rule of several roots may have millions of matches. Its
matches are therefore counted in portions: a copy of the query matches one of its variables only in a relation
of e-classes, which is filled step by step. A pattern that matches in a portion matches in the whole too, so
that a portion above the limit is enough to decide. A rule that stays below it is counted as a whole
afterwards: portions never change a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from workbench.rules.pattern import Rule, tensor_variables
from workbench.saturation.compile import CompiledRule
from workbench.saturation.encoding import UNSTAMPED, Constructor
from workbench.saturation.group_merge import Names
from workbench.saturation.program import EgglogRule, named
from workbench.saturation.state import State

#: Above this many e-nodes matches are counted in portions first.
LARGE: Final = 4_000
#: The portions, as divisors of the number of e-classes.
PORTIONS: Final = (64, 32, 16, 8, 4, 2)

_DECLARATIONS: Final = """(relation some_ (T)) (function pivot_ () T :merge new) (ruleset fill_)
(rule ((= p_ (pivot_)) (= s_ (ty_ e_)) (= e_ (ordering-max e_ p_))) ((some_ e_)) :ruleset fill_ :name "fill")
"""


def divided(rule: Rule) -> str:
    """Return the variable by which the matches of a rule are divided: an operand of the first root alone."""
    first, *others = rule.sources
    shared = {name for source in others for name in tensor_variables(source)}
    names = tensor_variables(first)
    return named(next((name for name in names if name not in shared), names[0]))


def pivots(state: State) -> tuple[int, ...]:
    """Return handles of e-classes, each the oldest of a portion: the newest e-classes have most matches."""
    values = sorted(row.inputs[0] for row in state.functions["ty_"].rows)
    names = Names(state)
    handles = (names.of(values[len(values) - max(1, len(values) // divisor)]) for divisor in PORTIONS)
    return tuple(handle for handle in handles if handle is not None)


def exceeds(
    state: State,
    rule: Rule,
    counting: EgglogRule,
    handles: Iterable[int],
    growth: Callable[[], int],
    limit: int,
) -> bool:
    """Return whether a query exceeds a limit in some portion of the e-graph, which stays as it is.

    Args:
        state: The state of the run.
        rule: The rule whose matches are counted.
        counting: The rule of the program that counts them.
        handles: The oldest e-classes of the portions, from :func:`pivots`.
        growth: The limited quantity.
        limit: Its limit.
    """
    facts = (f"(some_ {divided(rule)})", *counting.facts)
    state.base.push()
    try:
        state.run(f"{_DECLARATIONS}{EgglogRule('part_', 'part', facts, counting.actions)}")
        for handle in handles:
            state.run(f"(set (pivot_) (h_ {handle})) (run fill_ 1) (run part_ 1)")
            if growth() > limit:
                return True
        return False
    finally:
        state.base.pop()


def fitting(
    state: State, rules: Sequence[CompiledRule], ready: Collection[int], e_nodes: int, limit: int
) -> tuple[list[CompiledRule], list[str]]:
    """Return the rules for whose matches there is room, and a note on each of the others.

    Rules of several roots are counted. They share the room: each takes the e-nodes that its new matches
    could add.

    Args:
        state: The state of the run.
        rules: The rules, which are kept in their order.
        ready: The numbers of those that may match; the others are kept.
        e_nodes: The number of e-nodes.
        limit: The limit on it.
    """
    room = limit - e_nodes
    kept: list[CompiledRule] = []
    notes: list[str] = []
    handles = pivots(state) if e_nodes >= LARGE else ()
    for rule in rules:
        if rule.counting is None or rule.number not in ready:
            kept.append(rule)
            continue
        if handles and _too_many(state, rule, rule.counting, room, handles):
            notes.append(f"{rule.rule.name} held back: its matches could add more than {room} e-nodes")
            continue
        state.run(f"(run count_rs_{rule.ruleset} 1)")
        total = _matches(state, rule)
        fresh = max(0, total - state.record.applied.get(rule.ruleset, 0))
        added = fresh * rule.growth
        if added > room:
            notes.append(f"{rule.rule.name} held back: {fresh} matches could add {added} e-nodes, {room} fit")
            continue
        state.record.applied[rule.ruleset] = total
        room -= added
        kept.append(rule)
    return kept, notes


def _matches(state: State, rule: CompiledRule) -> int:
    """Return the number of matches of a rule that were counted so far."""
    (output,) = state.run(f"(print-size count_{rule.ruleset})")
    return int(output.size)


def _too_many(
    state: State, rule: CompiledRule, counting: EgglogRule, room: int, handles: tuple[int, ...]
) -> bool:
    """Return whether the matches of a rule in some portion of the e-graph are too many for the room."""
    applied = state.record.applied.get(rule.ruleset, 0)

    def growth() -> int:
        return max(0, _matches(state, rule) - applied) * rule.growth

    return exceeds(state, rule.rule, counting, handles, growth, room)


def bursting(
    state: State, rules: Sequence[CompiledRule], matches: Mapping[int, float], room: int
) -> frozenset[int]:
    """Return the numbers of rules of one root each of which alone has made too many e-nodes.

    An e-node that a rule has made among others it also makes alone, so that trying it would be in vain.

    Args:
        state: The state at the end of an iteration.
        rules: The rules.
        matches: The matches in this iteration by the rules' numbers.
        room: The number of e-nodes that the iteration may make.
    """
    return frozenset(
        r.number
        for r in rules
        if not r.rule.multi
        and matches.get(r.number, 0) * r.growth > room
        and sum(born(state, c, r.number) for c in dict.fromkeys(r.makes)) > room
    )


def born(state: State, constructor: Constructor, number: int) -> int:
    """Return the number of e-nodes of a constructor that a rule has made since the last stamp.

    Args:
        state: The state of the run.
        constructor: The constructor.
        number: The number of the rule.
    """
    name = f"fresh{number}_{constructor.name}"
    operand = "TT" if constructor.op == "project" else "T"
    sorts = constructor.columns() + [operand] * constructor.arity
    columns = " ".join(f"c{i}_" for i in range(len(sorts)))
    facts = (f"(= {UNSTAMPED + number} ({constructor.born} {columns}))",)
    counting = EgglogRule(f"of_{name}", f"of {name}", facts, (f"({name} {columns})",), name, tuple(sorts))
    state.run(f"{counting} (run of_{name} 1)")
    (output,) = state.run(f"(print-size {name})")
    return int(output.size)
