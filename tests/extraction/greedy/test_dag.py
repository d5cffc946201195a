import math
import time

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, random_egraph
from tests.extraction.problems import chain, cost_of, problem_of, tangle, wide
from tests.sampled import in_turn
from workbench.egraph import load_json
from workbench.extraction import NoExtraction
from workbench.extraction.csr_table import CEILING
from workbench.extraction.greedy.dag import acyclic, greedy
from workbench.extraction.problem import Problem, below, dag_cost, is_acyclic, settle


def tree_cost(egraph, costs, problem):
    tree = settle(problem, problem.cost)
    picked = acyclic(problem, tree.choice, tree.best, tree)
    return cost_of(egraph, costs, problem, {c: problem.nodes[i] for c, i in picked.items()})


@pytest.mark.parametrize("seed", in_turn(range(200), 4))
def test_between_the_optimum_and_the_tree_choice_however_early_it_ends(seed):
    egraph, costs = random_egraph(seed)
    best = brute_force(egraph, costs)
    if best is None:
        return
    problem = problem_of(egraph, costs)
    tree = tree_cost(egraph, costs, problem)
    for entries in (10**6, 0, 1, 3, 6):
        cost = cost_of(egraph, costs, problem, greedy(problem, entries=entries))
        once = cost_of(egraph, costs, problem, greedy(problem, entries=entries, once=True))
        assert best - 1e-9 <= cost <= once <= tree + 1e-9


def test_sharing_is_counted_once():
    nodes = [(0, [1, 2]), (0, [3]), (1, [4]), (2, [4]), (3, []), (4, [])]
    egraph = egraph_of(nodes)
    costs = np.array([1.0, 1, 1, 1, 10, 5])  # 8 with class 4 shared; as a tree 13, against 11
    problem = problem_of(egraph, costs)
    assert tree_cost(egraph, costs, problem) == 11
    assert cost_of(egraph, costs, problem, greedy(problem)) == 8


def test_a_cycle_among_the_wishes_is_broken_where_that_costs_least():
    # 0 → 1 → 2 → 0 is wished for; each could also take a leaf, class 2 the cheapest.
    nodes = [(0, [1]), (1, [2]), (2, [0]), (0, []), (1, []), (2, [])]
    egraph, costs = egraph_of(nodes), np.array([1.0, 1, 1, 9, 8, 3])
    problem = problem_of(egraph, costs)
    tree = settle(problem, problem.cost)
    picked = acyclic(problem, [0, 1, 2], [2.0, 2.0, 2.0], tree)
    assert picked == {0: 0, 1: 1, 2: 5}


@pytest.mark.parametrize("seed", in_turn(range(100), 4))
def test_any_wishes_become_an_acyclic_selection(seed):
    egraph, costs = random_egraph(seed)
    if brute_force(egraph, costs) is None:
        return
    problem = problem_of(egraph, costs)
    tree = settle(problem, problem.cost)
    rng = np.random.default_rng(seed)
    members = problem.members()
    wishes = [-1] * problem.n_classes
    for c, candidates in members.items():
        wishes[c] = int(rng.choice([*candidates, -1]))
    picked = acyclic(problem, wishes, [0.0] * problem.n_classes, tree)
    cost_of(egraph, costs, problem, {c: problem.nodes[i] for c, i in picked.items()})


def test_a_root_without_a_term_is_refused():
    problem = Problem([0, 1], [0, 1], [1.0, 1.0], [(1,), (0,)], (0,), 2, {})
    with pytest.raises(NoExtraction, match="root"):
        greedy(problem)


def test_nothing_to_decide():
    found = greedy(Problem([], [], [], [], (), 3, {0: 5}))
    assert found == {}


