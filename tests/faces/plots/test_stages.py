"""Seconds by stage as a figure."""

import pytest
from matplotlib.figure import Figure

from tests.faces.plots.runs import runs
from tests.studies.experiments.test_records import small_result
from workbench.faces.plots import plot_stages, stages_data


def test_repeats_are_put_together_and_stages_keep_their_order():
    data = stages_data(runs())
    assert list(data) == ["saturation", "extraction", "repeats"]
    assert list(data.index) == ["toy, k=1", "toy, k=2", "net, k=1", "net, k=2"]
    assert data.iloc[0].tolist() == [1.5, 1.5, 2]
    assert data["repeats"].tolist() == [2, 1, 2, 1]
    assert list(data["saturation"] + data["extraction"]) == pytest.approx([3, 10, 0.2, 0.4])


def test_a_result_has_all_the_stages_it_measured():
    result = small_result()
    data = stages_data(result)
    assert list(data) == [*result.seconds, "repeats"]
    assert data.iloc[0].tolist() == pytest.approx([*result.seconds.values(), 1])


def test_bars_are_stacked():
    ax = plot_stages(runs(), Figure().subplots())
    first = [bars[1] for bars in ax.containers]
    assert [b.get_width() for b in first] == [4, 6]
    assert first[1].get_x() == 4


def test_stages_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="must have seconds of a stage"):
        stages_data([{"network": "n", "speedup": 1}])
