import graphlib

import pytest

from workbench.support.orders import postorder, topological


def test_children_come_first_and_in_order():
    below = {0: [1, 2], 1: [3], 2: [3, 1], 3: [], 4: [0]}
    assert postorder([0], below.__getitem__) == [3, 1, 2, 0]
    assert postorder([2, 4, 0], below.__getitem__) == [3, 1, 2, 0, 4]
    assert topological([4], below.__getitem__) == [3, 1, 2, 0, 4]


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
