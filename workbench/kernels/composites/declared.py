"""Files of composites as rules: operators of a search, found in a graph and split again by their laws."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.kernels.composites.composite import NotationError
from workbench.kernels.composites.define import known, register
from workbench.kernels.composites.files import load
from workbench.kernels.composites.lowering import NoLaw
from workbench.laws.verification.admission import judged
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule


def declared_rules(path: str | os.PathLike[str]) -> RuleSet:
    """Make the composites of a file operators, and return their laws, judged, in both directions.

    A composite without operands or with several results stays a part of others. A law that cannot be stated
    in one direction is left out.

    Args:
        path: A file that ends in ``.composite``, ``.yaml`` or ``.yml``.

    Raises:
        NotationError: If the file cannot be read, or none of its composites has a law.
        RefutedRules: (a ValueError) if a law is refuted.
    """
    place = Path(path)
    laws: list[Rule] = []
    for made in load(place, known()).values():
        if len(made.outputs) != 1 or not made.inputs:
            continue
        operator = register(made)
        for found in (False, True):
            try:
                laws += operator.laws(found=found)
            except NoLaw:
                continue
    if not laws:
        raise NotationError(f"{place.name} must have a composite with a law, got none")
    return judged(RuleSet(place.name, tuple(laws), weights=False))
