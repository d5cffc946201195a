"""Hardware units as text files: products and convolutions of a model are cut into their tiles."""

from workbench.kernels.accelerators.cost import AcceleratorCost
from workbench.kernels.accelerators.lowering import unroll
from workbench.kernels.accelerators.placement import Layer, Left, Placement, placement
from workbench.kernels.accelerators.reading import UnitError, UnknownUnit, parse_unit, read_unit, unit, units
from workbench.kernels.accelerators.rules import ORIENTATIONS, rules_text, unit_rules
from workbench.kernels.accelerators.simulator import Counts, simulate
from workbench.kernels.accelerators.tiling import Tiling
from workbench.kernels.accelerators.unit import AccumulatorOverflow, Unit

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
