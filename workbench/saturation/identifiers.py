"""Names of rules and of tensor variables in the engine's program, apart from those of the program itself."""

from __future__ import annotations

import re
from typing import Final

#: Tables and rule sets; every name in a program ends with an underscore, which is left out here.
_OWN: Final = frozenset(
    {
        "h", "ht", "ty", "clock", "runs", "constant", "uniform", "stamp", "tick", "depends", "duplicates",
        "lost", "found", "whole", "some", "pivot", "fill", "part",
    }
)  # fmt: skip
#: Terms that a rule matches or makes, shared computations, combined rule sets, and operators.
_NUMBERED: Final = re.compile(r"[kntlu]\d+|e[a-h]|group\d+|\w+_n\d+(_t)?")
#: Types, attributes, renamed variables, and the rule sets and relations of a rule.
_PREFIXED: Final = re.compile(r"(s|a|v|rs|count|members)_.*")


def identifier(name: str) -> str:
    """Return an egglog identifier for a rule's name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()) + "_"


def named(variable: str) -> str:
    """Return the name of a tensor variable in the program's text, which nothing else in it has.

    >>> named("x"), named("s_x")
    ('x_', 'v_s_x_')
    """
    taken = variable in _OWN or _NUMBERED.fullmatch(variable) or _PREFIXED.fullmatch(variable)
    return f"v_{variable}_" if taken else f"{variable}_"
