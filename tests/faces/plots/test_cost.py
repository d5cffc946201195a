"""Figures of costs: by operator, by iteration, and the gap of an extraction to its bound."""

import pytest
from matplotlib.figure import Figure

from tests.faces.plots.traces import small_trace
from workbench.faces.plots import plot_cost_bars, plot_cost_curve, plot_gap
from workbench.faces.plots.cost import operator_costs
from workbench.run.trace import RuleStep, Step, StepKind, Trace


def test_the_most_expensive_operator_comes_first_with_both_costs():
    assert operator_costs(small_trace()) == [
        ("matmul", 40.0, 15.0),
        ("add", 6.0, 0.0),
        ("concat", 0.0, 5.0),
        ("relu", 4.0, 0.0),
    ]


def test_few_operators_have_colours_of_their_own_and_the_sums_stay(monkeypatch):
    monkeypatch.setattr("workbench.faces.plots.cost.MOST_OPERATORS", 2)
    assert operator_costs(small_trace()) == [("matmul", 40.0, 15.0), ("3 others", 10.0, 5.0)]


def test_bars_are_before_and_after_and_the_title_has_the_totals():
    ax = plot_cost_bars(small_trace(), Figure().subplots())
    assert [bar.get_width() for bar in ax.patches] == [40, 15, 6, 0, 0, 5, 4, 0]
    assert "2.50× (50.0 → 20.0 µs)" in ax.get_title(loc="left")
    assert "analytic (test device)" in ax.get_xlabel()


def test_curve_has_original_and_bound_as_lines():
    ax = plot_cost_curve(small_trace(), Figure().subplots())
    lines = {line.get_label(): list(line.get_ydata()) for line in ax.lines}
    assert lines["best known"] == [50.0, 30.0, 20.0]
    assert lines["original"][0] == 50.0
    assert lines["proven bound"][0] == 19.0
    assert lines["extracted"] == [20.0]


def test_curve_and_result_are_named_for_what_they_are():
    trace = small_trace()
    trace.meta |= {"cost_curve": "greedy estimate", "cost_after_is": "extracted optimum", "cost_after": 18.0}
    ax = plot_cost_curve(trace, Figure().subplots())
    lines = {line.get_label(): list(line.get_ydata()) for line in ax.lines}
    assert lines["greedy estimate"] == [50.0, 30.0, 20.0]
    assert lines["extracted optimum"] == [18.0]


def test_large_costs_are_in_milliseconds():
    trace = small_trace()
    trace.meta |= {"cost_before": 50_000.0, "cost_after": 20_000.0, "cost_bound": None, "operator_costs": {}}
    trace.steps.clear()
    assert plot_cost_curve(trace, Figure().subplots()).get_ylabel() == "cost in ms"
    assert [b.get_width() for b in plot_cost_bars(trace, Figure().subplots()).patches] == [50.0, 20.0]


def test_a_trace_without_costs_is_refused():
    with pytest.raises(ValueError, match="no costs"):
        plot_cost_curve(Trace(), Figure().subplots())


def trace():
    steps = [
        Step(0, StepKind.TREE, 0.1, 9, 5, cost=10.0, bound=2.0, note="tree"),
        Step(1, StepKind.DAG, 0.1, 9, 5, cost=8.0, bound=2.0, note="dag"),
        Step(
            2,
            StepKind.INCUMBENT,
            1.0,
            9,
            5,
            cost=8.0,
            bound=5.0,
            note="exact",
            rules=(RuleStep("loop formulas", 7, 0.0),),
        ),
        Step(3, StepKind.SETTLED, 2.0, 9, 5, cost=6.0, bound=6.0, note="optimal"),
    ]
    return Trace({"kind": "extraction"}, steps)


def test_cost_and_bound_over_time():
    ax = plot_gap(trace(), Figure().subplots())
    cost, bound = ax.lines[:2]
    assert list(cost.get_xdata())[1:-1] == pytest.approx([0.1, 0.2, 1.2, 3.2])
    assert list(cost.get_ydata())[1:-1] == [10, 8, 8, 6]
    assert list(bound.get_ydata()) == [0, 2, 2, 5, 6, 6]
    assert [t.get_text() for t in ax.texts] == ["tree", "dag"]


def test_the_drawing_says_how_far_it_is():
    from matplotlib.figure import Figure

    ax = plot_gap(trace(), Figure().subplots())
    assert ax.get_title(loc="left") == "Extraction: 6, optimal, 7 loop formulas"
    part = Trace({}, trace().steps[:3])
    assert "gap 37.50%" in plot_gap(part, Figure().subplots()).get_title(loc="left")
    assert plot_gap(Trace(), Figure().subplots()).texts[0].get_text() == "no costs recorded"
