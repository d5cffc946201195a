"""Strongly connected components, against scipy's."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from workbench.support.components import strong_components


@pytest.mark.parametrize("seed", range(40))
def test_components_are_those_of_scipy(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 60))
    edges = random.integers(0, n, (int(random.integers(0, 3 * n)), 2))
    below = [edges[edges[:, 0] == i, 1].tolist() for i in range(n)]
    found = strong_components(below)
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    count, labels = connected_components(graph, directed=True, connection="strong")
    assert len(set(found)) == count == max(found) + 1
    assert len(set(zip(found, labels.tolist(), strict=True))) == count, "the same nodes are together"
    assert all(found[b] <= found[a] for a, b in edges.tolist())


@pytest.mark.slow
def test_a_long_path_needs_no_recursion():
    n = 100_000
    assert strong_components([[i + 1] for i in range(n - 1)] + [[]]) == list(range(n - 1, -1, -1))
    assert strong_components([[(i + 1) % n] for i in range(n)]) == [0] * n
    assert strong_components([]) == []
