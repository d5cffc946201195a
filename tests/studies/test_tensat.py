"""Tensat's program by itself: its proofs, and the end of a run that finds nothing."""

from dataclasses import replace

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, problem_of, random_egraph, random_problem
from tests.extraction.problems import tangle
from workbench.extraction import Extraction, Status, extract
from workbench.extraction.exact.solver_process import SolverProcess
from workbench.extraction.exact.types import Job
from workbench.extraction.problem import is_acyclic
from workbench.extraction.result import Ending, Limit
from workbench.run.trace import StepKind, StopReason
from workbench.studies.tensat import ORDERS, solve_tensat, tensat_program

#: Root 0 reads 1; 1 and 2 can read each other, or be built apart.
RING = [(0, [1]), (1, [2]), (1, []), (2, [1]), (2, [])]


def test_rows_and_order_variables():
    problem = problem_of(egraph_of(RING), np.array([1.0, 0.5, 3, 0.5, 2]))
    none, real, whole = (tensat_program(problem, order) for order in ("none", "real", "integer"))
    # A row for every e-class, root, and candidate with its child; an order doubles the last.
    assert len(none.row_lower) == 3 + 1 + 3
    assert len(real.row_lower) == len(whole.row_lower) == 3 + 1 + 2 * 3
    assert none.order == {}
    assert [real.upper[k] for k in real.order.values()] == [1, 1, 1]
    assert [whole.upper[k] for k in whole.order.values()] == [2, 2, 2]
    assert [whole.whole[k] for k in whole.order.values()] == [True] * 3
    assert not any(real.whole[k] for k in real.order.values())


def judged(egraph, costs, method):
    run = Extraction(egraph, costs, method)
    assert run.solution is None
    solution = run.run()
    assert is_acyclic(egraph, solution.choice)
    assert solution.status is Status.OPTIMAL
    assert run.stop_reason is StopReason.OPTIMAL
    assert solution.method == method
    assert solution.endings == ()
    return solution


@pytest.mark.parametrize("method", ORDERS)
@pytest.mark.slow
def test_optima_are_those_of_brute_force(method):
    found = 0
    for seed in range(24):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        solution = judged(egraph, costs, method)
        assert solution.cost >= best - 1e-9
        if solution.scope == "e-graph":
            assert solution.cost == pytest.approx(best)
            found += best > 0
    assert found > 4


def test_no_selection_of_ours_comes_first():
    """The tree selection costs 13 when 11 are enough; only the program's own result is reported."""
    nodes = [(0, [1, 2]), (1, []), (2, []), (1, [3]), (2, [3]), (3, [])]
    egraph, costs = egraph_of(nodes), np.array([1.0, 6, 6, 0.5, 0.5, 9])
    run = Extraction(egraph, costs, "tensat")
    stages = {(step.kind, step.note) for step in run}
    assert stages == {(StepKind.INCUMBENT, "tensat"), (StepKind.SETTLED, "optimal")}
    assert run.solution.cost == pytest.approx(11)
    assert extract(egraph, costs, "tree").cost == 13


@pytest.mark.parametrize("unit", [1e-9, 1e-4, 1.0, 1e4])
def test_the_unit_of_costs_decides_nothing(unit):
    """Tolerances of HiGHS are absolute: in too large a unit every selection looks optimal."""
    problem = random_problem(1, classes=40)
    small = replace(problem, cost=[cost * unit for cost in problem.cost])
    solved = solve_tensat("tensat", Job(small, None, None, 30.0))
    assert solved.proved
    assert problem.cost_of(solved.picked) == 40
    assert solved.bound == pytest.approx(40 * unit)


def test_nothing_found_in_time_is_the_tree_selection_with_a_note():
    egraph, costs = tangle(1500)
    run = Extraction(egraph, costs, "tensat", seconds=0.01)
    solution = run.run()
    assert solution.endings == (Ending(Limit.TIME), Ending(Limit.NOTHING))
    assert solution.notes == ("time limit", "nothing found: this is the tree selection")
    assert solution.method == "tree"
    assert solution.status is Status.GREEDY
    assert solution.cost == extract(egraph, costs, "tree").cost
    assert solution.bound <= solution.cost
    assert run.stop_reason is StopReason.FEASIBLE


def test_an_interrupt_before_anything_is_found_is_raised(monkeypatch):
    def interrupt(self, child, seconds):
        raise KeyboardInterrupt

    processes = []
    monkeypatch.setattr(SolverProcess, "_listen", interrupt)
    monkeypatch.setattr(SolverProcess, "__init__", recorded(SolverProcess.__init__, processes))
    egraph, costs = tangle(300)
    run = Extraction(egraph, costs, "tensat")
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert run.solution is None
    assert run.stop_reason is StopReason.INTERRUPTED
    assert not run.unfinished
    (process,) = processes
    assert process.child is not None
    assert not process.child.running
    assert "nothing" not in repr(run)


def recorded(init, made):
    def wrapped(self, *given, **named):
        init(self, *given, **named)
        made.append(self)

    return wrapped


@pytest.mark.slow
def test_an_interrupt_between_steps_ends_the_solver(monkeypatch):
    def bound_alone(self, child, seconds):
        child.receive()
        self.best.bound += 1.0

    def interrupt(step):
        assert step.cost is None
        raise KeyboardInterrupt

    processes = []
    monkeypatch.setattr(SolverProcess, "_listen", bound_alone)
    monkeypatch.setattr(SolverProcess, "__init__", recorded(SolverProcess.__init__, processes))
    egraph, costs = tangle(300)
    run = Extraction(egraph, costs, "tensat", seconds=60.0)

    with pytest.raises(KeyboardInterrupt):
        run.run(interrupt)
    assert "tensat: nothing yet" in repr(run)
    (process,) = processes
    assert process.child is not None
    assert not process.child.running


def test_a_part_without_cycles_is_named_from_the_first_term_on():
    egraph, costs = tangle(60)
    run = Extraction(egraph, costs, "tensat-filtered")
    for _ in run:
        assert run.solution is None or run.solution.scope == "cycle-free part"
    assert run.solution.status is Status.OPTIMAL
