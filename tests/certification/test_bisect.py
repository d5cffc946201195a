import pytest

from workbench.certification.bisect import find_offending

RULES = [f"rule-{i}" for i in range(40)]


@pytest.mark.parametrize("bad", [0, 7, 39])
def test_one_bad_rule_is_found_in_few_runs(bad):
    calls = []

    def right(names):
        calls.append(names)
        return f"rule-{bad}" not in names

    assert find_offending(RULES, right) == (f"rule-{bad}",)
    assert len(calls) <= 20


def test_rules_that_go_wrong_together_are_found_together():
    pair = {"rule-3", "rule-31"}
    found = find_offending(RULES, lambda names: not pair <= set(names), calls=200)
    assert set(found) == pair


def test_a_run_that_is_right_blames_nobody():
    assert find_offending(RULES, lambda names: True) == ()


def test_the_budget_bounds_the_runs():
    calls = []

    def right(names):
        calls.append(names)
        return not {"rule-1", "rule-38"} <= set(names)

    found = find_offending(RULES, right, calls=5)
    assert len(calls) <= 5
    assert {"rule-1", "rule-38"} <= set(found)
