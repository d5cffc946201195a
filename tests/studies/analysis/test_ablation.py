"""Ablation: the optimisation without one rule at a time."""

from dataclasses import replace

import pytest

import workbench
from tests.studies.analysis.test_rule_activity import sums
from workbench.extraction.result import Ending, Limit
from workbench.run.trace import StepKind, StopReason
from workbench.studies.analysis import ablation as without
from workbench.studies.analysis.ablation import Ablation, ablation


@pytest.fixture(scope="module")
def squeezed():
    """Return an ablation of a network where several rules share the work."""
    return ablation(workbench.benchmark("squeezenet"), certify=False)


def test_every_rule_of_the_result_is_left_out_once(squeezed):
    assert squeezed.stop_reason is StopReason.FINISHED
    assert tuple(row.rule for row in squeezed.rows) == squeezed.best.rules == squeezed.candidates
    assert [s.note for s in squeezed.trace] == ["all rules", *(f"without {r.rule}" for r in squeezed.rows)]
    assert [s.kind for s in squeezed.trace] == [
        StepKind.REFERENCE,
        *[StepKind.WITHOUT] * len(squeezed.rows),
    ]
    assert all(row.rule not in row.instead for row in squeezed.rows)


def test_a_cost_without_is_that_of_a_run_without(squeezed):
    row = max(squeezed.rows, key=squeezed.loss)
    kept = workbench.rule_set("default").without(row.rule)
    again = workbench.optimize(workbench.benchmark("squeezenet"), rules=kept, certify=False)
    assert again.cost_after == row.cost > squeezed.best.cost_after
    assert squeezed.loss(row) == pytest.approx(row.cost / squeezed.best.cost_after - 1)


def test_the_frame_has_the_most_needed_rule_first(squeezed):
    frame = squeezed.frame()
    assert list(frame["cost"]) == sorted(frame["cost"], reverse=True)
    assert frame["loss"].iloc[0] > 0
    assert len(repr(squeezed).splitlines()) <= 12
    assert frame["rule"].iloc[0] in repr(squeezed).splitlines()[1]


@pytest.mark.slow
def test_candidates_can_be_named_and_are_checked():
    found = ablation(sums(), candidates=["relu-twice"], certify=False)
    (row,) = found.rows
    assert row.cost == found.best.cost_after
    assert found.loss(row) == 0
    with pytest.raises(KeyError, match="did you mean relu-twice"):
        ablation(sums(), candidates=["relu-twise"])


@pytest.mark.slow
def test_ctrl_c_keeps_the_rows_and_run_continues(monkeypatch):
    real, calls = without.optimize, []

    def optimize(*args, **settings):
        calls.append(len(settings["rules"]))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args, **settings)

    monkeypatch.setattr(without, "optimize", optimize)
    made = Ablation(sums(), candidates=["relu-twice", "neg-twice"], certify=False)
    assert made.run() is StopReason.INTERRUPTED
    assert [row.rule for row in made.rows] == ["relu-twice"]
    assert made.left == ("neg-twice",)
    assert "1 rules left" in repr(made)
    assert made.run() is StopReason.FINISHED
    assert [row.rule for row in made.rows] == ["relu-twice", "neg-twice"]
    assert calls[0] == calls[1] + 1


def test_a_saturation_that_was_interrupted_counts_for_nothing(monkeypatch):
    real = without.optimize
    monkeypatch.setattr(
        without, "optimize", lambda *a, **s: replace(real(*a, **s), stop_reason=StopReason.INTERRUPTED)
    )
    made = Ablation(sums(), certify=False)
    assert made.run() is StopReason.INTERRUPTED
    assert (made.best, made.rows, len(made.trace)) == (None, [], 0)
    assert repr(made) == "Ablation of 'sums': not begun"
    assert made._repr_mimebundle_()["text/html"]


def test_an_extraction_that_was_interrupted_counts_for_nothing(monkeypatch):
    real = without.optimize

    def interrupted(*args, **settings):
        result = real(*args, **settings)
        return replace(result, solution=replace(result.solution, endings=(Ending(Limit.INTERRUPTED),)))

    monkeypatch.setattr(without, "optimize", interrupted)
    made = Ablation(sums(), certify=False)
    assert made.run() is StopReason.INTERRUPTED
    assert made.best is None


@pytest.mark.slow
def test_a_run_that_met_a_limit_is_marked():
    whole = ablation(sums(), candidates=["relu-twice"], certify=False)
    assert (whole.caution, [row.complete for row in whole.rows]) == ("", [True])
    cut = ablation(sums(), candidates=["relu-twice"], certify=False, iterations=1)
    assert [row.complete for row in cut.rows] == [False]
    assert "may be due to chance" in repr(cut).splitlines()[-1]
    assert cut.caution in cut._repr_mimebundle_()["text/html"]


def test_where_no_rule_helped_there_is_nothing_to_leave_out():
    b = workbench.GraphBuilder("one")
    made = ablation(b.graph({"y": b.op("relu", b.input("x", (4,)))}))
    assert made.rows == []
    assert made.stop_reason is StopReason.FINISHED
    assert "the original is the best" in repr(made)
    with pytest.raises(StopIteration):
        made.step()


@pytest.mark.slow
def test_progress_sees_every_run_and_steps_can_be_taken_one_by_one():
    notes = []
    made = ablation(sums(), candidates=["relu-twice"], progress=lambda s: notes.append(s.note), certify=False)
    assert notes == ["all rules", "without relu-twice"]
    by_hand = Ablation(sums(), candidates=["relu-twice"], certify=False)
    assert [step.note for step in by_hand] == notes
    assert [row.cost for row in by_hand.rows] == [row.cost for row in made.rows]
