"""What the ways through have in common."""

import pytest

from workbench.costs.registry import cost_model
from workbench.optimizer.pipeline import optimize
from workbench.optimizer.stages import graph_of, trace_meta, versions
from workbench.studies.benchmarks import benchmark


def test_a_model_that_is_a_graph_is_itself():
    graph = benchmark("bert", layers=1)
    assert graph_of(graph, None) == (graph, None)


def test_a_trace_carries_the_facts_about_its_result():
    result = optimize(benchmark("bert", layers=1), seed=3, certify=False)
    meta = trace_meta(result, cost_model("analytic"))
    assert meta == {key: result.trace.meta[key] for key in meta}
    assert meta["cost_before"] == result.cost_before > meta["cost_after"] == result.cost_after > 0
    assert meta["cost_bound"] == result.solution.bound
    assert meta["cost_source"] == "analytic roofline, t4"
    for when in ("before", "after"):
        assert sum(meta["operator_costs"][when].values()) == pytest.approx(meta[f"cost_{when}"])
    assert (meta["rule_set"], meta["seed"], meta["stop_reason"]) == ("default", 3, "saturated")
    assert set(versions()) <= set(meta)
