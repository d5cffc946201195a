"""Hardware units as text files: products and convolutions of a model are cut into their tiles."""

from workbench.accelerators.cost import AcceleratorCost
from workbench.accelerators.placement import Layer, Left, Placement, placement
from workbench.accelerators.reading import UnitError, UnknownUnit, parse_unit, read_unit, unit, units
from workbench.accelerators.rules import ORIENTATIONS, rules_text, unit_rules
from workbench.accelerators.simulator import Counts, simulate
from workbench.accelerators.tiling import Tiling
from workbench.accelerators.unit import AccumulatorOverflow, Unit
from workbench.accelerators.unroll import unroll

__all__ = [
    "ORIENTATIONS",
    "AcceleratorCost",
    "AccumulatorOverflow",
    "Counts",
    "Layer",
    "Left",
    "Placement",
    "Tiling",
    "Unit",
    "UnitError",
    "UnknownUnit",
    "parse_unit",
    "placement",
    "read_unit",
    "rules_text",
    "simulate",
    "unit",
    "unit_rules",
    "units",
    "unroll",
]
