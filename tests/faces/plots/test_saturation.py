"""Figures of a saturation: growth and the activity of rules, from a recorded trace."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import workbench
from tests.faces.plots.traces import small_trace
from workbench.faces.plots import (
    firing_data,
    plot_firing,
    plot_growth,
)
from workbench.faces.plots.saturation import firing_size
from workbench.rules import rule_set
from workbench.run.trace import RuleStep, Step, StepKind, Trace
from workbench.saturation import Limits, Saturation


def axes():
    return Figure().subplots()


def test_curves_and_limit_are_drawn_on_the_axes_given():
    ax = axes()
    assert plot_growth(small_trace(), ax) is ax
    lines = {line.get_label(): list(line.get_ydata()) for line in ax.lines}
    assert lines["e-nodes (10 at the start)"] == [10, 30, 100]
    assert lines["e-classes"] == [8, 20, 70]
    assert lines["iteration cut"] == [100]
    assert any("limit 100" in text.get_text() for text in ax.texts)
    assert "e-node limit" in ax.get_title(loc="left")
    assert ax.get_yscale() == "linear"


def test_a_far_limit_is_named_and_the_curves_fill_the_picture():
    trace = small_trace()
    trace.meta["e_node_limit"] = 50_000
    ax = plot_growth(trace, axes())
    assert ax.get_yscale() == "linear"
    assert ax.get_ylim()[1] < 200
    assert any("50\u202f000, far above" in text.get_text() for text in ax.texts)


def test_a_large_growth_makes_the_axis_logarithmic():
    trace = small_trace()
    trace.steps[-1] = replace(trace.steps[-1], e_nodes=9_000)
    trace.meta["e_node_limit"] = 10_000
    ax = plot_growth(trace, axes())
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[1] > 10_000


def test_axes_that_share_their_scale_cut_no_curve():
    large, small = small_trace(), small_trace()
    large.steps[-1] = replace(large.steps[-1], e_nodes=5_000)
    left, right = Figure().subplots(1, 2, sharey=True)
    plot_growth(large, left)
    plot_growth(small, right)
    assert left.get_ylim() == right.get_ylim()
    assert left.get_ylim()[1] > 5_000


def test_an_empty_trace_says_so():
    assert [t.get_text() for t in plot_growth(Trace(), axes()).texts] == ["no steps recorded"]


@pytest.mark.slow
def test_a_round_of_further_merges_is_not_drawn_as_a_cut():
    """Such a step carries a note too, and nothing of it was cut."""
    trace = workbench.optimize(workbench.benchmark("transformer", layers=2), certify=False).trace
    assert {s.note for s in trace if s.kind is StepKind.MERGE} == {"merges among what was extracted"}
    assert "iteration cut" not in {line.get_label() for line in plot_growth(trace, axes()).lines}


def test_an_iteration_that_was_cut_is_drawn_as_one():
    graph = workbench.benchmark("nasrnn", length=2)
    with Saturation(graph, rule_set("default"), Limits(e_nodes=200)) as saturation:
        saturation.run()
    *_, last = saturation.trace
    assert last.kind is StepKind.CUT
    assert "would have made" in last.note or "held back" in last.note
    (marks,) = [
        line for line in plot_growth(saturation.trace, axes()).lines if line.get_label() == "iteration cut"
    ]
    assert list(marks.get_xdata()) == [last.index]


def test_rules_are_ordered_by_what_they_made_and_idle_ones_left_out():
    data = firing_data(small_trace())
    assert data.rules == ("merge", "fuse")
    assert data.iterations == (1, 2)
    np.testing.assert_array_equal(data.counts, [[17, 70], [3, 0]])


def test_what_is_left_out_is_counted_and_said_in_the_picture(monkeypatch):
    monkeypatch.setattr("workbench.faces.plots.saturation.MOST_RULES", 1)
    data = firing_data(small_trace())
    assert (data.rules, data.left_out, data.left_out_count) == (("merge",), 1, 3)
    ax = plot_firing(small_trace(), Figure().subplots())
    assert "1 more rules: 3" in ax.get_xlabel()


def test_cells_show_their_numbers():
    ax = plot_firing(small_trace(), Figure().subplots())
    assert sorted(t.get_text() for t in ax.texts) == ["17", "3", "70"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["merge", "fuse"]


def test_no_firing_says_so():
    assert [t.get_text() for t in plot_firing(Trace(), Figure().subplots()).texts] == ["no rule fired"]


def test_size_grows_with_the_table():
    rules = tuple(RuleStep(f"rule-{i}", 1, 0.0, 1) for i in range(12))
    wide = Trace(steps=[Step(i, StepKind.ITERATION, 0.1, 10, 10, rules) for i in range(1, 12)])
    (w, h), (wider, higher) = (firing_size(firing_data(t)) for t in (small_trace(), wide))
    assert wider > w
    assert higher > h
