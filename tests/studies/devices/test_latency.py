import math

import numpy as np
import pytest

from workbench.studies.devices.latency import difference, latency_figures


def test_figures_are_of_the_rounds_and_the_speedup_is_of_pairs():
    found = latency_figures([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])
    assert (found["median_us"], found["quartiles_us"], found["rounds"]) == (2.0, [1.5, 3.0], 3)
    assert found["speedup"] == 2.0
    assert found["interval"][0] <= 2.0 <= found["interval"][1]
    assert "speedup" not in latency_figures([1.0], None)


def test_differences_are_parts_of_the_largest_output():
    assert difference([np.array([1.0, 4.0])], [np.array([1.0, 3.0])]) == pytest.approx(0.25)


def test_differences_know_what_is_not_finite():
    one, nan = [np.array([1.0, np.nan])], [np.array([np.nan, 1.0])]
    assert difference(one, one) == 0
    assert difference(one, nan) == math.inf
    assert difference(one, [np.zeros(3)]) == math.inf
    assert difference([np.array([np.nan])], [np.array([np.nan])]) == 0
