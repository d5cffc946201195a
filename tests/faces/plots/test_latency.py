"""Points of speed-ups of what runs: one series per form, ours one per method, on one target."""

import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

from workbench.faces.plots import latency_data, plot_latency
from workbench.studies.experiments.results import LATENCY


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
    frame = frame.assign(hardware="2 CPUs, a processor", version=frame["form"].map({"onnxsim": "1.2"}))
    return frame.reindex(columns=list(LATENCY))


def test_ours_is_a_series_for_every_method_and_rivals_come_first():
    data = latency_data(timings())
    assert [s.label for s in data.series] == ["onnxsim 1.2", "by hand", "ours, t4", "ours, cpu"]
    assert data.networks == ("net", "toy")
    assert data.title == "a runtime, 2 CPUs, a processor"


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
    assert [s.label for s in data.series] == ["onnxsim 1.2", "by hand", "ours"]


def test_the_machine_is_not_said_twice():
    frame = timings().assign(title="a runtime, a processor, 2 CPUs")
    assert latency_data(frame).title == "a runtime, a processor, 2 CPUs"
    assert latency_data(timings().assign(title="")).title == "onnxruntime"


def test_runs_that_disagree_are_reported():
    sim, by_hand, *_ = latency_data(timings()).series
    assert sim.agree(0)
    assert sim.agree(1), "nothing was timed"
    frame = timings()
    frame.loc[frame["speedup"] == 1.21, "speedup_low"] = 1.15
    assert not latency_data(frame).series[0].agree(0)
    assert by_hand.agree(0)


def test_the_mean_is_over_networks():
    *_, ours, own = latency_data(timings()).series
    assert ours.mean() == pytest.approx(math.sqrt(2.2 * 0.5))
    assert own.mean() == pytest.approx(2.5)


def test_every_run_is_a_point_with_its_own_interval():
    ax = plot_latency(timings(), Figure().subplots())
    lines = {bars.get_label(): bars.lines[0] for bars in ax.containers}
    assert sorted(lines["onnxsim 1.2"].get_ydata()) == [1.0, 1.21]
    assert sorted(lines["ours, t4"].get_ydata()) == [0.5, 2.2]
    left, right = lines["onnxsim 1.2"].get_xdata()
    assert left < right < min(lines["by hand"].get_xdata())
    (whiskers,) = ax.containers[0].lines[2]
    assert [[round(y, 3) for _, y in ends] for ends in whiskers.get_segments()] == [[0.9, 1.1], [1.0, 1.3]]


def test_means_are_next_to_points_but_for_those_about_one():
    frame = timings()
    frame.loc[frame["form"] == "onnxsim", "speedup"] = 1.02
    ax = plot_latency(frame, Figure().subplots())
    assert {t.get_text() for t in ax.texts} == {"2.20", "0.50", "2.00", "2.50"}
    assert ax.get_xlabel().startswith("a runtime, 2 CPUs, a processor\none point per run")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["net", "toy"]


def test_a_target_that_was_not_timed_is_an_error_that_lists_the_others():
    with pytest.raises(ValueError, match=r"target must have timings, got 'torch'\. There are: onnxruntime"):
        latency_data(timings(), "torch")


def test_nothing_timed_says_so():
    frame = timings().assign(speedup=math.nan)
    assert plot_latency(frame, Figure().subplots()).texts[0].get_text() == "nothing was timed"
