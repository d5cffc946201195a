import pytest

from tests.kernels.codegen.needs import compiler
from workbench.kernels.codegen import tuning
from workbench.kernels.codegen.schedule import usual
from workbench.kernels.codegen.tuning import tuned
from workbench.kernels.composites import parse
from workbench.ops.types import TensorType


@compiler
def test_the_fastest_schedule_is_taken_and_not_measured_again(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    c = parse("softmax", "x{T}[~ D] -> y{T}[~ D]", "y[~ d] = exp(x[~ d]) / sum(f) exp(x[~ f])")
    types = [TensorType("float32", (8, 64))]
    found, tried = tuned(c, types, seconds=0.1)
    assert found.schedule == tried[0].schedule
    assert len(tried) == 2
    assert [t.microseconds for t in tried] == sorted(t.microseconds for t in tried)
    assert usual(found.program) in {t.schedule for t in tried}
    monkeypatch.setattr(tuning, "rounds", lambda *a, **k: pytest.fail("measured again"))
    assert tuned(c, types)[1] == tried
