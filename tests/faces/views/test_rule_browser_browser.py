"""The rule browser's module in a real browser without a network."""

import pytest

pytest.importorskip("pygraphviz", reason="pygraphviz is not installed")

import workbench
from tests.browser import needs_browser, show
from tests.studies.analysis.test_rule_activity import sums
from workbench.faces.views.rules import rules_data
from workbench.faces.views.widgets import script, style
from workbench.laws.verification import Verification
from workbench.rules import parse_rules

pytestmark = [pytest.mark.browser, needs_browser]


@pytest.fixture(scope="module")
def table():
    ablation = workbench.studies.ablation(sums(), certify=False)
    return workbench.studies.rule_table(ablation.rules, ablation=ablation)


def state(table, **more):
    first = (table.fired or table.rows)[0].rule.name
    return {"data": rules_data(table), "selected": first, "query": "", "verdict": "", "activity": ""} | more


@pytest.fixture
def shown(browser, table):
    page, problems = show(browser, "rules", state(table))
    page.wait_for_selector(".wb-drawing img")
    yield page
    assert problems == []
    page.context.close()


def names(page):
    return page.locator(".wb-list tbody tr td.wb-name").all_inner_texts()


def selected(page):
    return page.evaluate("window.model.get('selected')")


def test_every_rule_is_listed_by_matches_and_the_first_has_a_card(shown, table):
    assert len(names(shown)) == len(table)
    matches = [table[n].matches for n in names(shown)]
    assert matches == sorted(matches, reverse=True)
    assert shown.locator(".wb-card h4").inner_text() == table.fired[0].rule.name
    assert "best cost without it" in shown.locator(".wb-card").inner_text()
    size = shown.locator(".wb-drawing img").evaluate("img => [img.naturalWidth, img.naturalHeight]")
    assert min(size) > 40


def test_text_filters_names_laws_and_tags_and_escape_clears_it(shown, table):
    field = shown.get_by_label("filter rules")
    field.fill("MERGE matmul")
    found = names(shown)
    assert found
    assert all("merge" in " ".join((n, *table[n].tags)) for n in found)
    assert shown.locator(".wb-count").inner_text() == f"{len(found)} of {len(table)} rules"
    assert shown.evaluate("window.model.get('query')") == "MERGE matmul"
    field.fill("no such thing")
    assert "no rule matches" in shown.locator(".wb-list").inner_text()
    field.press("Escape")
    assert len(names(shown)) == len(table)


def test_verdict_and_activity_filter(shown, table):
    shown.get_by_label("activity").select_option("fired")
    assert set(names(shown)) == {r.rule.name for r in table.fired}
    shown.get_by_label("activity").select_option("best")
    assert set(names(shown)) == {r.rule.name for r in table.rows if r.contribution}
    shown.get_by_label("activity").select_option("idle")
    assert len(names(shown)) == len(table) - len(table.fired)
    shown.get_by_label("activity").select_option("")
    shown.get_by_label("verdict").select_option("tested")
    assert set(names(shown)) == {r.rule.name for r in table.rows if r.verdict == "tested"}


def test_keys_move_the_selection_and_the_card_follows(shown):
    order = names(shown)
    shown.get_by_label("filter rules").press("ArrowDown")
    assert selected(shown) == shown.locator(".wb-list tr:focus").get_attribute("data-name")
    shown.keyboard.press("Home")
    for key, expected in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", -1), ("Home", 0)):
        shown.keyboard.press(key)
        assert selected(shown) == order[expected]
        assert shown.locator(".wb-card h4").inner_text() == order[expected]
    assert shown.locator("tr[aria-selected=true]").count() == 1
    shown.keyboard.press("/")
    assert shown.evaluate("document.activeElement.type") == "search"


def test_a_click_on_a_heading_sorts_and_a_second_one_turns_it_round(shown):
    head = shown.get_by_role("button", name="rule", exact=True)
    head.click()
    assert names(shown) == sorted(names(shown))
    shown.get_by_role("button", name="rule ▴").click()
    assert names(shown) == sorted(names(shown), reverse=True)
    assert shown.locator("th[aria-sort=descending]").count() == 1


def test_a_rule_that_did_not_fire_says_so_and_one_that_did_has_bars(shown, table):
    assert shown.locator(".wb-bars rect").count() == len(table.fired[0].firings)
    shown.get_by_label("activity").select_option("idle")
    shown.locator(".wb-list tbody tr").first.click()
    assert "did not fire in sums" in shown.locator(".wb-card").inner_text()
    assert shown.locator(".wb-bars").count() == 0


def test_it_follows_the_model(shown, table):
    name = table.rows[5].rule.name
    shown.evaluate(f"window.model.change('selected', {name!r})")
    assert shown.locator(".wb-card h4").inner_text() == name
    shown.evaluate("window.model.change('query', 'batchnorm')")
    assert shown.get_by_label("filter rules").input_value() == "batchnorm"
    assert 0 < len(names(shown)) < len(table)


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_both_themes(browser, table, dark):
    page, problems = show(browser, "rules", state(table), dark=dark)
    page.wait_for_selector(".wb-drawing img")
    ink, paper = page.evaluate(
        "[getComputedStyle(document.querySelector('td.wb-name')).color,"
        " getComputedStyle(document.querySelector('thead th')).backgroundColor]"
        ".map((c) => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 765)"
    )
    assert abs(ink - paper) > 0.6
    assert (ink > paper) == dark
    assert problems == []
    page.context.close()


def test_without_a_run_there_is_no_activity_and_a_refuted_rule_shows_its_counterexample(browser):
    rules = parse_rules("wrong: relu(x) => x\nright: relu(relu(x)) => relu(x)")
    verification = Verification(rules)
    verification.run()
    table = workbench.studies.rule_table(rules, verification=verification)
    page, problems = show(browser, "rules", state(table, selected="wrong"))
    page.wait_for_selector(".wb-drawing img")
    assert not page.get_by_label("activity").is_visible()
    assert "differ at" in page.locator(".wb-card").inner_text()
    assert page.locator(".wb-card .wb-refuted").count() == 1
    assert problems == []
    page.context.close()


def test_the_module_asks_for_nothing_from_a_network():
    for text in (script("rules"), style("rules")):
        assert "import " not in text
        assert "https://" not in text
        assert len(text) < 20_000
