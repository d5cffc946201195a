"""Read a composite from its declaration and its equations."""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.kernels.composites.composite import Attribute, Composite, NotationError
from workbench.kernels.composites.equations import Equations
from workbench.kernels.composites.signature import declared

_NAME = re.compile(r"[A-Za-z]\w*")


def parse(
    name: str,
    signature: str,
    body: str,
    *,
    composites: Mapping[str, Composite] | None = None,
    doc: str = "",
    **attributes: int | float,
) -> Composite:
    """Return the composite that a declaration and equations describe.

    Args:
        name: The name of the composite.
        signature: Operands and results: ``x{T}[~ D], g{T}[D] -> y{T}[~ D]``.
        body: The equations, one per line or with semicolons between them.
        composites: The composites that equations may call.
        doc: A description in a few words.
        **attributes: The attributes' defaults: a whole number or a floating-point number each.

    Raises:
        NotationError: If the text cannot be read; the message shows the place.

    >>> print(parse("twice", "x{T}[~] -> y{T}[~]", "y = 2 * x"))
    twice: x{T}[~] -> y{T}[~]
        y[~] = (2 * x[~])
    """
    if not _NAME.fullmatch(name):
        raise NotationError(f"a composite's name must be letters, digits and _, got {name!r}")
    for attribute, value in attributes.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise NotationError(f"attribute {attribute} of {name} must be a number, got {value!r}")
    inputs, outputs, conditions = declared(signature, attributes)
    own = tuple(Attribute(a, value) for a, value in attributes.items())
    reading = Equations(body, inputs, outputs, own, conditions, composites or {})
    equations = reading.read()
    return Composite(
        name, inputs, outputs, own, equations, tuple(reading.conditions), doc, signature.strip(), body.strip()
    )
