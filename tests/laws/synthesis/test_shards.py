"""Shards of terms: the terms, the classes and the equations are the same however shards are evaluated."""

import numpy as np
import pytest

from workbench.laws.synthesis import Grammar
from workbench.laws.synthesis import shards as module
from workbench.laws.synthesis.enumeration import Enumeration
from workbench.laws.synthesis.shards import (
    Evaluated,
    Evaluator,
    Here,
    arithmetic_of,
    drawn,
    evaluated,
    hashed,
    processes,
)
from workbench.ops.exact import Arithmetic

GRAMMAR = Grammar.of("matmul add relu concat[axis=-1]", "matrix: 3", operators=2)


class Recorded:
    """A mapper of several workers that evaluates here, in any order, and counts the shards."""

    workers = 3

    def __init__(self):
        self.shards = []

    def __call__(self, function, shards):
        self.shards += shards
        back = {id(s): function(s) for s in reversed(shards)}
        return [back[id(s)] for s in shards]


def run(mapper=None, most_terms=4_000_000):
    enumeration = Enumeration(GRAMMAR, mapper=mapper)
    enumeration.most_terms = most_terms
    found = [enumeration.extend(last=size == 2)[1] for size in (1, 2)]
    return [(x.size, x.terms, x.classes, x.pairs, x.complete) for x in enumeration.levels], found


def test_shards_of_several_workers_give_the_same_terms_and_equations(monkeypatch):
    monkeypatch.setattr(module, "FEW", 5)
    mapper = Recorded()
    assert run(mapper) == run()
    assert max(len(s.operands[0][0]) for s in mapper.shards) < run()[0][-1][1]
    assert len(mapper.shards) > 50


@pytest.mark.parametrize("most", [1, 40, 77])
def test_a_limit_on_terms_cuts_at_the_same_place(monkeypatch, most):
    monkeypatch.setattr(module, "FEW", 5)
    levels, equations = run(Recorded(), most_terms=most)
    assert (levels, equations) == run(most_terms=most)
    assert all(terms <= most for size, terms, *_ in levels if size)
    assert not levels[-1][-1]


def test_a_shard_can_be_evaluated_anywhere():
    mapper = Recorded()
    run(mapper)
    import pickle

    shard = pickle.loads(pickle.dumps(mapper.shards[-1]))
    result = evaluated(shard)
    assert isinstance(result, Evaluated)
    assert (result.hashes == evaluated(mapper.shards[-1]).hashes).all()


@pytest.mark.slow
def test_processes_give_the_same_terms(monkeypatch):
    monkeypatch.setattr(module, "FEW", 5)
    with processes(2) as mapper:
        assert mapper.workers == 2
        assert run(mapper) == run()


def test_one_process_is_this_one():
    with processes(1) as mapper:
        assert isinstance(mapper, Here)
    with pytest.raises(ValueError, match="must be positive, got 0"), processes(0):
        pass


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
