"""Answers about an e-graph, in words and as HTML."""

from tests.saturation.explain.test_why_not import ASSOCIATE, TARGET, product
from workbench.faces.views import static_html
from workbench.faces.views.why_not import explanation_text, why_not_text
from workbench.rules import parse_rules
from workbench.saturation import Saturation


def test_an_answer_says_the_guard_with_its_values_as_text_and_html():
    with Saturation(product(), parse_rules(f"{ASSOCIATE} where dim(y, -1) < dim(x, -2)")) as run:
        assert "the saturation is not finished" in why_not_text(run.why_not(TARGET))
        run.run()
        answer = run.why_not(TARGET)
    for text in (why_not_text(answer), static_html(answer).replace("&lt;", "<")):
        assert "a guard said no" in text
        assert "dim(y, -1) < dim(x, -2) does not hold: 8 and 4" in text
    assert "[missing]" in why_not_text(answer)


def test_an_explanation_names_rules_and_directions():
    with Saturation(product(), parse_rules(ASSOCIATE)) as run:
        run.run()
        found = run.explain(TARGET, "y")
        same = run.explain("y", "y")
    assert "by associate, read backward" in explanation_text(found)
    assert "backward" in static_html(found)
    assert "both are the same term" in explanation_text(same)
    assert "both are the same term" in static_html(same)


def test_a_stepper_answers_questions():
    import pytest

    pytest.importorskip("anywidget", reason="anywidget is not installed")
    with Saturation(product(), parse_rules(ASSOCIATE)) as run:
        run.run()
        stepper = run.view()
        assert stepper.answers
        stepper.ask(f"{TARGET} == y")
        assert "represented, equal to y" in stepper.answer
        assert "associate" in stepper.answer
        stepper.ask("relu(nothing)")
        assert "must be an input" in stepper.answer
        for half in ("y ==", "== y"):
            stepper.ask(half)
            assert "== must be between two terms" in stepper.answer
        stepper.ask("relu(nothing)")
        # The page waits for a change, so that an answer that is given twice is sent twice.
        shown: list[str] = []
        stepper.observe(lambda change: shown.append(change["new"]), "answer")
        stepper.ask("relu(nothing)")
        assert shown == ["", stepper.answer]
        assert stepper.answer
        assert not run.trace.view().answers
