import numpy as np
import pytest

from workbench.support import machine as module
from workbench.support.machine import machine, processor


def test_the_machine_is_its_processor_and_cores():
    assert processor()
    assert machine().startswith(processor())
    assert machine().endswith(" cores")


def test_products_run_on_the_threads_asked_for_and_then_as_before():
    found = module._functions()
    if found is None:
        pytest.skip("numpy's BLAS is not an OpenBLAS that can be asked")
    before = found[0]()
    with module.blas_threads(1) as done:
        assert done
        assert found[0]() == 1
        np.testing.assert_array_equal(np.eye(3) @ np.ones((3, 3)), np.ones((3, 3)))
    assert found[0]() == before


def test_another_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(module, "_functions", lambda: None)
    with module.blas_threads(1) as done:
        assert not done
