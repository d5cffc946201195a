"""Families of networks in two forms: as they are trained or exported, and rewritten by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from workbench.graph import Graph
from workbench.support.plugins import Table


class Families(Table[Callable[..., Graph]]):
    """A table of families; each function returns a network, with ``by_hand`` in the rewritten form."""

    def __init__(self, functions: Mapping[str, Callable[..., Graph]]) -> None:
        super().__init__("family", functions)

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
