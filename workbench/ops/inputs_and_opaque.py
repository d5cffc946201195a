"""Leaves of a graph, and opaque operators, which the workbench keeps without a model of them."""

from __future__ import annotations

from typing import Final

from workbench.ops.registry import register, with_trait
from workbench.ops.spec import MANY, Attr, OpSpec, no_flops
from workbench.ops.traits import Trait

_NAMED = Trait.REFERENCE | Trait.NAMED | Trait.FREE

register(
    OpSpec(
        "input",
        0,
        0,
        None,
        None,
        (Attr("name", "str"),),
        no_flops,
        _NAMED | Trait.RUNTIME,
        doc="a graph input",
    ),
    OpSpec(
        "weight",
        0,
        0,
        None,
        None,
        (Attr("name", "str"),),
        no_flops,
        _NAMED | Trait.CONSTANT,
        doc="a stored tensor",
    ),
    OpSpec(
        "opaque",
        0,
        MANY,
        None,
        None,
        (Attr("key", "str"),),
        no_flops,
        Trait.RUNTIME,
        doc="an operator kept in its original form; key names its record in the graph",
    ),
    OpSpec(
        "project",
        1,
        1,
        None,
        None,
        (Attr("index", "int"),),
        no_flops,
        Trait.RUNTIME | Trait.REFERENCE | Trait.FREE | Trait.ALIAS | Trait.VIEW,
        doc="one result of an opaque operator that has several",
    ),
)

#: The operators whose values exist only when the model runs.
RUNTIME: Final = with_trait(Trait.RUNTIME)
#: The operators that refer to a value made elsewhere.
REFERENCES: Final = with_trait(Trait.REFERENCE)
#: The leaves with a name of their own.
NAMED: Final = with_trait(Trait.NAMED)
