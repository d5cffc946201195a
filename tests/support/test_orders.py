import graphlib

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from workbench.support.orders import postorder, strong_components, topological


def test_children_come_first_and_in_order():
    below = {0: [1, 2], 1: [3], 2: [3, 1], 3: [], 4: [0]}
    assert postorder([0], below.__getitem__) == [3, 1, 2, 0]
    assert postorder([2, 4, 0], below.__getitem__) == [3, 1, 2, 0, 4]
    assert topological([4], below.__getitem__) == [3, 1, 2, 0, 4]


@pytest.mark.slow
def test_a_long_chain_needs_no_recursion():
    assert postorder([0], lambda n: [n + 1] if n < 50_000 else []) == list(range(50_000, -1, -1))


def test_a_cycle_is_walked_once_and_has_no_topological_order():
    below = {0: [1], 1: [2], 2: [1]}
    assert postorder([0], below.__getitem__) == [2, 1, 0]
    with pytest.raises(graphlib.CycleError) as error:
        topological([0], below.__getitem__)
    assert sorted(set(error.value.args[1])) == [1, 2]
    with pytest.raises(graphlib.CycleError):
        topological([0], lambda n: [n])


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
