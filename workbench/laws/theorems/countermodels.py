"""Numbers for which a proof of a rule does not go through: where the rule fails, if it is wrong.

The solver makes them from the conditions under which a search for a proof ended. Both sides must be
evaluated before they are a counterexample.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.entailment import EFFORT, Question, Unavailable, solver
from workbench.laws.theorems.goals import Statement, statements
from workbench.laws.theorems.prove import NotFound, Search, prove_case
from workbench.laws.theorems.symbolic_typing import Axis
from workbench.rules.pattern import Rule
from workbench.support.deadline import OutOfTime
from workbench.symbolic.integers import num, replaced

#: The number of lists of conditions of which models are sought.
MOST: Final = 12


@dataclass(frozen=True, slots=True)
class Model:
    """Numbers for the symbols of a rule's case, and the axes that it binds, counted from the last.

    The symbol of an extent is ``+tensor axis``, that of a rank ``rank tensor``; ``*`` is any other axis.
    """

    numbers: Mapping[str, int]
    axes: Mapping[str, int]


def models(rule: Rule, seconds: float = 4.0, effort: int = EFFORT) -> Iterator[Model]:
    """Yield numbers for which a rule may fail; none if it is proved for all types, or z3 is not installed.

    Args:
        rule: The rule.
        seconds: The limit on the time of the search for a proof; the models take as long again at most.
        effort: The limit on the solver's work for one question.
    """
    if solver() is None:
        return
    search = Search(seconds)
    try:
        for statement in statements(rule):
            try:
                prove_case(statement, search, effort)
            except (NotFound, OutOfTime):
                yield from _models(statement, search, effort)
                return
    except (NotCovered, Unavailable):
        return


def _models(statement: Statement, search: Search, effort: int) -> Iterator[Model]:
    asked: dict[tuple[str, ...], None] = {}
    for conditions in search.doubts:
        key = tuple(sorted(c.text for c in conditions))
        if key in asked:
            continue
        if len(asked) >= MOST or time.perf_counter() - search.started > 2 * search.seconds:
            return
        asked[key] = None
        found = Question(solver(), linear=False).model(conditions, effort)
        if found is not None:
            yield _model(statement, found)


def _model(statement: Statement, found: Mapping[str, int]) -> Model:
    by = {n: num(v) for n, v in found.items()}
    numbers = dict(found)
    for name, x in statement.solved.items():
        value = replaced(x, by).value
        if value is not None:
            numbers[name] = value
    places = {
        name: replaced(axis.place, by).value if isinstance(axis, Axis) else axis
        for name, axis in statement.axes.items()
    }
    return Model(numbers, {n: p for n, p in places.items() if p is not None})
