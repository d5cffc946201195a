"""The static faces of rules, and the data of the browser."""

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
import zlib

import pytest

import workbench
from tests.studies.analysis.test_rule_activity import sums
from workbench.faces.views import static_html
from workbench.faces.views.rules import (
    rule_scene,
    rule_svg,
    rule_table_html,
    rules_data,
    table_of,
    term_lines,
)
from workbench.laws.verification import Verification
from workbench.rules import RuleSet, parse_rule, parse_rules
from workbench.rules.pattern import subterms


@pytest.fixture(scope="module")
def table():
    return workbench.studies.rule_table(
        workbench.rule_set("default"), workbench.optimize(sums(), certify=False)
    )


def rules_of(html):
    first = html[html.index("<tbody>") : html.index("</tbody>")]
    return re.findall(r"<tr><td>([^<]+)</td>", first)


def test_rules_that_fired_come_by_matches(table):
    names = rules_of(rule_table_html(table))
    matches = [table[name].matches for name in names]
    assert len(names) == len(table.fired)
    assert matches == sorted(matches, reverse=True)
    assert all(matches)


def test_cards_are_of_the_rules_that_fired_and_every_other_rule_is_listed(table):
    html = rule_table_html(table)
    cards = re.findall(r"<details><summary>([^<·]+) · (\w+) · ", html)
    assert [name for name, _ in cards] == [r.rule.name for r in table.fired]
    assert html.count("steps in which it fired") == len(table.fired)
    idle = len(table) - len(table.fired)
    assert f"rules that did not fire ({idle})" in html


def test_what_is_refuted_has_its_card_first_with_the_counterexample():
    rules = parse_rules("right: relu(relu(x)) => relu(x)\nwrong: relu(x) => x")
    verification = Verification(rules)
    verification.run()
    html = rule_table_html(workbench.studies.rule_table(rules, verification=verification))
    assert html.index("wrong · refuted") < html.index("right · tested")
    assert "differ at" in html


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "all"])
def test_the_face_of_a_large_set_is_bounded_and_says_what_is_left_out(name):
    rules = workbench.rule_set(name)
    html = static_html(rules)
    assert len(html) < 400_000
    assert not re.search(r"<script|<style|https?://[^w]", html)
    cards = html.count("both sides as graphs")
    if cards:
        assert f"cards of {cards} of the rules ({len(rules)})" in html
    assert all(f'<td style="text-align:left">{rule.name}</td>' in html for rule in rules)


@pytest.mark.slow
def test_hundreds_of_rules_stay_bounded():
    many = RuleSet(
        "many",
        tuple(parse_rules("\n".join(f"r{'x' * 60}-{i}: relu(relu(x)) => relu(x)" for i in range(900)))),
    )
    html = static_html(many)
    assert len(html) < 400_000
    assert "300 more of 900" in html


@pytest.mark.slow
def test_the_browsers_data_is_plain_and_holds_every_rule(table):
    data = json.loads(json.dumps(rules_data(table)))
    assert [r["name"] for r in data["rules"]] == [r.rule.name for r in table.rows]
    fired = next(r for r in data["rules"] if r["firings"])
    row = table[fired["name"]]
    assert (fired["matches"], fired["made"], fired["first"], fired["last"]) == (
        row.matches, row.e_nodes, *row.span,
    )  # fmt: skip
    assert [f[1] for f in fired["firings"]] == [f.matches for f in row.firings.values()]
    cards = json.loads(zlib.decompress(base64.b64decode(data["cards"])))
    assert set(cards) == {r.rule.name for r in table.rows}
    assert all(cards[r.rule.name]["evidence"] == r.evidence for r in table.rows)
    assert "=>" in cards[fired["name"]]["text"]
    pytest.importorskip("pygraphviz", reason="pygraphviz is not installed")
    assert all(card["drawing"].startswith("<svg") for card in cards.values())
    # About 1 kB a rule, both sides drawn: a notebook stays small.
    assert len(json.dumps(data)) < 1_100 * len(table.rows)


def test_rules_sets_and_tables_have_tables_and_nothing_else_has():
    rules = workbench.rule_set("merge")
    assert len(table_of(rules)) == len(rules)
    assert [r.rule.name for r in table_of(rules["merge-convs"]).rows] == ["merge-convs"]
    assert table_of(3) is None


def test_names_and_laws_are_escaped():
    rule = parse_rules("r: relu(relu(x)) => relu(x) where dim(x, -1) < 2")[0]
    html = static_html(rule)
    assert "dim(x, -1) &lt; 2" in html
    assert "=&gt;" in html


def rule(text):
    return parse_rule(text)[0]


def test_a_side_shares_equal_terms_and_keeps_the_order_of_operands():
    scene = rule_scene(rule("r: add(matmul(x, w), relu(x)) => matmul(x, w)"))
    names = {b.key: b.lines[0] for b in scene.boxes if b.cluster == "matched pattern"}
    assert list(names.values()) == ["x", "w", "matmul", "relu", "add", "result"]
    read = [f"{names[e.source]} {names[e.target]}" for e in scene.edges if e.source in names]
    assert read == ["x matmul", "w matmul", "x relu", "matmul add", "relu add", "add result"]
    assert {e.place for e in scene.edges} == {""}
    several = rule_scene(rule("r: conv2d[c](x, w, b) => conv2d[c](x, w, b)"))
    assert [e.place for e in several.edges] == 2 * ["1", "2", "3", ""]


def test_labels_have_attributes_rows_and_stars():
    each = rule("m: each matmul[c](x, w*) => slice[axis=-1](matmul[c](x, concat[axis=-1](w*)))")
    labels = [" ".join(b.lines) for b in rule_scene(each).boxes if b.cluster == "replacement"]
    assert labels == ["x", "w*", "concat axis=-1", "matmul …c", "slice axis=-1", "each of k"]


@pytest.mark.slow
def test_every_rule_of_the_library_is_a_drawing_that_parses():
    for each in workbench.rule_set("all"):
        svg = rule_svg(each)
        root = ElementTree.fromstring(svg)
        said = " ".join(t.text for t in root.iter() if t.tag.endswith("text"))
        for term in (t for root in (*each.sources, *each.targets) for t in subterms(root)):
            assert term_lines(term)[0] in said
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
    monkeypatch.setattr("workbench.faces.views.scene.find_spec", lambda name: None)
    law = rule("r: relu(relu(x)) => relu(x)")
    assert ElementTree.fromstring(rule_svg(law)) is not None


def test_drawing_asks_for_no_fonts(capfd):
    rule_svg(rule("r: relu(relu(x)) => relu(x)"))
    assert capfd.readouterr() == ("", "")
