"""Leaves of a graph, and opaque operators, which the workbench keeps without a model of them."""

from __future__ import annotations

from typing import Final

from workbench.ops.registry import register, with_trait
from workbench.ops.spec import MANY, Attr, OpSpec, no_flops
from workbench.ops.traits import Trait

_NAMED: Final = Trait.REFERENCE | Trait.NAMED | Trait.FREE
_PART: Final = Trait.RUNTIME | Trait.REFERENCE | Trait.FREE | Trait.ALIAS | Trait.VIEW


def _untyped(name: str, inputs: int | tuple[int, int], attr: Attr, traits: Trait, doc: str) -> OpSpec:
    """Return an operator whose type its record in the graph tells."""
    return OpSpec(name, inputs, None, None, (attr,), no_flops, traits, doc=doc)


_NAME, _KEY, _INDEX = Attr("name", "str"), Attr("key", "str"), Attr("index", "int")
register(
    _untyped("input", 0, _NAME, _NAMED | Trait.RUNTIME, "a graph input"),
    _untyped("weight", 0, _NAME, _NAMED | Trait.CONSTANT, "a stored tensor"),
    _untyped(
        "opaque",
        (0, MANY),
        _KEY,
        Trait.RUNTIME,
        "an operator kept as it is; key names its record in the graph",
    ),
    _untyped("project", 1, _INDEX, _PART, "one result of an opaque operator that has several"),
)

#: The beginning of the key of an opaque operator that computes a size that depends on symbolic dimensions.
SIZE_KEY: Final = "size_"
#: The operators whose values exist only when the model runs.
RUNTIME: Final = with_trait(Trait.RUNTIME)
#: The operators that refer to a value made elsewhere.
REFERENCES: Final = with_trait(Trait.REFERENCE)
#: The leaves with a name of their own.
NAMED: Final = with_trait(Trait.NAMED)
