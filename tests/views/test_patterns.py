"""Rules as drawings: equal terms are one node, and nothing of the law is lost."""

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import workbench
from workbench.rules import parse_rule
from workbench.views.patterns import rule_svg, side_of, smaller, term_label


def rule(text):
    return parse_rule(text)[0]


def test_a_side_shares_equal_terms_and_keeps_the_order_of_operands():
    side = side_of(rule("r: add(matmul(x, w), relu(x)) => matmul(x, w)").sources)
    assert [term_label(t) for t in side.terms] == ["x", "w", "matmul", "relu", "add"]
    assert side.edges == [(0, 2, ""), (1, 2, ""), (0, 3, ""), (2, 4, ""), (3, 4, "")]
    assert side.roots == [4]
    several = side_of(rule("r: conv2d[c](x, w, b) => conv2d[c](x, w, b)").sources)
    assert [place for _, _, place in several.edges] == ["1", "2", "3"]


def test_labels_have_attributes_rows_and_stars():
    each = rule("m: each matmul[c](x, w*) => slice[axis=-1](matmul[c](x, concat[axis=-1](w*)))")
    labels = [term_label(t) for t in side_of(each.targets).terms]
    assert labels == ["x", "w*", "concat\naxis=-1", "matmul\n…c", "slice\naxis=-1"]


def test_every_rule_of_the_library_is_a_drawing_that_parses():
    pytest.importorskip("pygraphviz")
    for each in workbench.rule_set("all"):
        svg = rule_svg(each)
        root = ElementTree.fromstring(svg)
        said = " ".join(t.text for t in root.iter() if t.tag.endswith("text"))
        for side in (each.sources, each.targets):
            for term in side_of(side).terms:
                assert term_label(term).split("\n")[0] in said
        assert len(svg) < 20_000


def test_what_goes_is_dashed_and_what_comes_is_thick():
    pytest.importorskip("pygraphviz")
    svg = rule_svg(rule("r: relu(relu(x)) => relu(x)")).decode()
    # relu(x) is on both sides and stays; the outer relu goes.
    assert len(re.findall(r'stroke-dasharray="5,2"', svg)) == 1
    assert 'stroke-width="2.2"' not in svg
    assert 'stroke-width="2.2"' in rule_svg(rule("r: relu(neg(x)) => neg(relu(x))")).decode()


def test_without_graphviz_there_is_no_drawing_and_the_law_stands(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    law = rule("r: relu(relu(x)) => relu(x)")
    assert rule_svg(law) is None
    html = law._repr_mimebundle_()["text/html"]
    assert "<img" not in html
    assert "relu(relu(x))" in html


def test_names_are_escaped_and_digits_are_few():
    svg = b'<?xml version="1.0"?>\n<svg a="1"><g id="graph0" class="g" transform="t">'
    svg += b'<g id="n"><title>x</title>\n<path d="M1.234,5.00"/></g></g></svg>'
    assert ElementTree.fromstring(smaller(svg)) is not None
    assert b'd="M1.2,5"' in smaller(svg)
    assert b"title" not in smaller(svg)
