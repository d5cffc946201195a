"""A solver in a process of its own: losing it loses nothing."""

import math
import os
import signal
import threading
import time

import numpy as np
import pytest

from tests.extraction.egraphs import hard, problem_of, random_problem
from workbench.extraction.exact.highs import solve_highs
from workbench.extraction.exact.solver_process import SolverProcess
from workbench.extraction.exact.types import Job
from workbench.extraction.reduce.dominators import must_sets
from workbench.extraction.result import Ending, Limit


def job(problem, seconds=30.0, start=None):
    return Job(problem, must_sets(problem), start, seconds)


def greedy(problem):
    from workbench.extraction.greedy.dag import greedy

    place = {node: i for i, node in enumerate(problem.nodes)}
    return {c: place[n] for c, n in greedy(problem).items()}


@pytest.mark.slow
def test_it_proves_the_optimum():
    problem = random_problem(3, classes=60)
    process = SolverProcess(job(problem))
    bounds = []
    for _ in process.run():
        bounds.append(process.best.bound)
        assert process.best.bound <= process.best.cost + 1e-9
    assert process.proved
    expected = solve_highs(Job(problem, must_sets(problem), None, 30.0))
    assert process.best.cost == pytest.approx(problem.cost_of(expected.picked))
    assert bounds == sorted(bounds)


def test_a_solver_that_is_killed_says_so_and_loses_nothing():
    problem = hard()
    start = greedy(problem)
    process = SolverProcess(job(problem, 60.0, start))

    def kill():
        while process.child is None:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(process.child.number, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    list(process.run())
    killer.join()
    assert not process.proved
    assert process.endings == [Ending(Limit.KILLED, "highs")]
    assert process.best.cost <= problem.cost_of(start)


def test_a_solver_without_memory_says_so():
    problem = hard()
    process = SolverProcess(job(problem, 60.0, greedy(problem)), memory=150 << 20)
    list(process.run())
    assert not process.proved
    (ending,) = process.endings
    assert ending.solver == "highs"
    assert ending.limit in (Limit.MEMORY, Limit.FAILED, Limit.KILLED)


def test_the_time_limit_holds():
    problem = hard()
    process = SolverProcess(job(problem, 0.7, greedy(problem)))
    list(process.run())
    assert process.endings == [Ending(Limit.TIME)]
    assert math.isfinite(process.best.cost)


def test_patience_ends_it():
    problem = hard()
    process = SolverProcess(job(problem, 60.0, greedy(problem)))
    list(process.run(lambda seconds, cost, bound: seconds < 0.3))
    assert process.endings == [Ending(Limit.PATIENCE)]


def test_leaving_the_iteration_ends_the_processes():
    problem = random_problem(3, classes=60)
    process = SolverProcess(job(problem))
    steps = process.run()
    next(steps)
    steps.close()
    assert not process.child.running


def test_a_selection_that_is_no_better_or_cyclic_is_not_believed():
    problem = problem_of(*ring())
    process = SolverProcess(job(problem, start={0: 0, 1: 2, 2: 4}))
    process.best.picked, process.best.cost = {0: 0, 1: 2, 2: 4}, 4.0
    assert not process.best.offer({0: 0, 1: 1, 2: 3})
    assert process.best.cost == 4.0


def ring():
    from tests.extraction.egraphs import egraph_of

    return egraph_of([(0, [1]), (1, [2]), (1, []), (2, [1]), (2, [])]), np.array([1.0, 0.5, 3, 0.5, 2])
