"""Families of networks in two forms: as they are trained or exported, and rewritten by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from workbench.graph import Graph
from workbench.support.messages import unknown


class UnknownFamily(LookupError):
    """Raised when no family has the given name; the message names the nearest one and lists all."""


@dataclass(frozen=True, slots=True)
class Families(Mapping[str, Callable[..., Graph]]):
    """A table of families; each function returns a network, with ``by_hand`` in the rewritten form."""

    functions: Mapping[str, Callable[..., Graph]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __getitem__(self, family: str) -> Callable[..., Graph]:
        """Return the function of a family; raise :class:`UnknownFamily` for an unknown name."""
        if family not in self.functions:
            raise UnknownFamily(unknown("family", family, self.functions))
        return self.functions[family]

    def parameters(self, family: str) -> dict[str, Any]:
        """Return the parameters of a family with their defaults."""
        taken = signature(self[family]).parameters
        return {name: known.default for name, known in taken.items() if name != "by_hand"}

    def build(self, family: str, given: Mapping[str, Any], *, by_hand: bool) -> Graph:
        """Return a network of a family.

        Raise TypeError for an unknown parameter, and ValueError if a value is senseless or if the network
        cannot be rewritten by hand.
        """
        function, takes = self[family], self.parameters(family)
        if given.get("blocks", 1) < 1:
            raise ValueError(f"blocks must be at least 1, got {given['blocks']}")
        for name in given:
            if name not in takes:
                raise TypeError(f"{family} has no parameter {name!r}. There are: {', '.join(takes)}")
        return function(**given, by_hand=by_hand)
