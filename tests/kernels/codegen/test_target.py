"""Tests of what `kernels.codegen.partitioned` has from `target`."""

import pytest

import workbench
from tests.kernels.codegen.needs import compiler
from tests.kernels.codegen.test_partitioned import block
from workbench.devices.targets import target
from workbench.kernels.codegen.compiler import CompilerMissing
from workbench.kernels.codegen.partitioned import CTarget


@pytest.mark.slow
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


def test_without_a_compiler_the_target_is_refused(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerMissing, match="no-such-compiler"):
        target("c")
