"""The table of operators. Operator families register themselves; all other modules look operators up here."""

from __future__ import annotations

from collections.abc import Iterator, Set

from workbench.ops.spec import OpSpec
from workbench.ops.traits import Trait
from workbench.support.names import unknown

_TABLE: dict[str, OpSpec] = {}
_WITH: dict[Trait, set[str]] = {trait: set() for trait in Trait}


def register(*specs: OpSpec) -> None:
    """Add operators to the table; raise ValueError if a name is registered already."""
    for spec in specs:
        if spec.name in _TABLE:
            raise ValueError(f"operator names must be unique, got {spec.name}, which is registered already")
        _TABLE[spec.name] = spec
        for trait in spec.traits:
            _WITH[trait].add(spec.name)


def spec_of(name: str) -> OpSpec:
    """Return the operator called ``name``; the LookupError for an unknown name suggests the nearest one."""
    try:
        return _TABLE[name]
    except KeyError:
        raise LookupError(unknown("operator", name, _TABLE, listed=False)) from None


def operators() -> Iterator[OpSpec]:
    """Yield all operators in the order of their registration."""
    yield from _TABLE.values()


def with_trait(trait: Trait) -> Set[str]:
    """Return the names of the operators that have a trait; operators registered later appear in it too.

    >>> sorted(with_trait(Trait.NAMED))
    ['input', 'weight']
    """
    return _WITH[trait]
