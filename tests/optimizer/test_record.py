"""Records of optimisations: texts, JSON, rows and traces carry the same figures."""

import json
from dataclasses import replace

import pytest

import workbench
from workbench.extraction.result import Status
from workbench.optimizer.record import (
    to_json,
    to_row,
    trace_meta,
    versions,
)
from workbench.run.trace import StopReason
from workbench.studies.search.optimize import search_optimize


@pytest.fixture(scope="module")
def saturated():
    return workbench.optimize(workbench.benchmark("bert", layers=1))


@pytest.fixture(scope="module")
def searched():
    return search_optimize(workbench.benchmark("bert", layers=1), budget=20)


def test_a_record_has_every_figure_of_a_saturation(saturated):
    record = saturated
    assert (record.network, record.stop_reason) == ("bert", StopReason.SATURATED)
    assert record.cost_claimed == record.cost_after < record.cost_before
    assert record.speedup == saturated.speedup
    assert record.certified is True
    assert record.optimiser_seconds == sum(
        saturated.seconds[s] for s in ("saturation", "snapshot", "extraction")
    )
    assert (record.solution.status, record.solution.endings) == (Status.OPTIMAL, ())
    assert record.log2_terms > 0
    assert record.operators_before["matmul"] > record.operators_after["matmul"]


@pytest.mark.slow
def test_a_record_has_every_figure_of_a_search(searched):
    record = searched
    assert record.optimiser_seconds == searched.seconds["search"]
    assert 0 < record.seconds_best <= sum(step.seconds for step in searched.trace)
    assert record.cost_claimed == pytest.approx(record.cost_after)


def test_a_claim_that_failed_its_certificate_stays_in_the_record(saturated):
    failed = replace(
        saturated,
        graph=saturated.original,
        cost_after=saturated.cost_before,
        certificate=replace(saturated.certificate, passed=False),
    )
    record = failed
    assert record.certified is False
    assert record.cost_claimed == saturated.cost_after < record.cost_after
    assert to_row(record)["claimed"] == record.cost_claimed


def test_the_json_of_both_ways_keeps_its_keys(saturated, searched):
    common = {
        "graph", "cost_before", "cost_after", "speedup", "cost_source", "seconds", "stop_reason",
        "certificate", "offending_rules", "operators_before", "operators_after", "settings", "rules", "ended",
    }  # fmt: skip
    found = to_json(saturated)
    assert set(found) == common | {
        "saturation", "extraction", "e_nodes", "e_classes", "iterations", "extractor", "bound", "status", "scope",
        "measured", "dynamic", "blocks",
    }  # fmt: skip
    assert (found["status"], found["stop_reason"]) == ("optimal", "saturated")
    assert found["certificate"] == saturated.certificate.summary()
    assert set(to_json(searched)) == common | {"search", "expanded", "found", "history"}
    for result in (saturated, searched):
        assert json.loads(json.dumps(result.summary())) == result.summary()


def test_the_rows_of_both_ways_keep_their_columns(saturated, searched):
    common = {
        "network", "original", "optimized", "claimed", "cost_source", "seconds", "certified", "saturation",
        "extraction", "nodes", "classes", "programs", "iter", "bound",
    }  # fmt: skip
    assert set(to_row(saturated)) == common | {"k_multi"}
    row = to_row(searched)
    assert set(row) == common | {"seconds_best", "budget", "candidates"}
    assert [row[name] for name in ("saturation", "extraction", "nodes", "classes", "bound")] == [None] * 5
    assert (row["iter"], row["candidates"], row["budget"]) == (searched.expanded, searched.found, "20")


def test_a_trace_carries_the_facts_about_its_result():
    result = workbench.optimize(workbench.benchmark("bert", layers=1), seed=3, certify=False)
    meta = trace_meta(result, workbench.cost_model("analytic"))
    assert meta == {key: result.trace.meta[key] for key in meta}
    assert meta["cost_before"] == result.cost_before > meta["cost_after"] == result.cost_after > 0
    assert meta["cost_bound"] == result.solution.bound
    assert meta["cost_source"] == "analytic roofline, t4"
    for when in ("before", "after"):
        assert sum(meta["operator_costs"][when].values()) == pytest.approx(meta[f"cost_{when}"])
    assert (meta["rule_set"], meta["seed"], meta["stop_reason"]) == ("default", 3, "saturated")
    assert set(versions()) <= set(meta)
