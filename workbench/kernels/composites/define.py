"""Composites of the user's own: operators of graphs and rules from one declaration."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from workbench.kernels.composites.binding import CompositeRule, bind
from workbench.kernels.composites.composite import Composite, NotationError
from workbench.kernels.composites.elements import element_of
from workbench.kernels.composites.equations import parse
from workbench.kernels.composites.evaluate import evaluate, exact_form, in_torch, operations, semantics
from workbench.kernels.composites.files import library, load
from workbench.kernels.composites.lowering import NoLaw, laws
from workbench.kernels.composites.onnx_function import DOMAIN, function
from workbench.laws.theorems.definitions import DEFINITIONS
from workbench.laws.verification.admission import judged
from workbench.ops import registry
from workbench.ops.onnx_form import Emitter
from workbench.ops.spec import Attr, OpSpec
from workbench.ops.traits import Trait
from workbench.ops.types import TensorType
from workbench.ops.typing import Attrs
from workbench.rules import Rule, RuleSet, parse_rules

_OPERATOR: Final = re.compile(r"[a-z][a-z0-9_]*")

#: The composites that were declared in this process, by name.
_DECLARED: dict[str, Composite] = {}


@dataclass(frozen=True, slots=True)
class CompositeOperator:
    """A composite that is an operator of graphs and rules; called on arrays, it computes in numpy."""

    composite: Composite

    @property
    def name(self) -> str:
        """Return the operator's name."""
        return self.composite.name

    def __call__(self, *operands: Any, **attributes: int | float) -> Any:
        """Compute in numpy; raise TypeMismatch if the operands do not fit."""
        return evaluate(self.composite, [np.asarray(x) for x in operands], **attributes)

    def laws(self, *, found: bool = False) -> list[Rule]:
        """Return the laws that equate a call with an expression of the workbench's own operators.

        With ``found`` they find the call in a graph, instead of replacing it by operators. Raise NoLaw if it is no
        such expression.
        """
        return list(parse_rules(laws(self.composite, found=found)))

    def __str__(self) -> str:
        return str(self.composite)

    __repr__ = __str__


def composite(
    name: str, signature: str, equations: str, /, *, doc: str = "", **attributes: int | float
) -> CompositeOperator:
    """Register an operator by index notation, and return it.

    A name can be declared again, as when a cell runs again: the new declaration replaces the old one.

    Args:
        name: The name in rules and graphs.
        signature: Operands and result: ``x{T}[~ D], g{T}[D] -> y{T}[~ D]``. ``{T}`` is one floating-point
            type in the whole declaration, ``~`` stands for any leading axes.
        equations: ``y[~ d] = x[~ d] * g[d]``, one per line or with semicolons between them.
        doc: A description in a few words.
        **attributes: The attributes' defaults, whole numbers or floating-point numbers.

    Raises:
        NotationError: If the text cannot be read; a caret shows the place.
        ValueError: If the name is that of a built-in operator, or no operator's name.

    >>> rms = composite(
    ...     "rms", "x{T}[~ D], g{T}[D] -> y{T}[~ D]",
    ...     "y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)", eps=1e-5,
    ... )
    >>> rms(np.ones((1, 3)), np.full(3, 2.0)).round(3)
    array([[2., 2., 2.]])
    """
    made = parse(name, signature, equations, composites=known(), doc=doc, **attributes)
    return register(made)


def known() -> dict[str, Composite]:
    """Return the composites that equations may call: the library's and those declared in this process."""
    return {**library(), **_DECLARED}


def register(made: Composite) -> CompositeOperator:
    """Make a composite an operator of graphs and rules.

    Raise ValueError for the name of a built-in operator, for no operator's name, without operands and for many results.
    """
    if not _OPERATOR.fullmatch(made.name):
        raise ValueError(f"an operator's name must be lower-case letters, digits and _, got {made.name!r}")
    if len(made.outputs) != 1 or not made.inputs:
        raise ValueError(
            f"an operator must have operands and one result, got {len(made.inputs)} operands and "
            f"{len(made.outputs)} results for {made.name} (try workbench.kernels.composites.evaluate)"
        )
    traits = Trait.OWN | Trait.CARRIED
    if made.elementwise:
        traits |= Trait.GROWS | (Trait.BROADCASTS if len(made.inputs) > 1 else Trait.NONE)
    specification = OpSpec(
        made.name,
        len(made.inputs),
        CompositeRule(made),
        partial(semantics, made),
        tuple(
            Attr(a.name, "int" if a.whole else "float", a.default, tried=(a.default,))
            for a in made.attributes
        ),
        partial(_flops, made),
        traits,
        partial(_export, made),
        partial(in_torch, made),
        exact_form(made),
        doc=inspect.cleandoc(made.doc).partition("\n")[0] or made.body.partition("\n")[0],
        onnx_form=(DOMAIN, made.name),
    )
    registry.replace(specification)
    _DECLARED[made.name] = made
    DEFINITIONS[made.name] = element_of(made)
    return CompositeOperator(made)


def _export(made: Composite, e: Emitter, xs: Sequence[str], attrs: Attrs, *types: object) -> str:
    """Write a call, whose function the model then carries along; return the result's name."""
    e.function(function(made, e.opset))
    return e.node(f"{DOMAIN}::{made.name}", xs, **attrs)


def _flops(made: Composite, attrs: Attrs, inputs: Sequence[TensorType], out: TensorType) -> float:
    return operations(bind(made, inputs, attrs))


def declared_rules(path: str | os.PathLike[str]) -> RuleSet:
    """Make the composites of a file, as of :func:`load`, operators, and return their laws, judged, in both directions.

    A composite without operands or with several results stays a part of others. A law that cannot be stated
    in one direction is left out. Raise NotationError if the file cannot be read, or none of its composites has a law,
    and RefutedRules (a ValueError) if one is refuted.
    """
    place = Path(path)
    laws: list[Rule] = []
    for made in load(place, known()).values():
        if len(made.outputs) != 1 or not made.inputs:
            continue
        operator = register(made)
        for found in (False, True):
            with contextlib.suppress(NoLaw):
                laws += operator.laws(found=found)
    if not laws:
        raise NotationError(f"{place.name} must have a composite with a law, got none")
    return judged(RuleSet(place.name, tuple(laws), weights=False))
