"""Selections of an e-graph in another one."""

from dataclasses import replace

import numpy as np

from tests.extraction.egraphs import egraph_of
from workbench.egraph.rebuild import carried
from workbench.extraction.problem import is_acyclic


def two_levels():
    """A root that reads an e-class of two e-nodes, one of which reads a third e-class."""
    return egraph_of([(0, [1]), (1, [2]), (1, []), (2, [])])


def test_a_selection_is_found_by_its_terms_whatever_the_numbers():
    before = two_levels()
    after = egraph_of([(1, []), (2, []), (2, [1]), (0, [2])])
    after = replace(after, ops=("op3", "op2", "op1", "op0"))
    assert carried(before, np.array([0, 1, 3]), after).tolist() == [3, 0, 2]
    assert carried(before, np.array([0, 2, -1]), after).tolist() == [3, -1, 1]


def test_a_term_that_the_other_e_graph_lacks_gives_no_selection():
    before = two_levels()
    after = replace(before, ops=("op0", "other", "op2", "op3"))
    assert carried(before, np.array([0, 1, 3]), after) is None
    assert carried(before, np.array([0, 2, -1]), after) is not None


def test_e_classes_that_became_one_close_no_loop():
    before = two_levels()
    # The e-node that read the third e-class reads its own now.
    after = egraph_of([(0, [1]), (1, [1]), (1, []), (1, [])])
    found = carried(before, np.array([0, 1, 3]), after)
    assert found.tolist() == [0, 3]
    assert is_acyclic(after, found)
