"""Tree costs of e-classes, worked out by hand."""

import math

import numpy as np

from tests.extraction.egraphs import egraph_of
from workbench.extraction.problem import tree_costs


def test_an_eclass_without_a_finite_term_has_an_infinite_cost_and_no_choice():
    """E-class 1 reads itself, e-class 2 costs infinitely much, e-class 3 has no e-node, and the root reads a leaf."""
    egraph = egraph_of([(0, [1]), (0, [4]), (1, [1]), (2, []), (2, [3]), (4, [])])
    costs = np.array([1.0, 2.0, 1.0, math.inf, 1.0, 3.0])
    assert tree_costs(egraph, costs) == ([5.0, math.inf, math.inf, math.inf, 3.0], [1, -1, -1, -1, 5])
