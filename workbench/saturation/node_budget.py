"""Rules that would exceed the e-node limit, predicted from match counts or learned, and joins that wait before it.

An iteration never exceeds its limit on e-nodes. One that would is undone and repeated rule by rule; these
counts keep most rules that are the cause from being tried again.

The engine cannot be stopped within an iteration, and a rule of several roots may have millions of matches. Its
matches are therefore counted in portions: a copy of the query matches one of its variables only in a relation
of e-classes, which is filled step by step. A pattern that matches in a portion matches in the whole too: a portion
above the limit is enough to decide. A rule that stays below it is counted as a whole afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from workbench.ops import spec_of
from workbench.rules.pattern import App, Rule, tensor_variables
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
    names, shared = tensor_variables(first), tensor_variables(*others)
    return named(next((name for name in names if name not in shared), names[0]))


def pivots(state: State) -> tuple[int, ...]:
    """Return handles of e-classes, each the oldest of a portion: the newest e-classes have most matches."""
    values = sorted(row.inputs[0] for row in state.functions["ty_"].rows)
    names = Names(state)
    handles = (names.of(values[len(values) - max(1, len(values) // divisor)]) for divisor in PORTIONS)
    return tuple(handle for handle in handles if handle is not None)


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
        if handles and _exceeds(state, rule, rule.counting, room, handles):
            notes.append(f"{rule.rule.name} held back: its matches could add more than {room} e-nodes")
            continue
        state.run(f"(run count_rs_{rule.ruleset} 1)")
        total = _size(state, f"count_{rule.ruleset}")
        fresh = max(0, total - state.record.applied.get(rule.ruleset, 0))
        added = fresh * rule.growth
        if added > room:
            notes.append(f"{rule.rule.name} held back: {fresh} matches could add {added} e-nodes, {room} fit")
            continue
        state.record.applied[rule.ruleset] = total
        room -= added
        kept.append(rule)
    return kept, notes


def _size(state: State, relation: str) -> int:
    """Return the number of rows of a relation, such as the matches of a rule that were counted so far."""
    (output,) = state.run(f"(print-size {relation})")
    return int(output.size)


def _exceeds(
    state: State, rule: CompiledRule, counting: EgglogRule, room: int, handles: Sequence[int]
) -> bool:
    """Return whether new matches in a portion, up to one of the handles, add more e-nodes than there is room for."""
    applied = state.record.applied.get(rule.ruleset, 0)
    facts = (f"(some_ {divided(rule.rule)})", *counting.facts)
    state.base.push()
    try:
        state.run(f"{_DECLARATIONS}{EgglogRule('part_', 'part', facts, counting.actions)}")
        for handle in handles:
            state.run(f"(set (pivot_) (h_ {handle})) (run fill_ 1) (run part_ 1)")
            if (_size(state, f"count_{rule.ruleset}") - applied) * rule.growth > room:
                return True
        return False
    finally:
        state.base.pop()


def bursting(state: State, rules: Iterable[CompiledRule], room: int) -> frozenset[int]:
    """Return the numbers of rules of one root each of which alone has made more e-nodes than there is room for.

    An e-node that a rule has made among others it also makes alone, so that trying it would be in vain.
    """
    return frozenset(
        r.number
        for r in rules
        if not r.rule.multi and sum(born(state, c, r.number) for c in dict.fromkeys(r.makes)) > room
    )


def born(state: State, constructor: Constructor, number: int) -> int:
    """Return the number of e-nodes of a constructor that the rule of a number has made since the last stamp."""
    name = f"fresh{number}_{constructor.name}"
    sorts = constructor.sorts()
    columns = " ".join(f"c{i}_" for i in range(len(sorts)))
    facts = (f"(= {UNSTAMPED + number} ({constructor.born} {columns}))",)
    counting = EgglogRule(f"of_{name}", f"of {name}", facts, (f"({name} {columns})",), name, tuple(sorts))
    state.run(f"{counting} (run of_{name} 1)")
    return _size(state, name)


#: Joins wait of a rule that may have made more than this part of the limit on e-nodes in an iteration.
MANY: Final = 256


def hold_joins(state: State, rules: Iterable[CompiledRule]) -> None:
    """Let joins wait that differ from an older one of their e-class in the order of their parts alone.

    A sum of n products has at least 2ⁿ orders in which the products can be joined. Of those that one of the rules has
    just made in an e-class, the oldest goes on. The others can be extracted, but they are not rewritten before their
    joined operand turns out to be something else, such as the value that its parts were cut from.
    """
    for r in rules:
        root = r.rule.targets[0]
        if r.rule.multi or not isinstance(root, App) or len(root.args) < 2 or spec_of(root.op).variadic:
            continue
        c, join = Constructor(root.op, len(root.args)), root.args[0]
        if not isinstance(join, App) or not spec_of(join.op).variadic:
            continue
        (columns, mine), older = c.variables(), [f"y{i}_" for i in range(c.arity)]
        one, name = f"{c.name} {' '.join(columns + mine)}", f"{state.new_handle()}_"
        if c not in state.record.held:
            state.record.held.add(c)
            state.run(_released(state, c, join.op, one))
        made = f"(= e_ ({one})) (= {UNSTAMPED + r.number} ({c.born} {' '.join(columns + mine)}))"
        oldest = f"(= y0_ (least_{name} e_)) (!= y0_ x0_) (= e_ ({c.name} {' '.join(columns + older)}))"
        alike = f"(alike_{c.name} {' '.join(columns + older + mine)} e_)"
        state.run(
            f"(function least_{name} (T) T :merge (ordering-min old new)) (ruleset old_{name}) (ruleset held_{name})"
            f"(rule ({made}) ((set (least_{name} e_) x0_)) :ruleset old_{name})"
            f"(rule ({made} {oldest}) ((subsume ({one})) {alike} (joined_{one} e_)) :ruleset held_{name})"
            f"(run old_{name} 1) (run held_{name} 1)"
        )


def _released(state: State, c: Constructor, op: str, one: str) -> str:
    """Return rules that make an e-node anew that waits, once its first operand is not only a join by ``op``."""
    text = f"(relation joined_{c.name} ({' '.join([*c.columns(), *['T'] * c.arity])} T))"
    for d in (d for d in state.record.constructors if not d.many):
        read = " ".join(f"d{i}_" for i in range(len(d.columns()) + d.arity))
        first = f"(= x0_ ({d.name} {read}))" + (f" (= 0 ({d.born} {read}))" if d.op == op else "")
        again = f"(delete (joined_{one} e_)) (delete ({one})) (lost_{one} e_)"
        text += f"(rule ((joined_{one} e_) {first}) ({again}) :ruleset lost_)"
    return text
