"""Rules for whose e-nodes there is no room: known from their matches beforehand, or from what they made.

An iteration never exceeds its limit on e-nodes. One that would is undone and repeated rule by rule; these
counts keep most rules that are the cause from being tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from workbench.saturation.compile import CompiledRule
from workbench.saturation.encoding import UNSTAMPED, Constructor
from workbench.saturation.match_counting import LARGE, exceeds, pivots
from workbench.saturation.state import State


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
        if not rule.counting or rule.number not in ready:
            kept.append(rule)
            continue
        if handles and _too_many(state, rule, room, handles):
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


def _too_many(state: State, rule: CompiledRule, room: int, handles: tuple[int, ...]) -> bool:
    """Return whether the matches of a rule in some portion of the e-graph are too many for the room."""
    applied = state.record.applied.get(rule.ruleset, 0)

    def growth() -> int:
        return max(0, _matches(state, rule) - applied) * rule.growth

    return exceeds(state, rule.rule, rule.counting, handles, growth, room)


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
    state.run(
        f"(relation {name} ({' '.join(sorts)})) (ruleset of_{name})"
        f"(rule ((= {UNSTAMPED + number} ({constructor.born} {columns}))) (({name} {columns}))"
        f' :ruleset of_{name} :name "of {name}") (run of_{name} 1)'
    )
    (output,) = state.run(f"(print-size {name})")
    return int(output.size)
