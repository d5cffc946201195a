"""The funnel of a synthesis."""

import matplotlib.pyplot as plt

from workbench.faces.plots import funnel_data, plot_funnel
from workbench.run.trace import Step, StepKind, Trace


def traced():
    trace = Trace({"kind": "synthesis", "grammar": "small"})
    level = {"size": 1, "terms": 30, "classes": 20, "candidates": 5}
    trace.add(Step(0, StepKind.ENUMERATION, 0.1, 30, 20, counts=level))
    trace.add(
        Step(1, StepKind.CHOICE, 0.1, 30, 20, counts={"size": 1, "kept": 2, "refuted": 1, "derived": 0})
    )
    trace.add(
        Step(2, StepKind.CHOICE, 0.1, 30, 20, counts={"size": 1, "kept": 1, "refuted": 0, "derived": 1})
    )
    return trace


def test_the_numbers_of_a_size_are_summed_over_its_steps():
    (found,) = funnel_data(traced())
    assert found.numbers() == (30, 20, 5, 4, 3)


def test_the_figure_shows_every_number_and_an_empty_run_says_so():
    ax = plot_funnel(traced())
    assert {t.get_text() for t in ax.texts} == {"30", "20", "5", "4", "3"}
    assert "3 laws" in ax.get_title(loc="left") + ax.get_title()
    assert "no terms" in plot_funnel(Trace({})).texts[0].get_text()
    plt.close("all")
