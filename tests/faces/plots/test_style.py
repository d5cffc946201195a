"""What all figures share: they become pictures, their texts keep apart, their series differ."""

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tests.faces.plots.runs import runs, with_k
from tests.faces.plots.traces import small_trace
from workbench.faces.plots import (
    figure_svg,
    plot_cost_bars,
    plot_cost_curve,
    plot_firing,
    plot_growth,
    plot_optimiser_time,
    plot_speedup,
    plot_stages,
    plot_trajectory,
)
from workbench.faces.plots.style import legend_above, series

OF_TRACES = [plot_growth, plot_firing, plot_cost_bars, plot_cost_curve]
OF_RECORDS = [plot_speedup, plot_optimiser_time, plot_stages, plot_trajectory]


def drawn(plot, ax):
    if plot in OF_TRACES:
        return plot(small_trace(), ax)
    return plot(runs() if plot is plot_trajectory else with_k(1), ax)


@pytest.mark.parametrize("plot", OF_TRACES + OF_RECORDS, ids=lambda p: p.__name__)
def test_every_figure_becomes_a_picture_and_leaves_matplotlib_as_it_was(plot):
    before = dict(mpl.rcParams)
    assert figure_svg(lambda ax: drawn(plot, ax), (6.0, 3.6)).startswith(b"<svg")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("plot", OF_TRACES + OF_RECORDS, ids=lambda p: p.__name__)
def test_texts_do_not_overlap_each_other(plot):
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    ax = drawn(plot, figure.subplots())
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [t for t in (*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label) if t.get_text()]
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts]
    for i, (name, box) in enumerate(boxes):
        for other, second in boxes[i + 1 :]:
            assert not box.overlaps(second), (name, other)


def test_no_two_of_sixty_four_series_look_alike():
    assert len({series(k) for k in range(64)}) == 64
    assert {colour for colour, _ in map(series, range(8))} == {
        colour for colour, _ in map(series, range(8, 16))
    }


def test_nine_networks_have_distinct_styles():
    rows = [
        {"network": f"n{k}", "method": "m", "seconds": 1.0 + k, "speedup": float(s)}
        for k in range(9)
        for s in (1, 2)
    ]
    ax = plot_trajectory(rows, Figure().subplots())
    handles = ax.get_legend().legend_handles[:9]
    assert len({(handle.get_color(), handle.get_marker()) for handle in handles}) == 9


def test_a_legend_above_has_as_many_columns_as_fit_the_figure():
    columns = {}
    for width in (3.0, 12.0):
        ax = Figure(figsize=(width, 3.0), layout="constrained").subplots()
        for name in "abcd":
            ax.plot([0, 1], label=name * 14)
        legend_above(ax)
        columns[width] = ax.get_legend()._ncols
    assert columns[3.0] < columns[12.0] == 4
