"""Shards of terms: the terms, the classes and the equations are the same however shards are evaluated."""

import pytest

from workbench.laws.synthesis import Grammar
from workbench.laws.synthesis import shards as module
from workbench.laws.synthesis.enumeration import Enumeration
from workbench.laws.synthesis.shards import Evaluated, Here, evaluated, processes

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


def run(mapper=None, **options):
    enumeration = Enumeration(GRAMMAR, mapper=mapper, **options)
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
