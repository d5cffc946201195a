"""Figures of growing work: the slope of time by blocks, and lines by k_multi."""

import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

from tests.faces.plots.runs import runs
from workbench.faces.plots import k_multi_data, plot_k_multi_trends, plot_scaling, scaling_data
from workbench.faces.plots.scaling import slope


def growing(**more):
    rows = [
        {"family": f, "network": f"{f}-x{b}", "method": "t4", "blocks": b, "seconds": s, "nodes": 10.0 * b}
        for f, b, s in [("a", 1, 0.1), ("a", 10, 1.0), ("a", 10, 1.0), ("b", 1, 0.2), ("b", 10, 20.0)]
    ]
    return pd.DataFrame(rows).assign(original=1.0, optimized=1.0, **more)


def test_the_slope_is_that_of_the_last_step():
    data = scaling_data(growing())
    assert list(data["a"]["blocks"]) == [1, 10]
    assert slope(data["a"]) == pytest.approx(1)
    assert slope(data["b"]) == pytest.approx(2)
    assert list(data["a"]["nodes"]) == [10, 100]
    flat = pd.concat([growing(), growing().query("blocks == 1").assign(blocks=0.1)])
    assert slope(scaling_data(flat)["a"]) == pytest.approx(1), "a flat start does not flatter"


def test_methods_have_distinct_styles_and_one_size_has_no_slope():
    frame = growing()
    frame.loc[3:, "method"] = "cpu"
    frame = frame[frame["seconds"] < 20]
    assert list(scaling_data(frame)) == ["a, t4", "b, cpu"]
    assert math.isnan(slope(scaling_data(frame)["b, cpu"]))


def test_records_without_blocks_are_refused():
    with pytest.raises(ValueError, match="must have 'blocks', got none"):
        scaling_data(growing().drop(columns="blocks"))


def test_the_picture_has_a_line_a_family_and_one_in_proportion():
    ax = plot_scaling(growing(), Figure().subplots())
    assert [line.get_label() for line in ax.lines] == ["a (slope 1.00)", "b (slope 2.00)", "in proportion"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "10"]
    assert "slopes: from 1 to 10 blocks" in ax.get_xlabel()
    assert "dotted" not in ax.get_xlabel()


def test_the_whole_call_is_dotted_and_the_picture_says_what_it_is_of():
    frame = growing(cost_source="a roofline; 3 measured", hardware="2 CPUs", versions="egglog 1")
    frame["call_seconds"] = frame["seconds"] + 1.5
    ax = plot_scaling(frame, Figure().subplots())
    assert [line.get_linestyle() for line in ax.lines] == ["-", ":", "-", ":", "--"]
    assert list(ax.lines[1].get_ydata()) == pytest.approx([1.6, 2.5])
    assert "a roofline; 2 CPUs; egglog 1" in ax.get_xlabel()
    assert "dotted: the whole call" in ax.get_xlabel()
    assert list(scaling_data(frame)["a"]["call_seconds"]) == pytest.approx([1.6, 2.5])


def test_a_line_a_network_with_repeats_put_together():
    toy, net = k_multi_data(runs())
    assert (toy.network, [k for k, _ in toy.points]) == ("toy", [1, 2])
    assert [v.mean for v in toy.estimates()] == pytest.approx([30, 50])
    assert [v.error for v in toy.estimates()] == pytest.approx([10, 0])
    assert [v.mean for v in net.estimates()] == pytest.approx([0, 10])
    assert [v.mean for v in k_multi_data(runs(), "nodes")[0].estimates()] == [100, 900]
    assert [v.mean for v in k_multi_data(runs(), "seconds")[0].estimates()] == [3, 10]


def test_methods_named_after_their_k_multi_are_one_line():
    rows = [
        {"network": n, "method": f"{family}k{k}", "k_multi": k, "speedup": float(k)}
        for n in ("a", "b") for family in ("", "other-") for k in (0, 1, 2)
    ]  # fmt: skip
    trends = k_multi_data([*rows, {"network": "a", "method": "top-k2", "k_multi": 1, "speedup": 9.0}])
    assert [(t.network, t.method, tuple(k for k, _ in t.points)) for t in trends] == [
        ("a", "", (0, 1, 2)), ("a", "other", (0, 1, 2)), ("b", "", (0, 1, 2)), ("b", "other", (0, 1, 2)),
        ("a", "top-k2", (1,)),
    ]  # fmt: skip


def trends(records):
    return plot_k_multi_trends(records, Figure(figsize=(10, 4), layout="constrained"))


def test_sizes_and_times_are_logarithmic():
    assert [ax.get_yscale() for ax in trends(runs()).axes[1:]] == ["log", "log"]


def test_a_network_far_above_compresses_the_axis_and_says_so():
    figure = trends(runs())
    ax = figure.axes[0]
    figure.canvas.draw()
    assert ax.get_yscale() == "function"
    assert "compressed above 15" in ax.get_ylabel()
    heights = ax.transData.transform([(0, 0), (0, 15), (0, 30), (0, 45)])[:, 1]
    assert heights[1] - heights[0] > 3 * (heights[2] - heights[1]) > 0
    assert heights[2] - heights[1] == pytest.approx(heights[3] - heights[2])
    near = runs()
    near.loc[near["network"] == "net", "original"] = 140.0
    assert trends(near).axes[0].get_yscale() == "linear"


def test_three_measures_next_to_each_other_have_one_legend():
    figure = trends(runs())
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Speed-up", "E-nodes", "Optimiser time"]
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["toy", "net"]


def test_what_cannot_be_drawn_is_refused_or_said():
    with pytest.raises(ValueError, match="speedup, nodes, seconds"):
        k_multi_data(runs(), "memory")
    with pytest.raises(ValueError, match=r"must have 'k_multi'\."):
        k_multi_data(pd.DataFrame([{"network": "n", "speedup": 1.0}]))
