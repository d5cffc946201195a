"""Figures of a graph on an accelerator: cycles by layer, and how well the multipliers are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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

    from workbench.kernels.accelerators import Layer, Placement


def accelerator_size(placement: Placement) -> tuple[float, float]:
    """Return the size in inches at which the layers' names are readable."""
    return 7.0, max(2.0, 0.9 + 0.22 * len(placement.layers))


def plot_accelerator_cycles(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw the cycles of every product on the unit next to those that memory needs."""
    layers = placement.layers
    with drawing(ax, accelerator_size(placement)) as ax:
        memory = {"color": FAINT, "edgecolor": GREY, "hatch": "////", "label": "memory"}
        done = {"color": BLUE, "label": "loads and calls"}
        _pairs(ax, layers, [y.tiling.cycles for y in layers], done, [y.price.memory for y in layers], memory)
        total = f"cycles ({thousands(round(placement.cycles))} of loads and calls in all)"
        name_axes(ax, f"{placement.unit.name}: cycles by product", total)
    return ax


def plot_accelerator_use(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw the use of the multipliers and the waste by filling zeros of every product."""
    layers = placement.layers
    with drawing(ax, accelerator_size(placement)) as ax:
        used, zeros = [y.tiling.utilisation for y in layers], [y.tiling.waste for y in layers]
        waste = {"color": VERMILION, "hatch": "....", "label": "zeros that fill"}
        _pairs(ax, layers, used, {"color": BLUE, "label": "multipliers used"}, zeros, waste)
        ax.set_xlim(0, 1)
        title = f"{placement.unit.name}: {placement.utilisation:.0%} used, {placement.waste:.0%} zeros"
        name_axes(ax, title, "part of all multiplications possible; part of those done")
    return ax


def _pairs(
    ax: Axes,
    layers: Sequence[Layer],
    above: Sequence[float],
    look: Mapping[str, Any],
    below: Sequence[float],
    other: Mapping[str, Any],
) -> None:
    """Draw two bars for each product, each with a look of its own."""
    ax.barh([p - 0.2 for p in range(len(layers))], above, 0.4, **look)
    ax.barh([p + 0.2 for p in range(len(layers))], below, 0.4, **other)
    ax.set_yticks(range(len(layers)), [layer.name for layer in layers], fontsize=8)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", visible=True)
