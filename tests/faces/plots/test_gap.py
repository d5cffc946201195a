import pytest

from workbench.faces.plots import gap_data, plot_gap
from workbench.run.trace import RuleStep, Step, StepKind, Trace


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
    data = gap_data(trace())
    assert data.seconds == pytest.approx((0.1, 0.2, 1.2, 3.2))
    assert data.costs == (10, 8, 8, 6)
    assert data.bounds == (2, 2, 5, 6)
    assert [m[2] for m in data.marks] == ["tree", "dag"]
    assert data.formulas == 7
    assert data.gap == 0


def test_the_drawing_says_how_far_it_is():
    from matplotlib.figure import Figure

    ax = plot_gap(trace(), Figure().subplots())
    assert ax.get_title(loc="left") == "Extraction: 6, optimal, 7 loop formulas"
    part = Trace({}, trace().steps[:3])
    assert "gap 37.50%" in plot_gap(part, Figure().subplots()).get_title(loc="left")
    assert plot_gap(Trace(), Figure().subplots()).texts[0].get_text() == "no costs recorded"
