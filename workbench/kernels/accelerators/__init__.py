"""Hardware units as text files: products and convolutions of a model are cut into their tiles."""

from workbench.kernels.accelerators import glenside_rules as glenside_rules
from workbench.kernels.accelerators.cost import AcceleratorCost as AcceleratorCost
from workbench.kernels.accelerators.cost import Layer as Layer
from workbench.kernels.accelerators.cost import Placement as Placement
from workbench.kernels.accelerators.cost import Tiling as Tiling
from workbench.kernels.accelerators.cost import placement as placement
from workbench.kernels.accelerators.lowering import simulate as simulate
from workbench.kernels.accelerators.lowering import unroll as unroll
from workbench.kernels.accelerators.rules import rules_text as rules_text
from workbench.kernels.accelerators.rules import unit_rules as unit_rules
from workbench.kernels.accelerators.unit import AccumulatorOverflow as AccumulatorOverflow
from workbench.kernels.accelerators.unit import Unit as Unit
from workbench.kernels.accelerators.unit import UnitError as UnitError
from workbench.kernels.accelerators.unit import parse_unit as parse_unit
from workbench.kernels.accelerators.unit import unit as unit
from workbench.kernels.accelerators.unit import units as units
