"""Figures of the products that a unit does."""

import pytest
from matplotlib.figure import Figure

from workbench.faces.plots import plot_accelerator_cycles, plot_accelerator_use
from workbench.graph import GraphBuilder
from workbench.kernels.accelerators import placement, unit


@pytest.fixture
def placed():
    chosen = unit("systolic16")
    b = GraphBuilder()
    x = b.input("x", (7, 13))
    y = b.op("blocked", x, b.weight((13, 17)), **chosen.attrs)
    return placement(b.graph({"y": b.op("blocked", y, b.weight((17, 16)), **chosen.attrs)}), chosen)


@pytest.mark.parametrize("plot", [plot_accelerator_cycles, plot_accelerator_use])
def test_every_product_has_a_row_of_two_bars(placed, plot):
    ax = Figure().subplots()
    assert plot(placed, ax) is ax
    cycles = 2 * (16 + 7 + 16)
    above = [cycles] * 2 if plot is plot_accelerator_cycles else [y.tiling.utilisation for y in placed.layers]
    assert [bar.get_width() for bar in ax.patches[:2]] == above
    if plot is plot_accelerator_use:
        assert ax.patches[3].get_width() == pytest.approx(1 - 17 / 32)
    assert {text.get_text() for text in ax.get_legend().get_texts()} >= {
        "loads and calls" if plot is plot_accelerator_cycles else "multipliers used"
    }
    assert [label.get_text() for label in ax.get_yticklabels()] == ["7 × 13 × 17", "7 × 17 × 16"]
