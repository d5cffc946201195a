import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tests.plots.traces import small_trace
from workbench.plots import figure_png, plot_cost_bars, plot_cost_curve, plot_firing, plot_growth


@pytest.mark.parametrize("plot", [plot_growth, plot_firing, plot_cost_bars, plot_cost_curve])
def test_every_figure_becomes_a_png_and_leaves_matplotlib_as_it_was(plot):
    before = dict(mpl.rcParams)
    png = figure_png(lambda ax: plot(small_trace(), ax), (6.0, 3.6))
    assert png.startswith(b"\x89PNG")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("plot", [plot_growth, plot_firing, plot_cost_bars, plot_cost_curve])
def test_texts_do_not_overlap_each_other(plot):
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    ax = plot(small_trace(), figure.subplots())
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [t for t in (*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label) if t.get_text()]
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts]
    for i, (name, box) in enumerate(boxes):
        for other, second in boxes[i + 1 :]:
            assert not box.overlaps(second), (name, other)
