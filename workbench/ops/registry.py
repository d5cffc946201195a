"""The table of operators. Families register themselves; everything else looks operators up here."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from workbench.ops.spec import OpSpec

_TABLE: dict[str, OpSpec] = {}


def register(*specs: OpSpec) -> None:
    """Add operators to the table; a name may be taken once."""
    for spec in specs:
        if spec.name in _TABLE:
            raise ValueError(f"operator {spec.name} is registered twice")
        _TABLE[spec.name] = spec


def spec_of(name: str) -> OpSpec:
    """Return the operator called ``name``; the error names the nearest one."""
    try:
        return _TABLE[name]
    except KeyError:
        near = difflib.get_close_matches(name, _TABLE, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise LookupError(f"no operator is called {name!r}{hint}") from None


def operators() -> Iterator[OpSpec]:
    """Yield all operators in the order of their registration."""
    yield from _TABLE.values()
