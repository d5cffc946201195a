"""Tensat's integer programs by themselves, as they were published.

``workbench.extraction`` gives them what it gives its own solvers: greedy selections to begin with, parts
that can be solved apart, and no work at all where a bound of ours is met. A comparison must do without.
"""

from __future__ import annotations

import math
import time

import numpy as np

from workbench.extraction import EGraph, NoExtraction, Solution, Status
from workbench.extraction.cycles import break_cycles
from workbench.extraction.extract import ages
from workbench.extraction.problem import complete, dag_cost, is_acyclic, make_problem, tree_costs
from workbench.extraction.race import Race
from workbench.extraction.solving import Job
from workbench.trace import Step, Trace


def extract_alone(
    egraph: EGraph, costs: np.ndarray, method: str, seconds: float
) -> tuple[Solution | None, Trace, tuple[str, ...]]:
    """Return what a program of Tensat's found, None for nothing, with its steps and notes.

    Only e-classes with a free term are settled before, and for ``"tensat-filtered"`` cycles are broken.
    """
    began = time.perf_counter()
    best, choice = tree_costs(egraph, costs)
    problem = make_problem(egraph, costs, best, choice)
    scope = "e-graph"
    if method == "tensat-filtered":
        broken = break_cycles(problem, {i for i in choice if i >= 0}, ages(egraph))
        problem = broken.problem
        scope = "cycle-free part" if broken.dropped else scope
    trace = Trace({"kind": "extraction", "method": method, "time_limit": seconds, "alone": True})
    race = Race(Job(problem, None, None, max(0.01, seconds - (time.perf_counter() - began))), (method,))
    last = began

    def note(text: str) -> None:
        nonlocal last
        now = time.perf_counter()
        cost = race.cost if race.cost < math.inf else None
        size = (len(egraph), egraph.n_classes)
        trace.add(Step(len(trace), now - last, *size, cost=cost, bound=race.bound, note=text))
        last = now

    if problem.roots:
        for _ in race.run():
            note(method)
    else:
        race.best, race.cost, race.proved = {}, 0.0, True
    note("; ".join(["proved" if race.proved else "not proved", *race.notes]))
    if race.best is None:
        return None, trace, tuple(race.notes)
    taken = complete(egraph, problem, {c: problem.nodes[i] for c, i in race.best.items()})
    if not is_acyclic(egraph, taken):
        raise NoExtraction(f"{method} chose a cyclic term: a defect")
    cost = dag_cost(taken, costs)
    bound = cost if race.proved else min(race.bound, cost)
    status = Status.OPTIMAL if race.proved else Status.FEASIBLE
    spent = time.perf_counter() - began
    return Solution(taken, cost, bound, status, method, scope, spent, tuple(race.notes)), trace, ()
