"""Rules as drawings: equal terms are one node, and nothing of the law is lost."""

import xml.etree.ElementTree as ElementTree

import workbench
from workbench.faces.views.patterns import rule_scene, rule_svg, side_of, term_label
from workbench.rules import parse_rule


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
    for each in workbench.rule_set("all"):
        svg = rule_svg(each)
        root = ElementTree.fromstring(svg)
        said = " ".join(t.text for t in root.iter() if t.tag.endswith("text"))
        for side in (each.sources, each.targets):
            for term in side_of(side).terms:
                assert term_label(term).split("\n")[0] in said
        assert len(svg) < 20_000


def test_what_goes_and_what_comes_is_marked():
    scene = rule_scene(rule("r: relu(relu(x)) => relu(x)"))
    # relu(x) is on both sides and stays; the outer relu goes.
    assert [b.mark for b in scene.boxes] == ["", "", "removed", "stub", "", "", "stub"]
    scene = rule_scene(rule("r: relu(neg(x)) => neg(relu(x))"))
    assert [b.mark for b in scene.boxes if b.mark != "stub"] == [
        "",
        "removed",
        "removed",
        "",
        "added",
        "added",
    ]


def test_without_graphviz_layers_are_simple_ones(monkeypatch):
    monkeypatch.setattr("workbench.faces.views.layout.find_spec", lambda name: None)
    law = rule("r: relu(relu(x)) => relu(x)")
    assert ElementTree.fromstring(rule_svg(law)) is not None


def test_drawing_asks_for_no_fonts(capfd):
    rule_svg(rule("r: relu(relu(x)) => relu(x)"))
    assert capfd.readouterr() == ("", "")
