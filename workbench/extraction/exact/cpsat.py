"""Exact extraction in CP-SAT, with order variables only inside strongly connected components.

CP-SAT runs in its own process, because CP-SAT and HiGHS cannot be loaded into the same one.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from workbench.extraction.exact.cycle_constraints import pair_formulas
from workbench.extraction.exact.types import ALONE, Best, Job, Link, Solved
from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import components, cyclic
from workbench.extraction.reduce.dominators import Must

#: The incumbent's cost in integer units. Costs are rounded down, so that a lower bound remains valid.
COST_UNITS: Final = 10_000_000_000
#: A restart from another solver's incumbent pays if it is cheaper by this share, and these seconds or more
#: have passed since the last start. They double with every restart.
MIN_RESTART_GAIN: Final = 1e-3
RESTART_SECONDS: Final = 4.0


def solve_cpsat(job: Job, link: Link = ALONE, *, threads: int = 2) -> Solved:
    """Solve a problem to proven optimality, or as far as the job's seconds allow.

    With 1 thread the linear relaxation is left out; with 2 it runs in one thread and local search in the other
    (measured: several times faster).
    """
    from ortools.sat.python import cp_model

    until = time.perf_counter() + job.seconds
    problem, best = job.problem, Best.of(job, link)
    reference = best.cost if 0.0 < best.cost < math.inf else max(1e-300, math.fsum(problem.cost))
    scale = COST_UNITS / reference
    model, x = _model(cp_model, problem, job.must, scale)
    members = problem.members()

    class Watcher(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            taken = {c: next((i for i in m if self.boolean_value(x[i])), -1) for c, m in members.items()}
            best.offer({c: i for c, i in taken.items() if i >= 0})

    wait = RESTART_SECONDS
    while True:
        if best.picked is not None:
            kept = set(problem.needed(best.picked).values())
            model.clear_hints()
            for i, variable in enumerate(x):
                model.add_hint(variable, i in kept)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = threads
        solver.parameters.random_seed = 1
        if threads == 1:
            solver.parameters.linearization_level = 0
        solver.parameters.max_time_in_seconds = max(0.01, until - time.perf_counter())
        solver.best_bound_callback = lambda value: best.raise_bound(value / scale)
        with _listening(solver, best, wait) as again:
            status = solver.solve(model, Watcher())
        best.raise_bound(solver.best_objective_bound / scale)
        if status in (cp_model.OPTIMAL, cp_model.INFEASIBLE):
            return Solved(best.picked, best.bound, proved=status == cp_model.OPTIMAL)
        if not again.is_set():
            return Solved(best.picked, best.bound, proved=False)
        wait *= 2


@contextlib.contextmanager
def _listening(solver: Any, best: Best, wait: float) -> Iterator[threading.Event]:
    """Take other solvers' selections during a block; yield the event that a restart pays.

    The solver is then stopped. The first restart is possible after ``wait`` seconds.
    """
    again, finished = threading.Event(), threading.Event()
    cost, earliest = best.cost, time.perf_counter() + wait

    def listen() -> None:
        while not finished.wait(0.05):
            best.listen()
            if best.cost < cost * (1 - MIN_RESTART_GAIN) and time.perf_counter() > earliest:
                again.set()
                solver.stop_search()
                return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield again
    finally:
        finished.set()
        listener.join()


def _model(cp_model: Any, problem: Problem, must: Must | None, scale: float) -> tuple[Any, list[Any]]:
    model = cp_model.CpModel()
    members = problem.members()
    needed = {*problem.roots, *(must.needed() if must is not None else ())}
    x = [model.new_bool_var(f"x{i}") for i in range(len(problem.nodes))]
    built = {c: model.new_bool_var(f"y{c}") for c in members if c not in needed}
    readers = problem.readers()
    for i, row in enumerate(problem.children):
        for d in row:
            if d in built:
                model.add_implication(x[i], built[d])
    for c, of_class in members.items():
        taken = [x[i] for i in of_class]
        if c in built:
            model.add_exactly_one([*taken, built[c].negated()])
            # An e-class that no taken candidate reads need not be built.
            model.add_bool_or([*(x[i] for i in readers.get(c, ())), built[c].negated()])
        else:
            model.add_exactly_one(taken)
    if must is not None:
        for formula in pair_formulas(problem, must):
            by = [x[j] for j in formula.by]
            for i in formula.taken:
                model.add_bool_or([x[i].negated(), *by])
    component = components(problem)
    order = {c: model.new_int_var(0, size - 1, f"t{c}") for c, size in cyclic(problem, component).items()}
    for i, (c, row) in enumerate(zip(problem.eclass, problem.children, strict=True)):
        for d in row:
            if c in order and component[c] == component[d]:
                model.add(order[d] >= order[c] + 1).only_enforce_if(x[i])
    model.minimize(sum(math.floor(cost * scale) * x[i] for i, cost in enumerate(problem.cost) if cost != 0.0))
    return model, x
