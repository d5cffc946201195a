"""A solver in a process of its own: losing it loses nothing."""

import math
import os
import signal
import threading
import time

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of, hard, problem_of, random_problem
from workbench.extraction.exact import solver_process
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_solver_without_memory_says_so():
    problem = hard()
    process = SolverProcess(job(problem, 60.0, greedy(problem)), memory=150 << 20)
    list(process.run())
    assert not process.proved
    (ending,) = process.endings
    assert ending.solver == "highs"
    assert ending.limit in (Limit.MEMORY, Limit.FAILED, Limit.KILLED)


@pytest.mark.slow
def test_the_time_limit_holds():
    problem = hard()
    process = SolverProcess(job(problem, 0.7, greedy(problem)))
    list(process.run())
    assert process.endings == [Ending(Limit.TIME)]
    assert math.isfinite(process.best.cost)


@pytest.mark.slow
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


FOUND, BETTER = ("found", {0: 0}, 1.0, 7), ("found", {0: 1}, 2.0, 4)


@pytest.mark.parametrize(
    ("reports", "code", "proved", "cost", "bound", "endings"),
    [
        ([FOUND, ("done", {0: 1}, 3.0, True)], 0, True, 3.0, 3.0, []),
        (
            [FOUND, ("done", {0: 0}, 2.0, True)],
            0,
            True,
            5.0,
            2.0,
            [],
        ),  # proved in another way than by the bound
        ([FOUND, ("done", {0: 1}, 2.0, False)], 0, False, 3.0, 2.0, [Ending(Limit.TIME)]),
        ([FOUND, BETTER, ("memory",)], 0, False, 3.0, 2.0, [Ending(Limit.MEMORY, "highs")]),
        ([BETTER, FOUND, ("error", "no")], 0, False, 3.0, 2.0, [Ending(Limit.FAILED, "highs", "no")]),
        ([FOUND], -9, False, 5.0, 1.0, [Ending(Limit.KILLED, "highs")]),
        ([FOUND], 0, False, 5.0, 1.0, [Ending(Limit.FAILED, "highs", "its process ended with code 0")]),
        ([FOUND, ("found", {0: 1}, 9.0, 7)], 0, True, 3.0, 3.0, []),  # a bound above the cost is rounding
    ],
)
def test_only_the_last_report_or_the_bound_is_a_proof(
    monkeypatch, reports, code, proved, cost, bound, endings
):
    """The root takes a leaf at 5 or one at 3. The process ends with a code after its reports."""

    class Told:
        """A process that has sent all its reports."""

        def __init__(self, *arguments):
            self.left, self.ended = list(reports), False

        def send(self, given):
            pass

        def answered(self, seconds):
            return True

        def receive(self):
            assert not self.ended
            if not self.left:
                self.ended = True
                raise EOFError
            return self.left.pop(0)

        def wait(self):
            return code

        def kill(self):
            pass

    monkeypatch.setattr(solver_process, "Child", Told)
    process = SolverProcess(job(problem_of(egraph_of([(0, []), (0, [])]), np.array([5.0, 3.0])), 1e5))
    list(process.run())
    assert (process.proved, process.best.cost, process.best.bound) == (proved, cost, bound)
    assert process.endings == endings
    assert process.best.formulas == max(r[3] for r in reports if r[0] == "found")


def test_a_selection_that_is_no_better_or_cyclic_is_not_believed():
    problem = problem_of(*ring())
    process = SolverProcess(job(problem, start={0: 0, 1: 2, 2: 4}))
    process.best.picked, process.best.cost = {0: 0, 1: 2, 2: 4}, 4.0
    assert not process.best.offer({0: 0, 1: 1, 2: 3})
    assert process.best.cost == 4.0


def ring():
    return egraph_of([(0, [1]), (1, [2]), (1, []), (2, [1]), (2, [])]), np.array([1.0, 0.5, 3, 0.5, 2])
