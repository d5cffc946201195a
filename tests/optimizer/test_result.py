"""What a person asks of a result: the model, a run, tables; texts, JSON, rows and traces carry the same figures."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest

import workbench
from tests.frontends.onnx.test_symbolic_shapes import written
from workbench.extraction import extract
from workbench.extraction.result import Status
from workbench.optimizer.result import (
    to_json,
    to_row,
    trace_meta,
    versions,
)
from workbench.run.trace import StopReason
from workbench.studies.search.optimize import search_optimize


@pytest.fixture(scope="module")
def result():
    b = workbench.GraphBuilder("small")
    x = b.input("x", (2, 8))
    y = np.maximum(x @ b.weight((8, 4)) + 1, 0)
    z = b.op("relu", x @ b.weight((8, 4)))
    return workbench.optimize(b.graph({"y": y, "z": z}), time=False)


def test_a_result_runs_as_the_model_that_it_saves(result, tmp_path):
    x = np.random.default_rng(0).standard_normal((2, 8), dtype=np.float32)
    result.save(tmp_path / "saved.onnx")
    saved = onnx.load(tmp_path / "saved.onnx")
    assert result.to_onnx() == saved
    wanted = workbench.evaluate(result.original, {"x": x})
    for found in (result.run(x), result.run(x=x), result.run({"x": x})):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)


def test_inputs_that_the_model_has_not_are_refused(result):
    x = np.zeros((2, 8), np.float32)
    for given, named in (((), {}), ((x, x), {}), ((), {"y": x})):
        with pytest.raises(TypeError, match="the inputs must be x, in order or by name"):
            result.run(*given, **named)


def test_tables_are_frames(result):
    stages = result.frame()
    assert list(stages.columns) == ["what", "seconds", "figures"]
    assert "saturation" in set(stages["what"])


def test_graphs_are_graphs_of_networkx(result):
    made = result.graph.to_networkx()
    assert len(made) == len(result.graph)
    for i, node in enumerate(result.graph.nodes):
        operands = sorted((d["position"], j) for j, _, d in made.in_edges(i, data=True))
        assert tuple(j for _, j in operands) == node.inputs
    egraph = result.egraph.to_networkx()
    assert len(egraph) == len(result.egraph) + result.egraph.n_classes
    i = int(np.argmax(np.diff(result.egraph.child_start)))
    read = sorted((d["position"], c) for _, (_, c), d in egraph.out_edges(("node", i), data=True))
    assert [c for _, c in read] == result.egraph.operands(i).tolist()


def test_a_drawing_needs_no_other_program(result, monkeypatch):
    monkeypatch.setenv("PATH", "")
    drawn = result.graph.to_svg()
    assert "<svg" in drawn
    assert "matmul" in drawn


def test_what_has_another_name_is_named(result):
    with pytest.raises(AttributeError, match=r"try save_html\(path\)"):
        result.report()
    with pytest.raises(AttributeError, match="try view"):
        result.graph.draw()
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        result.trace.nothing  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean optimize"):
        workbench.optimise  # noqa: B018


def test_an_extractor_is_a_function(result):
    def by_tree(egraph, costs, *, seconds):
        return extract(egraph, costs, "tree").choice

    found = workbench.optimize(result.original, extractor=by_tree, time=False)
    assert found.solution.method == "by_tree"
    assert workbench.extract(result.egraph, result.costs, by_tree).cost == found.solution.cost
    again = workbench.extractor(by_tree)(result.egraph, result.costs)
    assert again.method == "by_tree"


def test_a_target_is_a_function(result):
    def load(model, inputs):
        return lambda: None

    timed = workbench.optimize(result.original, measure=1, measure_on=load, measure_seconds=0.1)
    assert timed.measured.target == "load"
    with pytest.raises(TypeError, match="must return a function that runs the model"):
        workbench.optimize(
            result.original,
            measure=1,
            measure_on=lambda model, inputs: None,
            cost=lambda i: len(i.inputs) + 1.0,
        )


def test_arguments_of_other_programs_are_named(result):
    with pytest.raises(TypeError, match="did you mean seconds"):
        workbench.optimize(result.original, timeout=3)
    with pytest.raises(TypeError, match="did you mean e_nodes"):
        workbench.optimize(result.original, node_limit=3)


def test_one_line_says_what_a_thing_is(result):
    for thing in (result.solution, result.graph.nodes[1], workbench.rule_set("default")[0], result.trace):
        assert "\n" not in repr(thing)
        assert repr(thing).startswith(type(thing).__name__)


def test_a_dynamic_result_is_run_at_any_size(tmp_path):
    source = written("y = Relu(x) z = Relu(y) w = Add(z, x)", "float[n, 4] x", "float[n, 4] w")
    found = workbench.optimize(source, time=False)
    for rows in (1, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 4), dtype=np.float32)
        np.testing.assert_allclose(found.run(x)["w"], np.maximum(x, 0) + x)


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
