import numpy as np
import onnxruntime as ort
import pytest

import workbench
from tests.kernels.codegen.needs import compiler, expensive, free
from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder, GraphError, evaluate
from workbench.kernels.codegen.partitioned import Mixed, plan_of
from zoo.chains import CHAINS, chain

COST = AnalyticCost()


class Expensive(AnalyticCost):
    """Operators so expensive that every cluster pays."""

    def price(self, instances):
        return np.full(len(instances), 1e3)


def block():
    b = GraphBuilder()
    x = b.input("x", (1, 32, 64))
    h = b.op("layernorm", x, b.weight((64,)), b.weight((64,)), axis=-1, eps=1e-5)
    h = b.op("gelu", b.op("add", b.op("matmul", h, b.weight((64, 128))), b.weight((128,))))
    return b.graph({"y": b.op("add", b.op("matmul", h, b.weight((128, 64))), x), "h": h})


@compiler
@pytest.mark.parametrize("threads", [1, 2])
def test_products_run_in_one_runtime_and_the_rest_in_kernels(threads):
    graph = block()
    plan = plan_of(graph, Expensive(), measure=free)
    assert str(plan) == "3 kernels for 3 operators, 3 in ONNX Runtime"
    x = np.random.default_rng(0).standard_normal((1, 32, 64)).astype(np.float32)
    program = Mixed(plan, threads=threads)
    for k in range(2):
        feeds = {"x": x + np.float32(k)}
        expected, found = evaluate(graph, feeds), program.run(feeds)
        for name in ("y", "h"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4)
    with pytest.raises(GraphError, match="input 'x' must be"):
        program.run({"x": x[0]})


@compiler
@pytest.mark.parametrize("name", CHAINS)
def test_chains_compute_the_same(name):
    graph = chain(name)
    random = np.random.default_rng(0)
    feeds = {n: random.standard_normal(t.shape).astype(np.float32) for n, t in graph.input_types.items()}
    plan = plan_of(graph, Expensive(), measure=free)
    assert plan.clusters
    found = Mixed(plan).run(feeds)["y"]
    np.testing.assert_allclose(found, evaluate(graph, feeds)["y"], rtol=1e-4, atol=1e-5)


@compiler
def test_nothing_is_fused_if_nothing_pays():
    plan = plan_of(block(), Expensive(), measure=expensive)
    assert (plan.clusters, plan.others) == ((), 6)


@compiler
def test_a_saved_program_runs_with_and_without_its_library(tmp_path):
    graph = block()
    program = Mixed(plan_of(graph, Expensive(), measure=free))
    model, library = program.save(tmp_path / "block.onnx")
    assert library == tmp_path / "block.so"
    x = np.random.default_rng(0).standard_normal((1, 32, 64)).astype(np.float32)
    expected = evaluate(graph, {"x": x})["y"]
    for given in (None, str(library)):
        options = ort.SessionOptions()
        if given:
            options.register_custom_ops_library(given)
        loaded = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(loaded.run(["y"], {"x": x})[0], expected, rtol=1e-3, atol=1e-4)
    assert certify_files(graph, model)


def certify_files(graph, model):
    """Whether the workbench reads the file and finds it equal."""
    return workbench.certify(graph, workbench.load_onnx(model)).passed
