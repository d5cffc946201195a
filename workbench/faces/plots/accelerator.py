"""Figures of a graph on an accelerator: cycles by layer, and how well the multipliers are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.faces.plots.style import (
    BLUE,
    FAINT,
    GREY,
    VERMILION,
    drawing,
    name_axes,
)
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.kernels.accelerators import Placement


@dataclass(frozen=True, slots=True)
class AcceleratorLayers:
    """The products on a unit, in the order of the graph.

    For each: its extents as a text, the cycles of loads and calls, the cycles that memory needs, the part of
    the multipliers that is used, and the part of the multiplications with zeros that fill tiles.
    """

    names: tuple[str, ...]
    cycles: tuple[float, ...]
    memory: tuple[float, ...]
    utilisation: tuple[float, ...]
    waste: tuple[float, ...]


def accelerator_data(placement: Placement) -> AcceleratorLayers:
    """Return the data of the figures of a placement."""
    layers = placement.layers
    return AcceleratorLayers(
        tuple(layer.name for layer in layers),
        tuple(layer.tiling.cycles for layer in layers),
        tuple(layer.price.memory for layer in layers),
        tuple(layer.tiling.utilisation for layer in layers),
        tuple(layer.tiling.waste for layer in layers),
    )


def accelerator_size(placement: Placement) -> tuple[float, float]:
    """Return the size in inches at which the layers' names are readable."""
    return 7.0, max(2.0, 0.9 + 0.22 * len(placement.layers))


def plot_accelerator_cycles(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw the cycles of every product on the unit next to those that memory needs."""
    data = accelerator_data(placement)
    places = range(len(data.names))
    with drawing(ax, accelerator_size(placement)) as ax:
        ax.barh([p - 0.2 for p in places], data.cycles, 0.4, color=BLUE, label="loads and calls")
        below = [p + 0.2 for p in places]
        ax.barh(below, data.memory, 0.4, color=FAINT, edgecolor=GREY, hatch="////", label="memory")
        _rows(ax, data)
        total = f"cycles ({thousands(round(placement.cycles))} of loads and calls in all)"
        name_axes(ax, f"{placement.unit.name}: cycles by product", total)
    return ax


def plot_accelerator_use(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw the use of the multipliers and the waste by filling zeros of every product."""
    data = accelerator_data(placement)
    places = range(len(data.names))
    with drawing(ax, accelerator_size(placement)) as ax:
        ax.barh([p - 0.2 for p in places], data.utilisation, 0.4, color=BLUE, label="multipliers used")
        below = [p + 0.2 for p in places]
        ax.barh(below, data.waste, 0.4, color=VERMILION, hatch="....", label="zeros that fill")
        _rows(ax, data)
        ax.set_xlim(0, 1)
        title = f"{placement.unit.name}: {placement.utilisation:.0%} used, {placement.waste:.0%} zeros"
        name_axes(ax, title, "part of all multiplications possible; part of those done")
    return ax


def _rows(ax: Axes, data: AcceleratorLayers) -> None:
    ax.set_yticks(range(len(data.names)), data.names, fontsize=8)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", visible=True)
