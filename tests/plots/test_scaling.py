import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

from workbench.plots import plot_scaling, scaling_data


def growing(**more):
    rows = [
        {"family": f, "network": f"{f}-x{b}", "method": "t4", "blocks": b, "seconds": s, "nodes": 10.0 * b}
        for f, b, s in [("a", 1, 0.1), ("a", 10, 1.0), ("a", 10, 1.0), ("b", 1, 0.2), ("b", 10, 20.0)]
    ]
    return pd.DataFrame(rows).assign(original=1.0, optimized=1.0, **more)


def test_the_exponent_is_the_slope_on_logarithmic_scales():
    straight, square = scaling_data(growing())
    assert (straight.label, straight.blocks) == ("a", (1, 10))
    assert straight.exponent == pytest.approx(1)
    assert square.exponent == pytest.approx(2)
    assert straight.e_nodes == (10, 100)


def test_methods_are_told_apart_and_one_size_has_no_exponent():
    frame = growing()
    frame.loc[3:, "method"] = "cpu"
    frame = frame[frame["seconds"] < 20]
    assert [s.label for s in scaling_data(frame)] == ["a, t4", "b, cpu"]
    assert math.isnan(scaling_data(frame)[1].exponent)


def test_records_without_blocks_are_refused():
    with pytest.raises(ValueError, match="no 'blocks'"):
        scaling_data(growing().drop(columns="blocks"))


def test_the_picture_has_a_line_a_family_and_one_in_proportion():
    ax = plot_scaling(growing(), Figure().subplots())
    assert [line.get_label() for line in ax.lines] == [
        "a (exponent 1.00)",
        "b (exponent 2.00)",
        "in proportion",
    ]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "10"]
