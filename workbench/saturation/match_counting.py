"""Notice early that a rule matches too often, by matching it in growing portions of the e-graph.

The engine cannot be stopped within an iteration, and a rule of several roots may have millions of matches. A
copy of the query matches one of its variables only in a relation of e-classes, which is filled step by step.
A pattern that matches in a portion matches in the whole too, so that a portion above the limit is enough to
decide. A rule that stays below it is counted as a whole afterwards: portions never change a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from workbench.rules.pattern import Rule, tensor_variables
from workbench.saturation.group_merge import Names
from workbench.saturation.identifiers import named
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
    state: State, rule: Rule, text: str, handles: Iterable[int], growth: Callable[[], int], limit: int
) -> bool:
    """Return whether a query exceeds a limit in some portion of the e-graph, which stays as it is.

    Args:
        state: The state of the run.
        rule: The rule whose matches are counted.
        text: The program text that counts them, in a rule set of its own.
        handles: The oldest e-classes of the portions, from :func:`pivots`.
        growth: The limited quantity.
        limit: Its limit.
    """
    state.base.push()
    try:
        state.run(f"{_DECLARATIONS}{_copy(text, divided(rule))}")
        for handle in handles:
            state.run(f"(set (pivot_) (h_ {handle})) (run fill_ 1) (run part_ 1)")
            if growth() > limit:
                return True
        return False
    finally:
        state.base.pop()


def _copy(text: str, variable: str) -> str:
    """Return a copy of a rule that matches a variable only in the relation, in a rule set of its own."""
    start = text.index("(rule (") + len("(rule (")
    body = text[start : text.rindex(" :ruleset ")].rstrip()
    return f'(ruleset part_)\n(rule ((some_ {variable}) {body} :ruleset part_ :name "part")'
