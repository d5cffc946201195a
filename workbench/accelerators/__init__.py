"""Hardware units as text files: products and convolutions of a model are cut into their tiles."""

from workbench.accelerators.cost import AcceleratorCost
from workbench.accelerators.reading import UnitError, UnknownUnit, parse_unit, read_unit, unit, units
from workbench.accelerators.rules import ORIENTATIONS, rules_text, unit_rules
from workbench.accelerators.tiling import Tiling
from workbench.accelerators.unit import AccumulatorOverflow, Unit

__all__ = [
    "ORIENTATIONS",
    "AcceleratorCost",
    "AccumulatorOverflow",
    "Tiling",
    "Unit",
    "UnitError",
    "UnknownUnit",
    "parse_unit",
    "read_unit",
    "rules_text",
    "unit",
    "unit_rules",
    "units",
]
