import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

from workbench.faces.plots import plot_scaling, scaling_data


def growing(**more):
    rows = [
        {"family": f, "network": f"{f}-x{b}", "method": "t4", "blocks": b, "seconds": s, "nodes": 10.0 * b}
        for f, b, s in [("a", 1, 0.1), ("a", 10, 1.0), ("a", 10, 1.0), ("b", 1, 0.2), ("b", 10, 20.0)]
    ]
    return pd.DataFrame(rows).assign(original=1.0, optimized=1.0, **more)


def test_the_slope_is_that_of_the_last_step():
    straight, square = scaling_data(growing())
    assert (straight.label, straight.blocks) == ("a", (1, 10))
    assert straight.slope == pytest.approx(1)
    assert square.slope == pytest.approx(2)
    assert straight.e_nodes == (10, 100)
    flat = pd.concat([growing(), growing().query("blocks == 1").assign(blocks=0.1)])
    assert scaling_data(flat)[0].slope == pytest.approx(1), "a flat start does not flatter"


def test_methods_have_distinct_styles_and_one_size_has_no_slope():
    frame = growing()
    frame.loc[3:, "method"] = "cpu"
    frame = frame[frame["seconds"] < 20]
    assert [s.label for s in scaling_data(frame)] == ["a, t4", "b, cpu"]
    assert math.isnan(scaling_data(frame)[1].slope)


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
    assert scaling_data(frame)[0].whole == pytest.approx((1.6, 2.5))
