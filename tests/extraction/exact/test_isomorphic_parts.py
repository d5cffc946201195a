"""Equal parts of an extraction."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, least, problem_of, random_egraph
from workbench.extraction.exact.decompose import split
from workbench.extraction.exact.isomorphic_parts import by_shape, moved, picked_in, shape_of
from workbench.extraction.exact.types import selection_cost
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.presolve import presolve


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
        assert selection_cost(other, picked_in(other, start)) == selection_cost(part, start)


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
