"""Parts of a problem are reduced once more before they are solved."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, least, problem_of, random_egraph
from workbench.extraction import extract
from workbench.extraction.exact import solve as module
from workbench.extraction.exact.solve import by_shape, moved, picked_in, shape_of, start_of, tighten
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import split
from workbench.extraction.reduce.dual_ascent import climb
from workbench.extraction.reduce.presolve import presolve


@pytest.mark.slow
def test_optima_of_the_parts_are_an_optimum_of_the_whole(monkeypatch):
    monkeypatch.setattr(module, "MIN_TIGHTENED_SIZE", 0)
    shrunk = split = 0
    for seed in range(500):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        problem = problem_of(egraph, costs)
        dear = enumerate(extract(egraph, 100.0 - costs).choice.tolist())
        pieces = tighten([problem], {c: i for c, i in dear if i >= 0}, math.inf)
        assert math.fsum(least(part) for part, _ in pieces) == pytest.approx(best)
        shrunk += sum(len(part.nodes) for part, _ in pieces) < len(problem.nodes)
        split += len(pieces) > 1
    assert shrunk >= 20
    assert split >= 5


def test_every_part_has_a_start(monkeypatch):
    monkeypatch.setattr(module, "MIN_TIGHTENED_SIZE", 0)
    for seed in range(200):
        egraph, costs = random_egraph(seed)
        if brute_force(egraph, costs) is None:
            continue
        for part, start in tighten([problem_of(egraph, costs)], None, math.inf):
            assert start is not None
            assert part.cost_of(start) < math.inf


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
        return climb(part, *arguments, **options)

    monkeypatch.setattr(module, "climb", once)
    monkeypatch.setattr(module, "improve", lambda part, taken, *_, **__: taken)
    # Without a bound the start of both is that of the second, which is cheaper.
    pieces = tighten(parts, {0: 0, 1: 2, 3: 5, 5: 7}, math.inf)
    assert not made
    assert [part.cost_of(start) for part, start in pieces] == [3, 3]
    monkeypatch.setattr(module, "MIN_TIGHTENED_SIZE", 0)
    pieces = tighten(parts, {0: 0, 1: 2, 3: 5, 5: 7}, math.inf)
    assert made[0] is parts[0]
    assert not any(part is parts[1] for part in made)
    decided = {c: n for part, start in pieces for c, n in part.fixed.items()}
    decided |= {c: part.nodes[i] for part, start in pieces for c, i in start.items()}
    assert {0: 1, 2: 3, 3: 5, 5: 7}.items() <= decided.items()


def test_a_start_within_the_gap_of_a_bound_stays(monkeypatch):
    monkeypatch.setattr(module, "MIN_TIGHTENED_SIZE", 0)
    nodes = [(0, [1]), (0, [2]), (1, []), (2, [])]
    problem = problem_of(egraph_of(nodes), np.array([1.0, 1.0, 5.0, 2.0]))
    start = {0: 0, 1: 2}  # it costs 6, and the bound is 3
    assert [part for part, _ in tighten([problem], start, math.inf, gap=0.6)] == [problem]
    ((smaller, picked),) = tighten([problem], start, math.inf, gap=0.4)
    assert len(smaller.nodes) < len(problem.nodes)
    assert smaller.cost_of(picked) == 3


def copy_of(part, classes, nodes):
    """Return a part whose e-classes and e-nodes have other numbers, with the same candidates in turn."""
    return Problem(
        [n + nodes for n in part.nodes],
        [c + classes for c in part.eclass],
        list(part.cost),
        [tuple(d + classes for d in reversed(row)) for row in part.children],
        tuple(r + classes for r in part.roots),
        2 * classes,
        {c + classes: n + nodes for c, n in part.fixed.items()},
    )


def parts(seeds):
    for seed in seeds:
        egraph, costs = random_egraph(seed)
        if brute_force(egraph, costs) is not None:
            problem = replace(problem_of(egraph, costs), fixed={})
            yield problem, copy_of(problem, egraph.n_classes, len(egraph))


def test_the_numbers_of_e_classes_do_not_matter_but_all_else_does():
    nodes = [(0, [1, 2]), (0, []), (1, []), (1, []), (2, []), (2, [])]
    costs = np.array([1.0, 9, 2, 3, 2, 4])
    part = problem_of(egraph_of(nodes), costs)
    other = copy_of(part, 3, 6)
    assert shape_of(part) == shape_of(other)
    assert shape_of(part) != shape_of(replace(other, cost=[*other.cost[:-1], 5.0]))
    assert shape_of(part) != shape_of(replace(other, children=[other.children[0][:1], *other.children[1:]]))
    assert shape_of(part) != shape_of(replace(other, roots=(4,)))
    dearer = replace(other, cost=[c + 1 for c in other.cost])
    assert by_shape([part, dearer, other]) == [[0, 2], [1]]
    assert by_shape([]) == []


def test_a_selection_of_a_part_costs_the_same_in_its_copy():
    for part, other in parts(range(100)):
        start = {c: members[0] for c, members in part.members().items()}
        assert set(picked_in(other, start)) == set(other.eclass)
        assert other.cost_of(picked_in(other, start)) == part.cost_of(start)


def test_what_a_part_is_reduced_to_holds_for_its_copy():
    shrunk = 0
    for part, other in parts(range(300)):
        pieces = split(presolve(part, math.inf)[0])
        there = moved(pieces, part, other)
        mine = set(zip(other.eclass, other.nodes, strict=True))
        for piece, copy in zip(pieces, there, strict=True):
            assert shape_of(piece) == shape_of(copy)
            assert set(copy.nodes) <= set(other.nodes)
            assert set(copy.fixed.items()) <= mine
            assert len(copy.fixed) == len(piece.fixed)
        assert math.fsum(least(one) for one in there) == pytest.approx(least(other))
        shrunk += sum(len(one.nodes) for one in there) < len(other.nodes)
    assert shrunk >= 20


def test_what_the_whole_has_decided_stays_decided():
    part = problem_of(egraph_of([(0, []), (0, [])]), np.array([1.0, 2]))
    other = replace(copy_of(part, 5, 10), fixed={9: 99})
    (found,) = moved([replace(part, fixed={8: 88})], part, other)
    assert found.fixed == {9: 99}
