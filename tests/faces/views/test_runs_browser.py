"""The browser of runs: the widget, and its page in a real browser without a network."""

import pytest

pytest.importorskip("anywidget", reason="anywidget is not installed")

from tests.browser import needs_browser
from tests.studies.experiments.test_results import record, store
from tests.studies.experiments.test_stored_runs import trace
from workbench.results import browse
from workbench.studies.experiments.store import save_record


@pytest.fixture
def stored(tmp_path):
    costs = {"bert": (100.0, 50.0), "vgg19": (160.0, 160.0)}
    made = [
        record(n, m, optimized=cost) for n, both in costs.items() for m, cost in zip("ab", both, strict=True)
    ]
    store(tmp_path / "one", *made)
    other = record("bert", "<b>c</b>")
    other["row"]["cost_source"] = "another table"
    store(tmp_path / "two", other)
    save_record(tmp_path / "two" / "runs" / "stepped", record("nasrnn", "c"), trace())
    return browse(tmp_path)


def test_the_widget_has_all_data_and_its_face_is_saved(stored):
    view = stored.view()
    assert view.chosen == ["one / a", "one / b"]
    assert len(view.data["runs"]) == 6
    data, _ = view._repr_mimebundle_()
    assert "Stored runs" in data["text/html"]
    assert repr(view).startswith("RunsBrowser of one / a, one / b: StoredRuns: 6 runs")
    assert stored.view(study="two").chosen == ["two / <b>c</b>", "two / c"]
    with pytest.raises(LookupError, match="no study called 'three'"):
        stored.view(study="three")


@pytest.fixture
def shown(browser, stored, tmp_path):
    stored.save_html(tmp_path / "runs.html")
    context = browser.new_context(offline=True)
    page = context.new_page()
    problems = []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.goto((tmp_path / "runs.html").as_uri())
    yield page
    assert problems == []
    context.close()


def rows(page):
    return page.locator(".wb-listed tbody tr")


def names(page):
    return page.locator(".wb-listed tbody tr td:nth-child(3)").all_inner_texts()


@needs_browser
@pytest.mark.browser
def test_studies_and_methods_are_picked(shown):
    assert (rows(shown).count(), shown.locator(".wb-mark").count()) == (4, 4)
    shown.get_by_label("two", exact=True).click()
    assert rows(shown).count() == 6
    # Names are text, not markup.
    assert "<b>c</b>" in names(shown)
    shown.get_by_label("one / a", exact=True).click()
    assert rows(shown).count() == 4
    shown.get_by_label("filter runs").fill("nasrnn")
    assert names(shown) == ["c"]


@needs_browser
@pytest.mark.browser
def test_two_sets_are_compared_network_by_network(shown):
    shown.get_by_label("across").select_option("optimized")
    shown.get_by_label("A", exact=True).select_option("one / a")
    shown.get_by_label("B", exact=True).select_option("one / b")
    text = shown.locator(".wb-against").inner_text()
    assert "0.500" in text
    assert "geometric mean of 2" in text
    assert "0.707" in text
    # A gain in percent is compared as a factor: 300 % against 100 % is 4 / 2.
    shown.get_by_label("across").select_option("speedup")
    assert "2.000" in shown.locator(".wb-against").inner_text()


@needs_browser
@pytest.mark.browser
def test_costs_of_several_sources_are_said(shown):
    shown.get_by_label("two", exact=True).click()
    assert "costs come from 2 sources" in shown.locator(".wb-main").inner_text()


@needs_browser
@pytest.mark.browser
def test_rows_are_sorted_and_open_a_card_and_the_stepper(shown):
    shown.get_by_role("button", name="cost of the result").click()
    assert names(shown)[0] == "b"
    shown.get_by_label("two", exact=True).click()
    shown.get_by_text("▶", exact=True).first.click()
    assert "nasrnn:c of two" in shown.locator(".wb-card").inner_text()
    shown.wait_for_selector(".wb-stepper")
    shown.get_by_label("last step").click()
    assert "270 e-nodes" in shown.locator(".wb-stepper .wb-label").inner_text()
    rows(shown).first.click()
    assert "not stored" in shown.locator(".wb-steps").inner_text()


@needs_browser
@pytest.mark.browser
def test_any_two_figures_are_plotted_and_the_choice_survives_a_reload(shown):
    shown.get_by_label("up", exact=True).select_option("seconds")
    shown.get_by_label("logarithmic").click()
    assert shown.get_by_label("predicted speed-up, % by optimiser, s").count() == 1
    shown.reload()
    assert shown.get_by_label("logarithmic").is_checked()
    assert shown.get_by_label("up", exact=True).input_value() == "seconds"


@needs_browser
@pytest.mark.browser
def test_an_address_that_is_not_ours_is_ignored(shown):
    for choice in ("%7Bbroken", "%7B%22across%22%3A%22no%22%2C%22chosen%22%3A3%7D", "null", "%22text%22"):
        shown.goto("about:blank")
        shown.go_back()
        shown.evaluate(f"location.hash = '{choice}'")
        shown.reload()
        assert rows(shown).count() == 4
