"""Models as programs with kernels: chosen, timed, certified, saved."""

from dataclasses import replace

import numpy as np
import pytest

import workbench
from tests.kernels.codegen.needs import compiler, expensive, free
from tests.kernels.codegen.test_partitioned import Expensive, block
from workbench.graph import GraphBuilder, evaluate
from workbench.kernels.codegen import deployment
from workbench.kernels.codegen.compiler import Build, CompilerMissing
from workbench.kernels.codegen.deployment import Timed, certified, deploy, with_kernels
from workbench.kernels.codegen.fusion import egraph_of
from workbench.kernels.codegen.partitioned import Mixed, plan_of
from workbench.rules import parse_rules
from zoo.chains import chain


@pytest.mark.slow
@compiler
def test_a_mixed_program_is_certified_with_its_arithmetic():
    done = deploy(block(), Expensive(), time=False, measure=free)
    assert done.plan is done.tried
    assert done.certificate.passed
    assert done.certificate.arithmetic.endswith("kernels with strict arithmetic")
    assert "3 kernels for 3 operators" in done.certificate.whole
    fast = Build(fast_math=True)
    program = Mixed(plan_of(block(), Expensive(), measure=free), build=fast)
    assert certified(block(), program).arithmetic.endswith("kernels with -ffast-math")


@compiler
def test_a_wrong_kernel_fails_the_certificate(monkeypatch):
    program = Mixed(plan_of(block(), Expensive(), measure=free))
    outputs = program.run
    scaled = lambda feeds: {k: v * np.float32(1.01) for k, v in outputs(feeds).items()}  # noqa: E731
    monkeypatch.setattr(program, "run", scaled)
    found = certified(block(), program)
    assert not found.passed
    assert "the mixed program is" in found.reason


@compiler
def test_the_original_stays_if_nothing_pays():
    done = deploy(block(), Expensive(), time=False, measure=expensive)
    assert (done.plan, done.speedup) == (None, 1.0)
    assert done.reason == "no cluster pays: the original stays"


@compiler
def test_a_candidate_without_kernels_is_a_program():
    b = GraphBuilder("twice")
    x = b.input("x", (64, 64))
    slow = b.graph({"y": b.op("neg", b.op("neg", b.op("relu", x)))})
    b = GraphBuilder("once")
    fast = b.graph({"y": b.op("relu", b.input("x", (64, 64)))})
    done = deploy(slow, Expensive(), candidates=[slow, fast], measure=expensive, time=False)
    assert done.plan.source.structural_hash() == fast.structural_hash()
    assert done.plan.clusters == ()
    assert done.certificate.passed
    kept = deploy(slow, Expensive(), candidates=[slow], measure=expensive, time=False)
    assert kept.plan is None
    saved = deploy(slow, Expensive(), candidates=[fast], measure=expensive, time=False, saved=True)
    assert saved.plan is None


@compiler
def test_clusters_of_a_saturated_graph_are_candidates():
    graph = block()
    egraph = egraph_of(graph)
    done = deploy(graph, Expensive(), saturated=(egraph, np.full(len(egraph), 1e3)), time=False, measure=free)
    assert done.certificate.passed


@compiler
def test_an_operator_that_computes_what_it_reads_is_in_no_kernel():
    b = GraphBuilder("twice")
    y = b.op("relu", b.op("relu", b.op("sqrt", b.input("x", (64, 64)))))
    graph = b.graph({"y": b.op("relu", b.op("tanh", y))})
    found = workbench.optimize(graph, rules=parse_rules("twice: relu(relu(x)) => relu(x)"))
    loops = [i for i, c in enumerate(found.egraph.eclass) if c in found.egraph.operands(i)]
    assert loops, "an e-node that reads its own e-class"
    seen = []

    def noted(cluster):
        seen.append(cluster)
        return free(cluster)

    prices = np.full(len(found.egraph), 1e3)
    done = deploy(graph, Expensive(), saturated=(found.egraph, prices), time=False, measure=noted)
    assert all(cluster.inputs for cluster in seen)
    assert done.plan is not None
    assert done.certificate.passed


def test_faster_means_beyond_the_noise():
    timed = Timed(100.0, 90.0, 1.1, (1.02, 1.2), 0.03, 20)
    assert not timed.faster
    assert Timed(100.0, 90.0, 1.1, (1.05, 1.2), 0.03, 20).faster


def test_without_a_compiler_a_deployment_is_refused():
    with pytest.raises(CompilerMissing):
        deploy(block(), Expensive(), build=Build(cc="no-such-compiler"), time=False)


@compiler
def test_if_the_best_program_is_refused_the_next_one_is_taken(monkeypatch):
    graph, certificates = block(), []

    def refusing(original, program, **options):
        found = certified(original, program, **options)
        certificates.append(found)
        return replace(found, passed=False, reason="refused") if len(certificates) == 1 else found

    monkeypatch.setattr(deployment, "certified", refusing)
    egraph = egraph_of(graph)
    done = deploy(graph, Expensive(), saturated=(egraph, np.full(len(egraph), 1e3)), time=False, measure=free)
    assert (len(certificates), done.plan is done.tried, done.reason) == (2, True, "")


@compiler
def test_numbers_are_not_rounded_in_what_is_certified():
    done = deploy(chain("tanh-gelu"), Expensive(), time=False, measure=free)
    assert done.certificate.passed
    assert "scalar" in {node.op for node in done.plan.source.nodes}


@pytest.fixture(scope="module")
def result():
    return workbench.optimize(chain("residual-rms"), cost="analytic", time=False)


@pytest.mark.slow
@compiler
def test_a_result_becomes_a_certified_program_that_is_saved(result, tmp_path):
    found = with_kernels(result, cost="analytic", time=False, measure=free)
    assert found.certificate.passed
    assert found.original is result.original
    model, library = found.save(tmp_path / "rms.onnx")
    assert library.is_file()
    feeds = {
        name: np.random.default_rng(0).standard_normal(t.shape).astype(np.float32)
        for name, t in result.original.input_types.items()
    }
    expected = evaluate(result.original, feeds)["y"]
    np.testing.assert_allclose(
        workbench.kernels.load_program(model)(feeds)["y"], expected, rtol=1e-4, atol=1e-5
    )
    assert found.summary()["kernels"] == len(found.plan.clusters) > 0
    assert str(found).endswith("; not timed")


@compiler
def test_no_program_is_saved_if_none_pays(result, tmp_path):
    found = with_kernels(result, cost="analytic", time=False, measure=expensive)
    assert (str(found), found.summary()["kernels"]) == ("no cluster pays: the original stays", 0)
    with pytest.raises(ValueError, match="must be faster to be saved: no cluster pays"):
        found.save(tmp_path / "rms.onnx")


@pytest.mark.slow
@compiler
def test_a_timed_program_is_faster_or_the_original_stays(result):
    found = with_kernels(result, cost="analytic", measure=free, seconds=0.2)
    assert (found.plan is not None) == found.timed.faster


def test_a_compiler_is_needed(result):
    with pytest.raises(CompilerMissing):
        with_kernels(result, cost="analytic", build=Build(cc="no-such-compiler"))
