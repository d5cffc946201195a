import math
from types import SimpleNamespace

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of, problem_of
from workbench.extraction.exact.cycle_constraints import Formula
from workbench.extraction.exact.ilp import highs_solver, program


def small():
    nodes = [(0, [1, 2]), (0, [1]), (1, []), (2, [])]
    return problem_of(egraph_of(nodes), np.array([1.0, 5, 2, 3]))


def test_columns_and_rows():
    rows = program(small())
    assert rows.cost == [1, 5, 2, 3, 0, 0, 0]
    assert list(rows.members) == [0, 1, 2]
    assert rows.lower == [0, 0, 0, 0, 1, 0, 0]
    # One row an e-class, and one a pair of an e-class and a child of it.
    assert len(rows.row_lower) == 3 + 2
    assert len(program(small(), needed=[1]).row_lower) == 3 + 1


def test_points_are_feasible_and_read_back():
    rows = program(small())
    point = rows.point({0: 0, 1: 2, 2: 3})
    assert point == [1, 0, 1, 1, 1, 1, 1]
    assert rows.point({0: 0, 1: 2}) is None
    assert rows.picked(point) == {0: 0, 1: 2, 2: 3}
    solver = highs_solver(rows, math.inf)
    solver.run()
    assert solver.getInfo().objective_function_value == pytest.approx(6)


def test_formulas_become_rows():
    rows = program(small())
    first = len(rows.row_lower)
    assert rows.add_formulas([Formula((2,), taken=(0, 1)), Formula((3,), built=(1, 2))]) == 3
    sent = []
    rows.pass_to(SimpleNamespace(addRows=lambda *given: sent.extend(given)), first)
    count, low, high, _, starts, index, value = sent
    assert count == 3
    assert list(starts) == [0, 3, 5]
    assert list(index) == [0, 1, 2, 5, 3, 6, 3]
    assert list(value) == [1, 1, -1, 1, -1, 1, -1]
    assert list(high) == [0, 0, 0]
    assert (low == -np.inf).all()
