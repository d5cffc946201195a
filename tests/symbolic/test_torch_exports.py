"""Transformers and a UNet as torch exports them, with dynamic dimensions: kept, certified, run."""

import numpy as np
import onnx
import pytest

import workbench

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

from tests.optimizer.test_dynamic import same
from tests.symbolic.torch_models import CASES, exported

SIZES = [(1, 7, 16), (3, 16, 20), (8, 33, 24)]


@pytest.mark.parametrize("dynamo", [False, True], ids=["old", "new"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_exports_keep_their_symbols(name, dynamo):
    original = onnx.load_from_string(exported(name, dynamo=dynamo))
    result = workbench.optimize(original, seconds=300, iterations=8, cost="analytic")
    assert result.certificate.passed
    assert result.dynamic.fixed == ()
    _, _, _, axes = CASES[name]
    assert len(result.dynamic.kept) == len({n for axis in axes.values() for n in axis.values()})
    assert len(result.dynamic.checked) >= 3
    assert result.cost_after < result.cost_before
    written = result.dynamic.model()
    for batch, length, extent in SIZES:
        sizes = {}
        for v in original.graph.input:
            for axis, dim in enumerate(v.type.tensor_type.shape.dim):
                if dim.dim_param:
                    kind = axes[v.name][axis]
                    sizes[dim.dim_param] = {"batch": batch, "sequence": length}.get(kind, extent + 4 * axis)
        same(original, written, sizes)


@pytest.mark.slow
def test_the_gain_is_that_of_the_model_with_its_dimensions_bound():
    original = onnx.load_from_string(exported("bert", dynamo=False))
    kept = workbench.optimize(original, sizes={"sequence": 16}, seconds=300, cost="analytic")
    bound = workbench.optimize(original, dims={"batch": 1, "sequence": 16}, seconds=300, cost="analytic")
    # A cut of a stored table is computed if the length is open, stored if it is bound: one launch.
    assert kept.cost_before - bound.cost_before == pytest.approx(kept.cost_after - bound.cost_after, abs=4.01)
    assert np.isclose(kept.cost_before, bound.cost_before, rtol=0.2)
