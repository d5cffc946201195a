"""The rule browser's Python half: its synchronised state, and the face that survives."""

import pytest

pytest.importorskip("anywidget", reason="anywidget is not installed")

import workbench
from tests.studies.analysis.test_rule_activity import sums
from workbench.faces.views.widgets import RuleBrowser


def test_a_set_of_rules_is_browsed_and_the_state_is_all_the_module_needs():
    browser = workbench.rule_set("merge").view()
    assert isinstance(browser, RuleBrowser)
    state = browser.get_state()
    assert len(state["data"]["rules"]) == len(workbench.rule_set("merge"))
    assert state["data"]["run"] == ""
    browser.set_state({"selected": "merge-convs", "query": "conv"})
    assert (browser.selected, browser.query) == ("merge-convs", "conv")
    assert len(repr(browser).splitlines()) <= 12


@pytest.mark.slow
def test_with_a_run_it_begins_at_the_rule_that_gave_most():
    result = workbench.optimize(sums(), certify=False)
    browser = workbench.rule_set("default").view(result)
    assert browser.data["run"] == "sums"
    assert browser.selected == result.rules[0]


def test_one_rule_has_a_browser_too():
    browser = workbench.rule_set("merge")["merge-convs"].view()
    assert [r["name"] for r in browser.data["rules"]] == ["merge-convs"]


def test_where_no_widget_is_shown_the_static_face_stands():
    data, _ = workbench.rule_set("merge").view()._repr_mimebundle_()
    assert "<table>" in data["text/html"]
    assert "RuleBrowser at" in data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in data
