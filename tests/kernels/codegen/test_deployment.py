from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler, expensive, free
from tests.kernels.codegen.test_partitioned import Expensive, block
from workbench.kernels.codegen import deployment
from workbench.kernels.codegen.compiler import Build, CompilerMissing
from workbench.kernels.codegen.deployment import Timed, certified, deploy
from workbench.kernels.codegen.fusion import egraph_of
from workbench.kernels.codegen.partitioned import Mixed, plan_of
from workbench.studies.benchmarks.kernel_chains import chain


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
def test_clusters_of_a_saturated_graph_are_candidates():
    graph = block()
    egraph = egraph_of(graph)
    done = deploy(graph, Expensive(), saturated=(egraph, np.full(len(egraph), 1e3)), time=False, measure=free)
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

    def refusing(original, program, *, seed):
        found = certified(original, program, seed=seed)
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
