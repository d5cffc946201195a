import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.faces.plots.traces import small_trace
from workbench.faces.plots import firing_data, plot_firing
from workbench.faces.plots.firing import firing_size
from workbench.run.trace import RuleStep, Step, StepKind, Trace


def test_rules_are_ordered_by_what_they_made_and_idle_ones_left_out():
    data = firing_data(small_trace())
    assert data.rules == ("merge", "fuse")
    assert data.iterations == (1, 2)
    np.testing.assert_array_equal(data.counts, [[17, 70], [3, 0]])


def test_matches_count_rules_that_made_nothing_new():
    data = firing_data(small_trace(), "matches")
    assert data.rules == ("merge", "idle", "fuse")
    np.testing.assert_array_equal(data.counts, [[9, 90], [0, 5], [4, 0]])


def test_what_is_left_out_is_counted_and_said_in_the_picture():
    data = firing_data(small_trace(), "matches", most=1)
    assert (data.rules, data.left_out, data.left_out_count) == (("merge",), 2, 9)
    ax = plot_firing(small_trace(), Figure().subplots(), measure="matches", most=1)
    assert "2 more rules: 9" in ax.get_xlabel()


def test_cells_show_their_numbers():
    ax = plot_firing(small_trace(), Figure().subplots())
    assert sorted(t.get_text() for t in ax.texts) == ["17", "3", "70"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["merge", "fuse"]


def test_no_firing_says_so_and_bad_arguments_are_refused():
    assert [t.get_text() for t in plot_firing(Trace(), Figure().subplots()).texts] == ["no rule fired"]
    with pytest.raises(ValueError, match="matches, e_nodes"):
        firing_data(Trace(), "seconds")
    with pytest.raises(ValueError, match="at least 1"):
        firing_data(Trace(), most=0)


def test_size_grows_with_the_table():
    rules = tuple(RuleStep(f"rule-{i}", 1, 0.0, 1) for i in range(12))
    wide = Trace(steps=[Step(i, StepKind.ITERATION, 0.1, 10, 10, rules) for i in range(1, 12)])
    (w, h), (wider, higher) = (firing_size(firing_data(t)) for t in (small_trace(), wide))
    assert wider > w
    assert higher > h
