from itertools import pairwise

from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from tests.faces.plots.runs import with_k
from workbench.faces.plots import speedup_data
from workbench.faces.plots.bars import bar_size, bar_styles, draw_bars


def test_published_series_are_hatched_on_white_and_no_two_look_alike():
    styles = bar_styles(speedup_data(with_k(1)).series)
    assert [s["facecolor"] == "white" for s in styles] == [False, True, True]
    assert all(s["hatch"] for s in styles[1:])
    assert len({tuple(s.items()) for s in styles}) == 3


def test_bars_are_next_to_each_other_with_errors_where_there_are_repeats():
    data = speedup_data(with_k(1))
    ax = Figure().subplots()
    draw_bars(ax, data.networks, data.series, places=1)
    ours, taso, tensat = (c for c in ax.containers if isinstance(c, BarContainer))
    assert [round(b.get_height(), 6) for b in ours] == [30, 0]
    assert [b.get_height() for b in taso] == [12]
    assert ours.errorbar is not None
    assert taso.errorbar is None
    edges = sorted((b.get_x(), b.get_x() + b.get_width()) for c in (ours, taso, tensat) for b in c)
    assert all(right <= left + 1e-9 for (_, right), (left, _) in pairwise(edges))
    assert [t.get_text() for t in ax.texts] == ["30.0", "0.0", "12.0", "25.0"]


def test_size_grows_with_the_bars_up_to_a_page():
    assert bar_size(2, 1) < bar_size(7, 3) <= (12.0, 3.6)
    assert bar_size(40, 8)[0] == 12.0
