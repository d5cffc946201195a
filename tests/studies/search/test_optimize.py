import json

import numpy as np
import onnx
import pytest

import workbench
from tests.studies.search.test_modes import depthwise_pair, scaled_conv
from workbench.costs import CostModel
from workbench.graph import GraphBuilder
from workbench.rules import parse_rules
from workbench.run.trace import StopReason
from workbench.studies.benchmarks import benchmark
from workbench.studies.search.optimize import Searched, search_optimize


def shared_products():
    b = GraphBuilder("shared")
    x = b.input("x", (8, 256))
    ys = [b.op("relu", b.op("matmul", x, b.weight((256, 256)))) for _ in range(3)]
    return b.graph({f"y{i}": y for i, y in enumerate(ys)})


@pytest.mark.slow
def test_one_call_does_the_whole_way(tmp_path):
    stages = []
    result = workbench.studies.search_optimize(
        shared_products(), progress=lambda stage, detail: stages.append(stage)
    )
    assert isinstance(result, Searched)
    assert result.graph.operators()["matmul"] == 1
    assert result.cost_after < result.cost_before
    assert result.speedup > 1
    assert result.stop_reason is StopReason.FINISHED
    assert result.certificate.passed
    assert set(result.rules) == set(result.history)
    assert set(result.rules) <= set(result.certificate.rules)
    assert list(dict.fromkeys(stages)) == ["import", "search", "pricing", "certificate"]
    assert len(repr(result).splitlines()) <= 12
    json.dumps(result.summary())
    assert result.summary()["settings"]["alpha"] == 1.05
    result.save(tmp_path / "optimised.onnx")
    assert workbench.load_onnx(tmp_path / "optimised.onnx").output_types == result.original.output_types
    result.save_html(tmp_path / "page.html")
    assert "optimised by search" in (tmp_path / "page.html").read_text()


def test_only_what_is_needed_is_merged():
    # The second layer reads x W through its own products alone. Merged and reordered they read x, join
    # the first layer's three, and x W itself is not computed any more.
    result = search_optimize(benchmark("bert", layers=2), certify=False)
    assert result.history == ("merge-matmuls", "matmul-associates", "merge-matmuls")
    running = [
        n.tensor.shape
        for n, constant in zip(result.graph.nodes, result.graph.constant(), strict=True)
        if n.op == "matmul" and not constant and n.tensor.rank == 2
    ]
    assert running == [(64, 7 * 1024)]


def test_a_model_file_with_a_dimension_left_open(tmp_path):
    from workbench.frontends import save_onnx

    save_onnx(shared_products(), tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, tmp_path / "open.onnx")
    result = search_optimize(tmp_path / "open.onnx", dims={"batch": 5}, budget=3)
    assert result.original.input_types["x"].shape == (5, 256)
    assert result.certificate.passed
    assert result.coverage is not None


def test_an_unsound_rule_is_caught_and_named():
    b = GraphBuilder("caught")
    x = b.input("x", (16, 16))
    y = b.op("relu", b.op("relu", b.op("tanh", b.op("add", x, b.weight((16, 16))))))
    graph = b.graph({"y": y})
    rules = parse_rules("right: relu(relu(x)) => relu(x)\nwrong: add(x, y) => x")
    result = search_optimize(graph, rules=rules)
    assert not result.certificate.passed
    assert result.offending == ("wrong",)
    assert result.graph is graph
    assert result.cost_after == result.cost_before
    assert result.history == ()
    assert "FAILED" in repr(result)
    unchecked = search_optimize(graph, rules=rules, certify=False)
    assert unchecked.certificate is None
    assert set(unchecked.history) == {"right", "wrong"}


@pytest.mark.slow
def test_tasos_wrong_rules_are_caught(shared_data):
    path = str(shared_data / "taso" / "graph_subst.pb")
    result = search_optimize(scaled_conv(), rules=path, mode="taso-release")
    assert result.offending == ("taso-conv-mul-1-same",)
    for mode in ("taso-release", "tensat-fork"):
        result = search_optimize(depthwise_pair(), rules=path, mode=mode)
        assert not result.certificate.passed
        assert result.offending[0] in ("taso-enlarge-merge-none", "taso-127")
        assert result.graph is result.original


def test_the_other_modes_need_rules():
    with pytest.raises(ValueError, match=r"graph_subst\.pb"):
        search_optimize(shared_products(), mode="taso-release")
    with pytest.raises(LookupError, match="did you mean default"):
        search_optimize(shared_products(), rules="defualt")


def test_what_costs_nothing_stays_as_it_is():
    b = GraphBuilder("free")
    graph = b.graph({"y": b.op("reshape", b.input("x", (4,)), shape=(2, 2))})
    result = search_optimize(graph)
    assert result.graph is graph
    assert result.speedup == 1
    assert result.certificate.passed


def test_a_measured_model_measures_what_the_result_uses():
    class Measured(CostModel):
        source = "counted"

        def __init__(self):
            self.bound, self.seen = None, set()

        def bind(self, graph):
            self.bound = graph

        def price(self, instances):
            # An operator that was not measured is thought to be cheap, a product cheapest of all.
            return np.array([2.0 if i in self.seen else 0.1 for i in instances])

        def measure(self, instances):
            self.seen.update(instances)
            return len(instances)

    model, graph = Measured(), shared_products()
    result = search_optimize(graph, cost=model)
    assert model.bound is graph
    assert result.cost_before == 12.0
    assert result.cost_after <= result.cost_before


@pytest.mark.slow
def test_ctrl_c_continues_with_the_results_so_far():
    def stop(stage, detail):
        if stage == "search" and detail is not None and detail.index == 2:
            raise KeyboardInterrupt

    result = search_optimize(benchmark("squeezenet", image=64), progress=stop)
    assert result.stop_reason is StopReason.INTERRUPTED
    assert result.expanded == 2
    assert result.certificate.passed
    assert result.cost_after < result.cost_before
