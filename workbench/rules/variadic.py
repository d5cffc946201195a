"""Rules with ``each``: the axes along which members are joined, and the parts of the merged result."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.ops import TensorType
from workbench.rules.pattern import App, Literal, Rule, Var, subterms


def starred(rule: Rule) -> tuple[str, ...]:
    """Return the starred variables of an ``each`` rule."""
    found = (t.name for s in rule.sources for t in subterms(s) if isinstance(t, Var) and t.starred)
    return tuple(dict.fromkeys(found))


def joined_axes(rule: Rule) -> dict[str, int]:
    """Return for every starred variable of an ``each`` rule the axis along which its members are joined."""
    axes: dict[str, int] = {}
    for term in subterms(rule.targets[0]):
        if isinstance(term, App):
            axis = dict(term.attrs).get("axis")
            for arg in term.args:
                if isinstance(arg, Var) and arg.starred and isinstance(axis, Literal):
                    axes[arg.name] = int(axis.value)  # type: ignore[arg-type]
    return axes


def off_axis(kind: TensorType, axis: int) -> tuple[str, tuple[int, ...]]:
    """Return a type up to its extent along an axis: members that are joined along it agree on the rest."""
    shape = list(kind.shape)
    if -axis <= len(shape):
        shape[axis] = 0
    return kind.dtype, tuple(shape)


def parts(kinds: Iterable[TensorType], axis: int) -> list[dict[str, int]]:
    """Return the attributes of the slices that cut members, in order, out of the merged result."""
    found: list[dict[str, int]] = []
    start = 0
    for kind in kinds:
        stop = start + kind.shape[axis]
        found.append({"axis": axis, "start": start, "stop": stop})
        start = stop
    return found
