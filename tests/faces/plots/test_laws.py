"""The funnel of a synthesis."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import workbench
from workbench.faces.plots import (
    funnel_data,
    plot_funnel,
    plot_verification_rounds,
    plot_verification_seconds,
    rounds_data,
)
from workbench.laws import Verification
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
    assert funnel_data(traced()).to_numpy().tolist() == [[1, 30, 20, 5, 4, 3]]


def test_the_figure_shows_every_number_and_an_empty_run_says_so():
    ax = plot_funnel(traced())
    assert {t.get_text() for t in ax.texts} == {"30", "20", "5", "4", "3"}
    assert "3 laws" in ax.get_title(loc="left") + ax.get_title()
    assert "no terms" in plot_funnel(Trace({})).texts[0].get_text()
    plt.close("all")


@pytest.fixture(scope="module")
def trace():
    rules = workbench.parse_rules("""
        sums: add(matmul(x, y), matmul(x, z)) => matmul(x, add(z, y))
        wrong: mul(matmul(x, y), matmul(x, z)) => matmul(x, mul(y, z))
    """)
    verification = Verification(rules)
    verification.run()
    return verification.trace


def test_rounds_prove_what_was_open(trace):
    rounds = rounds_data(trace)
    assert len(rounds) == 1 + sum(step.kind is StepKind.ROUND for step in trace)
    assert rounds[["before", "now", "open"]].sum(axis=1).nunique() == 1
    assert rounds["now"].iloc[0] == 0
    # The cases of the wrong rule stay open; those of the law are proved.
    assert 0 < rounds["open"].iloc[-1] < rounds["open"].iloc[0]
    assert list(rounds["before"]) == list(rounds["now"].cumsum() - rounds["now"])


@pytest.mark.slow
def test_a_bar_is_a_step_and_its_colour_the_phase(trace):
    ax = plot_verification_seconds(trace, Figure().subplots())
    assert sorted(bar.get_height() for bar in ax.patches) == sorted(step.seconds for step in trace)
    assert ax.get_legend().get_texts()[0].get_text() == "search for counterexamples"


def test_all_cases_are_in_every_round(trace):
    ax = plot_verification_rounds(trace, Figure().subplots())
    rounds = rounds_data(trace)
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == rounds[["before", "now", "open"]].to_numpy().ravel("F").tolist()
    last = rounds.iloc[-1]
    assert ax.texts[-1].get_text() == str(last["before"] + last["now"])
    assert ax.get_title(loc="left").endswith(f"of {last['before'] + last['now'] + last['open']}")


@pytest.mark.parametrize("plot", [plot_verification_seconds, plot_verification_rounds])
def test_an_empty_trace_says_so_and_texts_do_not_overlap(plot, trace):
    assert "recorded" in plot(Trace(), Figure().subplots()).texts[0].get_text()
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    ax = plot(trace, figure.subplots())
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [t.get_window_extent(canvas.get_renderer()) for t in (*ax.texts, ax.title, ax.get_legend())]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