@pytest.mark.slow
def test_tree_costs_beyond_all_numbers():
    # Every level reads two classes that read two classes: the tree doubles, the term does not.
    depth = 1500
    n = 2 * depth + 2
    rows = [*((c // 2 * 2 + 2, c // 2 * 2 + 3) for c in range(2 * depth)), (), ()]
    problem = Problem(list(range(n)), list(range(n)), [1.0] * n, rows, (0,), n, {})
    assert settle(problem, problem.cost).best[0] == CEILING
    assert len(greedy(problem)) == n - 1


@pytest.mark.slow
def test_a_deep_chain_stays_within_its_memory():
    egraph, costs = chain(100_000)
    problem = problem_of(egraph, costs)
    found = greedy(problem, entries=1_000_000)
    assert cost_of(egraph, costs, problem, found) == costs.sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("egraph", "costs"), [chain(5000, 3), wide(5000), tangle(2000)], ids=["deep", "wide", "cyclic"]
)
def test_cut_short_it_is_still_a_selection(egraph, costs):
    problem = problem_of(egraph, costs)
    tree = tree_cost(egraph, costs, problem)
    late = greedy(problem, until=time.perf_counter() - 1)
    assert cost_of(egraph, costs, problem, late) == pytest.approx(tree)
    for entries in (1000, 25_000):
        found = greedy(problem, entries=entries)
        assert cost_of(egraph, costs, problem, found) <= tree * (1 + 1e-9)
        assert found == greedy(problem, entries=entries)


@pytest.mark.slow
@pytest.mark.nightly
def test_two_hundred_thousand_e_nodes():
    egraph, costs = wide(200_000)
    problem = problem_of(egraph, costs)
    found = greedy(problem)
    assert cost_of(egraph, costs, problem, found) <= tree_cost(egraph, costs, problem)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("bert", 0.824704),
        ("bert_acyclic", 0.827000),
        ("resnet50", 4.396867),
        ("resnet50_acyclic", 4.425745),
        ("vgg", 4.850757),
        ("vgg_acyclic", 4.866775),
    ],
)
def test_the_extraction_gyms_own_results(shared_data, name, cost):
    egraph, costs = load_json(shared_data / "extraction-gym" / f"{name}.json")
    problem = problem_of(egraph, costs)
    found = greedy(problem)
    assert cost_of(egraph, costs, problem, found) == pytest.approx(cost, abs=1e-6)


def first_in_first_out(egraph, costs):
    """Return the cost of the gym's faster-greedy-dag, infinite if its choice is cyclic."""
    members = egraph.members()
    rows = [sorted(set(egraph.operands(i).tolist())) for i in range(len(egraph))]
    readers = [[] for _ in members]
    queue = []
    for of_class in members:
        for i in of_class:
            for d in egraph.operands(i).tolist():
                readers[d].append(i)
            if not rows[i]:
                queue.append(i)
    known = {}
    while queue:
        i = queue.pop(0)
        c = int(egraph.eclass[i])
        if not all(d in known for d in rows[i]) or c in rows[i]:
            continue
        parts = sorted((known[d][0] for d in rows[i]), key=len, reverse=True)
        united = {}
        for part in parts:
            united |= part
        if c in united:
            continue
        united[c] = costs[i]
        total = sum(united.values())
        if c not in known or total < known[c][1]:
            known[c] = (united, total, i)
            queue += [j for j in dict.fromkeys(readers[c]) if j not in queue]
    choice = np.array([known[c][2] if c in known else -1 for c in range(egraph.n_classes)])
    needed = below(egraph, choice)
    return dag_cost(needed, costs) if is_acyclic(egraph, needed) else math.inf


@pytest.mark.parametrize("seed", range(30))
def test_greedy_is_never_worse_than_the_gyms_order(seed):
    egraph, costs = tangle(150, roots=3, seed=seed)
    costs = costs + 0.25  # the gym's has no e-classes that are decided because they are free
    problem = problem_of(egraph, costs)
    found = cost_of(egraph, costs, problem, greedy(problem))
    assert found <= first_in_first_out(egraph, costs) + 1e-9
