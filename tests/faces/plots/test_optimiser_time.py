import math

import pytest
from matplotlib.figure import Figure

from tests.faces.plots.runs import with_k
from workbench.faces.plots import optimiser_time_data, plot_optimiser_time


def test_seconds_ratios_and_their_geometric_mean():
    data = optimiser_time_data(with_k(1))
    assert data.series[0].values[0].mean == 3
    assert data.reference == "TASO"
    assert data.ratios[0] == 10
    assert math.isnan(data.ratios[1])
    assert data.mean_ratio == pytest.approx(10)
    assert optimiser_time_data(with_k(1), "Tensat").ratios[0] == 1
    nobody = optimiser_time_data(with_k(1), "nobody")
    assert (nobody.reference, nobody.ratios) == (None, ())
    assert math.isnan(nobody.mean_ratio)


def test_the_axis_is_logarithmic_and_the_ratio_is_said():
    ax = plot_optimiser_time(with_k(1), Figure().subplots())
    assert ax.get_yscale() == "log"
    assert "10×" in [t.get_text() for t in ax.texts]
    assert ax.get_xlabel() == "bold: TASO's time / workbench's; geometric mean 10×"


def test_when_the_best_graph_was_found_is_marked():
    ax = plot_optimiser_time(with_k(1), Figure().subplots())
    assert "best graph found" in [t.get_text() for t in ax.get_legend().get_texts()]
    assert [list(line.get_ydata()) for line in ax.lines if line.get_marker() == "D"] == [[8.0]]
