import pytest
from matplotlib.figure import Figure

from tests.faces.plots.traces import small_trace
from workbench.faces.plots import iteration_time_data, plot_iteration_time
from workbench.faces.plots.iteration_time import REST
from workbench.run.trace import RuleStep, Step, StepKind, Trace


def test_rules_and_the_rest_add_up_to_the_iteration():
    data = iteration_time_data(small_trace())
    assert data.parts == ("merge", "fuse", "idle", REST)
    assert data.iterations == (1, 2)
    assert [sum(column) for column in zip(*data.seconds, strict=True)] == pytest.approx([0.5, 0.3])
    # In step 2 the rules' clock says more than the step's: nothing is left, and nothing is negative.
    assert data.seconds[-1] == pytest.approx((0.2, 0.0))
    assert data.told == pytest.approx(0.8)


def test_rules_beyond_the_first_are_one_part():
    data = iteration_time_data(small_trace(), most=1)
    assert data.parts == ("merge", "2 other rules", REST)
    assert data.seconds[1] == pytest.approx((0.1, 0.1))
    with pytest.raises(ValueError, match="at least 1"):
        iteration_time_data(small_trace(), most=0)


def test_bars_are_milliseconds_and_the_unrecorded_part_is_named():
    ax = plot_iteration_time(small_trace(), Figure().subplots())
    assert [b.get_height() for b in ax.containers[0]] == pytest.approx([200, 200])
    assert ax.get_xlabel() == "iteration"
    coarse = Trace(
        {},
        [
            Step(0, StepKind.START, 0.0, 1, 1),
            Step(1, StepKind.ITERATION, 0.9, 2, 2, (RuleStep("r", 3, 0.0),)),
        ],
    )
    assert "profile=True" in plot_iteration_time(coarse, Figure().subplots()).get_xlabel()
    assert plot_iteration_time(Trace(), Figure().subplots()).texts[0].get_text() == "no iterations recorded"
