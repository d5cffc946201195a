"""What the ways through have in common."""

import pytest

from workbench.benchmarks import benchmark
from workbench.costs.choose import cost_model
from workbench.costs.model import CostModel
from workbench.rules import rule_set
from workbench.stages import Clock, cost_model_of, graph_of, record_of, rules_of, versions
from workbench.trace import StopReason


def test_models_rules_and_costs_by_name_or_given():
    graph = benchmark("bert", layers=1)
    assert graph_of(graph, None) == (graph, None)
    rules = rule_set("elementwise")
    assert rules_of("elementwise").rules == rules.rules
    assert rules_of(rules) is rules
    given = rules_of(list(rules)[:2])
    assert (given.name, len(given.rules)) == ("given", 2)
    cost = cost_model("analytic")
    assert isinstance(cost, CostModel)
    assert cost_model_of(cost) is cost
    with pytest.raises(LookupError, match="analytic"):
        cost_model_of("analytical")


def test_a_record_says_what_the_figures_are():
    graph = benchmark("bert", layers=1)
    record = record_of(
        graph, graph, cost_model("analytic"), rules="default", seed=3, stop=StopReason.SATURATED
    )
    assert record["cost_before"] == record["cost_after"] > 0
    assert record["cost_source"] == "analytic roofline, t4"
    assert sum(record["operator_costs"]["before"].values()) == pytest.approx(record["cost_before"])
    assert (record["rule_set"], record["seed"], record["stop_reason"]) == ("default", 3, "saturated")
    assert set(versions()) <= set(record)


def test_stages_add_up_and_come_in_their_order():
    clock = Clock()
    for stage in ("certificate", "import", "certificate"):
        with clock(stage):
            pass
    assert list(clock.ordered()) == ["import", "certificate"]
    assert all(s >= 0 for s in clock.seconds.values())
