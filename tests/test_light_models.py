"""The nine real architectures of the onnx package, the whole way."""

import numpy as np
import onnx
import pytest

import workbench
from tests.sampled import in_turn
from workbench.frontends import run_model, to_onnx
from workbench.studies.benchmarks.light import light_model, light_names

LARGE = {"bvlc_alexnet", "densenet121", "vgg19", "zfnet512"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *in_turn([n for n in light_names() if n not in LARGE], 2),
        *(pytest.param(n, marks=pytest.mark.nightly) for n in sorted(LARGE)),
    ],
)
def test_a_real_model_goes_the_whole_way(name):
    model = light_model(name)
    result = workbench.optimize(model, seconds=600)
    assert result.certificate.passed, result.certificate
    assert result.cost_after <= result.cost_before
    exported = to_onnx(result.graph)
    onnx.checker.check_model(exported, full_check=True)
    rng = np.random.default_rng(0)
    inputs = {
        n: rng.standard_normal(t.shape).astype(t.numpy_dtype())
        for n, t in result.original.input_types.items()
    }
    before, after = run_model(model, inputs), run_model(exported, inputs)
    assert list(before) == list(after)
    for output, expected in before.items():
        scale = max(1e-6, float(np.abs(expected).max()))
        np.testing.assert_allclose(after[output] / scale, expected / scale, atol=2e-4)
