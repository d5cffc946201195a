"""Static faces: the view of a notebook when nothing runs."""

import base64
import html.parser
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import workbench
from tests.extraction.egraphs import random_egraph
from tests.laws.explain.test_why_not import ASSOCIATE, TARGET, product
from workbench.extraction import Extraction, extract
from workbench.faces.views import page, static_html
from workbench.faces.views.static_html import (
    certificate_lead,
    certificate_words,
    explanation_text,
    why_not_text,
)
from workbench.laws.verification import Verification
from workbench.rules import parse_rules
from workbench.saturation import Limits, Saturation


def network(layers=3):
    b = workbench.GraphBuilder("net<work>")
    x = b.input("x", (4, 8))
    for _ in range(layers):
        left, right = (b.op("matmul", x, b.weight(data=np.ones((8, 8), np.float32))) for _ in range(2))
        x = b.op("relu", b.op("add", left, right))
    return b.graph({"y": x})


@pytest.fixture(scope="module")
def things():
    graph = network()
    result = workbench.optimize(graph)
    egraph, costs = random_egraph(3)
    extraction = Extraction(egraph, costs)
    extraction.run()
    verification = Verification(parse_rules("wrong: relu(x) => x\nright: relu(relu(x)) => relu(x)"))
    verification.run()
    with Saturation(graph, tuple(workbench.rule_set("fusion")), Limits(iterations=2)) as saturation:
        saturation.run()
    rules = workbench.rule_set("default")
    table = workbench.studies.rule_table(rules, result)
    ablation = workbench.studies.ablation(graph, rules.select("merge-*"), certify=False)
    search = workbench.studies.BacktrackingSearch(graph, rules, workbench.cost_model("analytic"), budget=5)
    search.run()
    searched = workbench.studies.search_optimize(graph, budget=5)
    return {
        "comparison": result.compare(), "e-graph": result.egraph, "search": search, "searched": searched,
        "graph": graph, "result": result, "certificate": result.certificate, "trace": result.trace,
        "extraction": extraction, "solution": extraction.solution, "verification": verification,
        "refuted": verification["wrong"], "saturation": saturation, "rules": rules,
        "rule": rules["conv-takes-relu"], "table": table, "ablation": ablation,
    }  # fmt: skip


NAMES = (
    "graph", "result", "certificate", "trace", "extraction", "solution", "verification", "refuted",
    "saturation", "rules", "rule", "table", "ablation", "comparison", "e-graph", "search", "searched",
)  # fmt: skip


class Balanced(html.parser.HTMLParser):
    """Fail where tags do not close in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", NAMES)
def test_every_object_has_a_face_that_survives(things, name):
    bundle = things[name]._repr_mimebundle_()
    assert bundle["text/plain"] == repr(things[name])
    assert len(bundle["text/plain"].splitlines()) <= 12
    text = bundle["text/html"]
    assert len(text) < 400_000
    assert not re.search(r"<script|<style|https?://|<svg|<iframe", text)
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_object_has_a_view_with_the_same_face(things, name):
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    view = things[name].view()
    bundle = view._repr_mimebundle_()[0]
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert len(bundle["text/plain"].splitlines()) <= 13
    assert len(json.dumps(view.get_state(), default=str)) < 600_000
    assert bundle["text/html"] == view.face()


@pytest.mark.parametrize(
    "name",
    ["graph", "trace", "extraction", "saturation", "result", "rule", "ablation", "comparison", "e-graph"],
)
def test_pictures_are_within_the_page_and_say_what_they_show(things, name):
    pictures = re.findall(
        r'<img alt="([^"]+)" src="data:image/(png|svg\+xml);base64,', static_html(things[name])
    )
    assert pictures


def test_names_are_escaped(things):
    text = static_html(things["graph"])
    assert "net&lt;work&gt;" in text
    assert "<work>" not in text


def test_the_counterexample_and_the_chain_are_shown(things):
    assert "differ at" in static_html(things["refuted"])
    text = static_html(things["verification"])
    assert "1 tested (1 by axioms), 1 refuted" in text
    assert text.index("wrong") < text.index("right")


@pytest.mark.slow
def test_a_face_as_a_file_of_its_own(things, tmp_path):
    things["result"].save_html(tmp_path / "result.html")
    text = (tmp_path / "result.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text == page(things["result"])
    assert "http" not in text.replace("http-equiv", "")


def test_a_large_graph_is_folded():
    text = static_html(network(80))
    (image,) = re.findall(r'data:image/svg\+xml;base64,([^"]+)"', text)
    assert "layer 80 of 80" in base64.b64decode(image).decode()
    assert len(text) < 200_000


def test_what_has_no_face_says_so():
    with pytest.raises(TypeError, match="must be an object with a static face, got int"):
        static_html(3)


def test_an_extraction_that_has_not_begun_has_a_face():
    egraph, costs = random_egraph(3)
    assert "not finished" in static_html(Extraction(egraph, costs))
    assert extract(egraph, costs)._repr_mimebundle_()["text/html"]


@pytest.fixture(scope="module")
def certificate():
    return workbench.optimize(workbench.benchmark("bert", layers=1), cost="analytic", time=False).certificate


def test_what_was_compared_and_how_is_said(certificate):
    words = dict(certificate_words(certificate))
    assert "3 random inputs in float64, seed 0" in words["rewritten parts"]
    assert "at most 1e-09 is allowed" in words["rewritten parts"]
    assert words["whole models"].startswith("both ran once as saved")
    assert "not a proof for all inputs" in words["what it means"]
    assert "computes what the original computes" in certificate_lead(certificate)


def test_a_failure_says_why_and_that_the_original_stays(certificate):
    failed = replace(certificate, passed=False, reason="output 'y' differs")
    assert certificate_lead(failed) == "The certificate failed: output 'y' differs. The original stays."


def test_rules_that_are_not_theorems_are_not_called_so(certificate):
    both = replace(certificate, rules={"a": "theorem", "b": "tested"})
    assert "theorem" not in dict(certificate_words(both))["what it means"]
    assert both.rules_line() == "2 rules fired: 1 theorem, 1 tested (b not proved)"
    theorems = replace(certificate, rules={"a": "theorem", "b": "theorem"})
    assert "Every rule behind this result is a theorem" in dict(certificate_words(theorems))["what it means"]
    assert theorems.rules_line() == "2 rules fired: 2 theorems"


def test_models_that_did_not_run_are_not_said_to_have_run(certificate):
    words = dict(certificate_words(replace(certificate, whole_ran=False, whole="too large")))
    assert words["whole models"] == "not run: too large"


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
