import math

import numpy as np
import pytest

from tests.devices.graphs import image, products
from workbench.costs import instances_of
from workbench.graph import GraphBuilder
from workbench.studies.devices import latency
from workbench.studies.devices.latency import measure_group, sum_of_operators
from workbench.studies.devices.operators import Protocol
from workbench.studies.devices.spec_io import GraphEntry, Results
from workbench.torch.executor import draw_inputs, first_line

QUICK = Protocol(0.5, "warm")


def entries(*graphs):
    return [GraphEntry("group", f"g{i}", g) for i, g in enumerate(graphs)]


def run(graphs, device, modes, **more):
    results = Results(device.provenance(), QUICK.record())
    rows = measure_group(entries(*graphs), device, results, modes=modes, seconds=0.05, protocol=QUICK, **more)
    return rows, results


def test_graphs_are_timed_next_to_each_other_with_the_sum_of_their_operators(device):
    modes = ("eager", "cuda-graph") if device.cuda else ("eager", "onnxruntime")
    rows, results = run([products(), products()], device, modes)
    assert [(r["label"], r["mode"]) for r in rows] == [(f"g{i}", m) for m in modes for i in (0, 1)]
    for row in rows:
        low, high = row["quartiles_us"]
        assert 0 < low <= row["median_us"] <= high
        assert row["rounds"] >= 5
        assert row["interval"][0] <= row["speedup"] <= row["interval"][1]
        assert row["difference"] == 0
        assert row["ratio"] == row["operators_us"] / row["median_us"]
    assert rows[0]["speedup"] == 1
    assert rows[0]["operators_us"] == pytest.approx(sum(3 * m.median for m in results.measured.values())), (
        "three products and three relus, two distinct instances"
    )


def test_a_way_that_is_not_there_says_why(cpu):
    rows, _ = run([products()], cpu, ("eager", "cuda-graph"))
    assert "median_us" in rows[0]
    assert rows[1]["skipped"] == "CUDA graphs need a CUDA device"
    assert "median_us" not in rows[1]


@pytest.mark.slow
def test_what_torch_compile_cannot_do_is_a_reason(cpu, monkeypatch):
    def no_compiler(*args, **options):
        raise RuntimeError("no working C++ compiler\nis here")

    monkeypatch.setattr(cpu.torch, "compile", no_compiler)
    (row,), _ = run([products()], cpu, ("compile",))
    assert row["skipped"] == "torch.compile: RuntimeError: no working C++ compiler"


@pytest.mark.parametrize("mode", ["compile", "compile+cuda-graph"])
def test_what_other_groups_compiled_is_forgotten(cpu, monkeypatch, mode):
    forgotten = []
    monkeypatch.setattr(cpu.torch._dynamo, "reset", lambda: forgotten.append(mode))
    monkeypatch.setattr(cpu.torch, "compile", lambda body, **options: body)
    run([products()], cpu, (mode,))
    assert forgotten == [mode]


def test_graphs_are_recorded_where_that_is_possible(pretended, monkeypatch):
    monkeypatch.setattr("workbench.torch.kernels._fused", lambda *a: [])
    monkeypatch.setattr(type(pretended), "title", "pretended")
    modes = ("eager", "cuda-graph", "onnxruntime")
    results = Results({}, QUICK.record())
    rows = measure_group(entries(products()), pretended, results, modes=modes, seconds=0.05, protocol=QUICK)
    assert ["median_us" in r for r in rows] == [True, True, False]
    assert "on the CPU" in rows[2]["skipped"]


@pytest.mark.slow
def test_torch_compile_is_timed_where_there_is_a_compiler(device):
    (row,), _ = run([products()], device, ("compile",))
    assert "median_us" in row or row["skipped"].startswith("torch.compile: ")


def test_a_graph_that_computes_something_else_is_seen(cpu):
    b = GraphBuilder("other")
    x = b.input("x", (4, 32))
    outputs = {f"y{i}": b.op("neg", b.op("matmul", x, b.weight((32, 32)))) for i in range(3)}
    rows, _ = run([products(), b.graph(outputs)], cpu, ("eager",))
    assert rows[0]["difference"] == 0
    assert rows[1]["difference"] > 0.1


def test_differences_know_what_is_not_finite():
    one, nan = [np.array([1.0, np.nan])], [np.array([np.nan, 1.0])]
    assert latency.difference(one, one) == 0
    assert latency.difference(one, nan) == math.inf
    assert latency.difference(one, [np.zeros(3)]) == math.inf
    assert latency.difference([np.array([np.nan])], [np.array([np.nan])]) == 0


def test_graphs_of_other_inputs_do_not_go_together(cpu):
    with pytest.raises(ValueError, match="g1 must have the inputs and outputs of"):
        run([products(), image()], cpu, ("eager",))
    with pytest.raises(ValueError, match="quick"):
        run([products()], cpu, ("quick",))


def test_inputs_are_the_same_for_a_seed(device):
    first, second, other = (draw_inputs(image(), device, s)[0].tolist() for s in (1, 1, 2))
    assert first == second != other


def test_the_sum_is_unknown_where_an_operator_is():
    results = Results({}, {})
    assert sum_of_operators(products(), results) is None
    assert len(instances_of(products())) == 2


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("no kernel\nmore of it", "RuntimeError: no kernel"),
        ("backend raised:\n\nno compiler\nmore", "RuntimeError: backend raised: no compiler"),
        ("", "RuntimeError"),
    ],
)
def test_the_reason_of_a_failure_is_one_line(said, line):
    assert first_line(RuntimeError(said)) == line
