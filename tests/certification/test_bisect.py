import pytest

from tests.certification.models import network
from workbench.certification import bisect, certify_files
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


@pytest.mark.slow
def test_no_value_inside_is_blamed_without_a_run_that_shows_it(monkeypatch):
    """The convolution differs, and a run of B with A's value shows it; without runs only the output is known."""
    assert certify_files(network(), network(entry=0.01)).difference.tensor == "c"
    monkeypatch.setattr(bisect, "TRIALS", 0)
    found = certify_files(network(), network(entry=0.01))
    assert (found.equal, found.difference.tensor) == (False, "y")


def test_what_is_equal_under_another_name_bounds_a_region():
    """B has other names inside; only the last operator differs, and what it reads is equal."""
    other = network(axis=2)
    for node in other.graph.node:
        node.input[:] = [f"{n}_of_b" if n in "cbrmd" else n for n in node.input]
        node.output[:] = [f"{n}_of_b" if n in "cbrmd" else n for n in node.output]
    found = certify_files(network(), other).difference
    assert (found.tensor, found.a.operators, found.b.operators) == ("y", ("Softmax",), ("Softmax",))
