"""Numbers for which a proof of a rule does not go through, as coordinates of instances.

The solver makes them from the conditions under which a search for a proof ended. Both sides must be evaluated
before they are a counterexample.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from workbench.laws.theorems.axes import REST, NotCovered
from workbench.laws.theorems.entailment import EFFORT, Question, Unavailable, solver
from workbench.laws.theorems.goals import Statement, statements
from workbench.laws.theorems.prove import NotFound, Search, prove_case
from workbench.laws.theorems.symbolic_typing import Axis
from workbench.laws.verification.instances.boundary_values import Corner, attribute_coordinates, tensors
from workbench.laws.verification.instances.typings import Coordinate
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


def models(rule: Rule, seconds: float = 4.0) -> Iterator[Model]:
    """Yield numbers for which a rule may fail, if z3 is installed; proof and models take ``seconds`` each."""
    if solver() is None:
        return
    search = Search(seconds)
    try:
        for statement in statements(rule):
            try:
                prove_case(statement, search)
            except (NotFound, OutOfTime):
                yield from _models(statement, search)
                return
    except (NotCovered, Unavailable):
        return


def _models(statement: Statement, search: Search) -> Iterator[Model]:
    asked: set[tuple[str, ...]] = set()
    for conditions in search.doubts:
        key = tuple(sorted(c.text for c in conditions))
        if key in asked:
            continue
        if len(asked) >= MOST or time.perf_counter() - search.started > 2 * search.seconds:
            return
        asked.add(key)
        found = Question(linear=False).model(conditions, EFFORT)
        if found is None:
            continue
        by = {n: num(v) for n, v in found.items()}
        solved = {name: replaced(x, by).value for name, x in statement.solved.items()}
        places = {
            name: replaced(axis.place, by).value if isinstance(axis, Axis) else axis
            for name, axis in statement.axes.items()
        }
        numbers = dict(found) | {n: v for n, v in solved.items() if v is not None}
        yield Model(numbers, {n: p for n, p in places.items() if p is not None})


#: The number of instances that are evaluated at the numbers of a model.
INSTANCES: Final = 4


def corners_of(rule: Rule, seconds: float) -> list[Corner]:
    """Return the corners at which a rule may fail, by the models of a search for its proof, limited in seconds."""
    found = (corner_of(rule, model) for model in models(rule, seconds))
    return list(dict.fromkeys(Corner(tuple(fixed.items()), INSTANCES) for fixed in found if fixed))


def corner_of(rule: Rule, model: Model) -> dict[Coordinate, Any]:
    """Return the coordinates of a rule's instances to which a model gives a value."""
    fixed: dict[Coordinate, Any] = {}
    for coordinate, attr in attribute_coordinates(rule).items():
        kind, name, at = coordinate
        symbol = f"{name}.{at}" if kind == "row" else str(name)
        value: Any = None
        if attr.kind == "int":
            value = model.axes.get(symbol, model.numbers.get(symbol))
        elif attr.kind == "extent":
            value = model.numbers.get(f"+{symbol}")
        elif attr.kind == "ints":
            parts = [model.numbers.get(f"{symbol}.{k}") for k in range(attr.length)]
            value = None if None in parts else tuple(parts)
        if value is not None:
            fixed[coordinate] = value
    for name in tensors(rule):
        rank = model.numbers.get(f"rank {name}")
        if rank is not None:
            fixed["rank", name, ""] = rank
        fixed |= {("dim", name, axis): n for axis, n in _extents(name, rank, model).items()}
    return fixed


def _extents(tensor: str, rank: int | None, model: Model) -> Mapping[int, int]:
    """Return the extents of a tensor, by the axis counted from the last."""
    found: dict[int, int] = {}
    others = None
    for symbol, number in model.numbers.items():
        if not symbol.startswith(f"+{tensor} "):
            continue
        key = symbol.removeprefix(f"+{tensor} ")
        if key == REST:
            others = number
            continue
        place = int(key) if key.lstrip("-").isdecimal() else model.numbers.get(f"place {key}")
        if place is not None and (rank is None or -place <= rank):
            found[place] = number
    if others is not None and rank is not None:
        taken = {p for s, p in model.numbers.items() if s.startswith("place ")}
        found |= {axis: others for axis in range(-rank, 0) if axis not in found and axis not in taken}
    return found
