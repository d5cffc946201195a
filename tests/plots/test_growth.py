import pytest
from matplotlib.figure import Figure

from tests.plots.traces import small_trace
from workbench.plots import growth_data, plot_growth
from workbench.trace import Trace


def axes():
    return Figure().subplots()


def test_data_are_the_sizes_by_iteration_and_seconds_add_up():
    data = growth_data(small_trace())
    assert data.iterations == (0, 1, 2)
    assert data.e_nodes == (10, 30, 100)
    assert data.e_classes == (8, 20, 70)
    assert data.seconds == pytest.approx((0.0, 0.5, 0.75))
    assert data.notes == ((2, "cut"),)


def test_curves_and_limit_are_drawn_on_the_axes_given():
    ax = axes()
    assert plot_growth(small_trace(), ax) is ax
    lines = {line.get_label(): list(line.get_ydata()) for line in ax.lines}
    assert lines["e-nodes"] == [10, 30, 100]
    assert lines["e-classes"] == [8, 20, 70]
    assert lines["iteration cut"] == [100]
    assert any("limit 100" in text.get_text() for text in ax.texts)
    assert "e-node limit" in ax.get_title(loc="left")
    assert ax.get_yscale() == "linear"


def test_a_far_limit_makes_the_axis_logarithmic_and_stays_in_the_picture():
    trace = small_trace()
    trace.meta["e_node_limit"] = 50_000
    ax = plot_growth(trace, axes())
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[1] > 50_000


def test_an_empty_trace_says_so():
    assert [t.get_text() for t in plot_growth(Trace(), axes()).texts] == ["no steps recorded"]
