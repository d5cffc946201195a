"""The stated errors of the functions in C kernels, measured against numpy in more digits."""

import numpy as np
import pytest
from scipy.special import erf, expit

from tests.kernels.codegen.needs import compiler
from workbench.kernels.codegen.kernel import kernel
from workbench.kernels.composites import parse
from workbench.ops.types import TensorType

#: The range of each function and its stated error in units in the last place.
STATED = {
    "exp": (-103.0, 88.7, 1.1, np.exp),
    "log": (1e-30, 1e30, 1.0, np.log),
    "tanh": (-12.0, 12.0, 2.0, np.tanh),
    "sigmoid": (-86.0, 90.0, 3.3, expit),
    "erf": (-5.0, 5.0, 2.5, erf),
    "sin": (-1e4, 1e4, 1.0, np.sin),
    "cos": (-1e4, 1e4, 1.0, np.cos),
}


def run(name, x):
    value = "1 / (1 + exp(-x))" if name == "sigmoid" else f"{name}(x)"
    c = parse(f"one_{name}", "x{T}[~] -> y{T}[~]", f"y = {value}")
    return kernel(c, [TensorType.of(x)])(x)[0]


@compiler
@pytest.mark.parametrize("name", STATED)
def test_errors_are_as_stated(name):
    low, high, stated, exact = STATED[name]
    random = np.random.default_rng(0)
    x = np.concatenate([np.linspace(low, high, 200_001), random.uniform(-2, 2, 200_000)]).astype(np.float32)
    x = np.abs(x) + np.float32(1e-30) if name == "log" else x
    expected = exact(x.astype(np.float64))
    unit = np.spacing(np.maximum(np.abs(expected.astype(np.float32)), np.finfo(np.float32).tiny))
    assert (np.abs(run(name, x) - expected) / unit).max() <= stated


@compiler
def test_the_exponential_in_float64():
    x = np.linspace(-700, 700, 200_001)
    expected = np.exp(x.astype(np.longdouble))
    assert (np.abs(run("exp", x) - expected) / np.spacing(expected.astype(np.float64))).max() <= 1.1


@compiler
@pytest.mark.parametrize("name", STATED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinities_and_what_is_not_a_number(name, dtype):
    x = np.array([np.inf, -np.inf, np.nan, 0.0, 200.0, -200.0, -1.0], dtype)
    with np.errstate(all="ignore"):
        expected = STATED[name][3](x.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(run(name, x), expected, rtol=1e-6)
