"""Bars by network: speed-up, optimiser time and stages, with errors and sources."""

import math
from itertools import pairwise

import pytest
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from tests.faces.plots.runs import runs, with_k
from workbench.faces.plots import (
    plot_optimiser_time,
    plot_speedup,
    speedup_data,
)
from workbench.faces.plots.bars import _draw_bars, bar_size, bar_styles, time_ratios
from workbench.studies.experiments.records import geometric_mean, records_frame, series_of


def test_published_series_are_hatched_on_white_and_no_two_look_alike():
    styles = bar_styles(speedup_data(with_k(1))[1])
    assert [s["facecolor"] == "white" for s in styles] == [False, True, True]
    assert all(s["hatch"] for s in styles[1:])
    assert len({tuple(s.items()) for s in styles}) == 3


def test_bars_are_next_to_each_other_with_errors_where_there_are_repeats():
    networks, series = speedup_data(with_k(1))
    ax = Figure().subplots()
    _draw_bars(ax, networks, series, places=1)
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


def test_means_and_standard_errors_over_repeats():
    _, (first, *_) = speedup_data(with_k(1))
    ours = first.values
    assert (ours[0].mean, ours[0].error, ours[0].count) == pytest.approx((30, 10, 2))
    assert ours[1].mean == 0


def test_the_picture_names_methods_networks_and_the_source_of_costs():
    ax = plot_speedup(with_k(1), Figure().subplots())
    assert [t.get_text() for t in ax.get_legend().get_texts()] == [
        "workbench", "TASO, published (T4)", "Tensat, published (T4)",
    ]  # fmt: skip
    assert [t.get_text() for t in ax.get_xticklabels()] == ["toy", "net"]
    assert ax.get_xlabel() == "costs: roofline"


def test_no_records_say_so():
    assert plot_speedup(runs()[:0], Figure().subplots()).texts[0].get_text() == "no records"


def test_seconds_ratios_and_their_geometric_mean():
    _, series = series_of(records_frame(with_k(1)), "seconds")
    assert series[0].values[0].mean == 3
    ratios = time_ratios(series)
    assert ratios[0] == 10
    assert math.isnan(ratios[1])
    assert geometric_mean(ratios) == pytest.approx(10)
    assert time_ratios(series, "Tensat")[0] == 1
    assert time_ratios(series, "nobody") == []


def test_the_axis_is_logarithmic_and_the_ratio_is_said():
    ax = plot_optimiser_time(with_k(1), Figure().subplots())
    assert ax.get_yscale() == "log"
    assert "10×" in [t.get_text() for t in ax.texts]
    assert ax.get_xlabel() == "bold: TASO's time / workbench's; geometric mean 10×"


def test_when_the_best_graph_was_found_is_marked():
    ax = plot_optimiser_time(with_k(1), Figure().subplots())
    assert "best graph found" in [t.get_text() for t in ax.get_legend().get_texts()]
    assert [list(line.get_ydata()) for line in ax.lines if line.get_marker() == "D"] == [[8.0]]
