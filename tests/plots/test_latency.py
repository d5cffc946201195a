"""Bars of speed-ups of what runs: one series a form, ours one a method, on one target."""

import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

from workbench.experiments.results import LATENCY
from workbench.plots import latency_data, plot_latency


def timings():
    rows = [
        ("net", "t4", "original", 1.0, 1.0, 1.0),
        ("net", "t4", "onnxsim", 1.0, 0.9, 1.1),
        ("net", "t4", "by hand", 2.0, 1.9, 2.1),
        ("net", "t4", "ours", 2.2, 2.0, 2.4),
        ("net", "cpu", "original", 1.0, 1.0, 1.0),
        ("net", "cpu", "onnxsim", 1.21, 1.0, 1.3),
        ("net", "cpu", "by hand", 2.0, 1.8, 2.0),
        ("net", "cpu", "ours", 2.5, 2.4, 2.6),
        ("toy", "t4", "original", 1.0, 1.0, 1.0),
        ("toy", "t4", "onnxsim", math.nan, math.nan, math.nan),
        ("toy", "t4", "ours", 0.5, 0.4, 0.6),
    ]
    names = ["network", "method", "form", "speedup", "speedup_low", "speedup_high"]
    frame = pd.DataFrame(rows, columns=names).assign(target="onnxruntime", title="a runtime", repeat=0)
    return frame.reindex(columns=list(LATENCY))


def test_ours_is_a_series_for_every_method_and_rivals_come_first():
    data = latency_data(timings())
    assert [s.label for s in data.series] == ["onnxsim", "by hand", "ours, t4", "ours, cpu"]
    assert data.networks == ("net", "toy")
    assert data.title == "a runtime"


def test_what_several_runs_timed_is_put_together():
    sim, by_hand, ours, own = latency_data(timings()).series
    assert sim.speedups[0] == pytest.approx(1.1)
    assert (sim.lows[0], sim.highs[0]) == (0.9, 1.3)
    assert math.isnan(sim.speedups[1])
    assert by_hand.lows[0] == 1.8
    assert ours.speedups == pytest.approx((2.2, 0.5))
    assert own.speedups[0] == pytest.approx(2.5)


def test_one_method_is_ours_alone():
    data = latency_data(timings().query("method == 't4'"))
    assert [s.label for s in data.series] == ["onnxsim", "by hand", "ours"]


def test_bars_stand_on_one_and_slower_ones_hang():
    ax = plot_latency(timings(), Figure().subplots())
    heights = {
        round(bar.get_height(), 3) for bars in ax.containers if hasattr(bars, "patches") for bar in bars
    }
    assert {1.0, 1.2, -0.5} <= heights
    assert {bar.get_y() for bar in ax.patches} == {1}
    assert ax.get_xlabel().startswith("a runtime")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["net", "toy"]
    assert {"2.20", "0.50", "2.00"} <= {t.get_text() for t in ax.texts}


def test_a_target_that_was_not_timed_is_told_with_those_there_are():
    with pytest.raises(ValueError, match="nothing was timed on 'torch'; there are: onnxruntime"):
        latency_data(timings(), "torch")


def test_nothing_timed_says_so():
    frame = timings().assign(speedup=math.nan)
    assert plot_latency(frame, Figure().subplots()).texts[0].get_text() == "nothing was timed"
