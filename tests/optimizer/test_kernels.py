import numpy as np
import pytest

import workbench
from tests.kernels.codegen.needs import compiler, expensive, free
from workbench.graph import evaluate
from workbench.kernels.codegen.compiler import Build, CompilerMissing
from workbench.optimizer.kernels import with_kernels
from workbench.studies.benchmarks.kernel_chains import chain


@pytest.fixture(scope="module")
def result():
    return workbench.optimize(chain("residual-rms"), cost="analytic", time=False)


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
    np.testing.assert_allclose(workbench.load_program(model)(feeds)["y"], expected, rtol=1e-4, atol=1e-5)
    assert found.summary()["kernels"] == len(found.plan.clusters) > 0
    assert str(found).endswith("; not timed")


@compiler
def test_no_program_is_saved_if_none_pays(result, tmp_path):
    found = with_kernels(result, cost="analytic", time=False, measure=expensive)
    assert (str(found), found.summary()["kernels"]) == ("no cluster pays: the original stays", 0)
    with pytest.raises(ValueError, match="must be faster to be saved: no cluster pays"):
        found.save(tmp_path / "rms.onnx")


@compiler
def test_a_timed_program_is_faster_or_the_original_stays(result):
    found = with_kernels(result, cost="analytic", measure=free, seconds=0.2)
    assert (found.plan is not None) == found.timed.faster


def test_a_compiler_is_needed(result):
    with pytest.raises(CompilerMissing):
        with_kernels(result, cost="analytic", build=Build(cc="no-such-compiler"))
