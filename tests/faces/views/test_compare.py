"""Changes side by side: every change is counted once, with its rules."""

import pytest

import workbench
from workbench.faces.views.compare import change_rows, changes_html
from workbench.studies.search.optimize import search_optimize


@pytest.fixture(scope="module")
def result():
    return workbench.optimize(workbench.benchmark("bert", layers=2), cost="analytic", time=False)


def test_every_change_is_counted_once(result):
    comparison = result.compare()
    rows = change_rows(comparison)
    after, before = comparison.after.counts(), comparison.before.counts()
    made = sum(n for n, _, what, _ in rows if what != "not computed any more")
    gone = sum(n for n, _, what, _ in rows if what == "not computed any more")
    assert made == after.get("rewritten", 0) + after.get("added", 0)
    assert gone == before.get("removed", 0)


def test_every_change_names_its_rules(result):
    rules = {rule for _, _, what, rule in change_rows(result.compare()) if what != "not computed any more"}
    assert all("(step " in rule for rule in rules)
    assert any("merge-matmuls" in rule for rule in rules)


@pytest.mark.slow
def test_a_result_of_a_search_has_both_graphs():
    searched = search_optimize(workbench.benchmark("bert", layers=1), budget=3)
    assert changes_html(searched).count("<img") == 2
