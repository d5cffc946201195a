"""Synthesis: laws of operators found by enumeration, verified, and reduced to those that imply the others.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.laws.synthesis.derivation import Coverage as Coverage
    from workbench.laws.synthesis.grammar import Grammar as Grammar
    from workbench.laws.synthesis.grammar import known_to as known_to
    from workbench.laws.synthesis.grammar import read_grammar as read_grammar
    from workbench.laws.synthesis.synthesis import Synthesis as Synthesis
    from workbench.laws.synthesis.synthesis import rules_text as rules_text

__getattr__, __all__ = door(
    __name__,
    {
        "derivation": "Coverage",
        "grammar": "Grammar known_to read_grammar",
        "synthesis": "Synthesis rules_text",
    },
)
