"""Corners at which a search for a proof ended: the solver's numbers as coordinates of instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workbench.laws.theorems.axes import REST
from workbench.laws.theorems.countermodels import Model, models
from workbench.laws.verification.instances.boundary_values import Corner, attribute_coordinates, tensors
from workbench.laws.verification.instances.typings import Coordinate
from workbench.ops import Attr
from workbench.rules.pattern import Rule

#: The number of instances that are evaluated at the numbers of a model.
INSTANCES: Final = 4


def corners_of(rule: Rule, seconds: float) -> list[Corner]:
    """Return the corners at which a rule may fail, by the models of a search for its proof.

    Args:
        rule: The rule.
        seconds: The limit on the time of the search for a proof.
    """
    found = (corner_of(rule, model) for model in models(rule, seconds))
    return list(dict.fromkeys(Corner(tuple(fixed.items()), INSTANCES) for fixed in found if fixed))


def corner_of(rule: Rule, model: Model) -> dict[Coordinate, Any]:
    """Return the coordinates of a rule's instances to which a model gives a value."""
    fixed: dict[Coordinate, Any] = {}
    for coordinate, attr in attribute_coordinates(rule).items():
        kind, name, at = coordinate
        value = _attribute(f"{name}.{at}" if kind == "row" else str(name), attr, model)
        if value is not None:
            fixed[coordinate] = value
    for name in tensors(rule):
        rank = model.numbers.get(f"rank {name}")
        if rank is not None:
            fixed["rank", name, ""] = rank
        fixed |= {("dim", name, axis): n for axis, n in _extents(name, rank, model).items()}
    return fixed


def _attribute(name: str, attr: Attr, model: Model) -> Any:
    """Return the value of an attribute as its type rule takes it, or None if the model gives none."""
    if attr.kind == "int":
        return model.axes.get(name, model.numbers.get(name))
    if attr.kind == "extent":
        return model.numbers.get(f"+{name}")
    if attr.kind != "ints":
        return None
    parts = [model.numbers.get(f"{name}.{k}") for k in range(attr.length)]
    return None if any(p is None for p in parts) else tuple(parts)


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
