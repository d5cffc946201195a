import numpy as np
import pytest

from tests.costs.networks import ADD, MATMUL, RELU
from workbench.costs.analytic import AnalyticCost
from workbench.costs.estimate import Calibrated


def test_without_measurements_estimates_are_the_rooflines():
    base = AnalyticCost("cpu")
    np.testing.assert_allclose(Calibrated(base).estimate([RELU, MATMUL]), base.price([RELU, MATMUL]))


def test_each_operator_has_its_scale_and_the_others_take_the_middle():
    base = AnalyticCost("cpu")
    relu, add, matmul = base.price([RELU, ADD, MATMUL])
    model = Calibrated(base)
    model.fit([(RELU, 2 * relu), (ADD, 4 * add)])
    assert model.estimate([RELU, ADD, MATMUL]) == pytest.approx([2 * relu, 4 * add, 3 * matmul])
    model.fit([])
    assert model.estimate([RELU]) == pytest.approx([relu])
