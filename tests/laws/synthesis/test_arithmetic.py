"""Values of many rows at once are those of one row after another, and hashes tell them apart."""

import numpy as np
import pytest

from workbench.laws.synthesis.arithmetic import Evaluator, arithmetic_of, drawn, hashed
from workbench.laws.synthesis.grammar import Grammar
from workbench.ops.exact import Arithmetic

SIZES = {"n": 3, "b": 2, "c": 2, "h": 4, "w": 5, "k": 3}
FORMS = [
    ("add", "matrix: 1, scalar: 1", ("x", "s")),
    ("matmul", "matrix: 2", ("x", "y")),
    ("transpose[perm=(1, 0)]", "matrix: 1", ("x",)),
    ("concat[axis=-2]", "matrix: 2", ("x", "y")),
    ("slice[axis=-1, start=1, stop=n]", "matrix: 1", ("x",)),
    ("conv2d[pads=(1, 1, 1, 1)]", "image: 1, kernel: 1", ("x", "w")),
    ("softmax[axis=-1]", "matrix: 1", ("x",)),
    ("relu", "image: 1", ("x",)),
]


@pytest.mark.parametrize(("text", "operands", "names"), FORMS, ids=[f[0] for f in FORMS])
def test_rows_are_computed_as_if_one_by_one(text, operands, names):
    grammar = Grammar.of(text, operands, sizes=[SIZES])
    (form,) = grammar.forms
    kinds = {o.name: o.type(SIZES) for o in grammar.operands}
    arithmetic = arithmetic_of([form], SIZES)
    rng = np.random.default_rng(1)
    rows = [np.stack([drawn(kinds[n], arithmetic, rng) for _ in range(7)]) for n in names]
    many = Evaluator(form, form.values(SIZES), [kinds[n] for n in names], arithmetic)(rows)
    for i in range(7):
        one = Evaluator(form, form.values(SIZES), [kinds[n] for n in names], arithmetic)
        np.testing.assert_allclose(one([r[i : i + 1] for r in rows])[0], many[i], rtol=1e-12)


def test_the_arithmetic_follows_the_operators():
    def of(text):
        return arithmetic_of(Grammar.of(text, "matrix: 1").forms, {"n": 3})

    assert of("add matmul") is Arithmetic.POLYNOMIAL
    assert of("add relu") is Arithmetic.ORDERED
    assert of("add softmax[axis=-1]") is Arithmetic.FLOATS


@pytest.mark.parametrize("arithmetic", [Arithmetic.POLYNOMIAL, Arithmetic.ORDERED, Arithmetic.FLOATS])
def test_equal_rows_have_equal_hashes_and_others_do_not(arithmetic):
    rng = np.random.default_rng(0)
    rows = rng.integers(-50, 50, (200, 2, 3)).astype(
        np.int64 if arithmetic is Arithmetic.POLYNOMIAL else np.float64
    )
    found, usable = hashed(np.concatenate([rows, rows]), arithmetic, 0)
    assert usable.all()
    assert (found[:200] == found[200:]).all()
    assert len(set(found.tolist())) == len({r.tobytes() for r in rows})


def test_values_beyond_the_arithmetic_are_not_usable():
    _, usable = hashed(np.array([[2.0**60], [3.0]]), Arithmetic.ORDERED, 0)
    assert usable.tolist() == [False, True]
    _, usable = hashed(np.array([[np.inf], [np.nan], [1.0]]), Arithmetic.FLOATS, 0)
    assert usable.tolist() == [False, False, True]


def test_rounding_noise_does_not_change_a_hash_of_floats():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 6))
    noisy = rows * (1 + 1e-15 * rng.normal(size=rows.shape))
    assert (hashed(rows, Arithmetic.FLOATS, 0)[0] == hashed(noisy, Arithmetic.FLOATS, 0)[0]).mean() > 0.99
