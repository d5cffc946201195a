import base64
import re

import pytest

import workbench
from workbench.devices.ranking import Entrant, Ranking
from workbench.faces.views.report import _measured, report_html
from workbench.studies.search.optimize import search_optimize


@pytest.fixture(scope="module")
def result():
    b = workbench.GraphBuilder("a<b>&c")
    x = b.input("x", (4, 8))
    y = b.op("relu", b.op("relu", b.op("matmul", x, b.weight((8, 8)))))
    return workbench.optimize(b.graph({"y": y}))


def drawings(page):
    """Return the texts of the SVG pictures of a page, in order."""
    found = re.findall(r'<img alt="[^"]+" src="data:image/svg\+xml;base64,([^"]+)"', page)
    return [base64.b64decode(text).decode() for text in found]


def assert_offline(page):
    for forbidden in ("<script", "http://", "https://", "<link", "url(", "@import"):
        assert forbidden not in page
    for picture in drawings(page):
        # Names of namespaces are not addresses of anything that is fetched.
        assert not re.search(r'(href|src)="(?!#|data:)', picture)


@pytest.mark.slow
def test_the_page_is_whole_and_needs_no_network(result):
    page = report_html(result)
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")
    # Both graphs, both sides of every rule of the result, four figures.
    assert len(drawings(page)) == 2 + len(result.rules) + 4
    assert all("prefers-color-scheme:dark" in drawing for drawing in drawings(page))
    assert_offline(page)


@pytest.mark.slow
def test_both_graphs_are_side_by_side_with_the_rules_behind_each_change(result):
    page = report_html(result)
    part = page.partition("<h2>Before and after</h2>")[2].partition("<h2>")[0]
    assert part.count("<figure>") == 2
    before, after = drawings(part)
    assert before.count(">relu<") == 2
    assert after.count(">relu<") == 0
    assert "matmul + relu" in after
    assert "<th>by the rules, in order</th>" in part
    assert "relu-twice" in part or "conv-takes-relu" in part or result.rules[0] in part


@pytest.mark.slow
def test_the_certificate_is_in_words(result):
    page = report_html(result)
    part = page[page.index("<h2>Certificate</h2>") :]
    assert "computes what the original computes" in part
    assert "not a proof for all inputs" in part
    assert "at most 1e-09 is allowed" in part
    assert "deployed_error" not in part


def test_the_timing_is_against_the_cleaned_original(result):
    original = Entrant(10.0, 12.0, (11.0, 13.0))
    ranking = Ranking(
        original, (Entrant(5.0, 6.0, (5.5, 6.5), 2.0, (1.9, 2.1)),), 0.01, 20, "ort-cpu", 1.0, winner=0,
        given=Entrant(10.0, 18.0, (17.0, 19.0), 0.666, (0.6, 0.7)),
    )  # fmt: skip
    part = _measured(ranking)
    names = re.findall(r"<tr><td>([^<]+)</td>", part)
    assert names == ["original as given", "original, cleaned", "candidate 1, the result"]
    assert "relative to the cleaned model" in part
    assert "Nothing was timed" in _measured(None)


def test_it_holds_figures_rules_with_laws_certificate_and_settings(result):
    page = report_html(result)
    for heading in (
        "Cost",
        "Saturation",
        "Rules that made the result",
        "Certificate",
        "Coverage",
        "Settings",
    ):
        assert f"<h2>{heading}</h2>" in page
    assert result.rules
    for rule in result.rules:
        assert f"<td>{rule}</td>" in page
    assert "=&gt;" in page  # a law
    assert "by a roofline of an NVIDIA T4, not this machine" in page
    assert 'class="passed"' in page


@pytest.mark.slow
def test_names_are_escaped(result):
    page = report_html(result)
    assert "a&lt;b&gt;&amp;c" in page
    assert "a<b>" not in page


def test_a_result_without_change_has_a_page_too():
    b = workbench.GraphBuilder()
    same = workbench.optimize(b.graph({"y": b.op("tanh", b.input("x", (4,)))}), certify=False)
    page = report_html(same)
    assert "nothing cheaper" in page
    assert "The result is the original: nothing was rewritten." in page
    assert page.count("<figure>") == 1
    assert "Not requested" in page


@pytest.mark.slow
def test_a_search_has_the_same_page(result):
    searched = search_optimize(workbench.benchmark("bert", layers=1), budget=5)
    page = report_html(searched, title="a<b>.onnx")
    assert_offline(page)
    assert "<h1>a&lt;b&gt;.onnx, optimised</h1>" in page
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings == [
        h.replace("Saturation", "Search") for h in re.findall(r"<h2>(.*?)</h2>", report_html(result))
    ]
    assert len(drawings(page)) == 2 + len(searched.rules) + 4
    assert "graphs found by rule and step" in page
    assert "graphs expanded" in page
    assert "<summary>steps</summary>" in page
    for rule in searched.rules:
        assert f"<td>{rule}</td>" in page
    assert 'class="passed"' in page
