import math

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, least, problem_of, random_egraph
from workbench.extraction.exact import root_tightening as module
from workbench.extraction.exact.decompose import split
from workbench.extraction.exact.root_tightening import start_of, tighten
from workbench.extraction.exact.types import selection_cost
from workbench.extraction.reduce.presolve import presolve


def test_optima_of_the_parts_are_an_optimum_of_the_whole(monkeypatch):
    monkeypatch.setattr(module, "SMALL", 0)
    shrunk = split = 0
    for seed in range(500):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        problem = problem_of(egraph, costs)
        pieces = tighten([problem], None, math.inf)
        assert math.fsum(least(part) for part, _ in pieces) == pytest.approx(best)
        shrunk += sum(len(part.nodes) for part, _ in pieces) < len(problem.nodes)
        split += len(pieces) > 1
    assert shrunk >= 20
    assert split >= 5


def test_every_part_has_a_start(monkeypatch):
    monkeypatch.setattr(module, "SMALL", 0)
    for seed in range(200):
        egraph, costs = random_egraph(seed)
        if brute_force(egraph, costs) is None:
            continue
        for part, start in tighten([problem_of(egraph, costs)], None, math.inf):
            assert start is not None
            assert selection_cost(part, start) < math.inf


def test_an_incumbent_is_the_start_if_it_is_complete():
    nodes = [(0, [1]), (0, []), (1, [])]
    problem = problem_of(egraph_of(nodes), np.array([1.0, 3, 1]))
    assert start_of(problem, {0: 1}, math.inf) == {0: 1}
    assert start_of(problem, {0: 0}, math.inf) == {0: 0, 1: 2}


def test_equal_parts_are_made_smaller_once_from_the_cheapest_start(monkeypatch):
    nodes = [(c + k, row) for c in (0, 3) for k, row in ((0, [c + 1]), (0, [c + 2]), (1, []), (2, []))]
    whole = problem_of(egraph_of(nodes, (0, 3)), np.array([1.0, 1, 5, 2] * 2))
    parts = split(whole)
    assert [len(part.nodes) for part in parts] == [4, 4]
    made = []

    def once(part, *arguments, **options):
        made.append(part)
        return presolve(part, *arguments, **options)

    monkeypatch.setattr(module, "presolve", once)
    monkeypatch.setattr(module, "improve", lambda part, taken, *_, **__: taken)
    # Without reductions the start of both is that of the second, which is cheaper.
    pieces = tighten(parts, {0: 0, 1: 2, 3: 5, 5: 7}, math.inf)
    assert not made
    assert [selection_cost(part, start) for part, start in pieces] == [3, 3]
    monkeypatch.setattr(module, "SMALL", 0)
    pieces = tighten(parts, {0: 0, 1: 2, 3: 5, 5: 7}, math.inf)
    assert made[0] is parts[0]
    assert not any(part is parts[1] for part in made)
    decided = {c: n for part, start in pieces for c, n in part.fixed.items()}
    decided |= {c: part.nodes[i] for part, start in pieces for c, i in start.items()}
    assert {0: 1, 2: 3, 3: 5, 5: 7}.items() <= decided.items()
