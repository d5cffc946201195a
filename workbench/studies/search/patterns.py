"""Match the left-hand sides of rules in one graph, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.rules.matching import Bindings, Matcher
from workbench.studies.search.nodes import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A match of a pattern: its root node, the other matched nodes, and its bindings.

    ``plans`` caches the plans made from the match, by rule and the other matches of the rule.
    """

    root: int
    inner: tuple[int, ...]
    bindings: Bindings
    plans: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False)


class Source(Matcher):
    """A left-hand side that is matched in the graphs of a search."""

    def match(self, node: int, kinds: Sequence[Kind], inputs: Mapping[int, tuple[int, ...]]) -> Match | None:
        """Return the match whose root is ``node``, or None."""
        found = self.bind(node, kinds, inputs)
        return None if found is None else Match(node, found[1], found[0])
