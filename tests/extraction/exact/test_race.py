"""Solvers in processes of their own: they agree, they share, and losing one loses nothing."""

import math
import os
import signal
import threading
import time

import numpy as np
import pytest

from tests.extraction.egraphs import hard, problem_of, random_problem
from workbench.extraction.exact.highs import solve_highs
from workbench.extraction.exact.race import Race
from workbench.extraction.exact.types import Job
from workbench.extraction.reduce.dominators import must_sets
from workbench.extraction.result import Ending, Limit


def job(problem, seconds=30.0, start=None):
    return Job(problem, must_sets(problem), start, seconds)


def greedy(problem):
    from workbench.extraction.greedy.dag import greedy

    place = {node: i for i, node in enumerate(problem.nodes)}
    return {c: place[n] for c, n in greedy(problem).taken.items()}


@pytest.mark.parametrize("name", ["highs", "cp-sat:1", "cp-sat:2"])
@pytest.mark.slow
def test_each_solver_proves_the_same_optimum(name):
    problem = random_problem(3, classes=60)
    race = Race(job(problem), (name,))
    bounds = []
    for _ in race.run():
        bounds.append(race.best.bound)
        assert race.best.bound <= race.best.cost + 1e-9
    assert race.proved
    expected = solve_highs(Job(problem, must_sets(problem), None, 30.0))
    assert race.best.cost == pytest.approx(problem.cost_of(expected.picked))
    assert bounds == sorted(bounds)


def test_two_at_once_prove_it_too():
    problem = random_problem(4, classes=60)
    race = Race(job(problem), ("highs", "cp-sat:2"))
    list(race.run())
    assert race.proved
    assert race.endings == []
    assert all(not r.child.running for r in race.runners)


def test_a_solver_that_is_killed_says_so_and_loses_nothing():
    problem = hard()
    start = greedy(problem)
    race = Race(job(problem, 60.0, start), ("highs",))

    def kill():
        while not race.runners:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(race.runners[0].child.number, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    list(race.run())
    killer.join()
    assert not race.proved
    assert race.endings == [Ending(Limit.KILLED, "highs")]
    assert race.best.cost <= problem.cost_of(start)


def test_a_solver_without_memory_says_so():
    problem = hard()
    race = Race(job(problem, 60.0, greedy(problem)), ("highs",), memory=150 << 20)
    list(race.run())
    assert not race.proved
    (ending,) = race.endings
    assert ending.solver == "highs"
    assert ending.limit in (Limit.MEMORY, Limit.FAILED, Limit.KILLED)


def test_the_time_limit_holds():
    problem = hard()
    race = Race(job(problem, 0.7, greedy(problem)), ("highs",))
    list(race.run())
    assert race.endings == [Ending(Limit.TIME)]
    assert math.isfinite(race.best.cost)


def test_patience_ends_it():
    problem = hard()
    race = Race(job(problem, 60.0, greedy(problem)), ("highs",))
    list(race.run(lambda seconds, cost, bound: seconds < 0.3))
    assert race.endings == [Ending(Limit.PATIENCE)]


def test_leaving_the_iteration_ends_the_processes():
    problem = random_problem(3, classes=60)
    race = Race(job(problem), ("highs",))
    steps = race.run()
    next(steps)
    steps.close()
    assert not race.runners[0].child.running


def test_a_selection_that_is_no_better_or_cyclic_is_not_believed():
    problem = problem_of(*ring())
    race = Race(job(problem, start={0: 0, 1: 2, 2: 4}), ())
    race.best.picked, race.best.cost = {0: 0, 1: 2, 2: 4}, 4.0
    assert not race.best.offer({0: 0, 1: 1, 2: 3})
    assert race.best.cost == 4.0


def ring():
    from tests.extraction.egraphs import egraph_of

    return egraph_of([(0, [1]), (1, [2]), (1, []), (2, [1]), (2, [])]), np.array([1.0, 0.5, 3, 0.5, 2])
