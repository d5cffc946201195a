"""The element types of an instance's tensors: open at first, then decided by type rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from workbench.laws.verification.instances.linear import Inconsistent
from workbench.ops import Trait, spec_of
from workbench.ops.types import FLOAT_DTYPES, INDEX_DTYPES, INTEGER_DTYPES

#: The element type of tensors of which nothing is required, that of whole numbers, that of truth values, and
#: that of numbers of places along an axis.
FLOAT, WHOLE, TRUTH, INDEX = "float32", "int8", "bool", "int64"
_OPEN: Final = frozenset({FLOAT, WHOLE, TRUTH, INDEX})


#: Operators that round nothing, unless they convert.
_PLAIN: Final = Trait.CONVERTS | Trait.UNROUNDED | Trait.SELECTS | Trait.MOVES


def converts(operators: Iterable[str]) -> bool:
    """Return whether some of the operators convert between element types, and the others round nothing.

    Such a rule says something about the numbers of element types: real numbers are never rounded.
    """
    traits = [spec_of(op).traits for op in operators if not spec_of(op).leaf]
    return any(Trait.CONVERTS & t for t in traits) and all(_PLAIN & t for t in traits)


@dataclass(slots=True, eq=False)
class Element:
    """An element type that may still be open; elements that are required to be the same are joined.

    >>> x, y = Element(), Element()
    >>> y.among({"int8"})
    >>> x.same(y)
    >>> x.name, Element().name
    ('int8', 'float32')
    """

    options: frozenset[str] = _OPEN
    joined: Element | None = field(default=None, repr=False)

    @classmethod
    def of(cls, dtype: str | Element) -> Element:
        """Return the element type of a name; one type of each kind represents the others of its kind."""
        if isinstance(dtype, Element):
            return dtype
        kinds = (
            (FLOAT, FLOAT_DTYPES),
            (WHOLE, INTEGER_DTYPES),
            (TRUTH, {TRUTH}),
            (INDEX, INDEX_DTYPES),
        )
        return cls(frozenset({name for name, kind in kinds if dtype in kind}) or _OPEN)

    @property
    def root(self) -> Element:
        """Return the element that represents all that are joined with this one."""
        found = self
        while found.joined is not None:
            found = found.joined
        return found

    @property
    def name(self) -> str:
        """Return the name of the element type: a floating-point one if nothing else is required."""
        options = self.root.options
        return next(name for name in (FLOAT, WHOLE, TRUTH, INDEX) if name in options)

    def among(self, names: Iterable[str]) -> None:
        """Require one of some element types; raise Inconsistent if it is none of them."""
        root = self.root
        root.options &= frozenset(names)
        if not root.options:
            raise Inconsistent("no element type is left")

    def same(self, other: Element) -> None:
        """Require two element types to be the same."""
        a, b = self.root, other.root
        if a is not b:
            b.among(a.options)
            a.joined = b
