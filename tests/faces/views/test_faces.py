"""Static faces: what a notebook shows when nothing runs."""

import base64
import html.parser
import json
import re

import numpy as np
import pytest

import workbench
from tests.extraction.egraphs import random_egraph
from workbench.extraction import Extraction, extract
from workbench.faces.views import page, static_html
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
    table = workbench.rule_table(rules, result)
    ablation = workbench.ablation(graph, rules.select("merge-*"), certify=False)
    search = workbench.BacktrackingSearch(graph, rules, workbench.cost_model("analytic"), budget=5)
    search.run()
    searched = workbench.search_optimize(graph, budget=5)
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
    assert "1 proved, 1 refuted" in text
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
