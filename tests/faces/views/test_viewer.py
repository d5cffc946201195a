"""The viewer as a widget: its content, its answers, its end."""

import json
import re

import pytest

import workbench

pytest.importorskip("anywidget", reason="anywidget is not installed")

from workbench.faces.views.widgets import Viewer


@pytest.fixture(scope="module")
def result():
    return workbench.optimize(workbench.benchmark("bert", layers=2))


def test_graphs_comparisons_and_e_graphs_have_a_viewer(result):
    views = [
        result.original.view(),
        result.compare().view(),
        result.egraph.view(costs=result.costs, solution=result.solution),
    ]
    assert all(isinstance(view, Viewer) for view in views)
    assert [len(view.data["panes"]) for view in views] == [1, 2, 1]
    for view in views:
        bundle = view._repr_mimebundle_()[0]
        assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= set(bundle)
        assert "<img" in bundle["text/html"]
        assert len(json.dumps(view.data)) < 400_000


def told(view, message):
    said = []
    view.send = said.append
    view._told(view, message, [])
    return said


def test_it_answers_what_the_alternatives_cost(result):
    view = result.egraph.view(costs=result.costs, solution=result.solution)
    c = int(result.egraph.eclass[next(i for i in result.solution.choice if i >= 0 and result.costs[i] > 0)])
    (answer,) = told(view, {"ask": "more", "key": f"e-class {c}"})
    assert answer["key"] == f"e-class {c}"
    assert len(answer["rows"]) == (result.egraph.eclass == c).sum()
    assert [row[-1] for row in answer["rows"]].count("taken") == 1
    i = int(result.solution.choice[c])
    assert told(view, {"ask": "more", "key": str(i)})[0]["rows"] == answer["rows"]


@pytest.mark.parametrize(
    "message", [None, {}, {"ask": "more"}, {"ask": "more", "key": 3}, {"ask": "more", "key": "x"}]
)
def test_nonsense_is_not_answered(result, message):
    view = result.egraph.view(costs=result.costs, solution=result.solution)
    assert told(view, message) == []


def test_the_picture_moves_to_another_class(result):
    view = result.egraph.view(most=20)
    assert not view.answers
    hidden = result.egraph.n_classes - 1
    told(view, {"ask": "show", "key": f"e-class {hidden}"})
    clusters = view.data["panes"][0]["levels"]["whole"]["clusters"]
    assert clusters[0]["key"] == f"e-class {hidden}"


def test_a_page_of_its_own_needs_nothing(result, tmp_path):
    result.compare().view().save_html(tmp_path / "view.html")
    text = (tmp_path / "view.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=.?https?:", text)
    assert "import " not in re.sub(r"<[^>]*>", "", text.split("<script", 1)[1])[:2000]
    assert "<noscript>" in text


def test_names_are_not_markup(tmp_path):
    b = workbench.GraphBuilder("</script><b>")
    graph = b.graph({"</script>": b.op("relu", b.input("<i>", (4,)))})
    graph.view().save_html(tmp_path / "view.html")
    assert (tmp_path / "view.html").read_text(encoding="utf-8").count("</script>") == 1


def test_names_that_open_a_script_do_not_end_the_page_s_own(tmp_path):
    b = workbench.GraphBuilder("<!--<script>")
    graph = b.graph({"<!--<script>": b.op("relu", b.input("x", (4,)))})
    graph.view().save_html(tmp_path / "view.html")
    text = (tmp_path / "view.html").read_text(encoding="utf-8")
    state = text[text.index('<script type="module">') + 22 : text.rindex("</script>")]
    assert "<!--" not in state
    assert "<script" not in state
    assert "\\u003c!--\\u003cscript>" in state
