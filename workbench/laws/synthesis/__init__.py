"""Synthesis: laws of operators found by enumeration, verified, and reduced to those that imply the others.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.laws.synthesis.derivation import Coverage
    from workbench.laws.synthesis.grammar import Grammar, known_to, read_grammar
    from workbench.laws.synthesis.synthesis import Synthesis

__all__ = ["Coverage", "Grammar", "Synthesis", "known_to", "read_grammar"]

__getattr__ = lazy_names(
    __name__,
    {
        "Coverage": ".derivation",
        "Grammar": ".grammar",
        "Synthesis": ".synthesis",
        "known_to": ".grammar",
        "read_grammar": ".grammar",
    },
)
