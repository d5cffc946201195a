"""Objects that a notebook registered, for the processes of its studies."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from workbench.ops import Trait, with_trait
from workbench.ops.serialization import CannotTravel, install, packed
from workbench.support.plugins import unpack

#: The modules with a table ``OWN`` of things by name.
_TABLES: Final = ("workbench.costs.plugins", "workbench.extraction.own", "workbench.devices.plugins")
#: Packed operators, and things by name.
Registered = tuple[list[bytes], list[tuple[str, str, bytes]]]


def registered() -> Registered:
    """Return the entries that this process registered; entries that cannot be pickled are left out."""
    operators = []
    for name in sorted(with_trait(Trait.OWN)):
        try:
            operators.append(packed([name]))
        except CannotTravel:
            continue
    named = [thing for module in _TABLES for thing in import_module(module).OWN.packed()]
    return operators, named


def register(things: Registered) -> None:
    """Register the entries of the parent's process."""
    operators, named = things
    for shipment in operators:
        install(shipment)
    unpack(named)
