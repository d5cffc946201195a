import contextlib
from dataclasses import replace

import numpy as np

from tests.extraction.egraphs import egraph_of, random_egraph
from workbench.extraction.cost_history import add_costs, born_by, cost_by_step
from workbench.extraction.extract import extract
from workbench.extraction.problem import NoExtraction
from workbench.extraction.result import Status
from workbench.run.trace import Step, StepKind, Trace


def growing():
    """A root with a start form over a leaf, and two forms that came in steps 1 and 3."""
    egraph = egraph_of([(0, [1]), (1, []), (0, []), (1, []), (0, [1, 1])])
    return replace(egraph, birth_step=np.array([0, 0, 3, 1, 2]), original=np.array([1, 0, -1]))


COSTS = np.array([5.0, 5.0, 1.0, 2.0, 100.0])


def test_the_cost_falls_when_a_better_form_is_born():
    assert cost_by_step(growing(), COSTS, [0, 1, 2, 3]) == {0: 10.0, 1: 7.0, 2: 7.0, 3: 1.0}


def test_a_trace_gets_the_costs_and_their_source():
    trace = Trace({}, [Step(k, StepKind.ITERATION, 0.0, 5, 2) for k in range(4)])
    add_costs(trace, growing(), COSTS, "made up")
    assert [step.cost for step in trace] == [10.0, 7.0, 7.0, 1.0]
    assert trace.meta == {
        "cost_source": "made up",
        "cost_before": 10.0,
        "cost_after": 1.0,
        "cost_curve": "greedy estimate",
    }


def test_the_result_is_that_of_the_extraction_and_is_named_after_it():
    """The greedy estimate misses a shared operator; the extraction does not."""
    trace = Trace({}, [Step(0, StepKind.START, 0.0, 5, 2)])
    solution = extract(growing(), COSTS)
    add_costs(trace, growing(), COSTS, "made up", replace(solution, cost=0.5, bound=0.5))
    assert (trace.meta["cost_after"], trace.meta["cost_bound"]) == (0.5, 0.5)
    assert trace.meta["cost_after_is"] == "extracted optimum"
    add_costs(trace, growing(), COSTS, "made up", replace(solution, status=Status.FEASIBLE))
    assert trace.meta["cost_after_is"] == "extracted (feasible)"


def test_columns_stay_consistent_in_the_smaller_e_graph():
    smaller, kept = born_by(growing(), 1)
    assert kept.tolist() == [0, 1, 3]
    assert smaller.ops == ("op0", "op1", "op3")
    assert [smaller.operands(i).tolist() for i in range(3)] == [[1], [], []]
    assert smaller.eclass.tolist() == [0, 1, 1]
    assert smaller.original.tolist() == [1, 0, -1]
    assert len(growing()) == 5


def feasible():
    """Yield random e-graphs that have a finite term, with costs and a selection by DAG-greedy."""
    for seed in range(20):
        egraph, costs = random_egraph(seed, acyclic=True)
        with contextlib.suppress(NoExtraction):
            yield seed, egraph, costs, extract(egraph, costs, "dag")


def test_it_never_rises_and_ends_where_dag_greedy_does():
    checked = 0
    for seed, egraph, costs, whole in feasible():
        steps = np.random.default_rng(seed).integers(0, 4, len(egraph))
        steps[whole.choice[whole.choice >= 0]] = 0  # a start graph is always there
        found = cost_by_step(replace(egraph, birth_step=steps), costs, range(5))
        values = [found[s] for s in range(5)]
        assert values == sorted(values, reverse=True)
        assert values[-1] <= whole.cost + 1e-9
        checked += 1
    assert checked >= 10
