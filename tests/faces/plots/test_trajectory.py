"""Speed-up against time as a figure."""

import pytest
from matplotlib.figure import Figure

from tests.faces.plots.runs import runs
from workbench.faces.plots import plot_trajectory, trajectory_data


def test_a_path_a_network_and_method_by_time():
    ours, _, taso, _ = sorted(trajectory_data(runs()), key=lambda p: (p.published, p.network != "toy"))
    assert [name for name, _ in ours.points] == ["k=1", "k=2"]
    assert [v.mean for v in ours.estimates()] == [3, 10]
    assert ours.estimates(1)[0].error == pytest.approx(10)
    assert (taso.method, taso.points[0][0]) == ("TASO", "")


def test_searches_are_distinguished_by_their_budget():
    rows = [
        {"network": "n", "method": "TASO", "budget": n, "seconds": float(n), "speedup": 1.0}
        for n in (100, 10, 30)
    ]
    (path,) = trajectory_data(rows)
    assert [name for name, _ in path.points] == ["n=10", "n=30", "n=100"]


def test_published_points_are_hollow_and_lines_connect_ours():
    ax = plot_trajectory(runs(), Figure().subplots())
    assert ax.get_xscale() == "log"
    hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    assert sorted(float(line.get_xdata()[0]) for line in hollow) == [3.0, 30.0]
    assert any(list(line.get_xdata()) == [3.0, 10.0] for line in ax.lines)
    assert {t.get_text() for t in ax.texts} >= {"k=1", "k=2"}


def test_points_in_one_place_share_a_label():
    rows = [{"network": "n", "k_multi": k, "seconds": 1.0 + (k == 0), "speedup": 5.0} for k in range(4)]
    ax = plot_trajectory(rows, Figure().subplots())
    assert sorted(t.get_text() for t in ax.texts) == ["k=0", "k=1, 2, 3"]


def test_no_records_say_so():
    assert plot_trajectory(runs()[:0], Figure().subplots()).texts[0].get_text() == "no records"
