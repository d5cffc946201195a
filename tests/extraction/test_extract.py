import numpy as np
import pytest

from workbench.extraction import Extraction, NoExtraction, Status, extract
from workbench.extraction.problem import dag_cost, is_acyclic
from workbench.trace import StopReason

from .egraphs import brute_force, egraph_of, random_egraph


def shared():
    """Two parts of one merged operator: dear once, cheap where it is shared."""
    nodes = [
        (0, [1, 2]),  # the root reads both
        (1, []), (2, []),  # separately: 6 each
        (1, [3]), (2, [3]),  # as parts of class 3
        (3, []),  # together: 9
    ]  # fmt: skip
    return egraph_of(nodes), np.array([1.0, 6, 6, 0.5, 0.5, 9])


def test_only_the_exact_method_sees_what_pays_when_it_is_shared():
    egraph, costs = shared()
    assert extract(egraph, costs, "tree").cost == 13
    assert extract(egraph, costs, "dag").cost == 13
    exact = extract(egraph, costs, "exact")
    assert exact.cost == 11
    assert exact.status is Status.OPTIMAL
    assert exact.bound == pytest.approx(11)
    assert exact.scope == "e-graph"


@pytest.mark.parametrize("seed", range(300))
def test_against_brute_force(seed):
    egraph, costs = random_egraph(seed)
    best = brute_force(egraph, costs)
    if best is None:
        with pytest.raises(NoExtraction):
            extract(egraph, costs)
        return
    found = {m: extract(egraph, costs, m) for m in ("tree", "dag", "exact")}
    for solution in found.values():
        assert is_acyclic(egraph, solution.choice)
        assert dag_cost(solution.choice, costs) == pytest.approx(solution.cost)
        assert solution.cost >= best - 1e-9
    exact = found["exact"]
    assert exact.cost <= min(s.cost for s in found.values()) + 1e-9
    assert exact.bound <= exact.cost + 1e-9
    assert exact.status is Status.OPTIMAL
    if exact.scope == "e-graph":
        assert exact.cost == pytest.approx(best)


def test_most_cyclic_instances_are_solved_to_the_true_optimum():
    hits = total = 0
    for seed in range(300):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        total += 1
        hits += extract(egraph, costs).cost <= best + 1e-9
    assert hits >= 0.95 * total


def test_the_start_graph_bounds_the_result():
    egraph, costs = shared()
    object.__setattr__(egraph, "original", np.array([5, 3, 4, 0]))
    steps = list(Extraction(egraph, costs, "dag"))
    assert steps[0].note == "original"
    assert steps[0].cost == 11
    assert steps[-1].cost == 11


def test_steps_tell_incumbents_and_bounds():
    egraph, costs = shared()
    run = Extraction(egraph, costs)
    steps = list(run)
    assert run.stop_reason is StopReason.OPTIMAL
    kept = [s.cost for s in run.trace]
    assert kept == sorted(kept, reverse=True)
    assert steps[-1].bound == pytest.approx(11)
    with pytest.raises(StopIteration):
        run.step()


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1.0, -1], "costs are 0 or more"),
        ([1.0, float("nan")], "costs are 0 or more"),
        ([1.0], "as many costs"),
        ([1.0, float("inf")], "no finite term"),
    ],
)
def test_costs_are_checked(costs, message):
    egraph = egraph_of([(0, [1]), (1, [])])
    with pytest.raises(NoExtraction, match=message):
        extract(egraph, np.array(costs))


def test_a_root_without_a_finite_term():
    egraph = egraph_of([(0, [1]), (1, [0])])
    with pytest.raises(NoExtraction, match="root"):
        extract(egraph, np.ones(2))


def test_unknown_method_and_limit():
    egraph, costs = shared()
    with pytest.raises(ValueError, match="tree"):
        extract(egraph, costs, "magic")
    with pytest.raises(ValueError, match="positive"):
        extract(egraph, costs, seconds=0)


def test_everything_free():
    egraph = egraph_of([(0, [1]), (1, []), (0, [0])])
    solution = extract(egraph, np.zeros(3))
    assert solution.cost == 0
    assert solution.status is Status.OPTIMAL


def test_a_long_chain_needs_no_deep_stack():
    n = 3_000
    egraph = egraph_of([(i, [i + 1]) for i in range(n)] + [(n, [])])
    assert extract(egraph, np.ones(n + 1)).cost == n + 1
