"""Laws that move a part down: they do not take it from a value that is needed whole in any case.

A part of such a value is had by a view; whatever a law computes for the part alone is computed twice. In a
deep encoder read at one row, that row would otherwise sink through every layer, although all rows of the
lower layers are needed for the keys and values of the last.
"""

from __future__ import annotations

from typing import Final

from workbench.ops import Trait, spec_of
from workbench.rules.pattern import App, Rule, subterms

#: The phase of the laws of movement.
MOVEMENT: Final = "movement"


def sinks(rule: Rule) -> bool:
    """Return whether a law of movement computes with a part what its source takes the part from."""
    if rule.multi or rule.phase != MOVEMENT:
        return False
    (source,), (target,) = rule.sources, rule.targets
    if not isinstance(source, App) or Trait.CUTS not in spec_of(source.op).traits:
        return False
    return any(isinstance(t, App) and Trait.VIEW not in spec_of(t.op).traits for t in subterms(target))
