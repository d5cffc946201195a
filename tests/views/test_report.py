import re

import pytest

import workbench
from workbench.search.optimize import search_optimize
from workbench.views.report import report_html


@pytest.fixture(scope="module")
def result():
    b = workbench.GraphBuilder("a<b>&c")
    x = b.input("x", (4, 8))
    y = b.op("relu", b.op("relu", b.op("matmul", x, b.weight((8, 8)))))
    return workbench.optimize(b.graph({"y": y}))


def assert_offline(page):
    for forbidden in ("<script", "http://", "https://", "<link", "url("):
        assert forbidden not in page


def test_the_page_is_whole_and_needs_no_network(result):
    page = report_html(result)
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")
    assert len(re.findall(r'<img alt="[^"]+" src="data:image/png;base64,', page)) == 4
    assert_offline(page)


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


def test_names_are_escaped(result):
    page = report_html(result)
    assert "a&lt;b&gt;&amp;c" in page
    assert "a<b>" not in page


def test_a_result_without_change_has_a_page_too():
    b = workbench.GraphBuilder()
    same = workbench.optimize(b.graph({"y": b.op("tanh", b.input("x", (4,)))}), certify=False)
    page = report_html(same)
    assert "nothing cheaper" in page
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
    assert len(re.findall(r'<img alt="[^"]+" src="data:image/png;base64,', page)) == 4
    assert "graphs found by rule and step" in page
    assert "graphs expanded" in page
    assert "<summary>the optimised graph</summary>" in page
    assert "<summary>steps</summary>" in page
    for rule in searched.rules:
        assert f"<td>{rule}</td>" in page
    assert 'class="passed"' in page
