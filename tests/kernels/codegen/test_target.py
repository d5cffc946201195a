"""Tests of what `kernels.codegen.partitioned` has from `target`."""

import numpy as np
import pytest

import workbench
from tests.kernels.codegen.needs import compiler
from tests.kernels.codegen.test_partitioned import block
from workbench.devices.targets import target
from workbench.graph import GraphBuilder, evaluate
from workbench.kernels.codegen.c_printer import NoKernel
from workbench.kernels.codegen.compiler import CompilerMissing
from workbench.kernels.codegen.partitioned import CTarget


@compiler
def test_the_target_has_a_name_and_times_models():
    assert "c" in target.names()
    here = target("c", threads=1)
    assert here.title.startswith("kernels by ")
    assert "1 thread" in here.title
    here = CTarget(1, cost="analytic")
    with here.timers([block(), block()], 0) as timers:
        assert all(timer() > 0 for timer in timers)


@compiler
def test_the_name_cannot_be_taken():
    with pytest.raises(ValueError, match="built-in"):
        workbench.target.register("c")(lambda model, inputs: lambda: None)


@compiler
def test_a_run_uses_kernels_or_says_that_there_are_none():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("softmax", b.input("x", (8, 256)), axis=-1)})
    feeds = {"x": np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)}
    found = CTarget(1, cost="analytic").run(graph, feeds)["y"]
    np.testing.assert_allclose(found, evaluate(graph, feeds)["y"], rtol=1e-5, atol=1e-6)
    b = GraphBuilder()
    x = b.input("x", (64, 64))
    with pytest.raises(NoKernel, match="matmul has no kernel"):
        CTarget(1, cost="analytic").run(b.graph({"y": b.op("matmul", x, x)}), {"x": np.eye(64, dtype="f4")})


def test_without_a_compiler_the_target_is_refused(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerMissing, match="no-such-compiler"):
        target("c")
