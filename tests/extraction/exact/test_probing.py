"""Probing, against HiGHS on problems in which a set of candidates must be taken."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.extraction.exact.test_cuts import shared
from workbench.extraction.exact.cuts import Probing
from workbench.extraction.exact.highs import solve_highs
from workbench.extraction.exact.ilp import highs_solver, program
from workbench.extraction.exact.types import Job
from workbench.extraction.reduce.dominators import must_sets


def probing(problem, most):
    """Return a relaxation that is solved, its solution, and how to probe it."""
    rows = program(problem, must_sets(problem).needed())
    solver = highs_solver(rows, math.inf, integer=False)
    solver.run()
    x = list(solver.getSolution().col_value)[: len(problem.nodes)]
    alive = [True] * len(problem.nodes)
    return solver, x, Probing(solver, rows.members, rows.column, rows.lower, alive, most)


def least_with(problem, group):
    """Return the least cost of a selection that takes one of some candidates of an e-class."""
    eclass = problem.eclass[group[0]]
    alive = [c != eclass or i in group for i, c in enumerate(problem.eclass)]
    forced = replace(problem, roots=tuple(dict.fromkeys((*problem.roots, eclass)))).keep(alive)
    if not all(r in forced.eclass for r in forced.roots):
        return math.inf
    found = solve_highs(Job(forced, must_sets(forced), None, 1e4))
    return math.inf if found.picked is None else forced.cost_of(found.picked)


@pytest.mark.parametrize("seed", range(4))
def test_a_better_selection_takes_no_candidate_that_is_ruled_out(seed):
    problem = shared(seed, 30)
    least = problem.cost_of(solve_highs(Job(problem, must_sets(problem), None, 1e4)).picked)
    _, x, probe = probing(problem, least)
    ruled_out = [group for group in probe.run(x, problem.cost, math.inf) if group]
    assert ruled_out
    assert probe.dropped == sum(map(len, ruled_out)) == probe.alive.count(False)
    for group in ruled_out:
        assert least_with(problem, group) > least


def test_the_relaxation_is_as_before_if_nothing_is_ruled_out():
    problem = shared(0, 30)
    solver, x, probe = probing(problem, 1e9)
    before = solver.getInfo().objective_function_value
    assert not any(probe.run(x, problem.cost, math.inf))
    assert probe.tried
    assert all(probe.alive)
    assert not probe.fruitful
    solver.run()
    assert solver.getInfo().objective_function_value == pytest.approx(before)
    assert np.allclose(solver.getLp().col_upper_, 1.0)


def test_without_time_nothing_is_tried():
    problem = shared(0, 30)
    _, x, probe = probing(problem, 1.0)
    assert list(probe.run(x, problem.cost, 0.0)) == []
    assert probe.tried == 0
