"""The definition that a declaration gives in proofs computes what the composite computes in numpy."""

import numpy as np
import pytest

import workbench
from tests.laws.theorems.evaluate import elements
from workbench.laws.theorems.axes import NotCovered
from workbench.laws.theorems.prove import attempt
from workbench.ops import spec_of

#: Composites with what a definition may meet: computed places, borders, sums, largest elements, two equations.
CASES = {
    "bordered": (
        "x{T}[~ N] -> y{T}[~ N+2*P]",
        "y[~ i] = where(0 <= i-P and i-P < N, 2*x[~ i-P], 3)",
        {"P": 2},
        [(2, 4)],
    ),
    "strided": (
        "x{T}[~ C H] -> y{T}[~ C//2 2*H] where C = 2*(C//2)",
        "y[~ c i] = x[~ 1*(C//2)+c i//2] - x[~ c i//2]",
        {},
        [(4, 3)],
    ),
    "summed": (
        "x{T}[~ M K], w{T}[K] -> y{T}[~ M K]",
        "s[~ i] = sum(k) x[~ i k] * w[k]; y[~ i j] = s[~ i] / 4 - max(k) x[~ i k]",
        {},
        [(2, 3, 5), (5,)],
    ),
    "scaled": ("x{T}[~] -> y{T}[~]", "y = exp(x * a) - 1 / x", {"a": 0.5}, [(2, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_definition_is_what_the_composite_computes(name):
    signature, equations, attributes, shapes = CASES[name]
    made = workbench.kernels.composite(f"element_{name}", signature, equations, **attributes)
    random = np.random.default_rng(0)
    operands = [random.uniform(0.5, 2.0, s) for s in shapes]
    wanted = made(*operands)
    places = list(np.ndindex(wanted.shape))[::3]
    shape, found = elements(spec_of(made.name), operands, made.composite.defaults, places, {})
    assert shape == wanted.shape
    np.testing.assert_allclose(found, [wanted[p] for p in places], rtol=1e-9)


@pytest.mark.parametrize("place", ["i+1", "2*i", "i-1", "i*i"])
def test_a_read_that_may_leave_its_tensor_has_no_symbolic_type(place):
    made = workbench.kernels.composite(
        "element_astray", "x{T}[N] -> y{T}[N]", f"y[i] = where(i < 0, x[{place}], 0)"
    )
    rule = workbench.parse_rules("astray: element_astray(x) => mul(x, 0)")[0]
    found = attempt(rule)
    assert made.composite.defaults == {}
    assert found.proof is None


def test_a_condition_on_values_is_not_covered():
    made = workbench.kernels.composite("element_chosen", "x{T}[~] -> y{T}[~]", "y = where(x < 0, x, 0)")
    with pytest.raises(NotCovered, match="condition"):
        elements(spec_of(made.name), [np.ones(3)], {}, [(0,)], {})
