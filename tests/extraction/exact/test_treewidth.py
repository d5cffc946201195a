"""Tree decompositions of extraction problems."""

import itertools

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms.approximation import treewidth_min_fill_in

from tests.extraction.egraphs import egraph_of, problem_of, random_problem
from workbench.extraction.exact.dynamic import Sparse, decomposition


def problem(nodes, roots=(0,)):
    return problem_of(egraph_of(nodes, roots), np.ones(len(nodes)))


def graph_of(sparse):
    """Return the graph that a decomposition is of."""
    graph = nx.Graph()
    graph.add_nodes_from(range(sparse.size))
    for piece in sparse.pieces:
        graph.add_edges_from(itertools.combinations((piece.vertex, *piece.reads), 2))
    return graph


@pytest.mark.parametrize("seed", [s for s in range(30) if s not in (11, 16)])  # these have no term
def test_a_decomposition_has_the_three_properties(seed):
    sparse = Sparse.of(random_problem(seed, classes=40))
    tree = decomposition(sparse, widest=1000)
    assert tree.width == max(len(bag.vertices) for bag in tree.bags) - 1
    bags = [set(bag.vertices) for bag in tree.bags]
    for a, b in graph_of(sparse).edges:
        assert any({a, b} <= bag for bag in bags)
    for piece in sparse.pieces:
        assert any({piece.vertex, *piece.reads} <= bag for bag in bags)
    edges = [(k, bag.parent) for k, bag in enumerate(tree.bags) if bag.parent >= 0]
    assert all(k < parent for k, parent in edges)
    forest = nx.Graph(edges)
    forest.add_nodes_from(range(len(bags)))
    for v in range(sparse.size):
        holding = [k for k, bag in enumerate(bags) if v in bag]
        assert nx.is_connected(forest.subgraph(holding))


@pytest.mark.parametrize("seed", [s for s in range(30) if s not in (11, 16)])  # these have no term
def test_the_width_is_about_that_of_networkx(seed):
    sparse = Sparse.of(random_problem(seed, classes=40))
    width, _ = treewidth_min_fill_in(graph_of(sparse))
    assert abs(decomposition(sparse, widest=1000).width - width) <= 2


def test_known_widths():
    line = problem([(c, [c + 1]) for c in range(20)] + [(20, [])])
    assert decomposition(Sparse.of(line), widest=20).width == 1
    star = problem([(0, list(range(1, 30))), *((c, []) for c in range(1, 30))])
    assert decomposition(Sparse.of(star), widest=20).width == 2  # split into a chain
    cycle = problem([(c, [(c + 1) % 10]) for c in range(10)] + [(5, [])])
    assert decomposition(Sparse.of(cycle), widest=20).width == 2
    classes = range(12)
    clique = problem([(a, [b]) for a in classes for b in classes if a != b] + [(3, [])])
    assert decomposition(Sparse.of(clique), widest=20).width == 11
    assert decomposition(Sparse.of(clique), widest=10) is None


def test_long_candidates_become_chains():
    sparse = Sparse.of(problem([(0, [1, 2, 3, 4]), (0, [1]), (1, []), (2, []), (3, []), (4, [])]))
    assert all(len(piece.reads) <= 2 for piece in sparse.pieces)
    assert sparse.size == 7
    assert [piece.origin for piece in sparse.pieces] == [0, -1, -1, 1, 2, 3, 4, 5]
    assert sparse.loops == [-1] * 7
