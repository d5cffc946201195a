import numpy as np
import pytest

from tests.codegen.needs import compiler, expensive, free
from tests.codegen.test_mixed import Expensive, block
from workbench.codegen.compiler import Build, CompilerMissing
from workbench.codegen.deployed import Timed, certified, deploy
from workbench.codegen.fusion import egraph_of
from workbench.codegen.mixed import Mixed, plan_of


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
